"""What a notebook needs: a database of its own, and questions, plays, tables and pictures in a line each.

Texts and SQL are shown from the scenario files, in English with the Portuguese line below; what is seen comes from the server.
The notebooks' source is notebooks/py/*.py; `python -m lab.notebook.build` makes and runs the notebooks from it.
"""

from __future__ import annotations

import atexit
import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from lab.base import paths
from lab.base.errors import LabError, ServerError
from lab.base.language import Text
from lab.base.sql_text import statements
from lab.drills import ablation as defences_tried
from lab.drills import catalogue as drills
from lab.drills.ablation import Matrix
from lab.drills.catalogue import DrillOutcome
from lab.experiments import concurrent_claims
from lab.experiments import fencing_table as truth_tables
from lab.experiments.concurrent_claims import Race
from lab.experiments.fencing_table import Guard
from lab.lessons import registry
from lab.lessons.lesson import Check, Observed
from lab.notebook import claims_chart as bars
from lab.notebook.variants import play_working, queue_of
from lab.protocol import loader, source
from lab.scenario import ownership as owners
from lab.scenario import ownership_figure
from lab.scenario import timeline as pictures
from lab.scenario.grammar import Step
from lab.scenario.library import find_scenario
from lab.scenario.result import Play, StepRun
from lab.scenario.stage import Stage
from lab.server import psql
from lab.server.target import Target, open_target

__all__ = [
    "answer",
    "ask",
    "begin",
    "claim",
    "compete",
    "damage",
    "defences",
    "diff",
    "drill",
    "events",
    "facts",
    "interrupt",
    "load",
    "observe",
    "outcomes",
    "ownership",
    "play",
    "query",
    "queue_up",
    "run_script",
    "script",
    "shares",
    "sql",
    "stage",
    "surprises",
    "table",
    "timeline",
    "totals",
    "truth_table",
]

PIXELS = 830  # the width of a page of GitHub; the picture itself has twice as many for the sharp screens
DOTS = 160  # an inch
IN_ENGLISH = {
    "sim": "yes",
    "não": "no",
    "nenhum": "none",
    "nenhuma": "none",
    "nada": "none",
    "ninguém": "nobody",
    "linha": "row",
    "erro": "error",
    "chave": "key",
}
CROWDED = (
    "results share the label before them: pauses (`pause=0.3`) make room."
    " / resultados dividem o rótulo anterior: pausas (`pause=0.3`) abrem espaço."
)


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
    pd.set_option("display.max_colwidth", None)  # a reason is to be read to its end
    whose = "the lab's own server" if target.embedded else "the server you named"
    lesson = registry.find(number)
    where = f"*PostgreSQL {target.version} ({whose}), about {lesson.minutes} minutes*"
    _show(f"{where}\n\n### {lesson.question.en}\n*{lesson.question.pt}*")


# -- telling


def claim(name: str, seen: Play | Mapping[str, DrillOutcome] | Matrix) -> None:
    """Show the claim of a scenario, `NN_case`, or of an experiment, `NN.slug`, and judge it by what was seen of it.

    `seen` is a play of the scenario, or what `drill` or `defences` gave. Raises LabError if it says nothing about that claim.
    """
    stated = registry.find_check(name)
    if stated.judge is None:
        raise LabError(f"The claim {stated.id} is judged by its own experiment only: nb.observe({stated.id!r}).")
    _show_checks([(stated, stated.judge(seen))])


def sql(name: str, *steps: str) -> None:
    """Show what these steps of a scenario run, and what its file says about them."""
    _show("\n\n".join(_sql(find_scenario(name).step(step)) for step in steps))


def ask(name: str, step: str) -> None:
    """Show a step of a scenario, and the question that its file asks there."""
    asked = find_scenario(name).step(step)
    assert asked.prose is not None, f"step {step} of {name} asks nothing"
    _show(f"{_sql(replace(asked, prose=None))}\n\n{_quoted(asked.prose)}")


