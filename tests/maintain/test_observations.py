"""What was observed lies in one tidy file a lesson; a run replaces the rows of its own server and no other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import paths
from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons import registry
from lab.lessons.lesson import CheckResult, Lesson, LessonResult, Observed
from lab.maintain import observations, readme

HEAD = "check,server,fact,value,unit"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder in place of data/observed."""
    monkeypatch.setattr(paths, "OBSERVED", tmp_path)
    return tmp_path


def ran(**seen: Observed) -> LessonResult:
    """A run of a lesson with these checks and what was observed of each."""
    text = Text("", "")
    lesson = Lesson("02_made_up.py", minutes=1, question=text, answer=text, psql_only=text)
    for slug in seen:
        lesson.experiment(slug, "", "")(lambda stage: pytest.fail("not to be run"))
    return LessonResult(lesson, [CheckResult(check, seen[check.case], ()) for check in lesson.checks])


def waited(seconds: float) -> Observed:
    return Observed(True, "", "", facts={"waited": Fact(seconds, "s")})


# What is kept


@pytest.mark.parametrize("name", [each.name for each in registry.lessons()])
def test_a_kept_file_names_checks_of_its_lesson_and_servers_whose_environment_is_kept(name: str) -> None:
    told = registry.find(name)
    rows = observations.of_lesson(name)
    assert {row["check"] for row in rows} <= {check.id for check in told.checks}
    observed_on = {row["server"] for row in rows if row["fact"] == "holds"}
    assert observed_on and observed_on <= set(observations.servers())


def test_the_page_tells_how_many_checks_passed_on_each_server() -> None:
    english, portuguese = readme.servers("en").splitlines(), readme.servers("pt").splitlines()
    assert english[2:] == portuguese[2:]
    assert [line.split(" | ")[0].lstrip("| ") for line in english[2:]] == observations.servers()


# Writing


def test_a_run_replaces_its_own_servers_rows_only_and_they_stand_in_order(folder: Path) -> None:
    for server, seconds in (("16.14", 2.0), ("9.6", 2.25), ("16.14", 2.1234), ("17.10", 3)):
        observations.keep([ran(wait=waited(seconds))], server, {"cores": 2})
    assert (folder / "02_made_up.csv").read_text(encoding="utf-8").splitlines() == [
        HEAD,
        "02.wait,9.6,holds,yes,",
        "02.wait,9.6,waited,2.25,s",
        "02.wait,16.14,holds,yes,",
        "02.wait,16.14,waited,2.123,s",
        "02.wait,17.10,holds,yes,",
        "02.wait,17.10,waited,3,s",
    ]
    assert (folder / "servers.csv").read_text(encoding="utf-8").splitlines() == [
        "server,fact,value",
        "9.6,cores,2",
        "16.14,cores,2",
        "17.10,cores,2",
    ]


def test_several_values_have_a_row_each_in_their_order(folder: Path) -> None:
    facts = {"order": Fact((3, 1, 2)), "passed": Fact(()), "reason": Fact(Text("a DOCTYPE", "um DOCTYPE"))}
    for server in ("16.14", "17.10"):
        observations.keep([ran(sorts=Observed(True, "", "", facts=facts))], server, {})
    rows = [(row["fact"], row["value"]) for row in observations.of_lesson("02_made_up") if row["server"] == "16.14"]
    assert rows == [
        ("holds", "yes"),
        ("order", "3"),
        ("order", "1"),
        ("order", "2"),
        ("passed", "none"),
        ("reason", "a DOCTYPE"),
    ]


def test_a_check_that_was_not_run_or_does_not_hold_says_so(folder: Path) -> None:
    observations.keep([ran(here=Observed(False, "", ""), there=Observed(None, "", "", "no superuser"))], "17.10", {})
    rows = observations.of_lesson("02_made_up")
    assert [(row["check"], row["value"]) for row in rows] == [("02.here", "no"), ("02.there", "not run")]


def test_a_check_that_its_lesson_no_longer_has_leaves_with_the_next_run(folder: Path) -> None:
    observations.keep([ran(old=waited(1))], "16.14", {})
    observations.keep([ran(new=waited(1))], "17.10", {})
    assert {row["check"] for row in observations.of_lesson("02_made_up")} == {"02.new"}
