"""Lesson 05: what its claims do not cover. Wrong requests change nothing, right ones no more than they say; the scripts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from lab.base import paths
from lab.lessons import registry
from lab.scenario import library
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.psql import run_scripts
from lab.server.schema import build
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.conftest import QueueInState, nothing_left
from tests.helpers import check_lesson, execute, fetch, parsed
from tests.test_sql import MINE, psql

SCRIPT = paths.SQL / "05_lease.sql"
CLOCK = paths.SQL / "lab_clock.sql"
TABLE = "sql_semana_12.fila_documentos"
MEGABYTE = "repeat('é', 1000000)"

Row = tuple[object, ...]


@pytest.fixture
def queue(queue_in_state: QueueInState) -> Iterator[str]:
    """A database of the test's own, in state 05."""
    with queue_in_state(5) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def in_work(server: Target) -> Iterator[str]:
    """One database for the requests that change nothing: document 1 is worker-a's, document 2 its late one, two are free."""
    with server.database("in_work") as conninfo:
        build(conninfo, 5)
        ask(conninfo, "SELECT * FROM reservar('worker-a', 1, '24 hours')")
        ask(conninfo, "SELECT * FROM reservar('worker-a', 1, '1 microsecond')")
        yield conninfo


def ask(conninfo: str, query: str) -> list[Row]:
    """The rows of a query on a pinned session of its own, in the lab's schema; one that has to wait for a lock fails."""
    with SessionPins(lock_timeout="5s").psycopg_connection(conninfo, "lab/test") as connection:
        return connection.execute(query.encode()).fetchall()


def everything(conninfo: str) -> list[Row]:
    return ask(conninfo, "SELECT xmin, fila_documentos::TEXT FROM fila_documentos ORDER BY documento_id")


def move(conninfo: str, by: str) -> None:
    ask(conninfo, f"UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '{by}' RETURNING 1")


# Requests that make no sense


