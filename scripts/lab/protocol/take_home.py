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
from lab.protocol import source, upgrades
from lab.server.session import SCHEMA

# Where it is installed, by the language of the names, unless another name is given.
SCHEMAS = {"pt": "fila", "en": "queue"}
# Two comments tell later what was made here: one on a schema that was not there before, and one on an object that every
# installation has and that has no description of its own.
MADE_HERE = "made for the document queue"
MARKED = "posse"
MARK = "document queue, "
TOKENS = "token_reserva_seq"  # an installation of edition 1 may be marked there
# While the file is run, nothing that another role made is found before the server's own.
SAFE_PATH = "SET LOCAL search_path = pg_catalog, pg_temp;"
ROLES = paths.SQL / "roles.sql"
INCLUDED = (paths.SQL / "comments.sql", paths.SQL / "plans.sql")
ALERTS = paths.SQL / "alerts.sql"

# The mark of what is installed.
FOUND = f"""\
coalesce(
        obj_description(to_regtype('{SCHEMA}.{MARKED}'), 'pg_type'),
        obj_description(to_regclass('{SCHEMA}.{TOKENS}'), 'pg_class')
    )"""
# The tables in the order in which the functions lock them, before anything is changed: what is locked later never waits.
LOCK = f"""\
DO $lock$
BEGIN
    IF to_regclass('{SCHEMA}.auditoria') IS NULL THEN
        RETURN;
    END IF;
    FOR v_try IN 1..20 LOOP
        BEGIN
            -- Who asks after this one waits behind it: not for long.
            SET LOCAL lock_timeout = '500ms';
            LOCK TABLE {SCHEMA}.fila_documentos IN ACCESS EXCLUSIVE MODE;
            IF (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('{SCHEMA}.auditoria')) = current_user THEN
                LOCK TABLE {SCHEMA}.auditoria IN ACCESS EXCLUSIVE MODE;
            END IF;
            SET LOCAL lock_timeout = '5s';
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    RAISE EXCEPTION 'the document queue in schema {SCHEMA} is held by a transaction that does not end; nothing was changed'
        USING
            ERRCODE = '55P03',
            HINT = 'Run the file again when it has ended: SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start.';
END
$lock$;"""

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# A line of the file ends where any reader of it sees a line end.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
TOKEN = re.compile(r"\b([pv]_)?([A-Za-z]\w*)\b")


# Refuses a schema that is another role's, in which another role may create, or in which one has made something.
OWN_SCHEMA = f"""\
    SELECT format('it belongs to %s and not to %s', rolname, current_user) INTO v_stranger
    FROM pg_namespace
    INNER JOIN pg_roles ON nspowner = pg_roles.oid
    WHERE pg_namespace.oid = to_regnamespace('{SCHEMA}') AND rolname <> current_user;
    IF v_stranger IS NULL THEN
        SELECT string_agg(DISTINCT coalesce(rolname, 'everyone (PUBLIC)'), ', ') || ' may create there' INTO v_stranger
        FROM pg_namespace
        CROSS JOIN aclexplode(nspacl)
        LEFT JOIN pg_roles ON grantee = pg_roles.oid
        WHERE pg_namespace.oid = to_regnamespace('{SCHEMA}') AND privilege_type = 'CREATE' AND grantee <> nspowner;
    END IF;
    IF v_stranger IS NULL THEN
        -- The audit alone may belong to another role.
        SELECT format('%s is there and belongs to %s', pg_describe_object(classid, objid, 0), rolname) INTO v_stranger
        FROM (
            SELECT 'pg_proc'::REGCLASS, oid, proowner FROM pg_proc WHERE pronamespace = to_regnamespace('{SCHEMA}')
            UNION ALL
            SELECT 'pg_operator'::REGCLASS, oid, oprowner FROM pg_operator WHERE oprnamespace = to_regnamespace('{SCHEMA}')
            UNION ALL
            SELECT 'pg_type'::REGCLASS, oid, typowner
            FROM pg_type
            WHERE typnamespace = to_regnamespace('{SCHEMA}') AND typtype <> 'c' AND typcategory <> 'A'
            UNION ALL
            SELECT 'pg_class'::REGCLASS, oid, relowner
            FROM pg_class
            WHERE
                relnamespace = to_regnamespace('{SCHEMA}')
                AND relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
                AND oid IS DISTINCT FROM to_regclass('{SCHEMA}.auditoria')
        ) AS found (classid, objid, owner)
        INNER JOIN pg_roles ON owner = pg_roles.oid
        WHERE rolname <> current_user
        LIMIT 1;
    END IF;
    IF v_stranger IS NOT NULL THEN
        RAISE EXCEPTION 'schema {SCHEMA} is not the installing role''s alone: %; it was left untouched', v_stranger
            USING HINT = 'Install as its owner, after REVOKE CREATE ON SCHEMA {SCHEMA} FROM the others and DROP of what is theirs; or '
                'make this file for a schema of its own. A queue that lies here moves there by that file''s lines that begin with -->.';
    END IF;"""


