"""What a notebook needs: a database of its own, and questions, plays, tables and pictures in a line each.

Texts and SQL are shown from the scenario files, in the language of the notebook; what is seen comes from the server.
The notebooks' source is notebooks/py/*.py; `python -m lab.notebook.build` makes and runs the notebooks of both languages from it.
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
from typing import get_args

import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from lab.base import config, paths
from lab.base.errors import LabError, ServerError
from lab.base.language import Text, say
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
from lab.measure.rounds import Spread
from lab.notebook import claims_chart, copies, figures
from lab.notebook.figures import Panel
from lab.notebook.variants import own_sql, play_working, queue_of
from lab.protocol import loader, source
from lab.scenario import ownership as owners
from lab.scenario import ownership_figure
from lab.scenario import timeline as pictures
from lab.scenario.grammar import Step
from lab.scenario.library import find_scenario
from lab.scenario.result import Play, StepRun
from lab.scenario.stage import Stage
from lab.scenario.transcript import condition
from lab.server import psql
from lab.server.target import Target, open_target

__all__ = [
    "answer",
    "ask",
    "bars",
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
    "lines",
    "load",
    "observe",
    "outcomes",
    "ownership",
    "play",
    "play_sql",
    "progress",
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

LANGUAGES = ("en", "pt")
PIXELS = 830  # the width of a page of GitHub; the picture itself has twice as many for the sharp screens
DOTS = 160  # an inch
# Exported as HTML, a page has no style of its own for the SQL in an output.
STYLE = (
    "<style>.jp-OutputArea-output .highlight { background: none }"
    " .jp-OutputArea-output .highlight pre {"
    " font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px);"
    " line-height: 1.4; margin: 0 0 1em; padding-left: 1em }</style>"
)
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
CROWDED = Text(
    "results share the label before them: pauses (`pause=0.3`) make room.",
    "resultados dividem o rótulo anterior: pausas (`pause=0.3`) abrem espaço.",
)


_begun = ["01"]  # the lessons whose notebooks were begun in this kernel; the last one counts

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
            say(
                "The notebook's database is gone: was its server stopped? Restart the kernel and run all cells.",
                "O banco do notebook se foi: o servidor foi parado? Reinicie o kernel e rode todas as células.",
            )
        ) from None


def begin(number: str, lang: str = "") -> None:
    """Open the database, and show the question of the lesson of that number.

    `lang` is the language of all that the notebook shows, en or pt; without it, that of LAB_LANG.
    """
    if lang:
        if lang not in LANGUAGES:
            raise LabError(
                say(f"lang is {' or '.join(LANGUAGES)}, not {lang}.", f"lang é {' ou '.join(LANGUAGES)}, não {lang}.")
            )
        config.put("LAB_LANG", lang)
    stage()
    _begun.append(number)
    target, _ = _opened()
    pd.set_option("display.max_colwidth", None)  # a reason is to be read to its end
    if target.embedded:
        whose = say("the lab's own server", "o servidor do laboratório")
    else:
        whose = say("the server you named", "o servidor que você indicou")
    lesson = registry.find(number)
    length = say(f"about {lesson.minutes} minutes", f"uns {lesson.minutes} minutos")
    display({"text/html": STYLE}, raw=True)  # type: ignore[no-untyped-call]
    _show(f"*PostgreSQL {target.version} ({whose}), {length}*\n\n### {lesson.question}")


def progress() -> None:
    """Show the lessons, and how many of their checks were run in the reader's copies (`./lab notebook`), and held."""
    _show(copies.table())


# -- telling


def claim(name: str, seen: Play | Mapping[str, DrillOutcome] | Matrix) -> None:
    """Show the claim of a scenario, `NN_case`, or of an experiment, `NN.slug`, and judge it by what was seen of it.

    `seen` is a play of the scenario, or what `drill` or `defences` gave. Raises LabError if it says nothing about that claim.
    """
    stated = registry.find_check(name)
    if stated.judge is None:
        run = f"nb.observe({stated.id!r})"
        raise LabError(
            say(
                f"The claim {stated.id} is judged by its own experiment only: {run}.",
                f"A afirmação {stated.id} só é julgada pelo seu próprio experimento: {run}.",
            )
        )
    _show_checks([(stated, stated.judge(seen))])


