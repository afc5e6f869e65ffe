"""What is shown of a step: its statement and its outcome, as lines with the name of their session in front."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text as Line

from lab.base.language import say
from lab.lessons.screen import folded, session_style
from lab.lessons.status import duration
from lab.scenario import transcript
from lab.scenario.result import Play, StepRun

EDGE = 4  # characters before each line of a session's block: its name and the edge
HANGING = 4  # characters by which the rest of a statement's line is indented if it has to be folded


def left_of(lines: Sequence[Line], lane: int, console: Console) -> int:
    """How far from the left a block of these lines stands: in its lane, or nearer if it is too wide for that."""
    return min(lane, max(0, console.width - EDGE - max(line.cell_len for line in lines)))


def block(session: str, left: int, lines: Sequence[Line], console: Console) -> list[Line]:
    """Lines of one session so far from the left, its name before each."""
    room = console.width - EDGE - left
    edge = Line.assemble(" " * left, (f"{session} │ ", session_style(session)))
    return [Line.assemble(edge, part) for line in lines for part in folded(line, room, console, HANGING)]


def statement(sql: str) -> list[Line]:
    """A statement, coloured as SQL."""
    highlighted = Syntax(sql, "sql", theme="ansi_dark", background_color="default").highlight(sql)
    highlighted.rstrip()
    return list(highlighted.split("\n"))


def waits(run: StepRun) -> str:
    """That a step waits, and for whom."""
    whom = say(" and ", " e ").join(run.waited_for)
    return say(f"… waits for {whom}", f"… espera por {whom}")


def outcome(play: Play, run: StepRun, console: Console) -> list[Line]:
    """What a step came to, and how long it took; of a wait also for whom, and what ended it."""
    took = Line(_took(play, run))
    if run.outcome == "error":
        name = transcript.condition(run.sqlstate or "")
        return [Line(f"✗ {run.sqlstate} {name}", style="bold red"), Line(run.message or "", style="red"), took]
    if run.columns is None:
        return [Line.assemble((run.command, "green"), "   ", took)]
    return [*(Line(line, style="green") for line in _table(run, console)), Line.assemble(_rows(run), "   ", took)]


def brief(run: StepRun) -> str:
    """What a step came to, in a few words."""
    if run.outcome == "error":
        return f"{run.sqlstate} {transcript.condition(run.sqlstate or '')}"
    if run.columns is None:
        return run.command
    if len(run.rows) == 1:
        return ", ".join(f"{name} {value}" for name, value in zip(run.columns, run.rows[0], strict=True))
    return _rows(run).strip("()")


def _table(run: StepRun, console: Console) -> list[str]:
    """What it returned: as a table if the screen is wide enough, else a line for each value, as psql does expanded."""
    names = run.columns or ()
    *table, _ = transcript.table(names, run.rows).rstrip().splitlines()
    room = console.width - EDGE
    if not run.rows or max(map(len, table)) <= room:
        return table
    longest = max(map(len, names))
    lines: list[str] = []
    for row in run.rows:
        lines += [""] if lines else []
        for name, value in zip(names, row, strict=True):
            parts = Line(value or "").wrap(console, room - longest - 1)
            heads = [name, *[""] * (len(parts) - 1)]
            lines += [f"{head:{longest}} {part.plain}" for head, part in zip(heads, parts, strict=False)]
    return lines


def _took(play: Play, run: StepRun) -> str:
    took = duration(run.seconds)
    if not run.waited_for:
        return took
    whom = say(" and ", " e ").join(run.waited_for)
    text = say(f"waited {took} for {whom}", f"esperou {took} por {whom}")
    last = next(reversed(play.runs.values()))
    if run.sqlstate == "55P03":
        return text + say(", until its lock_timeout", ", até o seu lock_timeout")
    if last is not run:
        ended = f"{last.step.session}: {last.step.sql.splitlines()[0]}"
        return text + say(f", until {ended}", f", até {ended}")
    return text


def _rows(run: StepRun) -> str:
    count = len(run.rows)
    return say(f"({count} row{'' if count == 1 else 's'})", f"({count} linha{'' if count == 1 else 's'})")
