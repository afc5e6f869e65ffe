"""The check before a deployment: what the roles may not do and must, what they may do and need not, and no trace of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base.errors import LabError
from lab.protocol import forbidden, grants, permissions
from lab.protocol import monitor as lab_monitor
from lab.server.schema import build
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.helpers import everything, fetch, rows, run_lab

ROLES = tuple(grants.lab_role(duty) for duty in grants.DUTIES)


TABLE = "sql_semana_12.fila_documentos"


@pytest.fixture
def queue(grown: str) -> Iterator[psycopg.Connection]:
    """A connection of the owner to a queue in state 10."""
    with SessionPins().psycopg_connection(grown, "lab/test") as connection:
        yield connection


@pytest.fixture
def with_roles(queue: psycopg.Connection) -> psycopg.Connection:
    """The same, where this user may take the lab's roles."""
    if reason := grants.cannot_become_any(queue):
        pytest.skip(reason)
    return queue


def test_the_check_leaves_no_trace(with_roles: psycopg.Connection) -> None:
    before = everything(with_roles)
    report = permissions.check(with_roles)
    assert report.good and report.on_own_row and len(report.calls) > 20
    assert everything(with_roles) == before
    assert rows(with_roles, "SELECT current_user = session_user") == [(True,)]


def test_the_check_asks_for_all_that_the_roles_were_granted(with_roles: psycopg.Connection) -> None:
    granted = rows(
        with_roles,
        "SELECT grantee::REGROLE::TEXT, proname FROM pg_proc, aclexplode(proacl)"
        " WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND grantee::REGROLE::TEXT = ANY(%s) AND proname <> 'relogio'",
        list(ROLES),
    )
    asked = {(call.role, call.what) for call in permissions.check(with_roles).calls}
    assert granted and set(granted) <= asked


def test_the_check_waits_for_no_session(grown: str, with_roles: psycopg.Connection) -> None:
    with_roles.execute("SELECT FROM reservar('worker-a', 2)")
    with psycopg.connect(grown) as other:
        other.execute(f"SELECT FROM {TABLE} FOR UPDATE".encode())
        with_roles.execute("SET lock_timeout = '100ms'")
        assert permissions.check(with_roles).good


def test_several_missing_grants_are_all_named(with_roles: psycopg.Connection) -> None:
    with with_roles.transaction(force_rollback=True):
        with_roles.execute("REVOKE EXECUTE ON FUNCTION reservar, renovar FROM sql_semana_12_worker")
        with_roles.execute("REVOKE EXECUTE ON FUNCTION enfileirar FROM sql_semana_12_application")
        with_roles.execute("REVOKE USAGE ON SCHEMA sql_semana_12 FROM sql_semana_12_reader")
        report = permissions.check(with_roles)
    assert set(report.missing) == {
        "GRANT EXECUTE ON FUNCTION sql_semana_12.enfileirar TO sql_semana_12_application;",
        "GRANT EXECUTE ON FUNCTION sql_semana_12.reservar TO sql_semana_12_worker;",
        "GRANT EXECUTE ON FUNCTION sql_semana_12.renovar TO sql_semana_12_worker;",
        "GRANT USAGE ON SCHEMA sql_semana_12 TO sql_semana_12_reader;",
    }
    assert report.on_own_row, "the owner did what the roles could not"


def test_a_broken_protocol_is_a_problem_and_no_missing_grant(with_roles: psycopg.Connection) -> None:
    with with_roles.transaction(force_rollback=True):
        with_roles.execute("ALTER TABLE auditoria RENAME COLUMN quem TO autor")
        report = permissions.check(with_roles)
    problems = {call.what: call.problem for call in report.calls if call.problem}
    assert not report.good and report.missing == ()
    assert problems["reservar"].startswith("42703")


def test_an_unknown_role_is_named(with_roles: psycopg.Connection) -> None:
    with pytest.raises(LabError, match="There is no role nobody_here here"):
        permissions.check(with_roles, {"worker": "nobody_here"})


def test_a_queue_that_has_not_grown_enough_is_told(database: str) -> None:
    with SessionPins().psycopg_connection(database, "lab/test") as connection:
        if fetch(database, "SELECT to_regnamespace('sql_semana_12') IS NULL") == [(True,)]:
            with pytest.raises(LabError, match="The queue is not here"):
                permissions.check(connection)
        build(database, 9)
        with pytest.raises(LabError, match="The queue is in state 09, and this needs state 10"):
            permissions.check(connection)
        with pytest.raises(LabError, match="no queue in state 10"):
            lab_monitor.read(connection)


# What a role may do too much