CHECK = f"""\
DO $check$
DECLARE
    v_stranger TEXT;
BEGIN
{OWN_SCHEMA}
END
$check$;"""


def protocol(names: str, schema_name: str, roles: Mapping[str, Sequence[str]]) -> str:
    """The file that installs the protocol.

    Parameters: names, "pt" or "en", the language of the names in the database; schema_name, where it is installed; roles, which
    of the server's roles are to be worker, reader, operator and application.
    Raises LabError for a schema's name that is not plain, is the lab's own or is public, for a role's name that holds a line break or
    another control character, and for a file of sql/protocol/ that cannot be read.
    """
    for role in (role for chosen in roles.values() for role in chosen):
        if not role or CONTROL.search(role):
            raise LabError(
                say(
                    f"{role!a} cannot be a role here: a name must not be empty, nor hold a line break or another control character.",
                    f"{role!a} não serve de papel: um nome não pode ser vazio nem conter quebra de linha ou outro caractere de"
                    " controle.",
                )
            )
    if schema_name == "public":
        raise LabError(
            say(
                "public cannot be the schema: others may create in it, and what they create could run with the owner's rights. Leave"
                " --schema out, or name a schema that is the queue's alone. A queue that lies in public moves there: see Move in the"
                " head of the file.",
                "public não serve de esquema: outros podem criar objetos nele, e esses objetos poderiam rodar com os direitos do dono."
                " Omita --schema ou indique um esquema só da fila. Uma fila que está em public se muda para lá: veja Move no começo do"
                " arquivo.",
            )
        )
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
        f"BEGIN;\n\nSET LOCAL client_min_messages = warning;\n{SAFE_PATH}",
        *map(
            own,
            [
                _guard(made),
                LOCK,
                *upgrades.locked(),
                *map(_repeatable, made),
                _marked(made),
                _closed(made),
                *_included(),
            ],
        ),
        *map(own, upgrades.installed({duty: _rights_of(duty) for duty in upgrades.DUTIES})),
        # What the roles are called is theirs: nothing in it is translated.
        *(f"{own(right)} TO {_quoted(role)};" for right, role in _rights(roles)),
        "COMMIT;",
        own(upgrades.after()),
        own(_set_apart("Alerts", "--?", _alerts())),
        own(_set_apart("Prepare", "--^", upgrades.prepared(f"{SAFE_PATH.replace('LOCAL ', '')}\n{CHECK}"), " -q")),
        own(_set_apart("Move", "-->", _move(made), " -q -v from=public")),
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
    return f"{MARK}edition {upgrades.EDITION}, structure {hashlib.sha256(chr(10).join(sorted(kept)).encode()).hexdigest()[:8]}"


def _guard(made: Sequence[Statement]) -> str:
    return f"""\
-- It installs into a schema of its own, an empty one, or over itself; and only where no other role may create: what another role
-- makes there could be called with the rights of this one.
DO $guard$
DECLARE
    v_mark TEXT;
    v_stranger TEXT;
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE WARNING 'a superuser installs the document queue: its functions will run with all the rights of %', current_user
            USING HINT = 'Better: let a role without such rights install and own it, with CREATE on the database.';
    END IF;
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
        COMMENT ON SCHEMA {SCHEMA} IS '{MADE_HERE}';
    END IF;
{OWN_SCHEMA}
    v_mark := {FOUND};
    {upgrades.known("v_mark")}
    IF {upgrades.missing("current_setting('document_queue.edition')::INTEGER")} THEN
        RAISE EXCEPTION
            'the document queue in schema {SCHEMA} is of an earlier edition, and not prepared for this one; it was left untouched'
            USING HINT = 'Run the lines that begin with --^ first: they build the new indexes while the workers go on.';
    END IF;
    IF v_mark = '{_mark(made)}' OR current_setting('document_queue.edition') <> '0' THEN
        RETURN;
    END IF;
    IF v_mark LIKE '{MARK}%' THEN
        RAISE EXCEPTION 'the document queue in schema {SCHEMA} has another structure than this file makes; it was left untouched'
            USING HINT = 'Install this one in another schema; once the old one has run empty, uninstall it with its own file.';
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
    """The statement as it may be run once more and takes nothing from an installation: a type stays, with the columns made of it.

    What only the audit's owner may do is left out where the audit belongs to another role.
    """
    of = statement.definition
    if re.match(rf"(COMMENT ON (TABLE|COLUMN)|CREATE INDEX [^(]* ON) {SCHEMA}\.auditoria\b", statement.plain):
        return f"""\
{statement.comment}DO $audit$
BEGIN
    IF (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('{SCHEMA}.auditoria')) = current_user THEN
        {_indented(statement.text)};
    END IF;
