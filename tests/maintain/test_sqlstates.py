"""The table of SQLSTATEs names every one that a transcript shows, and none that no check meets."""

from __future__ import annotations

import csv
import re

import pytest

from lab.base import paths
from lab.scenario.transcript import condition

with (paths.DATA / "sqlstates.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))
TOLD = {row["sqlstate"] for row in ROWS}


def test_every_sqlstate_of_a_transcript_is_told() -> None:
    transcripts = "".join(path.read_text(encoding="utf-8") for path in paths.EXPECTED.glob("*/*.out"))
    assert set(re.findall(r"ERROR ([0-9A-Z]{5})", transcripts)) <= TOLD


def test_no_sqlstate_is_told_that_no_lesson_meets() -> None:
    met = "".join(path.read_text(encoding="utf-8") for path in paths.EXPECTED.glob("*/*.out"))
    met += "".join(path.read_text(encoding="utf-8") for path in paths.OBSERVED.glob("*.csv"))
    assert [sqlstate for sqlstate in sorted(TOLD) if sqlstate not in met] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sqlstate"])
def test_a_sqlstate_is_told_in_both_languages(row: dict[str, str]) -> None:
    assert all(row.values())
    assert condition(row["sqlstate"]) != "unknown condition"
