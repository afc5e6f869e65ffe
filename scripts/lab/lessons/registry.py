"""Which lessons there are, scripts/NN_name.py, and what the names on the pages stand for. A lesson is loaded when it is asked for."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons.lesson import Check, Lesson
from lab.scenario import grammar, library
from lab.scenario.grammar import Scenario


@dataclass(frozen=True)
class Chosen:
    """A lesson, and which of its checks were asked for."""

    lesson: Lesson
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Told:
    """A scenario, the check that judges its play, and their lesson."""

    lesson: Lesson
    check: Check
    scenario: Scenario


def names() -> list[str]:
    """The names of all lessons, NN_name, in the order of their numbers; nothing is loaded for it."""
    return [path.stem for path in _files()]


def lessons() -> list[Lesson]:
    """All lessons, in the order of their numbers."""
    return [_load(path) for path in _files()]


def find(word: str) -> Lesson:
    """The one lesson named as `02`, `2` or `02_for_update_waits`. Raises LabError, with what there is, if there is none."""
    found = _lessons_named(word)
    if len(found) != 1:
        raise _unknown(word)
    return found[0]


def choose(words: Sequence[str], surprises: bool = False) -> list[Chosen]:
    """What the words name, in the order of the words; all lessons without any.

    A word names a lesson (`02`, `2`, `02_for_update_waits`), several (`01-04`), or a check of one (`06.truth_table`, `03_passes`).
    Of a lesson the core checks are chosen, and with `surprises` all.
    Raises LabError, with the nearest name, for one that does not exist.
    """
    chosen: dict[str, dict[str, Check]] = {}
    for word in words or names():
        named = [check for lesson in _lessons_named(word) for check in lesson.checks if check.core or surprises]
        for check in named or [find_check(word)]:
            chosen.setdefault(check.id[:2], {})[check.id] = check
    return [Chosen(find(number), tuple(checks.values())) for number, checks in chosen.items()]


def told(words: Sequence[str], surprises: bool = False) -> list[Told]:
    """The scenarios that the words name: one by its name, or those of a lesson in the order in which it tells them.

    Raises LabError for a word that names nothing, or only checks that are measured and not played.
    """
    found: list[Told] = []
    for word in words:
        checks = [(each.lesson, check) for each in choose([word], surprises) for check in each.checks]
        files = [(lesson, check, library.scenario_path(lesson.name, check.case)) for lesson, check in checks]
        played = [Told(lesson, check, grammar.read(file)) for lesson, check, file in files if file.exists()]
        if not played:
            raise LabError(
                say(
                    f"{word} is measured, not played: ./lab run {word}",
                    f"{word} é medição, não cenário: ./lab run {word}",
                )
            )
        found += played
    return found


def find_check(word: str) -> Check:
    """The check called NN.case, or NN_case as its scenario is. Raises LabError, with the nearest name, if there is none."""
    if word[:2] in {name[:2] for name in names()} and word[2:3] in (".", "_"):
        for check in find(word[:2]).checks:
            if check.case == word[3:]:
                return check
    raise _unknown(word)


def _files() -> list[Path]:
    return sorted((paths.ROOT / "scripts").glob("[0-9][0-9]_*.py"))


def _lessons_named(word: str) -> list[Lesson]:
    """The lessons that the word names; none if it names something else."""
    by_number = {int(path.name[:2]): path for path in _files()}
    if word in names():
        return [_load(by_number[int(word[:2])])]
    numbers = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", word)
    if not numbers:
        return []
    meant = range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)
    if not meant or any(number not in by_number for number in meant):
        raise _unknown(word)
    return [_load(by_number[number]) for number in meant]


def _unknown(word: str) -> LabError:
    checks = [check.id for lesson in lessons() for check in lesson.checks]
    spelled = {name: name for name in [*names(), *checks]} | {check.replace(".", "_"): check for check in checks}
    if near := difflib.get_close_matches(word, spelled, n=1):
        return LabError(
            say(f"There is no {word}. Did you mean {near[0]}?", f"Não existe {word}. Você quis dizer {near[0]}?")
        )
    there = ", ".join(names())
    return LabError(
        say(
            f"There is no lesson or check {word}; the lessons are {there}.",
            f"Não há lição nem verificação {word}; as lições são {there}.",
        )
    )


def _load(path: Path) -> Lesson:
    # A module whose name begins with a digit cannot be imported by an import statement.
    name = f"lesson_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    lesson = sys.modules[name].lesson
    assert isinstance(lesson, Lesson)
    return lesson