END
$audit$;"""
    if of is None or of.kind != "TYPE":
        return f"{statement.comment}{statement.text};"
    return f"""\
{statement.comment}DO $type$
BEGIN
    IF to_regtype('{SCHEMA}.{of.name}') IS NULL THEN
        {_indented(statement.text)};
    END IF;
END
$type$;"""


def _indented(text: str) -> str:
    return text.replace("\n", "\n        ")


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
    for duty, chosen in roles.items():
        for role in chosen:
            yield from ((right, role) for right in _rights_of(duty))


def _rights_of(duty: str) -> list[str]:
    """What is granted for a duty, without the role."""
    blocks = statements(ROLES.read_text(encoding="utf-8"))
    # They stand in branches: IF the role is here THEN GRANT … TO it.
    said = [onward(inner.text, "GRANT") for block in blocks for inner in statements(body(block.text))]
    given = [(right, to) for right, _, to in (grant.rpartition(" TO ") for grant in said) if right]
    return [f"GRANT USAGE ON SCHEMA {SCHEMA}", *(right for right, to in given if to == f"{SCHEMA}_{duty}")]


def _included() -> Iterator[str]:
    """What every column is for, and what is set for the functions, as the settings row says."""
    for path in INCLUDED:
        yield "\n".join(map(_repeatable, statements(path.read_text(encoding="utf-8"))))


def _alerts() -> str:
    asked = [
        f"{statement.comment}{statement.text};"
        for statement in statements(ALERTS.read_text(encoding="utf-8"))
        if statement.begins("SELECT")
    ]
    return "\n\n".join([SAFE_PATH.replace("LOCAL ", ""), *asked])


def _move(made: Sequence[Statement]) -> str:
    """Takes a queue of the first edition out of another schema into this one, which is made if it is not there."""
    names = ", ".join(f"'{name}'" for name in [*_of(made, "TABLE"), *_of(made, "VIEW"), TOKENS])
    return f"""\
BEGIN;
SET LOCAL client_min_messages = warning;
{SAFE_PATH}
SELECT set_config('document_queue.from', quote_ident(:'from'), TRUE) AS name \\gset moved_
DO $move$
DECLARE
    v_from OID := to_regnamespace(current_setting('document_queue.from'));
    v_stranger TEXT;
    v_each RECORD;
BEGIN
    IF coalesce(
        obj_description((SELECT oid FROM pg_class WHERE relnamespace = v_from AND relname = '{TOKENS}'), 'pg_class'), ''
    ) NOT LIKE '{MARK}%' THEN
        RAISE EXCEPTION 'there is no document queue of the first edition in schema %', current_setting('document_queue.from')
            USING HINT = 'Name the schema where it lies: -v from=NAME. Its names must be of the language of this file.';
    END IF;
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
        COMMENT ON SCHEMA {SCHEMA} IS '{MADE_HERE}';
    END IF;
{OWN_SCHEMA}
    -- Its functions are known by their setting and their owner: what another role made under one of their names stays behind.
    FOR v_each IN
        SELECT oid::REGPROCEDURE AS name
        FROM pg_proc
        WHERE
            pronamespace = v_from
            AND proowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
            AND proconfig = ARRAY['search_path=' || current_setting('document_queue.from') || ', pg_temp']
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = {SCHEMA}, pg_temp', v_each.name);
        EXECUTE format('ALTER FUNCTION %s SET SCHEMA {SCHEMA}', v_each.name);
    END LOOP;
    EXECUTE format('ALTER TYPE %s.{MARKED} SET SCHEMA {SCHEMA}', current_setting('document_queue.from'));
    FOR v_each IN
        SELECT oid::REGCLASS AS name, CASE relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE 'SEQUENCE' END AS kind
        FROM pg_class
        WHERE relnamespace = v_from AND relname IN ({names})
    LOOP
        EXECUTE format('ALTER %s %s SET SCHEMA {SCHEMA}', v_each.kind, v_each.name);
    END LOOP;
    -- The roles that were let in there are let in here.
    FOR v_each IN
        SELECT DISTINCT grantee::REGROLE AS name
        FROM (
            SELECT proacl FROM pg_proc WHERE pronamespace = to_regnamespace('{SCHEMA}')
            UNION ALL
            SELECT relacl FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')
        ) AS given (rights)
        CROSS JOIN aclexplode(rights)
        WHERE grantee <> 0
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA {SCHEMA} TO %s', v_each.name);
    END LOOP;
