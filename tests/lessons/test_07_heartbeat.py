"""Lesson 07: a lease is renewed by its owner only, and never past the maximum run time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.psql import run_scripts
from lab.server.schema import build, scripts_for
from lab.server.session import SessionPins
from tests.conftest import QueueInState, nothing_left
from tests.helpers import check_lesson, fetch, mutated

INVALID = "22023"


@pytest.fixture
def database(queue_in_state: QueueInState) -> Iterator[str]:
    """The conninfo of a database of the test's own, with the queue in state 07."""
    with queue_in_state(7) as conninfo:
        yield conninfo


@pytest.fixture
def queue(database: str) -> Iterator[psycopg.Connection]:
    """A connection to that queue of four documents."""
    with SessionPins().psycopg_connection(database, "lab/test") as connection:
        yield connection


def clock(queue: psycopg.Connection, seconds: float) -> None:
    """Set the lab's clock so many seconds ahead."""
    queue.execute("UPDATE relogio_do_laboratorio SET adiantado = %s * INTERVAL '1 second'", [seconds])


def claimed(queue: psycopg.Connection, lease: str = "30 seconds") -> int:
    """Claim document 1; returns the token."""
    row = queue.execute("SELECT documento_id, token_reserva FROM reservar('worker-a', 1, %s)", [lease]).fetchone()
    assert row and row[0] == 1
    return int(row[1])


def renewed(queue: psycopg.Connection, token: int, *lease: str) -> int:
    """How many rows a renewal of document 1 changes."""
    places = "".join(", %s" for _ in lease)
    return queue.execute(f"SELECT * FROM renovar(1, %s{places})".encode(), [token, *lease]).rowcount


def document(queue: psycopg.Connection, columns: str) -> tuple[object, ...]:
    row = queue.execute(f"SELECT {columns} FROM fila_documentos WHERE documento_id = 1".encode()).fetchone()
    assert row
    return row


# Renewing


def test_a_beat_every_ten_seconds_holds_the_document_until_14_50_and_is_refused_at_15_00(
    queue: psycopg.Connection,
) -> None:
    token = claimed(queue)
    granted = []
    for seconds in range(10, 920, 10):
        clock(queue, seconds)
        granted.append(renewed(queue, token))
    assert granted == [1] * 89 + [0, 0]
    assert document(queue, "reservado_ate = iniciado_em + tempo_maximo()") == (True,)
    recovered = queue.execute("SELECT documento_id, status, worker_anterior FROM recuperar('vigia')").fetchall()
    assert recovered == [(1, "pendente", "worker-a")]


def test_a_renewal_moves_the_deadline_and_nothing_else(queue: psycopg.Connection) -> None:
    token = claimed(queue)
    unchanged = "status, tentativas, versao, token_reserva, worker_id, iniciado_em"
    before, audited = document(queue, unchanged), queue.execute("SELECT * FROM auditoria").fetchall()
    clock(queue, 20)
    assert renewed(queue, token, "5 minutes") == 1
    assert document(queue, unchanged) == before
    assert queue.execute("SELECT * FROM auditoria").fetchall() == audited
    assert document(queue, "reservado_ate > relogio() + INTERVAL '4 minutes 50 seconds'") == (True,)


def test_a_lease_that_has_passed_may_be_renewed_while_no_worker_took_over(queue: psycopg.Connection) -> None:
    token = claimed(queue)
    clock(queue, 600)
    assert document(queue, "reservado_ate < relogio()") == (True,)
    assert renewed(queue, token) == 1
    assert document(queue, "reservado_ate > relogio()") == (True,)


def test_a_worker_past_the_maximum_may_still_finish_what_no_worker_took_over(queue: psycopg.Connection) -> None:
    token = claimed(queue)
    clock(queue, 3600)
    assert renewed(queue, token) == 0
    assert queue.execute("SELECT status FROM concluir(1, %s)", [token]).fetchall() == [("concluido",)]


@pytest.mark.parametrize(("tenant", "rows"), [("padrao", 1), ("outro", 0), (None, 1)])
def test_a_renewal_asks_for_the_tenant_where_one_is_named(
    queue: psycopg.Connection, tenant: str | None, rows: int
) -> None:
    token = claimed(queue)
    assert queue.execute("SELECT * FROM renovar(1, %s, '1 minute', %s)", [token, tenant]).rowcount == rows


