"""Who may do nothing, and who may create where the queue is: neither gets its owner's rights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from lab.base import paths
from lab.base.errors import LabError
from lab.base.sql_text import statements
from lab.server import schema
from lab.server.psql import run_scripts
from lab.server.session import SCHEMA, SessionPins
from lab.server.target import Target
from tests.helpers import execute, fetch, rows

OUTSIDER = f"outsider_{os.getpid()}"
# What a literal or a null may be taken for, and what the server's own polymorphic functions take.
TYPES = ("text", "text[]", "bigint", "bigint[]", "integer", "interval", "timestamptz", "boolean", "varchar", "name")
POLYMORPHIC = (
    "cardinality",
    "array_ndims",
    "unnest",
    "array_agg",
    "min",
    "max",
    "count",
    "array_length",
    "array_position",
)
FUNCTIONS = """
SELECT
    oid,
    proname,
    pronargdefaults,
    ARRAY(SELECT format_type(argument, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS given (argument, place) ORDER BY place),
    prorettype::REGTYPE::TEXT
FROM pg_proc
WHERE pronamespace = %s::REGNAMESPACE
"""


@pytest.fixture
def owner(own_server: Target, grown: str) -> Iterator[psycopg.Connection]:
    """The owner's connection to a queue in state 10, in a server that has a role without any right."""
    with SessionPins().psycopg_connection(grown, "lab/test") as connection:
        connection.execute(f"CREATE ROLE {OUTSIDER} NOLOGIN".encode())
        try:
            yield connection
        finally:
            connection.execute(f"RESET ROLE; DROP OWNED BY {OUTSIDER} CASCADE; DROP ROLE {OUTSIDER}".encode())


def overload(connection: psycopg.Connection, name: str, types: tuple[str, ...]) -> int:
    """Create a function that tells of itself when it is called; how many were created (a polymorphic type may not do here)."""
    statement = sql.SQL(
        "CREATE FUNCTION {}({}) RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked' USING ERRCODE = 'HJ000'; END $$"
    ).format(sql.Identifier(SCHEMA, name), sql.SQL(", ".join(types)))
    try:
        with connection.transaction():
            connection.execute(statement)
    except errors.DuplicateFunction:
        return 0
    return 1


def hostile(connection: psycopg.Connection) -> int:
    """As the outsider, all the overloads that could be found before a function of the protocol or of the server."""
    made = 0
    for _, name, defaults, given, _ in rows(connection, FUNCTIONS, SCHEMA):
        assert isinstance(given, list) and isinstance(defaults, int)
        for length in range(len(given) - defaults, len(given) + 1):
            kept = tuple(given[:length])
            made += overload(connection, str(name), kept)
            for place, other in product(range(length), TYPES):
                made += overload(connection, str(name), (*kept[:place], other, *kept[place + 1 :]))
        made += overload(connection, str(name), (*given, "VARIADIC text[]"))
    for name, kind in product(POLYMORPHIC, TYPES):
        made += overload(connection, name, (kind,))
    return made


class Caller:
    """Calls the protocol's functions with every argument given and of its type: nothing that a caller leaves open is at stake."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.types: dict[str, list[str]] = {}
        for _, name, _, given, _ in rows(connection, FUNCTIONS, SCHEMA):
            assert isinstance(given, list)
            self.types[str(name)] = given

    def __call__(self, name: str, columns: str, *values: object) -> list[tuple[object, ...]]:
        types = self.types[name]
        padded = [*values, *[None] * (len(types) - len(values))]
        given = ", ".join(f"%s::{kind}" for kind in types)
        return rows(self.connection, f"SELECT {columns} FROM {SCHEMA}.{name}({given})", *padded)


def test_create_granted_later_lets_no_one_run_code_as_the_owner(owner: psycopg.Connection) -> None:
    call = Caller(owner)
    owner.execute(f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {OUTSIDER}; SET ROLE {OUTSIDER}".encode())
    assert hostile(owner) > 1000
    owner.execute("RESET ROLE")
    assert call("enfileirar", "documento_id", "NFE-9", "a.xml", "<a/>", "padrao", None, 5) == [(5,)]
    claimed = call("reservar", "documento_id, token_reserva", "worker-a", 5, "1 minute", None)
    token = {int(str(document)): minted for document, minted in claimed}
    assert sorted(token) == [1, 2, 3, 4, 5]
    assert len(call("renovar", "documento_id", 1, token[1], "2 minutes")) == 1
    for document, stage in ((1, "desconhecido"), (2, "desconhecido")):
        assert (
            len(call("registrar_etapa", "etapa", document, token[document], stage, None, None, "1 minute", False)) == 1
        )
    assert len(call("registrar_etapa", "etapa", 1, token[1], "obtido", "R1", None, "1 minute", False)) == 1
    assert len(call("concluir", "status", 1, token[1], "R1")) == 1
    assert len(call("conciliar", "status", 2, token[2], "sem resposta")) == 1
    assert len(call("falhar", "status", 3, token[3], "conteudo", "valor ausente")) == 1
    assert len(call("concluir_lote", "status", [4], [token[4]], ["R4"])) == 1
    assert len(call("renovar", "documento_id", 5, token[5], "1 microsecond")) == 1
    owner.execute(f"UPDATE {SCHEMA}.fila_documentos SET reservado_ate = iniciado_em WHERE documento_id = 5".encode())
    assert call("recuperar", "status", "ana", "reserva vencida", 10) == [("pendente",)]

    def version(document: int) -> object:
        return call("examinar", "versao", document)[0][0]

    assert call("confirmar", "status", 2, version(2), "R2", "ana", "conferido") == [("concluido",)]
    assert call("reenfileirar", "status", 3, version(3), "ana", "corrigido", 1) == [("pendente",)]
    assert call("pausar", "status", 3, version(3), "ana", "espera") == [("pausado",)]
    assert call("retomar", "status", 3, version(3), "ana", "segue") == [("pendente",)]
    assert len(call("substituir_conteudo", "status", 3, version(3), "<nfe/>", "ana", "corrigido")) == 1
    assert call("cancelar", "status", 3, version(3), "ana", "desistiu") == [("cancelado",)]
    assert call("reenfileirar_falhos", "status", "conteudo", "ana", "corrigido", 1, 10) == []


def test_an_overload_with_a_default_more_stops_a_call_and_is_not_run(owner: psycopg.Connection) -> None:
    """The server cannot decide between the two: work stops, loudly; the alert finds the right that it takes."""
    call = Caller(owner)
    owner.execute(f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {OUTSIDER}; SET ROLE {OUTSIDER}".encode())
    assert overload(owner, "travar", (*call.types["travar"], "text DEFAULT NULL")) == 1
    owner.execute("RESET ROLE")
    ((token,),) = call("reservar", "token_reserva", "worker-a", 1, "1 minute")
    with pytest.raises(errors.AmbiguousFunction):
        call("concluir", "status", 1, token)


# Installing, and finding a right that was granted later


@pytest.mark.parametrize("grantee", [OUTSIDER, "PUBLIC"], ids=["a role", "everyone"])
def test_a_script_that_changes_the_queue_refuses_where_others_may_create(
    owner: psycopg.Connection, grown: str, grantee: str
) -> None:
    owner.execute(f"GRANT CREATE ON SCHEMA {SCHEMA} TO {grantee}".encode())
    script = paths.SQL / "10_operators.sql"
    with pytest.raises(LabError, match=rf"others may create in schema .*: {grantee}\s+HINT:\s+REVOKE CREATE ON SCHEMA"):
        run_scripts(grown, script)
    owner.execute(f"REVOKE CREATE ON SCHEMA {SCHEMA} FROM {grantee}".encode())
    run_scripts(grown, script)


def test_a_script_that_changes_the_queue_refuses_another_roles_schema(owner: psycopg.Connection, grown: str) -> None:
    owner.execute(f"ALTER SCHEMA {SCHEMA} OWNER TO {OUTSIDER}".encode())
    try:
        with pytest.raises(LabError, match=r"belongs to another role, so .* may not change it"):
            run_scripts(grown, paths.SQL / "10_operators.sql")
    finally:
        owner.execute(f"ALTER SCHEMA {SCHEMA} OWNER TO CURRENT_USER".encode())


def test_the_alert_names_those_who_may_create(owner: psycopg.Connection, grown: str) -> None:
    alerts = paths.SQL / "alerts.sql"
    assert OUTSIDER not in run_scripts(grown, alerts)
    owner.execute(f"GRANT CREATE ON SCHEMA {SCHEMA} TO {OUTSIDER}".encode())
    assert OUTSIDER in run_scripts(grown, alerts)


# The audit and the operator


def test_the_audit_keeps_the_account_beside_the_claimed_name(owner: psycopg.Connection, grown: str) -> None:
    login = f"{OUTSIDER}_login"
    owner.execute(f"CREATE ROLE {login} LOGIN IN ROLE {SCHEMA}_operator, {SCHEMA}_worker".encode())
    try:
        with psycopg.connect(make_conninfo(grown, user=login), autocommit=True) as session:
            session.execute(f"SELECT {SCHEMA}.pausar(1, 0, 'operator-1', 'cliente pediu')".encode())
            session.execute(f"SET ROLE {SCHEMA}_worker".encode())
            session.execute(f"SELECT {SCHEMA}.reservar('worker-of-another')".encode())
        said = rows(owner, f"SELECT documento_id, quem, conectado_como FROM {SCHEMA}.auditoria ORDER BY quando")
        assert said == [(1, "operator-1", login), (2, "worker-of-another", login)]
    finally:
        owner.execute(f"DROP ROLE {login}".encode())


def test_rows_of_before_keep_no_account(queue_database: str) -> None:
    schema.build(queue_database, 9)
    execute(queue_database, f"SELECT {SCHEMA}.reservar('worker-a')")
    run_scripts(queue_database, paths.SQL / "10_operators.sql")
    assert fetch(queue_database, f"SELECT quem, conectado_como FROM {SCHEMA}.auditoria") == [("worker-a", None)]


def test_an_operator_finds_its_work_and_runs_the_alerts(owner: psycopg.Connection) -> None:
    owner.execute(b"SELECT reservar('w', 2); SELECT falhar(1, 1, 'conteudo', 'x'); SELECT conciliar(2, 2, 'x')")
    owner.execute(f"SET ROLE {SCHEMA}_operator".encode())
    found = "SELECT documento_id, versao FROM fila_documentos WHERE status IN ('falhou', 'conciliacao') ORDER BY 1"
    assert rows(owner, found) == [(1, 2), (2, 2)]
    asked = [each.text for each in statements((paths.SQL / "alerts.sql").read_text()) if each.begins("SELECT")]
    # The documents of the episode are dated October: they have been waiting for long.
    assert [len(rows(owner, question)) for question in asked] == [0, 1, 1, 0, 0]
    for column in ("conteudo_xml", "ultimo_erro"):
        with pytest.raises(errors.InsufficientPrivilege):
            owner.execute(f"SELECT {column} FROM fila_documentos".encode())
