"""Which lessons there are: scripts/NN_name.py, each loaded when it is asked for."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons.lesson import Lesson


def lessons() -> list[Lesson]:
    """All lessons, in the order of their numbers."""
    return [_load(path) for path in sorted((paths.ROOT / "scripts").glob("[0-9][0-9]_*.py"))]


def choose(wanted: Sequence[str]) -> list[Lesson]:
    """The lessons named as `02`, `2`, `02_for_update_waits` or `01-04`; all if none is named.

    Raises LabError, with what there is, for one that does not exist.
    """
    known = lessons()
    if not wanted:
        return known
    by_number = {int(lesson.number): lesson for lesson in known}
    by_name = {lesson.name: int(lesson.number) for lesson in known}
    numbers: list[int] = []
    for word in wanted:
        if word in by_name:
            numbers.append(by_name[word])
            continue
        named = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", word)
        meant = range(int(named[1]), int(named[2] or named[1]) + 1) if named else ()
        if not meant or any(number not in by_number for number in meant):
            raise LabError(
                say(
                    f"There is no lesson {word}; there are {_names(known)}.",
                    f"Não há lição {word}; há {_names(known)}.",
                )
            )
        numbers += meant
    return [by_number[number] for number in dict.fromkeys(numbers)]


def _names(known: Sequence[Lesson]) -> str:
    return ", ".join(lesson.name for lesson in known)


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
