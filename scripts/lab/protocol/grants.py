"""Where a queue is and who may do what in it: the lab's roles, whether one may take them, and what an account lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
from psycopg import errors, sql

from lab.base.language import say
from lab.server.session import SCHEMA

Duty = Literal["application", "worker", "operator", "reader"]
DUTIES: tuple[Duty, ...] = ("application", "worker", "operator", "reader")
FUNCTION, RELATION = "function", "relation"
VIA_VIEW = {"situacao": "relogio"}  # what a view calls is called by its reader
# Columns of a relation that an account of that duty, which reads the others, may not read: the payload, and reasons, which may quote it.
PAYLOAD = ("conteudo_xml", "conteudo_sha256", "ultimo_erro")
KEPT_BACK: Mapping[tuple[Duty, str], tuple[str, ...]] = {
    ("reader", "fila_documentos"): PAYLOAD,
    ("operator", "fila_documentos"): PAYLOAD,
    ("reader", "auditoria"): ("por_que",),
    ("reader", "para_pessoas"): ("ultimo_erro",),
}


@dataclass(frozen=True)
class Place:
    """Where a queue is: its schema, and its names there where they are not the lab's own, by the lab's."""

    schema: str = SCHEMA
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, portuguese: str) -> str:
        """What is called so in the lab: a table, a function, a column, a word that is stored."""
        return self.names.get(portuguese, portuguese)

    def named(self, portuguese: str) -> sql.Identifier:
        """The same as an identifier, schema and all."""
        return sql.Identifier(self.schema, self.name(portuguese))


def lab_role(duty: Duty) -> str:
    """The lab's own role for a duty."""
    return f"{SCHEMA}_{duty}"


def cannot_become(connection: psycopg.Connection, role: str) -> str:
    """Why the connection may not take that role; empty if it may."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
    except errors.InvalidParameterValue:
        there_is_none = say(f"There is no role {role} here.", f"Não existe o papel {role} neste servidor.")
        if role not in map(lab_role, DUTIES):
            return there_is_none
        return there_is_none + say(
            " sql/10_operators.sql makes it where it is run by a role that may create roles (CREATEROLE).",
            " sql/10_operators.sql o cria quando executado por um papel que possa criar papéis (CREATEROLE).",
        )
    except errors.InsufficientPrivilege:
        own = one(connection, "SELECT current_user")
        return say(
            f"{own} may not become {role}: GRANT {role} TO {own}; or connect as that account (--dsn).",
            f"{own} não pode assumir {role}: GRANT {role} TO {own}; ou conecte com essa conta (--dsn).",
        )
    return ""


def cannot_become_any(connection: psycopg.Connection) -> str:
    """Why the connection may not take one of the lab's roles; empty if it may take all."""
    return next((reason for duty in DUTIES if (reason := cannot_become(connection, lab_role(duty)))), "")


def columns(connection: psycopg.Connection, duty: Duty, relation: str, place: Place | None = None) -> tuple[str, ...]:
    """The columns of a relation that an account of that duty reads, as they are named there; none if it reads the whole relation."""
    place = place or Place()
    kept = KEPT_BACK.get((duty, relation))
    if kept is None:
        return ()
    found = connection.execute(
        "SELECT attname FROM pg_attribute INNER JOIN pg_class ON attrelid = pg_class.oid WHERE relname = %s AND attnum > 0"
        " AND NOT attisdropped AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND attname <> ALL(%s)"
        " ORDER BY attnum",
        [place.name(relation), place.schema, [place.name(column) for column in kept]],
    )
    return tuple(name for (name,) in found)


def missing_grants(
    connection: psycopg.Connection, duty: Duty, role: str, what: str, kind: str, place: Place | None = None
) -> tuple[str, ...]:
    """The grants without which the role cannot do that part of its duty, as GRANT statements.

    `what` is the name in the lab of the function that it calls or the relation that it reads, by `kind`; `place` is where the queue
    is, the lab's own schema without it.
    """
    place = place or Place()
    there, called, clock = place.schema, place.name(what), place.name(VIA_VIEW.get(what, ""))
    grants = []
    schema, named = (one(connection, "SELECT quote_ident(%s)", name) for name in (there, role))
    may_enter = "SELECT has_schema_privilege(%s, %s, 'USAGE')"
    if not one(connection, may_enter, role, there):
        grants.append(f"GRANT USAGE ON SCHEMA {schema} TO {named};")
    may_read = (
        "SELECT bool_and(has_any_column_privilege(%s, oid, 'SELECT')) FROM pg_class"
        " WHERE relname = %s AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
    )
    if kind == RELATION and (some := columns(connection, duty, what, place)):
        may_read_some = (
            "SELECT bool_and(has_column_privilege(%s, attrelid, attnum, 'SELECT')) FROM pg_attribute INNER JOIN pg_class"
            " ON attrelid = pg_class.oid WHERE relname = %s AND attname = ANY(%s)"
            " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
        )
        if not one(connection, may_read_some, role, called, list(some), there):
            grants.append(f"GRANT SELECT ({', '.join(some)}) ON {schema}.{called} TO {named};")
    elif kind == RELATION and not one(connection, may_read, role, called, there):
        grants.append(f"GRANT SELECT ON {schema}.{called} TO {named};")
    may_execute = (
        "SELECT bool_and(has_function_privilege(%s, oid, 'EXECUTE')) FROM pg_proc"
        " WHERE proname = %s AND pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
    )
    function = called if kind == FUNCTION else clock
    if function and not one(connection, may_execute, role, function, there):
        grants.append(f"GRANT EXECUTE ON FUNCTION {schema}.{function} TO {named};")
    return tuple(grants)


def one(connection: psycopg.Connection, statement: str, *values: object) -> Any:
    """The first column of the first row that a statement gives; None without a row."""
    row = connection.execute(statement.encode(), values or None).fetchone()
    return None if row is None else row[0]
