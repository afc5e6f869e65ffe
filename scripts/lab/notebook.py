"""What a notebook needs: a database of its own, and questions, plays, tables and pictures in a line each.

Texts and SQL are shown from the scenario files, in English with the Portuguese line below; what is seen comes from the server.
The notebooks' source is notebooks/py/*.py; `python -m lab.notebook` makes and runs the notebooks from it.
"""

from __future__ import annotations

import atexit
import base64
import io
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache

import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from lab import lesson as lessons
from lab import loader, paths, player, race, schema
from lab import timeline as pictures
from lab.errors import LabError, ServerError
from lab.language import Text
from lab.lesson import Stage, find_scenario
from lab.player import Play, StepRun
from lab.race import Race
from lab.scenario import Scenario
from lab.target import Target, open_target
from lab.variants import Work, queue_of

PIXELS = 830  # the width of a page of GitHub; the picture itself has twice as many for the sharp screens
DOTS = 160  # an inch


# -- the database


@cache
def _opened() -> tuple[Target, Stage]:
    """The server, and a database that lasts as long as the kernel."""
    target = open_target()
    last = ExitStack()
    atexit.register(last.close)
    conninfo = last.enter_context(target.database("notebook"))
    return target, Stage(conninfo, superuser=target.superuser, embedded=target.embedded is not None)


def stage() -> Stage:
    """The notebook's own database, made on first use and dropped when the kernel ends.

    Raises LabError if there is no server, or if it was stopped meanwhile.
    """
    _, opened = _opened()
    try:
        with opened.connection("lab/notebook"):
            return opened
    except ServerError:
        raise LabError(
            "The notebook's database is gone: was its server stopped? Restart the kernel and run all cells."
            " / O banco do notebook se foi: o servidor foi parado? Reinicie o kernel e rode todas as células."
        ) from None


def begin(number: str) -> None:
    """Open the database, and show the question of the lesson of that number."""
    stage()
    target, _ = _opened()
    whose = "the lab's own server" if target.embedded else "the server you named"
    (lesson,) = lessons.choose([number])
    _show(f"*PostgreSQL {target.version} ({whose}), about {lesson.minutes} minutes*\n\n### {_both(lesson.question)}")


# -- telling


def claim(name: str) -> None:
    """Show the claim that a scenario, `NN_case`, states."""
    _show(f"**{find_scenario(name).claim.en}**<br>\n*{find_scenario(name).claim.pt}*")


def sql(name: str, *steps: str) -> None:
    """Show what these steps of a scenario run, with what its file says about them; without steps, all of them."""
    story = find_scenario(name)
    shown = [story.step(step) for step in steps] or list(story.steps)
    blocks = []
    for step in shown:
        said = f"{_both(step.prose)}\n\n" if step.prose else ""
        blocks.append(f"{said}**{step.session}** · `{step.name}`\n\n```sql\n{step.sql}\n```")
    _show("\n\n".join(blocks))


def script(name: str, *beginnings: str) -> None:
    """Show the statements of a script of sql/ that begin with these words."""
    text = (paths.SQL / name).read_text(encoding="utf-8")
    found = [re.search(rf"^{re.escape(words)}.*?;$", text, re.MULTILINE | re.DOTALL) for words in beginnings]
    _show("\n\n".join(f"```sql\n{statement[0]}\n```" for statement in found if statement))


def ask(name: str, step: str) -> None:
    """Show the question that a scenario asks before a step, and the step's SQL."""
    sql(name, step)


def answer(guess: object, seen: object) -> None:
    """Show what was seen, and whether the guess was right; `...` is no guess, None is `none`."""
    wanted = _word(seen)
    if guess is ...:
        verdict = "No guess yet: write one above, and run both cells. / Ainda sem palpite: escreva um acima e rode as duas células."
    elif _word(guess) == wanted:
        verdict = "You guessed it. / Você acertou."
    else:
        verdict = f"Your guess was {_word(guess)}. / Seu palpite foi {_word(guess)}."
    _show(f"Seen / visto: **{wanted}**. *{verdict}*")


def surprises(number: str) -> None:
    """Run the surprises of a lesson, and show what was observed."""
    (lesson,) = lessons.choose([number])
    lines = ["| surprise | observed | holds |", "|:--|:--|:--|"]
    for surprise in lesson.claims:
        if not surprise.core:
            seen = surprise.observe(stage())
            holds = {True: "yes", False: f"**no**: {seen.why}", None: f"not run: {seen.why}"}[seen.holds]
            cells = (_both(surprise.text), seen.text, holds)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    _show("\n".join(lines))


# -- playing


def play(name: str, work: Mapping[str, float] | None = None) -> Play:
    """Rebuild the queue and play a scenario, `NN_case`.

    `work` are seconds of simulated work that a session does before a step, by the step's name; only its own locks make another
    session wait meanwhile. Raises LabError if it does not go as the scenario announces.
    """
    return _play(find_scenario(name), work or {})


