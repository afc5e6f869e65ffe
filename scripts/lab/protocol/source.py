"""The protocol's one source, sql/protocol/: each function and view once, and what is made from it.

A file of a function or a view begins with the text that holds today and its COMMENT, and ends with its history (lab.protocol.history),
from which the editions of the numbered scripts are written in place. tables.sql, types.sql and indexes.sql hold the rest.

Marks are comments of a line of their own. They say what an experiment takes out, and reach neither scripts nor readers:

    -- @audit                     the statement that begins below writes the audit
    -- @defence NAME              the line below is a part of that defence
    -- @defence NAME: SQL         … and this stands in its place where the defence is off

Sources are written for readers: the body of a function names tables, types and functions of the protocol without their schema. All
that is made of them names the schema (`qualified`), since a function that runs as its owner must not search a schema for what it calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches, unified_diff
from functools import cached_property
from pathlib import Path

from lab.base import paths, sql_text
from lab.base.errors import LabError
from lab.base.language import say
from lab.base.sql_text import Statement, statement_end, statements
from lab.protocol import history
from lab.protocol.history import Change, DoesNotFit, Line
from lab.server import schema
from lab.server.session import SCHEMA

# In the order of dependence: functions and views come after them.
STRUCTURE = ("types.sql", "tables.sql", "indexes.sql")
# The path a function is written with, and the one it gets: what is not of the server is named with its schema.
WRITTEN_PATH, PATH = f"SET search_path = {SCHEMA}, pg_temp", "SET search_path = pg_catalog, pg_temp"
OPENING, CLOSING = "\nAS $$", "\n$$"
MARK = re.compile(r"\s*-- @(?P<kind>audit|defence (?P<name>\w+)(: (?P<instead>.+))?)")


@dataclass(frozen=True)
class Source:
    """A function or a view.

    above: the text before its definition, with the comment that belongs to it; kind: FUNCTION or VIEW; newest: the definition from
    its kind on, since CREATE [OR REPLACE] is up to the script; below: the rest before the history; changes: the history.
    """

    path: Path
    name: str
    kind: str
    above: str
    newest: list[Line]
    below: str
    changes: list[Change]

    @cached_property
    def editions(self) -> dict[int, list[Line]]:
        """Its editions by their lessons, the newest first. Raises LabError naming file and hunk if one does not fit."""
        try:
            return history.editions(self.newest, self.changes)
        except DoesNotFit as error:
            shown = "\n".join([*error.hunk.context, *error.hunk.newer])
            file = f"sql/protocol/{self.path.name}"
            raise LabError(
                say(
                    f"{file}: these lines of a hunk of lesson {error.lesson:02} stand {error.times} times in the"
                    f" edition it belongs to, and should once. Change them in the hunk as you changed them above:\n{shown}",
                    f"{file}: estas linhas de um trecho da lição {error.lesson:02} aparecem {error.times} vezes na edição a que"
                    f" ele pertence, e deveriam aparecer uma. Mude-as no trecho como você as mudou acima:\n{shown}",
                )
            ) from None

    def edition(self, lesson: int) -> list[Line]:
        """The edition that holds after a lesson; no lines before the first."""
        return next((edition for since, edition in self.editions.items() if since <= lesson), [])

    @property
    def text(self) -> str:
        """What holds today, as a reader gets it: without marks and history."""
        return f"{self.above}{qualified(history.text(self.newest))}{self.below}"

    def written(self) -> str:
        """The file."""
        marked = [part for line in self.newest for part in (*line.marks, line.text)]
        return "".join([self.above, "\n".join(marked), self.below, "\n", history.written(self.changes)])

    def statement(self, lesson: int) -> str:
        """The statement that creates the edition of a lesson."""
        return _create(line.text for line in self.edition(lesson))

    def without(self, mark: str, lesson: int) -> str | None:
        """The statement that creates the edition of a lesson with what is so marked taken out; None if nothing is."""
        edition = self.edition(lesson)
        kept: list[str] = []
        number = 0
        while number < len(edition):
            taken = next(
                (found for each in edition[number].marks if (found := _marks(each)) and found[0] == mark), None
            )
            if taken is None:
                kept.append(edition[number].text)
                number += 1
            elif mark == "audit":
                number = statement_end([line.text for line in edition], number)
            else:
                kept += [taken[1]] if taken[1] else []
                number += 1
        return None if len(kept) == len(edition) and kept == [line.text for line in edition] else _create(kept)


# -- reading


def sources() -> list[Source]:
    """All functions, then all views, by name. Raises LabError naming file and line of what cannot be read."""
    found = [_read(path) for path in sorted(paths.PROTOCOL.glob("*.sql")) if path.name not in STRUCTURE]
    return sorted(found, key=lambda source: source.kind)


def find(name: str) -> Source:
    """A function or view by its name. Raises LabError with what there is."""
    known = {source.name: source for source in sources()}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    guess = say(f" Did you mean {near[0]}?", f" Você quis dizer {near[0]}?") if near else ""
    there_is = ", ".join(sorted(known))
    raise LabError(
        say(
            f"The protocol has no function or view {name}.{guess} There is: {there_is}.",
            f"O protocolo não tem função nem visão {name}.{guess} Há: {there_is}.",
        )
    )


def whole() -> str:
    """The whole protocol, as one text that makes it in an empty schema: structure, functions, views, each with its comment."""
    structure = [(paths.PROTOCOL / name).read_text(encoding="utf-8") for name in STRUCTURE]
    return "\n".join([*structure, *(source.text for source in sources())])


def without(mark: str, lesson: int) -> list[str]:
    """The statements that take out of the schema what is so marked: "audit", or "defence NAME".

    Parameters: mark; lesson, whose editions they are. Raises LabError if nothing is marked so.
    """
    found = [statement for source in sources() if (statement := source.without(mark, lesson))]
    if not found:
        raise LabError(
            say(
                f"Nothing is marked `-- @{mark}` in the editions of lesson {lesson:02} in sql/protocol/.",
                f"Nada está marcado com `-- @{mark}` nas edições da lição {lesson:02} em sql/protocol/.",
            )
        )
    return found


def defences() -> list[str]:
    """The names of the defences that lines of the protocol are marked with."""
    named = [_marks(mark) for source in sources() for line in source.newest for mark in line.marks]
    return sorted({found[0].removeprefix("defence ") for found in named if found and found[0] != "audit"})


def _read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    before, head, after = text.partition("\n-- History, ")
    made = [found for statement in statements(before) if (found := statement.definition)]
    if len(made) != 1 or made[0].kind not in ("FUNCTION", "VIEW") or made[0].name != path.stem:
        raise LabError(
            say(
                f"sql/protocol/{path.name} must create one function or view, and that must be named {path.stem}.",
                f"sql/protocol/{path.name} tem de criar uma função ou visão, e ela tem de se chamar {path.stem}.",
            )
        )
    (definition,) = made
    end = next(statement.end for statement in statements(before) if statement.definition)
    try:
        changes = list(history.read(f"{head}{after}".splitlines()[1:]))
    except ValueError as error:
        number = before.count("\n") + 2 + int(str(error))
        line = say("this line is no part of a history.", "esta linha não faz parte de um histórico.")
        raise LabError(f"sql/protocol/{path.name}:{number}: {line}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        said = line[4:] if number > before.count("\n") + 1 else line
        if history.is_mark(said) and not _marks(said):
            wrong = say(f"there is no such mark: {said.strip()}", f"esta marca não existe: {said.strip()}")
            raise LabError(f"sql/protocol/{path.name}:{number}: {wrong}")
    newest = history.lines(before[definition.start : end])
    below = f"{before[end:].rstrip()}\n"
    return Source(path, path.stem, definition.kind, before[: definition.start], newest, below, changes)


def _marks(line: str) -> tuple[str, str] | None:
    """What a mark names, and the line that stands in the place of the one below, indented as it is."""
    if not (found := MARK.fullmatch(line)):
        return None
    indent = line[: len(line) - len(line.lstrip())]
    return found["kind"].partition(":")[0], f"{indent}{found['instead']}" if found["instead"] else ""


def _create(lines: Iterable[str]) -> str:
    return "CREATE OR REPLACE " + qualified("\n".join(lines))


# -- names and their schema


def qualified(definition: str) -> str:
    """A definition as it is made: a function finds only the server's own without a schema, whatever is created in whichever schema.

    An overload made by a role that may create in the protocol's schema would otherwise be found before a function of the server:
    an exact match is preferred to cardinality(anyarray). A view is parsed once and has its schema written out.
    """
    head, opening, rest = definition.partition(OPENING)
    body, closing, end = rest.rpartition(CLOSING)
    if not opening:
        return definition
    return f"{head.replace(WRITTEN_PATH, PATH)}{opening}{sql_text.qualified(body, _own(), SCHEMA)}{closing}{end}"


def plain(definition: str) -> str:
    """The definition as a source has it: what `qualified` wrote taken back."""
    head, opening, rest = definition.partition(OPENING)
    return f"{head.replace(PATH, WRITTEN_PATH)}{opening}{rest.replace(f'{SCHEMA}.', '')}" if opening else definition


def _own() -> frozenset[str]:
    """The names of what the protocol is made of."""
    structure = [(paths.PROTOCOL / name).read_text(encoding="utf-8") for name in STRUCTURE]
    made = [found.name for text in structure for statement in statements(text) if (found := statement.definition)]
    return frozenset([*made, *(path.stem for path in paths.PROTOCOL.glob("*.sql") if path.name not in STRUCTURE)])


# -- the numbered scripts


@dataclass(frozen=True)
class _Script:
    """A numbered script that upgrades the schema, and the statements in it that define a function or a view."""

    path: Path
    text: str
    defined: Mapping[str, Statement]

    @property
    def lesson(self) -> int:
        return int(self.path.name[:2])

    def edition(self, name: str) -> str:
        statement = self.defined[name]
        assert statement.definition is not None
        return plain(self.text[statement.definition.start : statement.end])

    def with_editions(self, known: Mapping[str, Source]) -> str:
        """The script with each definition as the source has it."""
        text = self.text
        for name, statement in reversed(list(self.defined.items())):
            assert statement.definition is not None
            text = (
                text[: statement.definition.start]
                + qualified(history.text(known[name].editions[self.lesson]))
                + text[statement.end :]
            )
        return text


def texts(lesson: int | None = None) -> dict[Path, str]:
    """The numbered scripts with every definition written from its source, and the sources with the history of what changed.

    A script takes part in a function's history by a statement that creates it. For a new edition its beginning is enough
    (`CREATE OR REPLACE FUNCTION sql_semana_12.name;`): what the source changed is then added to the history as that lesson's. Any
    other change of a source changes the lines in every edition that has them.

    Parameter: lesson, whose editions are being written: what it changes is found anew, and earlier editions stay.
    Returns the files with their texts. Raises LabError if sources and scripts do not belong together.
    """
    scripts = [_script(path) for path in schema.upgrades()]
    known = {source.name: source for source in sources()}
    for script in scripts:
        for name in script.defined.keys() - known.keys():
            file = script.path.name
            raise LabError(
                say(
                    f"sql/{file} defines {name}, and there is no sql/protocol/{name}.sql.",
                    f"sql/{file} define {name}, e não existe sql/protocol/{name}.sql.",
                )
            )
    known = {name: _up_to_date(source, scripts, lesson) for name, source in known.items()}
    made = {source.path: source.written() for source in known.values()}
    return made | {script.path: script.with_editions(known) for script in scripts}


def check() -> list[Path]:
    """The files that `write_scripts` would write: none if sources and scripts are in step. Raises LabError as `texts` does."""
    return list(_changed(None))


def write_scripts(lesson: int | None = None) -> list[Path]:
    """Write what is out of step; returns those files. Parameter and errors are those of `texts`."""
    changed = _changed(lesson)
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return list(changed)


def _changed(lesson: int | None) -> dict[Path, str]:
    return {path: text for path, text in texts(lesson).items() if path.read_text(encoding="utf-8") != text}


def _script(path: Path) -> _Script:
    text = path.read_text(encoding="utf-8")
    made = ((statement, statement.definition) for statement in statements(text))
    return _Script(path, text, {of.name: each for each, of in made if of and of.kind in ("FUNCTION", "VIEW")})


def _up_to_date(source: Source, scripts: list[_Script], lesson: int | None) -> Source:
    """The source with the history that its newest edition and the scripts make of it."""
    by_lesson = {
        script.lesson: script.edition(source.name) for script in reversed(scripts) if source.name in script.defined
    }
    changes = [change for change in source.changes if change.lesson != lesson or lesson != max(by_lesson, default=None)]
    told, here = [change.lesson for change in changes], list(by_lesson)
    now = history.text(source.newest)
    if here and here == told:
        return replace(source, changes=_fitting(source, by_lesson[told[0]], now))
    if here and here[1:] == told:
        brought = Change(here[0], history.hunks(by_lesson[told[0]], now) if told else ())
        return replace(source, changes=[brought, *changes])
    none = say("none", "nenhuma")
    listed = [", ".join(f"{each:02}" for each in each_list) or none for each_list in (here, told)]
    raise LabError(
        say(
            f"sql/protocol/{source.path.name} and the numbered scripts do not belong together: lessons whose script creates"
            f" {source.name}: {listed[0]}; lessons in its history: {listed[1]}.",
            f"sql/protocol/{source.path.name} e os scripts numerados não combinam: lições cujo script cria {source.name}:"
            f" {listed[0]}; lições no histórico: {listed[1]}.",
        )
    )


def _fitting(source: Source, before: str, now: str) -> list[Change]:
    """The history as it is, if it fits; else as it was told of the edition before the source was changed, which the script still has."""
    try:
        history.editions(source.newest, source.changes)
    except DoesNotFit:
        try:
            return history.carried(before, source.changes, now)
        except DoesNotFit:
            assert source.editions  # says which hunk
    return source.changes


# -- what lessons changed


def difference(name: str, since: str, until: str) -> str:
    """What the lessons after `since` up to `until` changed in a function or view, as a unified diff; empty if nothing.

    Parameters: name; since and until, numbers of lessons as they are written ("06"). Before its first lesson it has no lines.
    Raises LabError with what there is for a name or a number that does not exist.
    """
    source = find(name)
    first, last = _lesson(source, since), _lesson(source, until)
    if first >= last:
        raise LabError(
            say(
                f"Lesson {since} does not come before {until}: name the earlier one first, as in {name} {min(source.editions):02} {until}.",
                f"A lição {since} não vem antes da {until}: indique primeiro a anterior.",
            )
        )
    older, newer = ([line.text for line in source.edition(lesson)] for lesson in (first, last))
    titles = [say(f"{name} after lesson {each:02}", f"{name} após a lição {each:02}") for each in (first, last)]
    return "\n".join(unified_diff(older, newer, titles[0], titles[1], lineterm=""))


def _lesson(source: Source, word: str) -> int:
    lessons = [int(path.name[:2]) for path in schema.numbered_scripts()]
    if word.isdecimal() and int(word) in lessons:
        return int(word)
    told = ", ".join(f"{lesson:02}" for lesson in sorted(source.editions))
    all_of_them = f"{lessons[0]:02}–{lessons[-1]:02}"
    raise LabError(
        say(
            f"No lesson {word} has a script of its own (there is {all_of_them}). {source.name} was written in: {told}.",
            f"Nenhuma lição {word} tem script próprio (há {all_of_them}). {source.name} foi escrita em: {told}.",
        )
    )