@pytest.mark.parametrize(
    "request_",
    [
        "reservar(NULL)",
        "reservar('')",
        "reservar('   ')",
        "reservar(repeat('w', 201))",
        f"reservar({MEGABYTE})",
        "reservar('worker-b', NULL)",
        "reservar('worker-b', 0)",
        "reservar('worker-b', -1)",
        "reservar('worker-b', 1001)",
        "reservar('worker-b', 1000000)",
        "reservar('worker-b', 1, NULL)",
        "reservar('worker-b', 1, '0')",
        "reservar('worker-b', 1, '-30 seconds')",
        "reservar('worker-b', 1, '24 hours 1 microsecond')",
        "reservar('worker-b', 1, '100 years')",
        "reservar('worker-b', 1, '1 day')",
        "reservar('worker-b', 1, '1 month -30 days 1 second')",
        "reservar('worker-b', 1, '100 years -36000 days 1 second')",
        "reservar('worker-b', 1, '-1 day 24 hours 1 second')",
        "falhar(1, 'worker-a', NULL)",
        "falhar(1, 'worker-a', '')",
        r"falhar(1, 'worker-a', E' \n\t')",
        "recuperar(NULL)",
        "recuperar('  ')",
        "recuperar('queda', NULL)",
        "recuperar('queda', 0)",
        "recuperar('queda', -1)",
        "recuperar('queda', 1000000)",
        "recuperar('queda', 10, NULL)",
        "recuperar('queda', 10, 0)",
        "recuperar('queda', 10, -1)",
        "recuperar('queda', 10, 1000000)",
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_changes_nothing(in_work: str, request_: str) -> None:
    before = everything(in_work)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        ask(in_work, f"SELECT * FROM {request_}")
    assert "must" in str(refused.value)
    assert everything(in_work) == before


@pytest.mark.parametrize(
    "request_",
    [
        "reservar('worker-b', 10, '1 hour', 'outro')",
        "reservar('worker-b', 10, '1 hour', '')",
        "concluir(1, 'worker-b')",
        "concluir(1, 'WORKER-A')",
        "concluir(1, NULL)",
        f"concluir(1, {MEGABYTE})",
        "concluir(NULL, 'worker-a')",
        "concluir(-1, 'worker-a')",
        "concluir(9223372036854775807, 'worker-a')",
        "concluir(3, 'worker-a')",
        "concluir(1, 'worker-a', 'outro')",
        "falhar(1, 'worker-b', 'motivo')",
        "falhar(1, NULL, 'motivo')",
        "falhar(NULL, 'worker-a', 'motivo')",
        "falhar(1, 'worker-a', 'motivo', 'outro')",
        "recuperar(p_inquilino => 'outro')",
        "recuperar(p_inquilino => '')",
    ],
)
def test_a_request_for_what_is_not_there_gives_no_row_and_changes_nothing(in_work: str, request_: str) -> None:
    before = everything(in_work)
    assert ask(in_work, f"SELECT * FROM {request_}") == []
    assert everything(in_work) == before


def test_arguments_of_other_types_do_not_find_a_function(in_work: str) -> None:
    with pytest.raises(psycopg.errors.InvalidDatetimeFormat):
        ask(in_work, "SELECT * FROM reservar('worker-b', 1, 'soon')")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        ask(in_work, "SELECT * FROM reservar('worker-b', 1.5)")


# The largest there is


def test_the_largest_batch_and_the_longest_lease_are_taken(queue: str) -> None:
    rows = ask(
        queue,
        "SELECT documento_id, reservado_ate - relogio() <= '24 hours' FROM reservar(repeat('w', 200), 1000, '24 hours')",
    )
    assert rows == [(number, True) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "ending", ["falhar(1, 'worker-a', {})", "recuperar({}, p_max_tentativas => 1)", "recuperar({})"]
)
def test_a_reason_of_a_megabyte_is_cut(queue: str, ending: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 1, '1 microsecond')")
    assert len(ask(queue, f"SELECT * FROM {ending.format(MEGABYTE)}")) == 1
    assert ask(queue, "SELECT length(ultimo_erro) FROM fila_documentos WHERE documento_id = 1") == [(200,)]


# What a claim takes


def test_a_batch_comes_oldest_first_whatever_the_ids(queue: str) -> None:
    execute(queue, f"UPDATE {TABLE} SET criado_em = timestamptz 'epoch' - documento_id * interval '1 s'")
    assert ask(queue, "SELECT documento_id FROM reservar('worker-a', 3)") == [(4,), (3,), (2,)]


def test_a_tenant_gets_its_own_documents_and_no_tenant_gets_any(queue: str) -> None:
    execute(queue, f"UPDATE {TABLE} SET inquilino = 'outro' WHERE documento_id > 2")
    assert ask(queue, "SELECT documento_id, inquilino FROM reservar('w', 1, p_inquilino => 'outro')") == [(3, "outro")]
    assert ask(queue, "SELECT documento_id, inquilino FROM reservar('w', 9)") == [
        (1, "padrao"),
        (2, "padrao"),
        (4, "outro"),
    ]


def test_a_claim_clears_what_the_last_attempt_left(queue: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 1, '1 microsecond')")
    ask(queue, "SELECT * FROM recuperar('queda')")
    ask(queue, "SELECT * FROM reservar('worker-b', 1)")
    left = "worker_id, tentativas, ultimo_erro, concluido_em, iniciado_em < reservado_ate"
    assert ask(queue, f"SELECT {left} FROM fila_documentos WHERE documento_id = 1") == [
        ("worker-b", 2, None, None, True)
    ]


def test_batches_of_many_sessions_never_overlap(queue: str) -> None:
    execute(
        queue,
        f"INSERT INTO {TABLE} (chave, nome_arquivo, conteudo_xml)"
        " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(1, 396) AS n",
    )
    taken: Counter[object] = Counter()
    barrier = threading.Barrier(4)

    def empty(worker: str) -> None:
        with SessionPins().psycopg_connection(queue, worker) as connection:
            barrier.wait()
            while rows := connection.execute("SELECT documento_id FROM reservar(%s, 7)", [worker]).fetchall():
                taken.update(document for (document,) in rows)

    workers = [threading.Thread(target=empty, args=[f"lab/{number}"]) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(taken.values()) == {1} and len(taken) == 400


# What recovery takes


def test_recovery_takes_so_many_at_a_time_in_the_order_of_their_ids(queue: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 4, '1 microsecond')")
    calls = [ask(queue, "SELECT documento_id FROM recuperar('queda', 3)") for _ in range(3)]
    assert calls == [[(1,), (2,), (3,)], [(4,)], []]


def test_recovery_passes_a_document_whose_worker_is_just_finishing_it(queue: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 2, '1 microsecond')")
    with SessionPins().psycopg_connection(queue, "lab/A") as worker, worker.transaction():
        assert worker.execute("SELECT status FROM concluir(1, 'worker-a')").fetchall() == [("concluido",)]
        assert ask(queue, "SELECT documento_id FROM recuperar()") == [(2,)]
    assert ask(queue, "SELECT documento_id FROM recuperar()") == []
    assert ask(queue, "SELECT status FROM fila_documentos WHERE documento_id = 1") == [("concluido",)]


def test_one_tenants_recovery_leaves_the_others(queue: str) -> None:
    execute(queue, f"UPDATE {TABLE} SET inquilino = 'outro' WHERE documento_id = 2")
    ask(queue, "SELECT * FROM reservar('worker-a', 2, '1 microsecond')")
    assert ask(queue, "SELECT documento_id FROM recuperar(p_inquilino => 'outro')") == [(2,)]
    assert ask(queue, "SELECT orfaos FROM situacao") == [(1,)]


def test_a_document_given_up_is_ended_as_one_that_failed(queue: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 2, '1 microsecond')")
    ask(queue, "SELECT * FROM falhar(1, 'worker-a', 'queda')")
    ask(queue, "SELECT * FROM recuperar('queda', p_max_tentativas => 1)")
    ended = "status, worker_id, reservado_ate, concluido_em > iniciado_em, ultimo_erro"
    rows = ask(queue, f"SELECT {ended} FROM fila_documentos WHERE documento_id < 3 ORDER BY documento_id")
    assert rows == 2 * [("falhou", "worker-a", None, True, "queda")]


def test_in_work_without_a_deadline_is_orphaned_and_can_be_recovered(queue: str) -> None:
    execute(queue, f"UPDATE {TABLE} SET status = 'processando', worker_id = 'worker-a' WHERE documento_id = 1")
    assert ask(queue, "SELECT aguardando, executando, orfaos, maior_atraso FROM situacao") == [(3, 0, 1, None)]
    assert ask(queue, "SELECT documento_id, status, worker_anterior FROM recuperar()") == [(1, "pendente", "worker-a")]


def test_the_view_tells_how_late_the_latest_is_and_counts_each_document_once(queue: str) -> None:
    ask(queue, "SELECT * FROM reservar('worker-a', 1, '10 minutes')")
    ask(queue, "SELECT * FROM reservar('worker-b', 1, '20 minutes')")
    ask(queue, "SELECT * FROM reservar('worker-c', 1, '10 hours')")
    ask(queue, "SELECT * FROM concluir(3, 'worker-c')")
    move(queue, "1 hour")
    columns = "aguardando, executando, orfaos, concluidos, falhos, date_trunc('minute', maior_atraso)"
    assert ask(queue, f"SELECT {columns} FROM situacao") == [(1, 0, 2, 1, 0, timedelta(minutes=50))]


# The clock


def test_an_outcome_that_had_to_wait_is_written_with_the_time_after_the_wait(module_database: str) -> None:
    build(module_database, 5)
    told = parsed(
        "-- @builds_on 05_lease\n"
        "-- @step a_claims A\nSELECT documento_id FROM reservar('worker-a', 1, '1 hour');\n"
        "-- @step b_begin B\nBEGIN;\n"
        "-- @step b_locks B\nSELECT documento_id FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;\n"
        "-- @step a_finishes A blocks B\nSELECT status FROM concluir(1, 'worker-a');\n"
        "-- @step c_moves C\nUPDATE relogio_do_laboratorio SET adiantado = INTERVAL '30 minutes';\n"
        "-- @step b_commits B\nCOMMIT;\n"
        "-- @ends a_finishes\n"
        "-- @step c_looks C\nSELECT concluido_em - iniciado_em >= '30 minutes' FROM fila_documentos WHERE documento_id = 1;\n"
    )
    with nothing_left(module_database):
        played = play(told, module_database)
    assert played.failure is None
    assert (played["a_finishes"].value, played["c_looks"].value) == ("concluido", "t")


def test_a_recovery_that_had_to_wait_is_written_with_the_time_after_the_wait(module_database: str) -> None:
    build(module_database, 5)
    told = parsed(
        "-- @builds_on 05_lease\n"
        "-- @step a_claims A\nSELECT documento_id FROM reservar('worker-a', 1, '1 microsecond');\n"
        "-- @step b_begin B\nBEGIN;\n"
        "-- @step b_locks B\nLOCK TABLE fila_documentos IN ACCESS EXCLUSIVE MODE;\n"
        "-- @step o_recovers O blocks B\nSELECT status FROM recuperar('queda', p_max_tentativas => 1);\n"
        "-- @step c_moves C\nUPDATE relogio_do_laboratorio SET adiantado = INTERVAL '30 minutes';\n"
        "-- @step b_commits B\nCOMMIT;\n"
        "-- @ends o_recovers\n"
        "-- @step c_looks C\nSELECT concluido_em - iniciado_em >= '30 minutes' FROM fila_documentos WHERE documento_id = 1;\n"
    )
    with nothing_left(module_database):
        played = play(told, module_database)
    assert played.failure is None
    assert (played["o_recovers"].value, played["c_looks"].value) == ("falhou", "t")


# The scripts


def test_the_script_runs_twice_in_a_row_and_leaves_what_is_in_the_queue(queue_database: str) -> None:
    first = psql(queue_database, SCRIPT)
    ask(queue_database, "SELECT * FROM reservar('worker-a', 2, '1 hour')")
    before = everything(queue_database)
    second = psql(queue_database, SCRIPT)
    assert (first.returncode, first.stderr, second.returncode, second.stderr) == (0, "", 0, "")
    assert "          4 |          0 |      0 |          0 |      0" in first.stdout
    assert "          2 |          2 |      0 |          0 |      0" in second.stdout
    assert everything(queue_database) == before


def test_the_script_runs_whatever_the_session_brings(queue_database: str) -> None:
    settings = "-c search_path=pg_catalog -c client_min_messages=debug1 -c timezone=Asia/Tokyo"
    done = psql(queue_database, SCRIPT, PGOPTIONS=settings)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


def test_whoever_was_in_work_before_the_upgrade_gets_a_deadline_once(queue_database: str) -> None:
    execute(queue_database, f"UPDATE {TABLE} SET status = 'processando', worker_id = 'worker-a' WHERE documento_id = 1")
    run_scripts(queue_database, SCRIPT, CLOCK)
    assert ask(queue_database, "SELECT executando, orfaos FROM situacao") == [(1, 0)]
    before = everything(queue_database)
    run_scripts(queue_database, SCRIPT, CLOCK)
    assert everything(queue_database) == before
    move(queue_database, "61 minutes")
    assert ask(queue_database, "SELECT documento_id FROM recuperar()") == [(1,)]


@pytest.mark.parametrize("state", ["06", "07", "20"])
def test_the_script_refuses_a_later_state(queue: str, state: str) -> None:
    execute(queue, f"COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state {state}'")
    before = everything(queue)
    done = psql(queue, SCRIPT)
    assert done.returncode != 0
    assert f"the queue has grown to state {state}; this script belongs to states 01 to 05" in done.stderr
    assert everything(queue) == before


def test_the_scripts_refuse_where_the_labs_queue_is_not(own_server: Target, database: str) -> None:
    assert "the lab's queue is not in database" in psql(database, SCRIPT).stderr
    execute(database, MINE)
    assert "the lab's queue is not in database" in psql(database, SCRIPT).stderr
    assert "the lab's queue is not in database" in psql(database, CLOCK).stderr
    assert fetch(database, "SELECT relname FROM pg_class WHERE relnamespace = 'sql_semana_12'::regnamespace") == [
        ("meu",)
    ]


def test_the_labs_clock_wants_state_05(queue_database: str) -> None:
    done = psql(queue_database, CLOCK)
    assert done.returncode != 0
    assert "the queue is in state 01; this script needs state 05 first" in done.stderr


def test_the_labs_clock_can_be_set_right_and_runs_as_fast_as_the_databases(queue: str) -> None:
    right = "SELECT relogio() - clock_timestamp() BETWEEN '-1 second' AND '1 second'"
    move(queue, "2 days")
    assert ask(queue, right) == [(False,)]
    assert psql(queue, CLOCK).returncode == 0
    assert ask(queue, right) == [(True,)]


def test_every_function_has_one_overload_and_says_what_it_does(queue: str) -> None:
    functions = fetch(
        queue,
        "SELECT proname, count(*), bool_and(obj_description(oid, 'pg_proc') <> '') FROM pg_proc"
        " WHERE pronamespace = 'sql_semana_12'::regnamespace GROUP BY proname",
    )
    assert len(functions) >= 8
    assert [row for row in functions if row[1:] != (1, True)] == []


def test_a_stranger_may_not_reach_the_functions(own_server: Target, queue: str) -> None:
    execute(queue, "CREATE ROLE sql_semana_12_test_stranger NOLOGIN")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(queue, "SET ROLE sql_semana_12_test_stranger; SELECT * FROM sql_semana_12.reservar('worker-x')")
    finally:
        execute(queue, "DROP ROLE sql_semana_12_test_stranger")


def test_every_scenario_of_the_lesson_has_its_claim() -> None:
    told = registry.find("05")
    assert {scenario.name.replace("_", ".", 1) for scenario in library.scenarios("05_lease")} <= {
        claim.id for claim in told.checks
    }


def test_every_check_of_lesson_05_passes(stage: Stage) -> None:
    check_lesson("05_lease", stage)
