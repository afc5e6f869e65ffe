"""The protocol to take home: one file that installs it in any database, made from the numbered scripts of sql/."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab import paths, schema
from lab.errors import LabError
from lab.language import say
from lab.session import SCHEMA

STATE = 10
SCHEMAS = {
    "pt": "fila",
    "en": "queue",
}  # where it is installed, by the language of the names, unless another name is given
ROLES = paths.SQL / "roles.sql"
ALERTS = paths.SQL / "alerts.sql"

# What a script holds besides the protocol: the episode's documents, what is done to a queue that is there already, and looks at it.
NOT_THE_PROTOCOL = r"(SET|BEGIN|COMMIT|DO|INSERT|UPDATE|SELECT|DROP FUNCTION|DROP TYPE|DROP VIEW|REVOKE|(CREATE|DROP|COMMENT ON) SCHEMA)\b"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
TOKEN = re.compile(r"\b([pv]_)?([A-Za-z]\w*)\b")
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
        elif dropped := re.fullmatch(r"DROP CONSTRAINT IF EXISTS \w+?_documentos_(\w+)_check", action):
            self.parts[dropped[1]] = re.sub(r"\s*CHECK \(.*\)$", "", self.parts[dropped[1]], flags=re.DOTALL)
        elif added := re.fullmatch(r"ADD CONSTRAINT (\w+)\s+(CHECK \(.*\))", action, re.DOTALL):
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


def protocol(names: str, schema_name: str, roles: Mapping[str, Sequence[str]]) -> str:
    """The file that installs the protocol.

    Parameters: names, "pt" or "en", the language of the names in the database; schema_name, where it is installed; roles, which
    of the server's roles are to be worker, reader, operator and application.
    Raises LabError for a schema's name that cannot be written without quotes or is the lab's own, and for a script of sql/ that
    holds a statement this module does not know.
    """
    if not NAME.fullmatch(schema_name) or schema_name.startswith("pg_") or schema_name == SCHEMA:
        raise LabError(
            say(
                f"{schema_name} cannot be the schema: it must be a plain lower-case name, and not the lab's own.",
                f"{schema_name} não serve de esquema: precisa ser um nome simples em minúsculas, e não o do laboratório.",
            )
        )
    objects = _objects()
    parts = [
        _header(names, schema_name),
        "BEGIN;\n\nSET LOCAL client_min_messages = warning;",
        _create_schema(),
        *_create(objects),
        *objects.comments.values(),
        *_grants(objects, roles),
        "COMMIT;",
        _set_apart("Alerts", "--?", _alerts()),
        _set_apart("Uninstall", "---", _uninstall(objects, roles)),
    ]
    text = "\n\n".join(part if part.endswith((";", "\n")) or part.startswith("--") else f"{part};" for part in parts)
    return _translated(re.sub(r" \(lesson \d\d\)", "", text).rstrip() + "\n", names).replace(SCHEMA, schema_name)


def section(text: str, mark: str) -> str:
    """A section set apart at the end of the file, as it is run: the one whose lines begin with this mark, --? or ---."""
    return "".join(f"{line[4:]}\n" for line in text.splitlines() if line.startswith(f"{mark} "))


def glossary() -> dict[str, str]:
    """The names in the database, Portuguese to English."""
    with (paths.DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        return {row["pt"]: row["en"] for row in csv.DictReader(file)}


def _objects() -> Objects:
    objects = Objects()
    for script in schema.scripts_for(STATE):
        if not re.match(r"\d\d_", script.name):
            continue  # the lab's clock
        for comment, statement in _statements(script.read_text(encoding="utf-8")):
            objects.take(comment, statement)
    return objects


def _statements(text: str) -> list[tuple[str, str]]:
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


def _create_schema() -> str:
    return f"""\
DO $schema$
BEGIN
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
    END IF;
