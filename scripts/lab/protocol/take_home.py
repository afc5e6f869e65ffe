"""The protocol to take home: one file that installs it in any database, made from sql/protocol/."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.base.sql_text import Statement, body, onward, parts, statements
from lab.protocol import source
from lab.server.session import SCHEMA

# Where it is installed, by the language of the names, unless another name is given.
SCHEMAS = {"pt": "fila", "en": "queue"}
# Two comments tell later what was made here: one on a schema that was not there before, and one on an object that every
# installation has and that has no description of its own.
MADE_HERE = "made for the document queue"
MARKED = "posse"
MARK = "document queue, structure "
ROLES = paths.SQL / "roles.sql"
ALERTS = paths.SQL / "alerts.sql"

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
TOKEN = re.compile(r"\b([pv]_)?([A-Za-z]\w*)\b")


def protocol(names: str, schema_name: str, roles: Mapping[str, Sequence[str]]) -> str:
    """The file that installs the protocol.

    Parameters: names, "pt" or "en", the language of the names in the database; schema_name, where it is installed; roles, which
    of the server's roles are to be worker, reader, operator and application.
    Raises LabError for a schema's name that is not plain or is the lab's own, and for a file of sql/protocol/ that cannot be read.
    """
    if not NAME.fullmatch(schema_name) or schema_name.startswith("pg_") or schema_name == SCHEMA:
        raise LabError(
            say(
                f"{schema_name} cannot be the schema: it must be a plain lower-case name (a to z, 0 to 9 and _), not begin with pg_,"
                " and not be the lab's own.",
                f"{schema_name} não serve de esquema: precisa ser um nome simples em minúsculas (a a z, 0 a 9 e _), não começar por"
                " pg_ e não ser o do laboratório.",
            )
        )
    # A name of the reader's may be a reserved word.
    written = schema_name if schema_name in SCHEMAS.values() else _quoted(schema_name)

    def own(text: str) -> str:
        return _translated(re.sub(r" \(lesson \d\d\)", "", text), names).replace(SCHEMA, written)

    made = statements(source.whole())
    pieces = [
        own(_header(names)),
        "BEGIN;\n\nSET LOCAL client_min_messages = warning;",
        *map(own, [_guard(made), *map(_repeatable, made), _marked(made), _closed(made)]),
        # What the roles are called is theirs: nothing in it is translated.
        *(f"{own(right)} TO {_quoted(role)};" for right, role in _rights(roles)),
        "COMMIT;",
        own(_set_apart("Alerts", "--?", _alerts())),
        own(_set_apart("Uninstall", "---", _uninstall(made))),
    ]
    return "\n\n".join(pieces) + "\n"


def mark() -> str:
    """The comment by which an installation of this protocol is known again: the same as long as its tables and signatures are."""
    return _mark(statements(source.whole()))


def section(text: str, mark: str) -> str:
    """A section set apart at the end of the file, as it is run: the one whose lines begin with this mark, --? or ---."""
    return "".join(f"{line[4:]}\n" for line in text.splitlines() if line.startswith(f"{mark} "))


def glossary() -> dict[str, str]:
    """The names in the database, Portuguese to English."""
    with (paths.DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        return {row["pt"]: row["en"] for row in csv.DictReader(file)}


def _of(made: Sequence[Statement], kind: str) -> list[str]:
    """The names of what is made of this kind."""
    return [of.name for statement in made if (of := statement.definition) and of.kind == kind]


def _mark(made: Sequence[Statement]) -> str:
    """Names all that a second run of the file leaves as it is: tables, indexes, types, what functions are given and give back."""
    kept = []
    for statement in made:
        of = statement.definition
        if of and of.kind == "TABLE":
            kept.append(" ".join(f"{of.name} {parts(statement.text)}".split()))
        elif of and of.kind != "VIEW":
            kept.append(statement.plain.partition(" LANGUAGE ")[0])
    return MARK + hashlib.sha256("\n".join(sorted(kept)).encode()).hexdigest()[:8]


def _guard(made: Sequence[Statement]) -> str:
    return f"""\
-- It installs into a schema of its own, an empty one, or over itself.
DO $guard$
DECLARE
    v_mark TEXT := coalesce(
        obj_description(to_regtype('{SCHEMA}.{MARKED}'), 'pg_type'),
        obj_description(to_regclass('{SCHEMA}.token_reserva_seq'), 'pg_class') -- where the first edition had it
    );
    v_stranger TEXT;
BEGIN
    IF v_mark = '{_mark(made)}' THEN
        RETURN;
    END IF;
    IF v_mark LIKE '{MARK}%' THEN
        RAISE EXCEPTION 'the document queue in schema {SCHEMA} has another structure than this file makes; it was left untouched'
            USING HINT = 'Install this one in another schema; once the old one has run empty, uninstall it with its own file.';
    END IF;
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
        COMMENT ON SCHEMA {SCHEMA} IS '{MADE_HERE}';
        RETURN;
    END IF;
    SELECT pg_describe_object(classid, objid, objsubid) INTO v_stranger
    FROM pg_depend
    WHERE refclassid = 'pg_namespace'::REGCLASS AND refobjid = to_regnamespace('{SCHEMA}')
    LIMIT 1;
    IF v_stranger IS NOT NULL THEN
        RAISE EXCEPTION 'schema {SCHEMA} holds something else, % for one; it was left untouched', v_stranger
            USING HINT = 'Make this file for another schema.';
    END IF;