END
$move$;
COMMIT;"""


def _uninstall(made: Sequence[Statement]) -> str:
    functions = ",\n    ".join(f"{SCHEMA}.{name}" for name in _of(made, "FUNCTION"))
    lines = [
        f"""\
BEGIN;
{SAFE_PATH}
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


def _set_apart(title: str, mark: str, text: str, options: str = "") -> str:
    """A section that the installation passes over: comments, from which one command makes statements again."""
    lines = [f"{mark} {line}".rstrip() for line in text.splitlines()]
    return "\n".join([f"-- {title}: sed -n 's/^{mark} //p' protocol.sql | psql -X -v ON_ERROR_STOP=1{options}", *lines])


def _header(names: str) -> str:
    return f"""\
-- A queue of documents in PostgreSQL 14 or later: claims with a lease and a token, retries, stages of outside calls, an audit.
-- Names: {names}. Schema: {SCHEMA}. The installing role owns it; it takes CREATE on the database, or an empty schema of that name.
-- No other role may create in that schema: the file refuses it, and an alert finds a right that was granted later.
--
-- Workers must commit synchronously (synchronous_commit on, as it is unless an administrator turned it off for the server, a
-- database or a role): otherwise a crash of the server takes back a stage that was written before a call, and the document's next
-- worker calls again.
--
-- This is edition {upgrades.EDITION}.
-- Install    psql -X -v ON_ERROR_STOP=1 -f protocol.sql     (again whenever you like: documents and grants stay, functions and
--            views become this file's; it refuses a schema that holds something else, and a queue of another structure)
-- Alerts     the lines that begin with --? at the end: four queries; zero rows mean that none of the four is so
-- Upgrade    a queue of edition 1: the lines that begin with --^ at the end build its new indexes while its workers go on; then
--            install. That waits for short transactions, not for long ones, and keeps documents, audit, settings and rights.
--            enfileirar and registrar_etapa give one column more: sessions that have prepared SELECT * of them prepare it anew.
-- Move       the lines that begin with --> at the end: they bring a queue of the first edition here from a schema in which others
--            may create, as its owner (psql -v from=public); from then on its workers call it by its new schema. Then upgrade it.
-- Uninstall  the lines that begin with --- at the end; the documents go too, and nothing that this file did not make
--
-- The audit may belong to another role, so that not even the queue's owner can change what it says. As a superuser:
--            ALTER TABLE {SCHEMA}.auditoria OWNER TO auditor;
--            GRANT SELECT, INSERT ON {SCHEMA}.auditoria TO queue_owner WITH GRANT OPTION;
-- The schema's owner may still drop the table, but nothing less. conectado_como is who was logged in, quem is what a caller said.
--
-- A worker calls, each in a short transaction: reservar, then works, calling renovar before its lease ends, then concluir (for
-- a batch: concluir_lote), falhar or conciliar, always with the token that reservar gave it. A scheduled job calls recuperar
-- from time to time. COMMENTs say the rest.
--
-- A call to the outside has its stage written before it: registrar_etapa with desconhecido, which must give a row, or there must
-- be no call; then the call, which must end before the reservado_ate of that row; then concluir with the receiver's reference. A
-- document that reservar gives with etapa desconhecido may have been called: ask the receiver by chave_operacao, and finish with
-- its reference; if it knows nothing of it, registrar_etapa with nao_chamado; if it cannot be asked, conciliar. One with etapa
-- obtido or confirmando has its result: concluir."""


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