def sql(name: str, *steps: str) -> None:
    """Show what these steps of a scenario run, and what its file says about them."""
    _show("\n\n".join(_sql(find_scenario(name).step(step)) for step in steps))


def ask(name: str, step: str) -> None:
    """Show a step of a scenario, and the question that its file asks there."""
    asked = find_scenario(name).step(step)
    if asked.prose is None:
        raise LabError(
            say(
                f"Step {step} of {name} asks nothing; nb.sql shows it.",
                f"O passo {step} de {name} não pergunta nada; nb.sql o mostra.",
            )
        )
    _show(f"{_sql(replace(asked, prose=None))}\n\n{_quoted(asked.prose)}")


def script(name: str, *beginnings: str) -> None:
    """Show the statements of a script of sql/ that begin with these words."""
    said = statements((paths.SQL / name).read_text(encoding="utf-8"))
    found = {words: next((each.text for each in said if each.text.startswith(words)), "") for words in beginnings}
    for words, text in found.items():
        if not text:
            raise LabError(
                say(f"No statement of {name} begins with {words}.", f"Nenhum comando de {name} começa com {words}.")
            )
    _show("\n\n".join(f"```sql\n{text};\n```" for text in found.values()))


def diff(name: str, since: str, until: str) -> None:
    """Show what the lessons after `since` up to `until` changed in a function or view of the protocol: `diff("reservar", "06", "09")`."""
    _show(f"```diff\n{source.difference(name, since, until)}\n```")


def answer(guess: object, seen: object) -> None:
    """Show what was seen, and whether the guess was right; `...` is no guess, None is `none`, True and the server's `t` are `yes`."""
    if guess is ...:
        verdict = say("no guess yet", "ainda sem palpite")
    elif _word(guess) == _word(seen):
        verdict = say("you guessed it", "você acertou")
    else:
        verdict = f"{say('your guess', 'seu palpite')}: {_plain(_shown(guess))}"
    _show(f"{say('Seen', 'Visto')}: **{_plain(_shown(seen))}** ({verdict})")


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
        told = "\n".join(f"- {_plain(str(check.text))}" for check in left)
        why = say(
            f"Not run here, being slow; `{how}` runs them.", f"Não rodaram aqui, porque demoram; `{how}` roda todas."
        )
        _show(f"{why}\n\n{told}")


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


def play_sql(lesson: str = "", order: str = "", pause: float = 0.2, **sessions: str) -> Play:
    """Rebuild the queue, play SQL of your own, and show what was seen: `nb.play_sql(a="BEGIN; SELECT …", b="…")`.

    Each session is named by a letter and runs its statements one after the other. They take turns: the first statement of each
    session in the order in which the sessions are given, then the second of each, and so on; a session that waits is passed over
    until its wait is over. `order` says it otherwise, a letter for each statement: `order="aabab"`. `pause` are seconds before every
    statement, so that the picture can tell them apart. The queue is in the state of the notebook's lesson, or of `lesson`.
    Returns the play; its steps are called `a_1`, `a_2`, `b_1`, …, and `nb.table(played, "b_1")` shows what one returned.
    Raises LabError if a wait does not end.
    """
    state = int(registry.find(lesson or _begun[-1]).number)
    played = play_working(own_sql(sessions, order, state), stage().conninfo, {}, pause, announced=False)
    own = _own(played)
    rows = [
        f"| {step} | `{sql.replace('|', chr(92) + '|')}` | {_plain(result)} | {waited} | {_plain(ms)} |"
        for step, sql, result, waited, ms in own.itertuples(index=False)
    ]
    _show("\n".join([f"| {' | '.join(own.columns)} |", "|:--|:--|:--|:--|--:|", *rows]))
    timeline(played)
    return played


