"""`lab check NN`: what a lesson lacks, and what of it is stale; without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.lessons import registry
from lab.lessons.lesson import Lesson
from lab.maintain import generate
from lab.maintain.new_lesson import TO_WRITE
from lab.notebook import build
from lab.scenario import library

MOST_CORE, MOST_MINUTES = 7, 12


def findings(number: str) -> list[str]:
    """What is missing or stale, one sentence each, with the command that helps. Raises LabError if there is no such lesson."""
    lesson = registry.find(number)
    try:
        return [*_files(lesson), *_checks(lesson), *_stale(lesson)]
    except LabError as error:  # a scenario that cannot be read says where
        return [str(error)]


def _files(lesson: Lesson) -> Iterator[str]:
    root = paths.ROOT
    written = [
        root / "scripts" / f"{lesson.name}.py",
        *sorted((paths.SQL / lesson.name).glob("*.sql")),
        root / "notebooks" / "py" / f"{lesson.name}.py",
        root / "tests" / "lessons" / f"test_{lesson.name}.py",
    ]
    step = paths.SQL / f"{lesson.name}.sql"
    for path in [*written, *([step] if step.exists() else [])]:
        if not path.exists():
            yield f"{_named(path)} is missing."
        elif (places := path.read_text(encoding="utf-8").count(TO_WRITE)) > 0:
            yield f"{_named(path)} still says {TO_WRITE} in {places} places."


def _checks(lesson: Lesson) -> Iterator[str]:
    core = sum(check.core for check in lesson.checks)
    if not 1 <= core <= MOST_CORE:
        yield f"{lesson.name} has {core} core checks; 1 to {MOST_CORE} fit into a lesson."
    if not 1 <= lesson.minutes <= MOST_MINUTES:
        yield f"{lesson.name} takes {lesson.minutes} minutes; a lesson takes at most {MOST_MINUTES}."
    cases = {check.case for check in lesson.checks}
    for scenario in library.scenarios(lesson.name):
        if scenario.name[3:] not in cases:
            yield f"{_named(scenario.path)} has no check: @lesson.scenario({scenario.name[3:]!r}) in scripts/{lesson.name}.py."
        lines = scenario.path.read_text(encoding="utf-8").splitlines()
        english = sum(line.startswith("-- ") and not line.startswith("-- @") for line in lines)
        portuguese = sum(line.startswith("-- @pt ") for line in lines)
        if english != portuguese:
            yield f"{_named(scenario.path)} has {english} English lines for the reader and {portuguese} @pt lines."
        if not library.golden_path(scenario).exists():
            yield f"{_named(library.golden_path(scenario))} is missing: ./lab record {lesson.number}"


def _stale(lesson: Lesson) -> Iterator[str]:
    for path in generate.changes():
        about = path.suffix == ".md" or any(part.startswith(f"{lesson.number}_") for part in path.parts)
        if about:
            yield f"{_named(path)} is out of step: ./lab generate"
    text = paths.ROOT / "notebooks" / "py" / f"{lesson.name}.py"
    for language in build.LANGUAGES if text.exists() else ():
        if not build.is_in_step(text, language):
            made = _named(build.notebook_of(text, language))
            yield f"{made} is missing or out of step with its text: make notebooks NB={lesson.number}"
    observed = paths.OBSERVED / f"{lesson.name}.csv"
    known = (
        set(re.findall(r"^(\d\d\.\w+),", observed.read_text(encoding="utf-8"), re.M)) if observed.exists() else set()
    )
    if missing := [check.id for check in lesson.checks if check.id not in known]:
        yield f"{_named(observed)} says nothing of {', '.join(missing)}: ./lab record {lesson.number}"


def _named(path: Path) -> str:
    return path.relative_to(paths.ROOT).as_posix()
