"""What the numbered scripts of sql/ leave in the schema once all of them have run: each object with the statement that makes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lab.base.errors import LabError
from lab.server import schema
from lab.server.session import SCHEMA

STATE = 10

# What a script holds besides the protocol: the episode's documents, what is done to a queue that is there already, and looks at it.
NOT_THE_PROTOCOL = r"(SET|BEGIN|COMMIT|DO|INSERT|UPDATE|SELECT|DROP FUNCTION|DROP TYPE|DROP VIEW|REVOKE|(CREATE|DROP|COMMENT ON) SCHEMA)\b"
PIECES = re.compile(
    r"--[^\n]*|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<dollar>\$\w*\$).*?(?P=dollar)|^\\[^\n]*|[(),;]|[^\s]",
    re.DOTALL | re.MULTILINE,
)


@dataclass
class Table:
    """A table: its columns and named constraints, each as it is defined after the last script."""

    parts: dict[str, str]

    def definition(self) -> list[str]:
        """The columns, then the constraints."""
        return sorted(self.parts.values(), key=lambda part: part.startswith(("UNIQUE", "CONSTRAINT")))

    def change(self, action: str) -> None:
        """Apply one action of ALTER TABLE. Raises LabError for one that is not known here."""
        if added := re.fullmatch(r"ADD COLUMN IF NOT EXISTS (\w+) (.*)", action, re.DOTALL):
            self.parts.setdefault(added[1], f"{added[1]} {added[2]}")
        elif filled := re.fullmatch(r"ALTER COLUMN (\w+) SET NOT NULL", action):
            self.parts[filled[1]] += " NOT NULL"
        elif dropped := re.fullmatch(r"DROP CONSTRAINT IF EXISTS (\w+)", action):
            self.parts.pop(dropped[1], None)
            for name, part in self.parts.items():
                if dropped[1].endswith(f"_{name}_check"):  # as PostgreSQL calls the one that stands at a column
                    self.parts[name] = re.sub(r"\s*CHECK \(.*\)$", "", part, flags=re.DOTALL)
        elif added := re.fullmatch(r"ADD CONSTRAINT (\w+)\s+(.*)", action, re.DOTALL):
            self.parts[added[1]] = f"CONSTRAINT {added[1]} {added[2]}"
        else:
            raise _unknown(action)


@dataclass
class Objects:
    """The objects of the schema after the last script: name to the statement that makes it, in the order of dependence."""

    tables: dict[str, Table] = field(default_factory=dict)
    others: dict[tuple[str, str], str] = field(default_factory=dict)  # (kind, name)
    comments: dict[str, str] = field(default_factory=dict)

    def take(self, comment: str, statement: str) -> None:
        """Take in the next statement of a script. Raises LabError for one that is not known here."""
        qualified = rf"{SCHEMA}\.(\w+)"
        if made := re.match(rf"CREATE TABLE (?:IF NOT EXISTS )?{qualified} \((.*)\)$", statement, re.DOTALL):
            parts = [_plain(part) for part in _split(made[2], ",")]
            self.tables[made[1]] = Table({_key(part): part for part in parts})
        elif changed := re.match(rf"ALTER TABLE {qualified}\s+(.*)$", statement, re.DOTALL):
            for action in _split(changed[2], ","):
                self.tables[changed[1]].change(_plain(action))
        elif made := re.match(
            rf"CREATE (?:OR REPLACE )?(INDEX|SEQUENCE|TYPE|VIEW|FUNCTION) (?:IF NOT EXISTS )?(?:{SCHEMA}\.)?(\w+)",
            statement,
        ):
            before = self.others.pop((made[1], made[2]), "")
            kept = comment or "".join(re.findall(r"\A(?:--[^\n]*\n)*", before))
            self.others[made[1], made[2]] = kept + statement
        elif dropped := re.match(rf"DROP INDEX IF EXISTS {qualified}$", statement):
            self.others.pop(("INDEX", dropped[1]), None)
        elif told := re.match(rf"COMMENT ON ((?:TABLE|COLUMN|FUNCTION|VIEW|TYPE) {SCHEMA}\.[\w.]+) IS", statement):
            self.comments[told[1]] = statement
        elif not re.match(NOT_THE_PROTOCOL, statement):
            raise _unknown(statement)

    def of(self, kind: str) -> list[str]:
        return [name for each, name in self.others if each == kind]


def after_all_scripts() -> Objects:
    """The objects that the scripts of sql/ make, without the lab's clock. Raises LabError for a statement that is not known here."""
    found = Objects()
    for script in schema.scripts_for(STATE):
        if not re.match(r"\d\d_", script.name):
            continue  # the lab's clock
        for comment, statement in statements(script.read_text(encoding="utf-8")):
            found.take(comment, statement)
    return found


def statements(text: str) -> list[tuple[str, str]]:
    """The statements of a script, each with the comment right above it; psql's own lines are left out."""
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("\\")]
    found = []
    for part in _split("".join(lines), ";"):
        # A comment belongs to the statement only if no empty line parts them.
        whole = re.match(r"(?P<above>(?:\s*--[^\n]*\n)*)\s*(?P<statement>.*)", part, re.DOTALL)
        assert whole is not None
        comment = re.search(r"((?:--[^\n]*\n)*)\Z", whole["above"])
        assert comment is not None
        if whole["statement"]:
            found.append((comment[1], whole["statement"].rstrip()))
    return found


def _split(text: str, separator: str) -> list[str]:
    """The text split at a separator outside comments, quotes and brackets."""
    parts, start, depth = [], 0, 0
    for piece in PIECES.finditer(text):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if piece[0] == separator and depth == 0:
            parts.append(text[start : piece.start()])
            start = piece.end()
    return [part for part in [*parts, text[start:]] if part.strip()]


def _plain(part: str) -> str:
    """A part of a table's definition, indented as in CREATE TABLE."""
    return re.sub(r"--[^\n]*\n", "", part).strip().replace("\n", "\n    ")


def _key(part: str) -> str:
    return part if part.startswith(("UNIQUE", "CHECK", "PRIMARY")) else part.split()[0]


def _unknown(statement: str) -> LabError:
    first = statement.splitlines()[0]
    return LabError(f"lab.protocol.objects does not know what to make of {first!r} in sql/: mend it there.")
