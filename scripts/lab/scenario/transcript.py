"""Write a play down, in the form of isolationtester's output.

Two views of one play. The **golden** view is the same on every supported server and in every language: errors and notices of
the server itself show severity and SQLSTATE, only a message raised by our own SQL shows its text. The **referee** view is what
isolationtester prints for the same scenario, to the byte.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from psycopg import errors

from lab.scenario.result import Event, Notice, Play, StepRun

# A moment of the clock: it has a fraction of a second, which the moments that a scenario states have not.
CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}\+00")
PRINTED_TABLE = re.compile(r"^(?P<head>.*)\n[-+]+\n(?P<rows>(?:(?!\(\d+ row).*\n)*)\(\d+ rows?\)\n\n", re.MULTILINE)


def golden(play: Play) -> str:
    """The transcript that is kept under data/expected."""
    return f"scenario {play.scenario.name}\n\n" + _events(play, _golden_error, _golden_notice)


def referee(play: Play) -> str:
    """What isolationtester prints for the same scenario."""
    scenario = play.scenario
    return (
        f"Parsed test spec with {len(scenario.sessions)} sessions\n\n"
        f"starting permutation: {' '.join(step.name for step in scenario.steps)}\n"
    ) + _events(play, _server_error, _server_notice)


def without_clock(printed: str) -> str:
    """What isolationtester printed, with <clock> for each moment that was read from the clock, as `table` writes it."""
    return PRINTED_TABLE.sub(_without_clock, printed)


def difference(expected: str, seen: str) -> str:
    """What differs between two transcripts, as a unified diff; empty if nothing does."""
    return "\n".join(
        difflib.unified_diff(expected.splitlines(), seen.splitlines(), "expected", "seen", lineterm="", n=1)
    )


def condition(sqlstate: str) -> str:
    """The condition's name for an SQLSTATE, as in appendix A of PostgreSQL's manual: 55P03 gives lock_not_available.

    QL001 is the protocol's own.
    """
    if sqlstate == "QL001":
        return "other_content_under_the_key"
    try:
        name = errors.lookup(sqlstate).__name__
    except KeyError:
        return "unknown condition"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).rstrip("_").lower()


def table(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """Columns and rows as libpq's PQprint writes them with header and alignment, which is what isolationtester calls.

    PQprint counts bytes: a column with accents is narrower on the screen than its rule of dashes. A moment that was read from
    the clock is another one in every play, so it is written as <clock>.
    """
    if not columns:
        return ""
    rows = [tuple(CLOCK.sub("<clock>", value) if value else value for value in row) for row in rows]
    numeric = [all(_looks_numeric(value) for row in rows if (value := row[column])) for column in range(len(columns))]
    widths = [
        max(_width(name), *(_width(row[column] or "") for row in rows)) if rows else _width(name)
        for column, name in enumerate(columns)
    ]

    def line(values: Sequence[str | None]) -> str:
        cells = zip(values, widths, numeric, strict=True)
        return "|".join(_aligned(value or "", width, right) for value, width, right in cells)

    count = f"({len(rows)} row{'' if len(rows) == 1 else 's'})"
    return "\n".join([line(columns), "+".join("-" * width for width in widths), *map(line, rows), count, "", ""])


def _without_clock(found: re.Match[str]) -> str:
    if not CLOCK.search(found["rows"]):
        return found[0]
    columns, *rows = (
        [cell.strip() for cell in line.split("|")] for line in (found["head"], *found["rows"].splitlines())
    )
    return table(columns, rows)


def _width(text: str) -> int:
    return len(text.encode())


def _aligned(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks


def _looks_numeric(value: str) -> bool:
    return set(value) <= set("0123456789.Ee -") and value[0] not in "Ee" and value[-1].isdigit()


def _events(play: Play, error: Callable[[StepRun], str], notice: Callable[[Notice], str]) -> str:
    return "".join(_event(event, error, notice) for event in play.events)


def _event(event: Event, error: Callable[[StepRun], str], notice: Callable[[Notice], str]) -> str:
    if event.notice is not None:
        return notice(event.notice) + "\n"
    run = event.run
    assert run is not None
    if event.kind == "waiting":
        return f"step {run.step.name}: {run.step.sql} <waiting ...>\n"
    head = f"step {run.step.name}: " + ("<... completed>" if event.kind == "completed" else run.step.sql) + "\n"
    if run.outcome == "error":
        return head + error(run) + "\n"
    return head + (table(run.columns, run.rows) if run.columns is not None else "")


def _golden_error(run: StepRun) -> str:
    text = f"{run.severity} {run.sqlstate} ({condition(run.sqlstate or '')})"
    return f"{text}: {run.message}" if run.raised_by_us else text


def _golden_notice(notice: Notice) -> str:
    text = f"{notice.session}: {notice.severity} {notice.sqlstate}"
    return f"{text}: {notice.message}" if notice.raised_by_us else text


def _server_error(run: StepRun) -> str:
    return f"{run.severity}:  {run.message}"


def _server_notice(notice: Notice) -> str:
    return f"{notice.session}: {notice.severity}:  {notice.message}"