def script(name: str, *beginnings: str) -> None:
    """Show the statements of a script of sql/ that begin with these words."""
    said = statements((paths.SQL / name).read_text(encoding="utf-8"))
    found = [next((each.text for each in said if each.text.startswith(words)), None) for words in beginnings]
    _show("\n\n".join(f"```sql\n{text};\n```" for text in found if text))


def diff(name: str, since: str, until: str) -> None:
    """Show what the lessons after `since` up to `until` changed in a function or view of the protocol: `diff("reservar", "06", "09")`."""
    _show(f"```diff\n{source.difference(name, since, until)}\n```")


def answer(guess: object, seen: object) -> None:
    """Show what was seen, and whether the guess was right; `...` is no guess, None is `none`, the server's `t` is `yes`."""
    if guess is ...:
        verdict = "no guess yet / ainda sem palpite"
    elif _word(guess) == _word(seen):
        verdict = "you guessed it / você acertou"
    else:
        verdict = f"your guess / seu palpite: {_plain(str(guess))}"
    _show(f"Seen / visto: **{_plain(_shown(seen))}** ({verdict})")


def observe(*ids: str) -> None:
    """Run checks by their ids, `NN.slug`, and show what was observed."""
    _show_checks([(stated, stated.observe(stage())) for stated in map(registry.find_check, ids)])


def facts(name: str) -> Mapping[str, object]:
    """Run a check by its id, `NN.slug`, and show what was observed; returns its facts by name, none if it could not be run."""
    stated = registry.find_check(name)
    seen = stated.observe(stage())
    _show_checks([(stated, seen)])
    return {name: fact.value for name, fact in seen.facts.items()}


def surprises(number: str, everything: bool = False) -> None:
    """Run the surprises of a lesson, and show what was observed; the slow ones only if `everything` is wanted."""
    lesson = registry.find(number)
    surprising = [check for check in lesson.checks if not check.core]
    left = [check for check in surprising if check.slow and not everything]
    observe(*(check.id for check in surprising if check not in left))
    if left:
        how = f'nb.surprises("{number}", everything=True)'
        told = "\n".join(f"- {_both(check.text)}" for check in left)
        _show(f"Not run here, being slow: `{how}` runs them. *Não executadas aqui, por demorarem: `{how}`.*\n\n{told}")


# -- playing


def play(name: str, work: Mapping[str, float] | None = None, pause: float = 0.0) -> Play:
    """Rebuild the queue and play a scenario, `NN_case`.

    `work` are seconds of simulated work that a session does before a step, by the step's name; only its own locks make another
    session wait meanwhile. `pause` are seconds before every statement, so that a picture can tell them apart.
    Raises LabError if it does not go as the scenario announces.
    """
    return play_working(find_scenario(name), stage().conninfo, work or {}, pause)


def queue_up(sessions: int = 4, skip_locked: bool = False, work: float = 0.3) -> Play:
    """Play so many sessions that ask for the oldest pending document one after the other, each before the others end.

    `skip_locked` is whether they pass locked rows; `work` the seconds that each works on its document before its COMMIT.
    """
    asking = queue_of(sessions, skip_locked)
    at_the_end = {step.name: work for step in asking.steps if step.name.endswith("_commits")}
    return play_working(asking, stage().conninfo, at_the_end)


def compete(
    sessions: int = 10, documents: int = 100, claim: concurrent_claims.Way = "skip_locked", work: float = 0.0
) -> Race:
    """Let so many sessions, released together, empty a queue of so many documents; see lab.experiments.concurrent_claims.race."""
    return concurrent_claims.race(stage().conninfo, sessions=sessions, documents=documents, claim=claim, work=work)


# -- tables


def table(played: Play, step: str) -> pd.DataFrame:
    """What a step returned, as the server sent it."""
    run = played[step]
    return _frame(run.columns or (), run.rows)


def events(played: Play) -> pd.DataFrame:
    """The steps of a play: who, what came of it, whom it waited for (if anybody did), and how many milliseconds it took."""
    columns = ("session", "step", "outcome", "result", "waited for", "ms")
    table = _frame(columns, [_event(run) for run in played.runs.values()])
    return table if table["waited for"].any() else table.drop(columns="waited for")


