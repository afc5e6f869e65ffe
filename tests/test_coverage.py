"""data/coverage.csv: what the two sources say, statement by statement, and which check shows it."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict

import pytest

from lab.base import paths
from lab.lessons import registry
from lab.maintain import readme

COLUMNS = ("source", "number", "en", "pt", "lesson", "check", "state", "note_en", "note_pt")
SOURCES = ("episode", "article")
STATES = ("shown", "refined", "contradicted", "planned")
LAST_LESSON = 21  # of the course
LONGEST = 200  # characters of a statement or a note

Row = dict[str, str]


def _listed() -> list[Row]:
    with (paths.DATA / "coverage.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


ROWS = _listed()


@pytest.fixture(scope="module")
def checks() -> set[str]:
    return {check.id for lesson in registry.lessons() for check in lesson.checks}


def test_every_row_is_well_formed() -> None:
    for row in ROWS:
        assert tuple(row) == COLUMNS, row
        assert row["source"] in SOURCES and row["state"] in STATES, row
        assert re.fullmatch(r"[1-9]\d*", row["number"]), row
        assert re.fullmatch(r"\d\d", row["lesson"]) and 1 <= int(row["lesson"]) <= LAST_LESSON, row
        assert all(text == text.strip() for text in row.values()), row


def test_every_row_is_told_in_both_languages_and_briefly() -> None:
    for row in ROWS:
        for text in (row["en"], row["pt"]):
            assert text.endswith((".", "?")) and len(text) <= LONGEST, row
        assert row["en"] != row["pt"], row
        notes = (row["note_en"], row["note_pt"])
        assert notes == ("", "") or all(note.endswith(".") and len(note) <= LONGEST for note in notes), row


def test_every_row_names_a_check_of_its_lesson_or_is_planned(checks: set[str]) -> None:
    for row in ROWS:
        if row["state"] == "planned":
            assert not row["check"], row
        else:
            assert row["check"] in checks and row["check"].startswith(f"{row['lesson']}."), row


def test_what_is_not_just_shown_says_why() -> None:
    for row in ROWS:
        if row["state"] == "shown":
            assert not row["note_en"], row
        if row["state"] in ("refined", "contradicted"):
            assert row["note_en"], row


def test_every_check_that_a_note_names_exists(checks: set[str]) -> None:
    notes = "".join(row["note_en"] + row["note_pt"] for row in ROWS)
    named = set(re.findall(r"\b\d\d\.[a-z]\w+", notes))
    assert named and named <= checks


def test_every_check_that_a_page_names_exists(checks: set[str]) -> None:
    pages = [paths.ROOT / "README.md", paths.ROOT / "LEIAME.md", *(paths.ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"\b(?:0\d|1\d)\.[a-z]\w+", text))
    assert len(named) > 20
    assert named - checks == set()


def test_what_is_planned_is_of_a_lesson_to_come() -> None:
    there = {name[:2] for name in registry.names()}
    assert [row for row in ROWS if row["state"] == "planned" and row["lesson"] in there] == []


def test_each_source_is_listed_from_its_beginning_without_a_gap() -> None:
    assert [source for source in dict.fromkeys(row["source"] for row in ROWS)] == list(SOURCES)
    numbers = defaultdict(list)
    for row in ROWS:
        numbers[row["source"]].append(int(row["number"]))
    for listed in numbers.values():
        assert listed == list(range(1, len(listed) + 1))


@pytest.mark.parametrize("language", ["en", "pt"])
def test_no_statement_stands_twice_in_a_source(language: str) -> None:
    counted = Counter((row["source"], row[language]) for row in ROWS)
    assert [statement for statement, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("page", ["docs", "docs/pt"])
def test_each_of_the_ten_conditions_stands_on_the_page_with_its_check(page: str, checks: set[str]) -> None:
    text = (paths.ROOT / page / "skip-locked.md").read_text(encoding="utf-8")
    conditions = re.findall(r"^\| .* \| (\d\d\..*) \|$", text.partition("\n## ")[2], re.MULTILINE)
    by_number = dict(zip([(use, n) for use in ("Use", "Do not use") for n in "12345"], conditions, strict=True))
    found = defaultdict(set)
    for row in ROWS:
        if match := re.match(r"(Use|Do not use) it when \((\d)\): ", row["en"]):
            found[match.groups()].add(row["check"])
    assert found.keys() == by_number.keys()
    for condition, shown_by in by_number.items():
        assert found[condition] <= set(shown_by.split(", ")) <= checks


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_pages_count_every_row_once(language: str) -> None:
    _, _, *lines = readme.coverage(language).splitlines()
    counts = [[int(cell) for cell in re.findall(r"\d+", line)] for line in lines]
    assert len(lines) == len(SOURCES)
    for source, (*by_state, total) in zip(SOURCES, counts, strict=True):
        of_source = Counter(row["state"] for row in ROWS if row["source"] == source)
        assert by_state == [of_source[state] for state in STATES]
        assert sum(by_state) == total == of_source.total()
