"""The lab's clock stands still while people talk."""

from __future__ import annotations

import time

import psycopg
import pytest

from lab.lessons.standing_clock import StandingClock
from lab.scenario.library import find_scenario
from tests.helpers import rows

SECONDS = 0.4
LEFT = "SELECT extract(epoch FROM reservado_ate - relogio())::FLOAT FROM fila_documentos WHERE documento_id = 1"


def left(connection: psycopg.Connection) -> float:
    ((seconds,),) = rows(connection, LEFT)
    assert isinstance(seconds, float)
    return seconds


def test_a_lease_keeps_its_time_while_people_talk_and_goes_on_after_it(grown: str) -> None:
    with psycopg.connect(grown, autocommit=True, options="-c search_path=sql_semana_12") as connection:
        ((before,),) = rows(connection, "SELECT pg_get_functiondef('relogio()'::REGPROCEDURE)")
        clock = StandingClock(connection, find_scenario("06_late_writes"))
        connection.execute("SELECT reservar('worker-a', p_prazo => '30 seconds')")
        for _ in range(2):
            with clock.standing():
                at_first = left(connection)
                time.sleep(SECONDS)
                assert left(connection) == at_first
            assert at_first - SECONDS / 2 < left(connection) < at_first
        time.sleep(SECONDS)
        assert left(connection) < at_first - SECONDS
        clock.remove()
        assert left(connection) < at_first - 2 * SECONDS  # as if it had never stood
        assert rows(connection, "SELECT pg_get_functiondef('relogio()'::REGPROCEDURE)") == [(before,)]
        assert rows(connection, "SELECT to_regclass('relogio_parado')") == [(None,)]


def test_a_statement_that_waits_through_the_talk_does_not_see_it(grown: str) -> None:
    options = "-c search_path=sql_semana_12"
    with (
        psycopg.connect(grown, autocommit=True, options=options) as connection,
        psycopg.connect(grown, options=options) as holder,
        psycopg.connect(grown, autocommit=True, options=options) as waiter,
    ):
        clock = StandingClock(connection, find_scenario("06_late_writes"))
        connection.execute("SELECT reservar('worker-a', p_prazo => '30 seconds')")
        holder.execute("SELECT FROM fila_documentos WHERE documento_id = 1 FOR UPDATE")
        begun = left(connection)
        waiter.pgconn.send_query(f"{LEFT} FOR UPDATE".encode())
        with clock.standing():
            while not rows(
                connection, "SELECT 1 WHERE cardinality(pg_blocking_pids(%s)) > 0", waiter.pgconn.backend_pid
            ):
                pass
            time.sleep(SECONDS)
        holder.rollback()
        while waiter.pgconn.is_busy():
            waiter.pgconn.consume_input()
        result = waiter.pgconn.get_result()
        assert result is not None
        assert begun - float((result.get_value(0, 0) or b"").decode()) < SECONDS / 2
        while waiter.pgconn.get_result() is not None:
            pass


def test_before_lesson_05_there_is_no_clock_to_stop(queue_database: str) -> None:
    with psycopg.connect(queue_database, autocommit=True) as connection:
        clock = StandingClock(connection, find_scenario("06_late_writes"))
        with clock.standing():
            pass
        clock.remove()
        with pytest.raises(psycopg.errors.UndefinedFunction):
            connection.execute("SELECT sql_semana_12.relogio()")


def test_where_a_scenario_reads_the_servers_clock_the_labs_goes_on(grown: str) -> None:
    with psycopg.connect(grown, autocommit=True, options="-c search_path=sql_semana_12") as connection:
        connection.execute("SELECT reservar('worker-a', p_prazo => '30 seconds')")
        with StandingClock(connection, find_scenario("05_now_loop")).standing():
            at_first = left(connection)
            assert left(connection) < at_first