def compete(
    sessions: int = 10, documents: int = 100, claim: concurrent_claims.Way = "skip_locked", work: float = 0.0
) -> Race:
    """Let so many sessions, released together, empty a queue of so many documents; see lab.experiments.concurrent_claims.race."""
    if claim not in (ways := get_args(concurrent_claims.Way)):
        there = ", ".join(ways)
        raise LabError(say(f"claim is one of {there}, not {claim}.", f"claim é um destes: {there}; não {claim}."))
    return concurrent_claims.race(stage().conninfo, sessions=sessions, documents=documents, claim=claim, work=work)


# -- tables


def table(played: Play, step: str) -> pd.DataFrame:
    """What a step returned, as the server sent it."""
    run = played[step]
    return _frame(run.columns or (), run.rows)


def events(played: Play) -> pd.DataFrame:
    """The steps of a play: who, what came of it, whom it waited for (if anybody did), and how many milliseconds it took."""
    waited = say("waited for", "esperou por")
    columns = (
        say("session", "sessão"),
        say("step", "passo"),
        say("outcome", "desfecho"),
        say("result", "resultado"),
        waited,
        "ms",
    )
    table = _frame(columns, [_event(run) for run in played.runs.values()])
    return table if table[waited].any() else table.drop(columns=waited)


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
        (outcome.path.name, outcome.key or "", _shown(outcome.loaded), str(outcome.reason or ""))
        for outcome in outcomes
    ]
    columns = (say("file", "arquivo"), say("key", "chave"), say("loaded", "entrou"), say("why not", "por que não"))
    return _frame(columns, rows)


def totals(races: Mapping[str, Race]) -> pd.DataFrame:
    """What races came to: a free race is judged by its totals only, never by who got what."""
    columns = (
        say("race", "corrida"),
        say("documents", "documentos"),
        say("claimed", "reservados"),
        say("distinct", "distintos"),
        say("duplicates", "em dobro"),
        say("left", "restantes"),
        say("out of order", "fora de ordem"),
    )
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
        (
            str(guard.shown),
            *(str(tried.cell(guard.name, each.name).text) for each in situations),
            tried.owners[guard.name],
        )
        for guard in guards
    ]
    clause = say("WHERE clause", "condição do WHERE")
    owners = say("owner's finish after any other change", "conclusão do dono depois de qualquer outra mudança")
    return _frame((clause, *(str(each.shown) for each in situations), owners), rows)


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
        (str(each.shown), str(each.situation), row.with_it.total, *(getattr(row.without_it, kind) for kind, _ in kinds))
        for each in defences_tried.defences()
        for row in matrix.rows
        if row.defence == each.name
    ]
    without = say("without", "sem")
    columns = (without, say("when", "quando"), say("with it", "com ela"), *(str(shown) for _, shown in kinds))
    return _frame(columns, rows).set_index(without)


def outcomes(held: Mapping[str, DrillOutcome]) -> pd.DataFrame:
    """What drills came to, one a row."""
    columns = (
        say("drill", "ensaio"),
        say("documents", "documentos"),
        say("effects", "efeitos"),
        say("calls refused", "chamadas recusadas"),
        say("late writes refused", "escritas atrasadas recusadas"),
        say("damaged", "danificados"),
        say("to people", "para pessoas"),
        say("seconds", "segundos"),
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
    return _frame(columns, rows).set_index(columns[0])


def _own(played: Play) -> pd.DataFrame:
    """The statements of a play of the reader's own, in the order in which they were launched, and what came of each."""
    columns = (
        say("step", "passo"),
        "SQL",
        say("result", "resultado"),
        say("waited for", "esperou por"),
        "ms",
    )
    rows = []
    for run in played.runs.values():
        result = pictures.result(run)
        if run.sqlstate:
            result = f"{run.sqlstate} ({condition(run.sqlstate)}): {run.message}"
        rows.append((run.step.name, " ".join(run.step.sql.split()), result, _names(run.waited_for), _ms(run)))
    return _frame(columns, rows)


def _event(run: StepRun) -> tuple[str, ...]:
    outcome = {
        "done": say("done", "feito"),
        "error": say("error", "erro"),
        "waiting": say("waiting", "esperando"),
    }[run.outcome]
    return run.step.session, run.step.name, outcome, pictures.result(run), _names(run.waited_for), _ms(run)


def _ms(run: StepRun) -> str:
    return "< 1" if run.seconds < 0.001 else f"{run.seconds * 1000:.0f}"


def _names(sessions: Iterable[str]) -> str:
    return say(" and ", " e ").join(sessions)


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
        say(
            f"{name}: {run.claimed} claimed, {run.duplicates} of them twice or more",
            f"{name}: {run.claimed} reservas, {run.duplicates} delas repetidas",
        )
        for name, run in races.items()
    )
    _picture(claims_chart.shares(races), words)


