"""How a text came to be what it is, lesson by lesson: hunks that lead from an edition to the one before it.

A history stands in comments below the newest edition, the newest lesson first:

    -- @lesson 09            what follows is what lesson 09 changed; the oldest lesson brought the text and has nothing below
    -- @@                    a hunk
    --  AS $$                lines of both editions, only as many as tell the place from every other
    -- -    took away
    -- +    brought

A hunk has no line numbers: its lines of the newer edition stand there exactly once, wherever that is. A line that a lesson took away
may have its marks (lab.protocol.source) above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

HEAD = """\
-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
"""
LESSON, HUNK = "-- @lesson ", "-- @@"


@dataclass(frozen=True)
class Line:
    """A line of an edition, the same as another if its text is; `marks` stand above it, `number` is its place in the newest edition."""

    text: str
    marks: tuple[str, ...] = field(default=(), compare=False)
    number: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Hunk:
    """A place that changed: the lines before it that tell where, what the older edition had there, what the newer has."""

    context: tuple[str, ...]
    older: tuple[str, ...]
    newer: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What a lesson changed; nothing, if the text came with it."""

    lesson: int
    hunks: tuple[Hunk, ...] = ()


class DoesNotFit(Exception):
    """A hunk whose lines do not stand exactly once in the edition it is to be taken back from."""

    def __init__(self, lesson: int, hunk: Hunk, times: int) -> None:
        super().__init__()
        self.lesson, self.hunk, self.times = lesson, hunk, times


def is_mark(line: str) -> bool:
    """Whether the line is a mark: no part of an edition, but said of the line below it."""
    return line.lstrip().startswith("-- @")


def lines(text: str) -> list[Line]:
    """The lines of a newest edition, numbered."""
    return [replace(line, number=number) for number, line in enumerate(_folded(text.splitlines()))]


def text(edition: Sequence[Line]) -> str:
    """An edition's text, without the last line's end."""
    return "\n".join(line.text for line in edition)


def hunks(older: str, newer: str) -> tuple[Hunk, ...]:
    """What leads from one edition to the next."""
    before, after = older.splitlines(), newer.splitlines()
    found = []
    for tag, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            reach = next(reach for reach in range(start + 1) if len(_places(after, after[start - reach : end])) == 1)
            found.append(Hunk(tuple(after[start - reach : start]), tuple(before[first:last]), tuple(after[start:end])))
    return tuple(found)


def editions(newest: list[Line], changes: Sequence[Change]) -> dict[int, list[Line]]:
    """Every edition by its lesson, newest first. Raises DoesNotFit."""
    found = {}
    edition = newest
    for change in changes:
        found[change.lesson] = edition
        edition = _taken_back(edition, change)
    return found


def carried(before: str, changes: Sequence[Change], now: str) -> list[Change]:
    """The history as it is once the newest edition was changed for all lessons alike: a line that changed does so wherever it stands.

    A new line comes into every edition that has the line above it. Raises DoesNotFit if it is not the history of `before`.
    """
    old = editions(lines(before), changes)
    became = _became(before.splitlines(), now.splitlines())
    new = [
        "\n".join(each for line in edition for each in ([line.text] if line.number is None else became[line.number]))
        for edition in old.values()
    ]
    lessons = list(old)
    return [
        *(Change(lesson, hunks(older, newer)) for lesson, newer, older in zip(lessons, new, new[1:], strict=False)),
        Change(lessons[-1]),
    ]


def read(comments: Sequence[str]) -> Iterator[Change]:
    """The history that stands in these lines. Raises ValueError with the number of a line that says nothing here."""
    lesson, found = None, list[tuple[list[str], list[str], list[str]]]()
    for number, line in enumerate(comments):
        if line.startswith(LESSON) and line.removeprefix(LESSON).isdecimal():
            if lesson is not None:
                yield _change(lesson, found)
            lesson, found = int(line.removeprefix(LESSON)), []
        elif line == HUNK and lesson is not None:
            found.append(([], [], []))
        elif found and (line == "--" or line.startswith("-- ")) and line[3:4] in " -+":
            found[-1][" -+".index(line[3])].append(line[4:])
        elif lesson is not None or not line.startswith("--"):
            raise ValueError(number)
    if lesson is not None:
        yield _change(lesson, found)


def written(changes: Sequence[Change]) -> str:
    """The history as it stands in a file."""
    said = [HEAD.rstrip()]
    for change in changes:
        said.append(f"{LESSON}{change.lesson:02}")
        for hunk in change.hunks:
            said.append(HUNK)
            for sign, part in ((" ", hunk.context), ("-", hunk.older), ("+", hunk.newer)):
                said += [f"-- {sign}{line}".rstrip() for line in part]
    return "\n".join(said) + "\n"


def _change(lesson: int, found: list[tuple[list[str], list[str], list[str]]]) -> Change:
    return Change(lesson, tuple(Hunk(*map(tuple, parts)) for parts in found))


def _taken_back(edition: list[Line], change: Change) -> list[Line]:
    texts = [line.text for line in edition]
    places = []
    for hunk in change.hunks:
        found = _places(texts, [*hunk.context, *hunk.newer])
        if len(found) != 1:
            raise DoesNotFit(change.lesson, hunk, len(found))
        places.append(found[0] + len(hunk.context))
    older = list(edition)
    for place, hunk in sorted(zip(places, change.hunks, strict=True), key=lambda each: each[0], reverse=True):
        older[place : place + len(hunk.newer)] = _folded(hunk.older)
    return older


def _folded(texts: Iterable[str]) -> list[Line]:
    """Lines, those that are marks put to the line below them."""
    found: list[Line] = []
    marks: list[str] = []
    for line in texts:
        if is_mark(line):
            marks.append(line)
        else:
            found.append(Line(line, tuple(marks)))
            marks = []
    return found


def _places(texts: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where these lines stand, one after the other; nowhere if there are none."""
    if not wanted:
        return []
    return [
        place
        for place in range(len(texts) - len(wanted) + 1)
        if list(texts[place : place + len(wanted)]) == list(wanted)
    ]


def _became(before: list[str], now: list[str]) -> list[list[str]]:
    """What stands now for each line of before: itself, another, several, nothing."""
    found: list[list[str]] = [[line] for line in before]
    for tag, first, last, start, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if tag == "insert":
            place = max(first - 1, 0)
            found[place] = [*now[start:end], *found[place]] if first == 0 else [*found[place], *now[start:end]]
        elif tag != "equal":
            for number in range(first, last):
                found[number] = now[start + number - first : start + number - first + 1]
            found[last - 1] = now[min(start + last - 1 - first, end) : end]
    return found
