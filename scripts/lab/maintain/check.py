"""`lab check NN`: what a lesson lacks, and what of it is stale; without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
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
            yield say(f"{_named(path)} is missing.", f"Falta {_named(path)}.")
        elif (places := path.read_text(encoding="utf-8").count(TO_WRITE)) > 0:
            yield say(
                f"{_named(path)} still says {TO_WRITE} in {places} places.",
                f"{_named(path)} ainda diz {TO_WRITE} em {places} lugares.",
            )


def _checks(lesson: Lesson) -> Iterator[str]:
    core = sum(check.core for check in lesson.checks)
    if not 1 <= core <= MOST_CORE:
        yield say(
            f"{lesson.name} has {core} core checks; 1 to {MOST_CORE} fit into a lesson.",
            f"{lesson.name} tem {core} verificações centrais; numa lição cabem de 1 a {MOST_CORE}.",
        )
    if not 1 <= lesson.minutes <= MOST_MINUTES:
        yield say(
            f"{lesson.name} takes {lesson.minutes} minutes; a lesson takes at most {MOST_MINUTES}.",
            f"{lesson.name} leva {lesson.minutes} minutos; uma lição leva no máximo {MOST_MINUTES}.",
        )
    cases = {check.case for check in lesson.checks}
    for scenario in library.scenarios(lesson.name):
        if scenario.name[3:] not in cases:
            declared = f"@lesson.scenario({scenario.name[3:]!r})"
            yield say(
                f"{_named(scenario.path)} has no check: {declared} in scripts/{lesson.name}.py.",
                f"{_named(scenario.path)} não tem verificação: {declared} em scripts/{lesson.name}.py.",
            )
        lines = scenario.path.read_text(encoding="utf-8").splitlines()
        english = sum(line.startswith("-- ") and not line.startswith("-- @") for line in lines)
        portuguese = sum(line.startswith("-- @pt ") for line in lines)
        if english != portuguese:
            yield say(
                f"{_named(scenario.path)} has {english} English lines for the reader and {portuguese} @pt lines.",
                f"{_named(scenario.path)} tem {english} linhas em inglês para quem lê e {portuguese} linhas @pt.",
            )
        if not library.golden_path(scenario).exists():
            golden = _named(library.golden_path(scenario))
            yield say(
                f"{golden} is missing: ./lab record {lesson.number}", f"Falta {golden}: ./lab record {lesson.number}"
            )


def _stale(lesson: Lesson) -> Iterator[str]:
    for path in generate.changes():
        about = path.suffix == ".md" or any(part.startswith(f"{lesson.number}_") for part in path.parts)
        if about:
            yield say(
                f"{_named(path)} is out of step: ./lab generate", f"{_named(path)} está desatualizado: ./lab generate"
            )
    text = paths.ROOT / "notebooks" / "py" / f"{lesson.name}.py"
    for language in build.LANGUAGES if text.exists() else ():
        if not build.is_in_step(text, language):
            notebook, command = _named(build.notebook_of(text, language)), f"make notebooks NB={lesson.number}"
            yield say(
                f"{notebook} is missing or out of step with its text: {command}",
                f"{notebook} não existe ou não acompanha o texto: {command}",
            )
    observed = paths.OBSERVED / f"{lesson.name}.csv"
    known = (
        set(re.findall(r"^(\d\d\.\w+),", observed.read_text(encoding="utf-8"), re.M)) if observed.exists() else set()
    )
    if missing := [check.id for check in lesson.checks if check.id not in known]:
        names = ", ".join(missing)
        yield say(
            f"{_named(observed)} says nothing of {names}: ./lab record {lesson.number}",
            f"{_named(observed)} não diz nada de {names}: ./lab record {lesson.number}",
        )


def _named(path: Path) -> str:
    return path.relative_to(paths.ROOT).as_posix()