def bars(*panels: Panel, best: str = "") -> None:
    """Show figures of several ways as bars, a panel each; see lab.notebook.figures.bars."""
    words = "; ".join(
        f"{panel.title}: " + ", ".join(f"{way} {value}" for way, value in panel.values.items()) + f" ({panel.unit})"
        for panel in panels
    )
    _picture(figures.bars(panels, best), words)


def lines(
    series: Mapping[str, Sequence[tuple[float, Spread]]], x: str, y: str, marks: Mapping[str, float] | None = None
) -> None:
    """Show points as lines over what was done; see lab.notebook.figures.lines."""
    to = say("to", "a")
    words = "; ".join(
        f"{name}: {min(each.smallest for _, each in points):g} {to} {max(each.largest for _, each in points):g}"
        for name, points in series.items()
    )
    _picture(figures.lines(series, x, y, marks), f"{y}, {x}. {words}")


def _picture(figure: Figure, words: str) -> None:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    shown = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": words}
    width = round(PIXELS * figure.get_figwidth() / pictures.WIDTH)  # all words the same size
    display(shown, raw=True, metadata={"image/png": {"width": width, "alt": words}})  # type: ignore[no-untyped-call]


# -- words


def _show(markdown: str) -> None:
    display({"text/markdown": markdown}, raw=True)  # type: ignore[no-untyped-call]


def _show_checks(judged: Iterable[tuple[Check, Observed]]) -> None:
    lines = [say("| claim | observed | holds |", "| afirmação | observado | confere |"), "|:--|:--|:--|"]
    for check, seen in judged:
        why = _plain(seen.why)
        holds = {
            True: _shown(True),
            False: f"**{_shown(False)}**: {why}",
            None: f"{say('not decided', 'sem decisão')}: {why}",
        }[seen.holds]
        lines.append(f"| {_plain(str(check.text))} | {_plain(str(seen.text))} | {holds} |")
        copies.note(check.id, seen.holds)
    _show("\n".join(lines))


def _quoted(text: Text) -> str:
    return f"> **{_plain(str(text))}**"


def _plain(words: str) -> str:
    """The words with what Markdown, its tables or its formulas would take for their own told apart."""
    return re.sub(r"([|$*<])", r"\\\1", words)


def _sql(step: Step) -> str:
    said = f"{_plain(str(step.prose))}\n\n" if step.prose else ""
    where = say(f"Session **{step.session}**, step `{step.name}`:", f"Sessão **{step.session}**, passo `{step.name}`:")
    return f"{said}{where}\n\n```sql\n{step.sql}\n```"


def _shown(value: object) -> str:
    """A value as it came; NULL and booleans, also the server's, in words."""
    if value is None:
        return say("none", "nenhum")
    if isinstance(value, bool) or value in ("t", "f"):
        return say("yes", "sim") if value in (True, "t") else say("no", "não")
    return str(value)


def _word(value: object) -> str:
    """A value for comparing: in small letters, in English, without commas."""
    said = re.sub(r"[\s,;]+", " ", _shown(value).lower()).strip()
    return IN_ENGLISH.get(said, said)