def query(statement: str) -> pd.DataFrame:
    """What a statement returns, run in the notebook's database; a statement without rows gives an empty table."""
    with stage().connection("lab/notebook") as connection:
        cursor = connection.execute(statement.encode())
        columns = [column.name for column in cursor.description or ()]
        return _frame(columns, cursor.fetchall() if columns else ())


def load(pattern: str) -> pd.DataFrame:
    """Load the documents of data/documents whose names match, and tell what became of each."""
    outcomes = loader.load(stage().conninfo, sorted(paths.DOCUMENTS.glob(pattern)))
    reasons = [outcome.reason.en if outcome.reason else "" for outcome in outcomes]
    rows = [
        (outcome.path.name, outcome.key or "", "yes" if outcome.loaded else "no", reason)
        for outcome, reason in zip(outcomes, reasons, strict=True)
    ]
    return _frame(("file", "key", "loaded", "why not"), rows)


def totals(races: Mapping[str, Race]) -> pd.DataFrame:
    """What races came to: a free race is judged by its totals only, never by who got what."""
    columns = ("race", "documents", "claimed", "distinct", "duplicates", "left", "out of order")
    rows = [
        (name, run.documents, run.claimed, run.distinct, run.duplicates, run.left, run.inversions)
        for name, run in races.items()
    ]
    return _frame(columns, rows)


def run_script(name: str) -> pd.DataFrame:
    """Run a script of sql/ with psql; returns what its last query gives."""
    psql.run_scripts(stage().conninfo, paths.SQL / name)
    text = (paths.SQL / name).read_text(encoding="utf-8")
    return query(text[text.rindex("\nSELECT") :])


def truth_table(*own: str) -> pd.DataFrame:
    """Try guards in every situation of lesson 06: yours, as SQL with `%(token_reserva)s` and its like, or those of the lesson.

    A cell is the number of rows that a late write changed. Raises LabError if a guard is no SQL.
    """
    guards = [Guard(where, where, Text(where, where)) for where in own] or truth_tables.guards()
    tried = truth_tables.examine(stage().conninfo, guards)
    situations = truth_tables.situations()
    rows = [
        (guard.shown.en, *(tried.cell(guard.name, each.name).text.en for each in situations), tried.owners[guard.name])
        for guard in guards
    ]
    return _frame(("guard", *(each.shown.en for each in situations), "owner's finish after any other change"), rows)


def drill(*names: str) -> dict[str, DrillOutcome]:
    """Hold drills of lesson 09; returns what each came to, see lab.drills.catalogue."""
    return {name: drills.hold(drills.find(name), stage().conninfo) for name in names}


def interrupt(point: str = "calling", killed: bool = False, keys: bool = True) -> dict[str, DrillOutcome]:
    """Kill a worker at a point of its first document, or let it stand still there past its lease, while others work on.

    `point` is locked, claimed, calling, called or obtained; `keys` whether the receiver executes a key only once.
    Returns what it came to, by the point.
    """
    return {point: drills.interrupted(stage().conninfo, point, killed_there=killed, keys=keys)}


def defences(*names: str) -> Matrix:
    """Take these defences of lesson 09 (all, without a name) away, one at a time; see lab.drills.ablation."""
    return defences_tried.examine(stage().conninfo, *names)


def damage(matrix: Matrix) -> pd.DataFrame:
    """The documents damaged: with each defence, and without it."""
    kinds = defences_tried.kinds()
    rows = [
        (each.shown.en, each.situation.en, row.with_it.total, *(getattr(row.without_it, kind) for kind, _ in kinds))
        for each in defences_tried.defences()
        for row in matrix.rows
        if row.defence == each.name
    ]
    return _frame(("without", "when", "with it", *(shown.en for _, shown in kinds)), rows).set_index("without")


