"""The worker's connection: statements that are sent again, and answers that are lost, late or refused."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import pq

from lab.base.errors import LabError
from lab.worker import client, worker
from lab.worker.client import Queue
from lab.worker.failures import NotSent, Unanswered
from lab.worker.worker import Options
from tests.helpers import execute, terminate
from tests.worker.pretended import Pretended, Pure, Run, Said, claimed, document, taken_away

# Finishing together with the next claim


def test_a_finish_and_a_claim_answer_each_for_itself(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    versions, claims = queue.finish_and_claim([(claim, "R-1")], "worker-a", 2, 30, None)
    assert (versions, [each.document for each in claims]) == ([2], [2, 3])
    assert queue.finish_all([(claims[1], None), (claim, None), (claims[0], "R-2")]) == [2, None, 2]
    queue.close()


@pytest.mark.parametrize("batch", [[1, 2], [2, 1]])
def test_a_batch_is_locked_in_the_order_of_its_keys_whatever_its_own(queue_09: str, batch: list[int]) -> None:
    # So that the plan meets the rows in the order of the batch, unless they are put in that of their keys.
    execute(
        queue_09,
        "SELECT sql_semana_12.enfileirar('K' || n, 'k.xml', '<nfe/>') FROM generate_series(1, 2000) AS n;"
        " DROP INDEX sql_semana_12.fila_documentos_processando_idx; ANALYZE sql_semana_12.fila_documentos",
    )
    queue = Queue(queue_09, "lab/test")
    claims = {claim.document: claim for claim in queue.claim("worker-a", 2, 30, None)}
    done = [(claims[number], None) for number in batch]
    answers: list[list[int | None]] = []
    with psycopg.connect(queue_09) as stranger, psycopg.connect(queue_09, autocommit=True) as watch:
        stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")
        finishing = threading.Thread(target=lambda: answers.append(queue.finish_all(done)))
        finishing.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while watch.execute(waits, [stranger.info.backend_pid]).fetchone() != (1,):
            assert finishing.is_alive()
        # It waits for the first, and holds nothing that the session with the first could wait for.
        watch.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 2 FOR UPDATE NOWAIT")
        stranger.rollback()
        finishing.join()
    queue.close()
    assert answers == [[2, 2]]


# Connections that are lost


def cut_answer(queue: Queue, to: str) -> None:
    """Let the server do the next statement in which this stands, and lose its answer."""
    answer = queue._answer
    cut: list[str] = []

    def lossy(connection: psycopg.Connection, statement: client.Statement, values: Sequence[object]) -> pq.abc.PGresult:
        given = answer(connection, statement, values)
        if not cut and (to in statement.text or to in values):
            cut.append(to)
            connection.close()
            raise psycopg.OperationalError("the connection is lost")
        return given

    queue._answer = lossy  # type: ignore[method-assign]


def test_a_connection_that_is_lost_comes_back_and_the_outcome_is_sent_again(queue_09: str, run: Run) -> None:
    ran = run(Pretended(before_calling=lambda: terminate(queue_09, "lab/worker-a")))
    assert ran.names() == ["claimed", "stage", "called", "stage", "finished"]
    assert len(ran.of("database_lost")) == 1
    assert document(queue_09)[0] == "concluido"


def test_a_batch_whose_connection_is_lost_is_sent_again(queue_09: str, run: Run) -> None:
    ran = run(Pure(meanwhile=lambda: terminate(queue_09, "lab/worker-a")), batch=4, rounds=2)
    assert len(ran.of("finished")) == 4
    assert len(ran.of("database_lost")) == 1


@pytest.mark.parametrize(
    ("to", "error", "names", "left"),
    [
        ("desconhecido", None, ["claimed", "stage", "called", "stage", "finished"], "concluido"),
        ("obtido", None, ["claimed", "stage", "called", "stage", "finished"], "concluido"),
        ("concluir_lote", None, ["claimed", "stage", "called", "stage", "perhaps_written"], "concluido"),
        ("nao_chamado", NotSent("conexao", "x"), ["claimed", "stage", "stage", "failed"], "pendente"),
        ("falhar", Unanswered("sistemico", "x"), ["claimed", "stage", "perhaps_written"], "pendente"),
        ("reservar", None, [], "processando"),
    ],
)
def test_the_answer_to_a_statement_is_lost_and_it_is_sent_again(
    queue_09: str, said: Said, to: str, error: Exception | None, names: list[str], left: str
) -> None:
    made = worker.make(queue_09, Pretended(calls_raise=error), Options("worker-a", rounds=1, beat=0.0))
    cut_answer(made._queue, to)
    made.run()
    ran = said()
    assert (ran.names(), document(queue_09)[0], len(ran.of("database_lost"))) == (names, left, 1)
    assert ran.of("refused") == []  # that is what is said of a late write, and this is none


def test_a_stage_that_is_sent_again_is_recorded_again(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    assert [queue.record(claim, "desconhecido", None, 30) for _ in range(2)] == [2, 3]
    assert [queue.record(claim, "obtido", "R-1", 30) for _ in range(2)] == [4, 5]
    assert queue.finish(claim, None) == 6
    queue.close()


@pytest.mark.usefixtures("hasty")
def test_connections_that_are_lost_one_after_the_other_do_not_end_the_worker(queue_09: str, said: Said) -> None:
    made = worker.make(queue_09, Pretended(), Options("worker-a", rounds=2, poll=0.01, beat=0.0))
    connected, left = made._queue._connected, list(range(client.TRIES))

    def cut() -> psycopg.Connection:
        connection = connected()
        if left and left.pop() is not None:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
        return connection

    made._queue._connected = cut  # type: ignore[method-assign]
    made.run()
    ran = said()
    assert (len(ran.of("database_lost")), len(ran.of("error"))) == (client.TRIES - 1, 1)
    assert document(queue_09)[0] == "concluido"


# Refusals and collisions


CLAIMS = "exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)"


FINISHES = "exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])"


def refusing(conninfo: str, sqlstate: str, times: int = 1000, what: str = CLAIMS) -> None:
    """Claims are refused with this SQLSTATE so many times (a sequence counts on when its transaction is rolled back)."""
    execute(
        conninfo,
        "CREATE SEQUENCE sql_semana_12.recusas;"
        f"CREATE OR REPLACE FUNCTION sql_semana_12.{what} RETURNS VOID"
        " LANGUAGE plpgsql SET search_path = sql_semana_12, pg_temp AS $$ BEGIN"
        f" IF nextval('recusas') <= {times} THEN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END IF; END $$",
    )


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time between two tries."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("sqlstate", ["25006", "XX000", "57014", "55P03", "53300", "58030", "0A000", "P0001"])
def test_what_passes_by_is_waited_for(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate, times=2)
    ran = run(Pretended(), rounds=3)
    assert [event["sqlstate"] for event in ran.of("error")] == [sqlstate] * 2
    assert document(queue_09)[0] == "concluido"


@pytest.mark.parametrize("sqlstate", ["42501", "42883", "22023", "3F000"])
def test_what_the_next_claim_would_meet_too_ends_the_worker(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate)
    with pytest.raises(LabError, match=f"SQLSTATE {sqlstate}.*psql -X -f sql/01_queue.sql, then 05 to 09"):
        run(Pretended(), rounds=3)


def test_a_finish_that_is_refused_is_not_taken_for_the_claim(queue_09: str, run: Run) -> None:
    refusing(queue_09, "22023", what=FINISHES)
    ran = run(Pure(), batch=2, rounds=4)
    assert [event["sqlstate"] for event in ran.of("error")] == ["22023"] * 2
    assert {document(queue_09, number)[0] for number in (1, 2, 3, 4)} == {"concluido"}


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
@pytest.mark.usefixtures("hasty")
def test_a_collision_is_tried_again(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate, times=2)
    ran = run(Pretended())
    assert [event["sqlstate"] for event in ran.of("collision")] == [sqlstate] * 2
    assert document(queue_09)[0] == "concluido"


@pytest.mark.usefixtures("hasty")
def test_a_late_write_that_collided_first_is_a_late_write(queue_09: str, run: Run) -> None:
    refusing(queue_09, "40P01", times=1, what=FINISHES)
    ran = run(Pure(meanwhile=lambda: taken_away(queue_09, 2)), batch=4)
    assert (len(ran.of("collision")), ran.names(2)) == (1, ["claimed", "refused"])


def test_the_time_between_two_tries_grows(queue_09: str) -> None:
    refusing(queue_09, "40P01", times=4)
    queue = Queue(queue_09, "lab/test")
    waited: list[float] = []
    queue._given_up.wait = waited.append  # type: ignore[method-assign, assignment]
    assert len(queue.claim("worker-a", 1, 30, None)) == 1
    queue.close()
    assert waited == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.usefixtures("hasty")
def test_a_collision_is_not_tried_again_without_end(queue_09: str, run: Run) -> None:
    refusing(queue_09, "40P01")
    ran = run(Pretended(), rounds=2)
    assert (len(ran.of("collision")), len(ran.of("error"))) == (2 * (client.TRIES - 1), 2)


@pytest.mark.usefixtures("hasty")
def test_a_collision_within_a_transaction_is_for_the_code_that_opened_it(queue_09: str) -> None:
    refusing(queue_09, "40P01", times=1)
    queue = Queue(queue_09, "lab/test")
    with pytest.raises(psycopg.errors.DeadlockDetected), queue.transaction():
        queue.claim("worker-a", 1, 30, None)
    assert len(queue.claim("worker-a", 1, 30, None)) == 1
    queue.close()


@pytest.mark.parametrize("options", [{"lease": 3600.0}, {"batch": 5000}])
def test_what_the_protocol_refuses_ends_the_worker_with_a_sentence(
    queue_09: str, run: Run, options: dict[str, Any]
) -> None:
    with pytest.raises(LabError, match=r"cannot be claimed from .SQLSTATE 22023."):
        run(Pretended(), **options)


def test_a_queue_that_is_not_there_ends_the_worker_with_a_sentence(queue_09: str, run: Run) -> None:
    execute(queue_09, "DROP SCHEMA sql_semana_12 CASCADE")
    with pytest.raises(LabError, match=r"cannot be claimed from .SQLSTATE 3F000."):
        run(Pretended())


def test_who_may_not_see_the_queue_is_told_what_until_empty_takes(queue_09: str) -> None:
    queue = Queue(f"{queue_09} options='-c role=pg_monitor'", "lab/test")
    with pytest.raises(LabError, match="SELECT on fila_documentos"):
        queue.pending(None)
    queue.close()


# The session


def test_a_session_is_pinned_whatever_the_environment_and_the_database_say(
    queue_09: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET datestyle = 'German'")
    execute(queue_09, "UPDATE sql_semana_12.fila_documentos SET conteudo_xml = '<nfe>日</nfe>'")
    for variable, value in {"PGCLIENTENCODING": "LATIN1", "PGDATESTYLE": "SQL", "PGTZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(variable, value)
    ran = run(Pretended(calls_raise=Unanswered("sistemico", "x")))
    assert ran.of("failed")[0]["next_attempt"].endswith("+00:00")


def test_what_the_connection_string_asks_of_the_server_is_kept(queue_09: str) -> None:
    queue = Queue(f"{queue_09} options='-c work_mem=7MB' keepalives_idle=77", "lab/test")
    connection = queue._connected()
    assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
    assert {"keepalives_idle": "77", "tcp_user_timeout": "40000"}.items() <= connection.info.get_parameters().items()
    queue.close()