def queue_up(sessions: int = 4, skip_locked: bool = False, work: float = 0.3) -> Play:
    """Play so many sessions that ask for the oldest pending document one after the other, each before the others end.

    `skip_locked` is whether they pass locked rows; `work` the seconds that each works on its document before its COMMIT.
    """
    asking = queue_of(sessions, skip_locked)
    return _play(asking, {step.name: work for step in asking.steps if step.name.endswith("_commits")})


def compete(sessions: int = 10, documents: int = 100, claim: race.Claim = "skip_locked", work: float = 0.0) -> Race:
    """Let so many sessions, released together, empty a queue of so many documents; see lab.race.race."""
    return race.race(stage().conninfo, sessions=sessions, documents=documents, claim=claim, work=work)


def _play(which: Scenario, work: Mapping[str, float]) -> Play:
    here = stage()
    here.build(which.state)
    pace = Work(work)
    played = player.play(which, here.conninfo, before=pace.before, seen=pace.seen)
    if played.failure:
        raise LabError(played.failure)
    return played


# -- tables


def table(played: Play, step: str) -> pd.DataFrame:
    """What a step returned, as the server sent it."""
    run = played[step]
    return _frame(run.columns or (), run.rows)


def events(played: Play) -> pd.DataFrame:
    """The steps of a play: who, what came of it, whom it waited for, and for how many milliseconds."""
    columns = ("session", "step", "outcome", "result", "waited for", "ms")
    return _frame(columns, [_event(run) for run in played.runs.values()])


def query(statement: str) -> pd.DataFrame:
    """What a statement returns, run in the notebook's database; a statement without rows gives an empty table."""
    with stage().connection("lab/notebook") as connection:
        cursor = connection.execute(statement.encode())
        columns = [column.name for column in cursor.description or ()]
        return _frame(columns, cursor.fetchall() if columns else ())


def load(pattern: str) -> pd.DataFrame:
    """Load the documents of data/documents whose names match, and tell what became of each."""
    outcomes = loader.load(stage().conninfo, sorted(paths.DOCUMENTS.glob(pattern)))
    rows = [
        (outcome.path.name, outcome.key, "yes" if outcome.loaded else "no", outcome.reason.en if outcome.reason else "")
        for outcome in outcomes
    ]
    return _frame(("file", "key", "loaded", "why not"), rows)


def totals(races: Mapping[str, Race]) -> pd.DataFrame:
    """What races came to: a free race is judged by its totals only, never by who got what."""
    columns = ("race", "documents", "claimed", "distinct", "twice or more", "left", "out of order")
    rows = [
        (name, run.documents, run.claimed, run.distinct, run.duplicates, run.left, run.inversions) for name, run in races.items()
    ]
    return _frame(columns, rows)


def run_script(name: str) -> None:
    """Run a script of sql/ with psql, and print what it prints."""
    print(schema.run_scripts(stage().conninfo, paths.SQL / name).rstrip())


def _event(run: StepRun) -> tuple[str, ...]:
    took = "< 1" if run.seconds < 0.001 else f"{run.seconds * 1000:.0f}"
    return run.step.session, run.step.name, run.outcome, pictures.result(run), " and ".join(run.waited_for), took


def _frame(columns: object, rows: object) -> pd.DataFrame:
    found = pd.DataFrame(list(rows), columns=list(columns), dtype=object)  # type: ignore[call-overload]
    return found.set_axis([""] * len(found), axis="index")


# -- pictures


def timeline(*plays: Play, titles: tuple[str, ...] = (), note: str = "") -> None:
    """Show plays as lanes, one a session; see lab.timeline.timeline."""
    words = "; ".join(pictures.in_words(one) for one in plays)
    _picture(pictures.timeline(*plays, titles=titles, note=note), words)


def shares(races: Mapping[str, Race]) -> None:
    """Show how many documents each session of each race claimed, and how many of them another one had claimed too."""
    words = "; ".join(f"{name}: {run.claimed} claimed, {run.duplicates} of them twice or more" for name, run in races.items())
    _picture(pictures.shares(races), words)


def _picture(figure: Figure, words: str) -> None:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    shown = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": words}
    display(shown, raw=True, metadata={"image/png": {"width": PIXELS}})  # type: ignore[no-untyped-call]


# -- words


def _show(markdown: str) -> None:
    display({"text/markdown": markdown, "text/plain": markdown}, raw=True)  # type: ignore[no-untyped-call]


def _both(text: Text) -> str:
    return f"{text.en}<br>*{text.pt}*" if text.pt else text.en


def _word(value: object) -> str:
    said = "none" if value is None else str(value).strip().lower()
    return {"nenhum": "none", "nada": "none", "sim": "yes", "não": "no", "t": "yes", "f": "no"}.get(said, said)


if __name__ == "__main__":
    # Here only: a notebook's kernel needs neither jupytext nor nbclient.
    from lab.make_notebooks import main

    main()