def outcomes(held: Mapping[str, DrillOutcome]) -> pd.DataFrame:
    """What drills came to, one a row."""
    columns = (
        "drill",
        "documents",
        "effects",
        "calls refused",
        "late writes refused",
        "damaged",
        "to people",
        "seconds",
    )
    rows = [
        (
            name,
            seen.documents,
            seen.effects,
            seen.repeated_calls,
            seen.late_writes,
            seen.damage.total,
            seen.reconciliation,
            f"{seen.seconds:.1f}",
        )
        for name, seen in held.items()
    ]
    return _frame(columns, rows).set_index("drill")


def _event(run: StepRun) -> tuple[str, ...]:
    took = "< 1" if run.seconds < 0.001 else f"{run.seconds * 1000:.0f}"
    return run.step.session, run.step.name, run.outcome, pictures.result(run), " and ".join(run.waited_for), took


def _frame(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    cells = [["NULL" if value is None else value for value in row] for row in rows]
    return pd.DataFrame(cells, columns=list(columns), index=[""] * len(cells), dtype=object)


# -- pictures


def timeline(*plays: Play, titles: tuple[str, ...] = (), note: str = "") -> None:
    """Show plays as lanes, one a session; see lab.scenario.timeline.timeline."""
    words = "; ".join(pictures.in_words(one) for one in plays)
    _picture(pictures.timeline(*plays, titles=titles, note=note), words)
    if shared := pictures.crowded(*plays):
        _show(f"*{shared} {CROWDED}*")


def ownership(played: Play) -> None:
    """Show who owned each document of a play, step by step, and what was refused; see lab.scenario.ownership_figure.figure.

    Raises LabError, saying what to do, for a play without leases (before lesson 05).
    """
    figure = ownership_figure.figure(played)
    _picture(figure, owners.in_words(played))


def shares(races: Mapping[str, Race]) -> None:
    """Show how many documents each session of each race claimed, and how many of them another one had claimed too."""
    words = "; ".join(
        f"{name}: {run.claimed} claimed, {run.duplicates} of them twice or more" for name, run in races.items()
    )
    _picture(bars.shares(races), words)


def _picture(figure: Figure, words: str) -> None:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    shown = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": words}
    width = round(PIXELS * figure.get_figwidth() / pictures.WIDTH)  # all words the same size
    display(shown, raw=True, metadata={"image/png": {"width": width, "alt": words}})  # type: ignore[no-untyped-call]


# -- words


def _show(markdown: str) -> None:
    display({"text/markdown": markdown, "text/plain": markdown}, raw=True)  # type: ignore[no-untyped-call]


def _show_checks(judged: Iterable[tuple[Check, Observed]]) -> None:
    lines = ["| claim | observed | holds |", "|:--|:--|:--|"]
    for check, seen in judged:
        why = _plain(seen.why)
        holds = {True: "yes", False: f"**no**: {why}", None: f"not decided: {why}"}[seen.holds]
        lines.append(f"| {_both(check.text)} | {_both(seen.text)} | {holds} |")
    _show("\n".join(lines))


def _both(text: Text) -> str:
    return f"{_plain(text.en)}<br>*{_plain(text.pt)}*"


def _quoted(text: Text) -> str:
    return f"> **{_plain(text.en)}**<br>\n> *{_plain(text.pt)}*"


def _plain(words: str) -> str:
    """The words with what Markdown, its tables or its formulas would take for their own told apart."""
    return re.sub(r"([|$*<])", r"\\\1", words)


def _sql(step: Step) -> str:
    said = f"{_both(step.prose)}\n\n" if step.prose else ""
    return f"{said}Session **{step.session}**, step `{step.name}`:\n\n```sql\n{step.sql}\n```"


def _shown(value: object) -> str:
    """A value as it came; NULL and the server's booleans in words."""
    return "none" if value is None else {"t": "yes", "f": "no"}.get(str(value), str(value))


def _word(value: object) -> str:
    """A value for comparing: in small letters, in English, without commas."""
    said = re.sub(r"[\s,;]+", " ", _shown(value).lower()).strip()
    return IN_ENGLISH.get(said, said)