def test_what_a_role_may_do_too_much_is_found(with_roles: psycopg.Connection) -> None:
    calls = permissions.check(with_roles).calls
    assert all(attempt.refused for attempt in forbidden.attempts(with_roles, calls))
    with with_roles.transaction(force_rollback=True):
        with_roles.execute("GRANT DELETE ON fila_documentos TO sql_semana_12_operator")
        with_roles.execute("GRANT EXECUTE ON FUNCTION enfileirar TO sql_semana_12_worker")
        tried = forbidden.attempts(with_roles, calls)
        found = {(attempt.duty, attempt.what) for attempt in tried if not attempt.refused}
    # With DELETE it may lock the table too.
    assert {("operator", "DELETE fila_documentos"), ("worker", "enfileirar")} <= found
    assert found <= {
        ("operator", "DELETE fila_documentos"),
        ("operator", "LOCK fila_documentos"),
        ("worker", "enfileirar"),
    }


@pytest.mark.parametrize(
    ("grant", "who", "privilege", "name"),
    [
        ("UPDATE (token_reserva) ON fila_documentos TO {worker}", "worker", "UPDATE", "fila_documentos.token_reserva"),
        ("CREATE ON SCHEMA sql_semana_12 TO {application}", "application", "CREATE", "sql_semana_12"),
        ("TRIGGER ON fila_documentos TO {reader}", "reader", "TRIGGER", "fila_documentos"),
        ("DELETE ON situacao TO {operator}", "operator", "DELETE", "situacao"),
        (
            "USAGE ON SEQUENCE fila_documentos_documento_id_seq TO {worker}",
            "worker",
            "USAGE",
            "fila_documentos_documento_id_seq",
        ),
        ("EXECUTE ON FUNCTION mudar TO {worker}", "worker", "EXECUTE", "mudar"),
        ("EXECUTE ON FUNCTION reservar TO PUBLIC", "reader", "EXECUTE", "reservar"),
        (
            "EXECUTE ON FUNCTION reservar TO {worker} WITH GRANT OPTION",
            "worker",
            "EXECUTE WITH GRANT OPTION",
            "reservar",
        ),
        ("{reader} TO {application}", "application", "SELECT", "fila_documentos.chave"),
        ("SELECT ON fila_documentos TO {reader}", "reader", "SELECT", "fila_documentos"),
        ("SELECT (ultimo_erro) ON fila_documentos TO {operator}", "operator", "SELECT", "fila_documentos.ultimo_erro"),
        ("SELECT (por_que) ON auditoria TO {reader}", "reader", "SELECT", "auditoria.por_que"),
    ],
)
def test_a_grant_that_no_part_needs_is_found(
    with_roles: psycopg.Connection, grant: str, who: grants.Duty, privilege: str, name: str
) -> None:
    calls = permissions.check(with_roles).calls
    assert all(held.asked for held in forbidden.grants(with_roles, calls))
    with with_roles.transaction(force_rollback=True):
        roles = {str(duty): grants.lab_role(duty) for duty in grants.DUTIES}
        with_roles.execute(f"GRANT {grant.format(**roles)}".encode())
        found = forbidden.grants(with_roles, calls)
    assert (grants.lab_role(who), privilege, name) in {
        (held.role, held.privilege, held.name) for held in found if not held.asked
    }


# The command


@pytest.fixture
def service(own_server: Target, with_roles: psycopg.Connection) -> Iterator[str]:
    """A service account that is a member of the worker's role."""
    name = f"sql_semana_12_service_{os.getpid()}"
    with_roles.execute(f"CREATE ROLE {name} LOGIN; GRANT sql_semana_12_worker TO {name}".encode())
    yield name
    with_roles.execute(f"DROP ROLE {name}".encode())


def test_the_command_as_a_service_account_itself_names_what_it_lacks(
    grown: str, with_roles: psycopg.Connection, service: str
) -> None:
    itself = make_conninfo(grown, user=service)
    done = run_lab("check-permissions", "--worker", service, "--dsn", itself)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert re.search(r"\b(\d+) of \1 calls allowed", done.stdout) and "connect as the owner" in done.stdout
    with_roles.execute("REVOKE EXECUTE ON FUNCTION concluir FROM sql_semana_12_worker")
    done = run_lab("check-permissions", "--worker", service, "--dsn", itself)
    assert done.returncode == 1
    assert f"GRANT EXECUTE ON FUNCTION sql_semana_12.concluir TO {service};" in done.stdout


def test_the_command_as_the_owner_checks_a_service_account_on_a_row(grown: str, service: str) -> None:
    done = run_lab("check-permissions", "--worker", service, LAB_DSN=grown)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert re.search(r"\b(\d+) of \1 calls allowed", done.stdout) and "connect as the owner" not in done.stdout


def test_a_connection_of_its_own_wants_to_know_what_it_is_for(database: str) -> None:
    done = run_lab("check-permissions", "--dsn", database)
    assert done.returncode == 2 and "--worker ROLE" in done.stderr