def test_a_renewal_that_waited_for_the_row_counts_from_after_the_wait(queue: psycopg.Connection, database: str) -> None:
    token = claimed(queue)
    with SessionPins().psycopg_connection(database, "lab/heartbeat") as heartbeat:
        with queue.transaction():
            queue.execute("SELECT 1 FROM fila_documentos WHERE documento_id = 1 FOR UPDATE")
            beat = threading.Thread(target=renewed, args=(heartbeat, token, "1 minute"))
            beat.start()
            waits = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
            while fetch(database, waits, heartbeat.info.backend_pid) != [(True,)]:
                time.sleep(0.01)
            clock(queue, 300)
        beat.join()
    assert document(queue, "reservado_ate > iniciado_em + INTERVAL '5 minutes'") == (True,)


# Refusing


@pytest.mark.parametrize(
    "lease",
    ["15 minutes 1 second", "0 seconds", "-1 minute", "1 month -30 days 1 second", "-1 day 24 hours 1 second", None],
)
@pytest.mark.parametrize("call", ["SELECT * FROM reservar('worker-a', 1, %s)", "SELECT * FROM renovar(1, 1, %s)"])
def test_a_lease_is_more_than_nothing_and_at_most_the_maximum(
    queue: psycopg.Connection, call: str, lease: str | None
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        queue.execute(call.encode(), [lease])
    assert caught.value.sqlstate == INVALID


def test_a_lease_may_be_the_maximum(queue: psycopg.Connection) -> None:
    assert renewed(queue, claimed(queue, "15 minutes"), "15 minutes") == 1
    assert document(queue, "reservado_ate = iniciado_em + tempo_maximo()") == (True,)


def test_another_maximum_is_set_in_one_place(queue: psycopg.Connection) -> None:
    queue.execute(
        "CREATE OR REPLACE FUNCTION tempo_maximo() RETURNS INTERVAL LANGUAGE plpgsql IMMUTABLE"
        " AS $$BEGIN RETURN INTERVAL '1 minute'; END$$"
    )
    token = claimed(queue)
    clock(queue, 59)
    assert renewed(queue, token) == 1
    clock(queue, 60)
    assert renewed(queue, token) == 0
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        renewed(queue, token, "2 minutes")


# The schema


def test_the_deadline_is_in_no_index(queue: psycopg.Connection) -> None:
    indexes = queue.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'fila_documentos'").fetchall()
    assert indexes
    assert not [definition for (definition,) in indexes if "reservado_ate" in definition]


def test_the_script_runs_again_and_leaves_one_function_a_name(queue: psycopg.Connection, database: str) -> None:
    run_scripts(database, scripts_for(7)[-2])
    names = "SELECT proname FROM pg_proc WHERE pronamespace = 'sql_semana_12'::regnamespace"
    found = [name for (name,) in queue.execute(names.encode()).fetchall()]
    assert len(found) == len(set(found))
    assert {"renovar", "tempo_maximo"} <= set(found)


# The scenarios


def test_with_a_lease_that_covers_the_work_it_runs_once(module_database: str) -> None:
    told = mutated("07_too_short", ("p_prazo => '6 minutes'", "p_prazo => '9 minutes'"))
    build(module_database, told.state)
    played = play(told, module_database)
    assert played.failure is None
    assert [len(played[step].rows) for step in ("c_recovers", "a_finishes", "b_finishes")] == [0, 1, 0]
    assert played["b_claims"].value == "2"


def test_without_its_beat_the_renewed_document_is_taken_away(module_database: str) -> None:
    told = mutated("07_renewed", ("FROM renovar(1, 1, '6 minutes')", "FROM renovar(1, 2, '6 minutes')"))
    build(module_database, told.state)
    played = play(told, module_database)
    assert [played[step].value for step in ("h_beats", "c_recovers", "b_claims")] == [None, "1", "1"]


def test_a_beat_committed_on_its_own_is_seen_by_all(module_database: str) -> None:
    told = mutated("07_inside_transaction", ("BEGIN;", "SELECT 'sem transacao' AS nada;"), ("ROLLBACK;", "SELECT 1;"))
    build(module_database, told.state)
    played = play(told, module_database)
    assert played["c_reads"].rows == (("1", "t"),)
    assert played["c_counts"].rows == (("1", "0"),)
    assert played["c_recovers_again"].rows == ()


def test_the_work_on_the_workers_connection_must_be_seen_waiting(module_database: str) -> None:
    told = mutated("07_same_connection", ("LOCK TABLE precos;", "SELECT 1 AS nada;"))
    build(module_database, told.state)
    with nothing_left(module_database):
        played = play(told, module_database)
    assert played.failure is not None
    assert "a_works" in played.failure


def test_every_check_of_lesson_07_passes(stage: Stage) -> None:
    check_lesson("07_heartbeat", stage)
