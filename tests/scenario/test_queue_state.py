"""What an observer sees of the queue while a play goes on, and that it never holds the play up."""

from __future__ import annotations

import time
from datetime import timedelta

import psycopg

from lab.scenario.grammar import Step
from lab.scenario.library import find_scenario
from lab.scenario.player import play
from lab.scenario.queue_state import Document, QueueState, observing
from lab.scenario.result import Event, Play
from tests.conftest import QueueInState
from tests.helpers import execute, parsed

CLAIMS = """\
-- @step a_begin A
BEGIN;
-- @step a_claims A
UPDATE fila_documentos SET status = 'processando', worker_id = 'worker-a' WHERE documento_id = 1 RETURNING documento_id;
-- @step a_commits A
COMMIT;
"""


def test_a_document_has_what_the_lessons_table_has_and_none_for_the_rest(queue_in_state: QueueInState) -> None:
    with queue_in_state(1) as conninfo, observing(conninfo) as observer:
        state = observer.read()
        assert (state.unknown, state.clock, state.longest) == (None, None, None)
        assert [each.documento_id for each in state.documents] == [1, 2, 3, 4]
        assert state.document(1) == Document(
            1, "NFE-0001", "pendente", None, None, None, None, 0, None, None, None, None, None
        )
        assert state.document(5) is None
    with queue_in_state(10) as conninfo, observing(conninfo) as observer:
        execute(conninfo, "SELECT sql_semana_12.reservar('worker-a')")
        execute(conninfo, "SELECT sql_semana_12.registrar_etapa(1, 1, 'desconhecido')")
        execute(conninfo, "SELECT sql_semana_12.registrar_etapa(1, 1, 'obtido', 'R-000001')")
        execute(conninfo, "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = INTERVAL '1 minute'")
        state = observer.read()
        first = state.document(1)
        assert first and state.clock and first.reserved_until and first.started and first.due
        assert (first.worker_id, first.token, first.tries, first.stage, first.category) == (
            "worker-a",
            1,
            1,
            "obtido",
            None,
        )
        assert (first.external_reference, first.version) == ("R-000001", 3)
        assert state.longest == timedelta(minutes=15)
        assert timedelta(seconds=30) <= first.reserved_until - first.started < timedelta(seconds=40)
        assert timedelta(seconds=59) < state.clock - first.started < timedelta(seconds=90)  # the lab's clock, moved


def test_every_lessons_queue_can_be_read_on_one_connection(queue_in_state: QueueInState) -> None:
    for state in range(1, 11):
        with queue_in_state(state) as conninfo, observing(conninfo) as observer:
            read = observer.read()
            assert (read.unknown, len(read.documents), read.clock is None) == (None, 4, state < 5)


def test_a_queue_that_goes_away_or_comes_back_with_more_columns_is_read_on(queue_in_state: QueueInState) -> None:
    with queue_in_state(10) as conninfo, observing(conninfo) as observer:
        for _ in range(7):  # from the fifth on psycopg would prepare the statement
            assert observer.read().documents
        execute(conninfo, "ALTER TABLE sql_semana_12.fila_documentos ADD COLUMN nota TEXT")
        assert len(observer.read().documents) == 4
        execute(conninfo, "DROP SCHEMA sql_semana_12 CASCADE")
        assert observer.read() == QueueState()


def test_only_what_is_committed_is_seen(queue_database: str) -> None:
    seen = []
    with observing(queue_database) as observer:

        def look(_: Play, event: Event) -> None:
            first = observer.read().document(1)
            assert first and event.run
            seen.append((event.run.step.name, first.status, first.worker_id))

        assert play(parsed(CLAIMS), queue_database, seen=look).failure is None
    assert seen == [
        ("a_begin", "pendente", None),
        ("a_claims", "pendente", None),
        ("a_commits", "processando", "worker-a"),
    ]


def test_a_locked_table_is_unknown_within_a_moment(queue_database: str) -> None:
    with psycopg.connect(queue_database) as holder, observing(queue_database) as observer:
        holder.execute("LOCK TABLE sql_semana_12.fila_documentos")
        started = time.monotonic()
        assert observer.read() == QueueState(unknown="55P03")
        assert (
            time.monotonic() - started < 1.0
        )  # it gives up after 50 ms; without a limit it would wait for the commit below
        holder.commit()
        assert observer.read().documents


def test_it_raises_nothing_when_its_connection_is_lost(queue_database: str) -> None:
    with observing(queue_database) as observer:
        execute(
            queue_database,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'lab/observer'"
            " AND datname = current_database()",
        )
        assert observer.read().unknown
        assert observer.read().unknown


def test_a_play_that_is_observed_goes_as_announced(queue_in_state: QueueInState) -> None:
    which = find_scenario("05_born_expired")  # two waits for locks, the lab's clock moved
    with queue_in_state(5) as conninfo, observing(conninfo) as observer:

        def before(_: Play, __: Step) -> None:
            assert observer.read().unknown is None

        assert (
            play(which, conninfo, before=before, seen=lambda played, _: before(played, which.steps[0])).failure is None
        )
        assert observer.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