END
$guard$;"""


def _repeatable(statement: Statement) -> str:
    """The statement as it may be run once more and takes nothing from an installation: a type stays, with the columns made of it."""
    of = statement.definition
    if of is None or of.kind != "TYPE":
        return f"{statement.comment}{statement.text};"
    indented = statement.text.replace("\n", "\n        ")
    return f"""\
{statement.comment}DO $type$
BEGIN
    IF to_regtype('{SCHEMA}.{of.name}') IS NULL THEN
        {indented};
    END IF;
END
$type$;"""


def _marked(made: Sequence[Statement]) -> str:
    return f"-- By this it is known again.\nCOMMENT ON TYPE {SCHEMA}.{MARKED} IS '{_mark(made)}';"


def _closed(made: Sequence[Statement]) -> str:
    functions = ",\n    ".join(f"{SCHEMA}.{name}" for name in _of(made, "FUNCTION"))
    return (
        "-- Functions are executable by everyone until that is revoked.\n"
        f"REVOKE ALL ON FUNCTION\n    {functions}\nFROM public;"
    )


def _rights(roles: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """What is granted, as the lab's own roles have it, and to which role."""
    blocks = statements(ROLES.read_text(encoding="utf-8"))
    # They stand in branches: IF the role is here THEN GRANT … TO it.
    said = [onward(inner.text, "GRANT") for block in blocks for inner in statements(body(block.text))]
    given = [(right, to) for right, _, to in (grant.rpartition(" TO ") for grant in said) if right]
    for kind, chosen in roles.items():
        for role in chosen:
            yield f"GRANT USAGE ON SCHEMA {SCHEMA}", role
            yield from ((right, role) for right, to in given if to == f"{SCHEMA}_{kind}")


def _alerts() -> str:
    return "\n\n".join(
        f"{statement.comment}{statement.text};"
        for statement in statements(ALERTS.read_text(encoding="utf-8"))
        if statement.begins("SELECT")
    )


def _uninstall(made: Sequence[Statement]) -> str:
    functions = ",\n    ".join(f"{SCHEMA}.{name}" for name in _of(made, "FUNCTION"))
    lines = [
        f"""\
BEGIN;
DO $guard$
BEGIN
    IF obj_description(to_regtype('{SCHEMA}.{MARKED}'), 'pg_type') IS DISTINCT FROM '{_mark(made)}' THEN
        RAISE EXCEPTION 'what this file installs is not in schema {SCHEMA}; nothing was dropped';
    END IF;
END
$guard$;""",
        *(f"DROP VIEW IF EXISTS {SCHEMA}.{name};" for name in _of(made, "VIEW")),
        f"DROP FUNCTION IF EXISTS\n    {functions};",
        *(f"DROP TYPE IF EXISTS {SCHEMA}.{name};" for name in _of(made, "TYPE")),
        *(f"DROP TABLE IF EXISTS {SCHEMA}.{name};" for name in _of(made, "TABLE")),
        f"""\
DO $schema$
BEGIN
    IF obj_description(to_regnamespace('{SCHEMA}'), 'pg_namespace') IS DISTINCT FROM '{MADE_HERE}' THEN
        RAISE NOTICE 'schema {SCHEMA} stays, with all rights on it: it was here before';
    ELSE
        DROP SCHEMA {SCHEMA};
    END IF;
EXCEPTION WHEN dependent_objects_still_exist THEN
    RAISE NOTICE 'schema {SCHEMA} stays, with all rights on it: it holds something else';
END
$schema$;
COMMIT;""",
    ]
    return "\n".join(lines)


def _set_apart(title: str, mark: str, text: str) -> str:
    """A section that the installation passes over: comments, from which one command makes statements again."""
    lines = [f"{mark} {line}".rstrip() for line in text.splitlines()]
    return "\n".join([f"-- {title}: sed -n 's/^{mark} //p' protocol.sql | psql -X -v ON_ERROR_STOP=1", *lines])


def _header(names: str) -> str:
    return f"""\
-- A queue of documents in PostgreSQL 14 or later: claims with a lease and a token, retries, stages of outside calls, an audit.
-- Names: {names}. Schema: {SCHEMA}. The installing role owns it; it takes CREATE on the database, or an empty schema of that name.
--
-- Workers must commit synchronously (synchronous_commit on, as it is unless an administrator turned it off for the server, a
-- database or a role): otherwise a crash of the server takes back a stage that was written before a call, and the document's next
-- worker calls again.
--
-- Install    psql -X -v ON_ERROR_STOP=1 -f protocol.sql     (again whenever you like: documents and grants stay, functions and
--            views become this file's; it refuses a schema that holds something else, and a queue of another structure)
-- Alerts     the lines that begin with --? at the end: three queries; zero rows mean that none of the three is so
-- Uninstall  the lines that begin with --- at the end; the documents go too, and nothing that this file did not make
--
-- A worker calls, each in a short transaction: reservar, then works, calling renovar before its lease ends, then concluir (for
-- a batch: concluir_lote), falhar or conciliar, always with the token that reservar gave it. A scheduled job calls recuperar
-- from time to time. COMMENTs say the rest."""


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
