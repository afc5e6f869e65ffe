"""What was observed on which server: data/observed/NN_name.csv, one file a lesson, and servers.csv, what each server ran on.

A row is one value: a fact of several values has as many rows, in their order. Whether a check held is a fact of it, `holds`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lab.base import paths
from lab.base.facts import WORDS, Fact, Value
from lab.base.language import Text
from lab.lessons.lesson import CheckResult, LessonResult

CHECKS = ("check", "server", "fact", "value", "unit")
SERVERS = ("server", "fact", "value")
NOT_RUN = "not run"
DIGITS = 3  # after the point: a thousandth of a second or of a millisecond is as fine as anything here is measured

Row = Mapping[str, str]


def keep(results: Sequence[LessonResult], server: str, environment: Mapping[str, object]) -> list[Path]:
    """Write what a run gave on the server of that version, in place of what it gave before; other servers' rows stay.

    `environment` is what the figures depend on, by name. Rows of checks that their lesson no longer has are dropped.
    Returns the files written.
    """
    written = [_path("servers")]
    about = [{"server": server, "fact": name, "value": str(value)} for name, value in environment.items()]
    _write(written[0], SERVERS, [*_of_others(environments(), server), *about])
    for result in results:
        name = result.lesson.name
        there = {check.id for check in result.lesson.checks}
        others = [row for row in _of_others(of_lesson(name), server) if row["check"] in there]
        written.append(_path(name))
        _write(written[-1], CHECKS, [*others, *(row for check in result.checks for row in _rows(check, server))])
    return written


def of_lesson(name: str) -> list[Row]:
    """What was observed in the lesson of that name, NN_name, on every server: rows with the columns CHECKS."""
    return _read(_path(name))


def environments() -> list[Row]:
    """What each server ran on: rows with the columns SERVERS."""
    return _read(_path("servers"))


def servers() -> list[str]:
    """The versions of the servers that something was observed on, the oldest first."""
    return sorted({row["server"] for row in environments()}, key=_release)


def _rows(result: CheckResult, server: str) -> list[Row]:
    observed = result.observed
    holds = Fact(NOT_RUN if observed.holds is None else observed.holds)
    return [
        {"check": result.check.id, "server": server, "fact": name, "value": _written(value), "unit": fact.unit}
        for name, fact in {"holds": holds, **observed.facts}.items()
        for value in fact.values
    ]


def _written(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return WORDS["en"][value]
    if isinstance(value, float):
        return str(round(value, DIGITS))
    return value.en if isinstance(value, Text) else str(value)


def _of_others(rows: Iterable[Row], server: str) -> list[Row]:
    return [row for row in rows if row["server"] != server]


def _path(name: str) -> Path:
    return paths.OBSERVED / f"{name}.csv"


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=_place))


def _place(row: Row) -> tuple[str, list[int], str]:
    return row.get("check", ""), _release(row["server"]), row["fact"]


def _release(server: str) -> list[int]:
    """A version as numbers, since 9.6 comes before 17.10."""
    return [int(number) for number in re.findall(r"\d+", server)]