END
$schema$;"""


def _create(objects: Objects) -> list[str]:
    tables = [
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{name} (\n    " + ",\n    ".join(table.definition()) + "\n);"
        for name, table in objects.tables.items()
    ]
    first = ("INDEX", "SEQUENCE")
    made = [
        f"{_again(kind, name)}{_if_absent(text)};" for (kind, name), text in objects.others.items() if kind in first
    ]
    return [
        *tables,
        *made,
        *(f"{_again(kind, name)}{text};" for (kind, name), text in objects.others.items() if kind not in first),
    ]


def _again(kind: str, name: str) -> str:
    """What makes room for an object when the file is run once more."""
    if kind in ("TYPE", "VIEW"):
        return f"DROP {kind} IF EXISTS {SCHEMA}.{name}{' CASCADE' if kind == 'TYPE' else ''};\n"
    return ""


def _if_absent(statement: str) -> str:
    return re.sub(r"CREATE (INDEX|SEQUENCE) (?!IF NOT)", r"CREATE \1 IF NOT EXISTS ", statement)


def _grants(objects: Objects, roles: Mapping[str, Sequence[str]]) -> list[str]:
    """What is taken from everyone and given to the roles, as the lab's own roles have it."""
    functions = ",\n    ".join(f"{SCHEMA}.{name}" for name in objects.of("FUNCTION"))
    statements = [
        f"-- Functions are executable by everyone until that is revoked.\nREVOKE ALL ON FUNCTION\n    {functions}\nFROM public;"
    ]
    given = re.findall(
        rf"GRANT ((?:EXECUTE|SELECT) ON\s[^;]*?)\s+TO {SCHEMA}_(\w+);", ROLES.read_text(encoding="utf-8")
    )
    for kind, chosen in roles.items():
        for role in chosen:
            quoted = _quoted(role)
            statements.append(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {quoted};")
            statements += [f"GRANT {' '.join(right.split())} TO {quoted};" for right, to in given if to == kind]
    return statements


def _alerts() -> str:
    return "\n\n".join(
        f"{comment}{statement};"
        for comment, statement in _statements(ALERTS.read_text(encoding="utf-8"))
        if statement.startswith("SELECT")
    )


def _uninstall(objects: Objects, roles: Mapping[str, Sequence[str]]) -> str:
    functions = ",\n    ".join(f"{SCHEMA}.{name}" for name in objects.of("FUNCTION"))
    lines = [
        "BEGIN;",
        *(f"DROP VIEW IF EXISTS {SCHEMA}.{name};" for name in objects.of("VIEW")),
        f"DROP FUNCTION IF EXISTS\n    {functions};",
        *(f"DROP TYPE IF EXISTS {SCHEMA}.{name};" for name in objects.of("TYPE")),
        *(f"DROP TABLE IF EXISTS {SCHEMA}.{name};" for name in objects.tables),
        *(f"DROP SEQUENCE IF EXISTS {SCHEMA}.{name};" for name in objects.of("SEQUENCE")),
        *(f"REVOKE ALL ON SCHEMA {SCHEMA} FROM {_quoted(role)};" for chosen in roles.values() for role in chosen),
        f"""\
DO $schema$
BEGIN
    DROP SCHEMA {SCHEMA};
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
    RAISE NOTICE 'schema {SCHEMA} stays: it holds something else, or is not yours';
END
$schema$;""",
        "COMMIT;",
    ]
    return "\n".join(lines)


def _set_apart(title: str, mark: str, text: str) -> str:
    """A section that the installation passes over: comments, from which one command makes statements again."""
    lines = [f"{mark} {line}".rstrip() for line in text.splitlines()]
    return "\n".join([f"-- {title}: sed -n 's/^{mark} //p' protocol.sql | psql -X", *lines]) + "\n"


def _header(names: str, schema_name: str) -> str:
    return f"""\
-- A queue of documents in PostgreSQL 14 or later: claims with a lease and a token, retries, stages of outside calls, an audit.
-- Names: {names}. Schema: {schema_name}. Whoever installs it owns it, and needs no more than CREATE on the database.
--
-- Install    psql -X -v ON_ERROR_STOP=1 -f protocol.sql     (again whenever you like: what is there stays)
-- Alerts     the lines that begin with --? at the end: three queries; zero rows mean that all is well
-- Uninstall  the lines that begin with --- at the end; the documents go too
--
-- A worker calls, each in a short transaction: reservar, then works, calling renovar before its lease ends, then concluir (for
-- a batch: concluir_lote), falhar or conciliar, always with the token that reservar gave it. Somebody calls recuperar from time to
-- time. COMMENTs say the rest."""


def _translated(text: str, names: str) -> str:
    if names == "pt":
        return text
    known = glossary()

    def english(found: re.Match[str]) -> str:
        prefix, name = found[1] or "", found[2]
        return known.get(found[0]) or prefix + known.get(name, name)

    # The schema's name is not the glossary's here, but the reader's.
    return TOKEN.sub(lambda found: found[0] if found[0] == SCHEMA else english(found), text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unknown(statement: str) -> LabError:
    first = statement.splitlines()[0]
    return LabError(f"lab.protocol does not know what to make of {first!r} in sql/: mend it there.")
