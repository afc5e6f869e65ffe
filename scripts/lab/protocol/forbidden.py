"""What the roles may not do: all that the check of lab.protocol.permissions does not ask of them, tried, and looked up in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from lab.protocol.grants import DUTIES, KEPT_BACK, VIA_VIEW, Duty, Place, lab_role
from lab.protocol.permissions import Call
from lab.server.session import SCHEMA

# By table, a column to change; the clock is the lab's own.
TABLES = {
    "fila_documentos": "status",
    "auditoria": "para",
    "configuracao": "duracao_maxima",
    "relogio_do_laboratorio": "adiantado",
}
VIEWS = ("situacao", "falhas_por_categoria", "para_pessoas")

FUNCTIONS = """
SELECT proname, array_agg(format_type(argument.type, NULL) ORDER BY argument.number)
FROM pg_proc
LEFT JOIN LATERAL unnest(proargtypes) WITH ORDINALITY AS argument (type, number) ON TRUE
WHERE pronamespace = %s::REGNAMESPACE
GROUP BY pg_proc.oid, proname
ORDER BY proname
"""

# All that gives one of the roles a right in the schema, be it through another role or through everyone. Types are left out: naming
# one is all that a role may.
GRANTS = """
WITH esquema AS (
    SELECT oid, nspname, nspacl FROM pg_namespace WHERE nspname = %(schema)s
),

objetos (tipo, nome, direitos) AS (
    SELECT 'SCHEMA', nspname, nspacl FROM esquema
    UNION ALL
    SELECT 'RELATION', relname, relacl FROM pg_class WHERE relnamespace = (SELECT oid FROM esquema)
    UNION ALL
    SELECT 'COLUMN', relname || '.' || attname, attacl
    FROM pg_attribute
    INNER JOIN pg_class ON attrelid = pg_class.oid
    WHERE relnamespace = (SELECT oid FROM esquema)
    UNION ALL
    SELECT 'FUNCTION', proname, coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM esquema)
)

SELECT rolname, concat(privilege_type, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END), tipo, nome
FROM objetos
CROSS JOIN aclexplode(direitos)
INNER JOIN pg_roles ON grantee = 0 OR pg_has_role(pg_roles.oid, grantee, 'MEMBER')
WHERE rolname = ANY(%(roles)s)
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
"""


@dataclass(frozen=True)
class Grant:
    """A right that a role has; `asked` is whether the check needs it."""

    role: str
    privilege: str
    kind: str
    name: str
    asked: bool


@dataclass(frozen=True)
class Attempt:
    """Something a role tried that it is not for; `sqlstate` is the answer, None if nothing stopped it."""

    duty: Duty
    what: str
    sqlstate: str | None

    @property
    def refused(self) -> bool:
        return self.sqlstate == errors.InsufficientPrivilege.sqlstate


def attempts(connection: psycopg.Connection, asked: Iterable[Call]) -> list[Attempt]:
    """Let each of the lab's roles try every function, table and sequence of the schema beyond the calls it is `asked` for.

    Each attempt is undone, whatever comes of it. The connection must be allowed to become the roles, and be the owner.
    """
    allowed = {(call.duty, what) for call in asked for what in _needed(call, Place())}
    attempts = []
    for duty in DUTIES:
        statements = dict(_functions(connection)) | dict(_changes())
        reads = {name: _select(name) for name in (*TABLES, *VIEWS)} | dict(_kept_back(duty))
        for what, statement in (statements | reads).items():
            if (duty, what) not in allowed:
                attempts.append(Attempt(duty, what, _answer(connection, duty, statement)))
    return attempts


def grants(connection: psycopg.Connection, asked: Sequence[Call], place: Place | None = None) -> list[Grant]:
    """Every right that the roles of these calls have on the schema, its relations, their columns and its functions.

    `place` is where the queue is, the lab's own schema without it.
    """
    place = place or Place()
    needed = {(call.role, what) for call in asked for what in _needed(call, place)}
    in_part = {
        (call.role, place.name(relation)): {place.name(column) for column in kept}
        for call in asked
        for (duty, relation), kept in KEPT_BACK.items()
        if call.duty == duty and call.what == place.name(relation)
    }

    def is_needed(role: str, privilege: str, kind: str, name: str) -> bool:
        if (kind, privilege) == ("COLUMN", "SELECT"):
            relation, _, column = name.partition(".")
            return (role, relation) in in_part and column not in in_part[role, relation]
        if (kind, privilege) == ("RELATION", "SELECT"):
            return (role, name) in needed and (role, name) not in in_part
        return (kind, privilege) == ("SCHEMA", "USAGE") or (
            (kind, privilege) == ("FUNCTION", "EXECUTE") and (role, name) in needed
        )

    roles = sorted({call.role for call in asked})
    found = connection.execute(GRANTS.encode(), {"schema": place.schema, "roles": roles}).fetchall()
    return [
        Grant(role, privilege, kind, name, is_needed(role, privilege, kind, name))
        for role, privilege, kind, name in found
    ]


def _needed(call: Call, place: Place) -> Iterable[str]:
    """What the call reaches by name: what a view calls is called by its reader, who may thus call it directly."""
    yield call.what
    yield from (place.name(called) for view, called in VIA_VIEW.items() if place.name(view) == call.what)


def _functions(connection: psycopg.Connection) -> Iterable[tuple[str, sql.Composed]]:
    """A call of each function, with nothing but nulls: whether one may is asked before they are looked at."""
    for name, types in connection.execute(FUNCTIONS, [SCHEMA]).fetchall():
        nulls = sql.SQL(", ").join(sql.SQL(f"NULL::{kind}") for kind in types if kind is not None)
        yield name, sql.SQL("SELECT {}({})").format(sql.Identifier(SCHEMA, name), nulls)


def _changes() -> Iterable[tuple[str, sql.Composed]]:
    """What may be done to a table besides reading it, and a token drawn from the sequence."""
    forms = {
        "INSERT": "INSERT INTO {table} DEFAULT VALUES",
        "UPDATE": "UPDATE {table} SET {column} = {column}",
        "DELETE": "DELETE FROM {table}",
        "TRUNCATE": "TRUNCATE {table}",
        "FOR UPDATE": "SELECT 1 FROM {table} FOR UPDATE",
        "LOCK": "LOCK TABLE {table} IN SHARE MODE",
    }
    for name, column in TABLES.items():
        for verb, form in forms.items():
            yield (
                f"{verb} {name}",
                sql.SQL(form).format(table=sql.Identifier(SCHEMA, name), column=sql.Identifier(column)),
            )
    yield "nextval token_reserva_seq", sql.SQL("SELECT nextval({})").format(sql.Literal(f"{SCHEMA}.token_reserva_seq"))


def _kept_back(duty: Duty) -> Iterable[tuple[str, sql.Composed]]:
    """The columns that an account of that duty may not read of a relation whose others it reads."""
    for (one, relation), kept in KEPT_BACK.items():
        for column in kept if one == duty else ():
            read = sql.SQL("SELECT {} FROM {}").format(sql.Identifier(column), sql.Identifier(SCHEMA, relation))
            yield f"{column} of {relation}", read


def _select(name: str) -> sql.Composed:
    return sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(SCHEMA, name))


def _answer(connection: psycopg.Connection, duty: Duty, statement: sql.Composed) -> str | None:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(lab_role(duty))))
            connection.execute(statement)
    except psycopg.Error as error:
        if connection.closed:
            raise
        return error.sqlstate
    return None
