"""The measuring core: rounds go in turns, a duplicate voids the run, and what the server counts is counted."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import psycopg
import pytest

from lab.base.errors import CannotRunHere
from lab.measure import counters, rounds
from lab.measure.rounds import Void, Way, compare, together
from lab.server.session import SessionPins
from tests.conftest import nothing_left
from tests.helpers import execute, fetch

TABLE = "CREATE SCHEMA IF NOT EXISTS sql_semana_12; CREATE TABLE IF NOT EXISTS sql_semana_12.contada (n integer) WITH (fillfactor = 20)"


@pytest.fixture
def table(module_database: str) -> str:
    """The conninfo of a database with an empty table `contada`."""
    execute(module_database, f"{TABLE}; TRUNCATE sql_semana_12.contada")
    return module_database


def test_rounds_go_in_turns_and_the_first_is_not_kept(table: str) -> None:
    ran: list[str] = []
    said: list[str] = []
    ways = [Way(name, lambda name=name: ran.append(name) or 1, lambda: ran.append("p")) for name in "AB"]  # type: ignore[misc, func-returns-value]
    measured = compare(table, ways, 2, seed=7, seen=said.append)
    assert "".join(ran) == "pApB" * 3
    assert {(each.way, each.round) for each in measured.figures} == {(way, turn) for way in "AB" for turn in (1, 2)}
    assert len(said) == 2 and said[0].startswith("  round 1 of 2 done")


def test_what_the_server_counted_is_of_the_run_alone(table: str) -> None:
    def change(connection: psycopg.Connection, number: int) -> None:
        connection.execute("UPDATE contada SET n = n + 1")

    def run() -> int:
        together(table, 2, change)
        return 20

    def fill() -> None:
        execute(
            table, "TRUNCATE sql_semana_12.contada; INSERT INTO sql_semana_12.contada SELECT generate_series(1, 10)"
        )

    measured = compare(table, [Way("change", run, fill)], 2, tables=["contada"])
    assert measured.of("change", "updates").median == 1
    assert measured.of("change", "hot_share").smallest == 1
    assert 40 < measured.of("change", "wal_bytes").median < 2000
    assert measured.of("change", "dead_rows").median == 20
    with pytest.raises(KeyError):
        measured.of("change", "no such figure")


def test_a_duplicate_effect_voids_the_run_whatever_its_throughput(table: str) -> None:
    said: list[str] = []
    ways = [Way("right", lambda: 1), Way("wrong", lambda: 1000, duplicates=lambda: 1)]
    with pytest.raises(Void, match=r"void.*1 effects were made twice") as caught:
        compare(table, ways, 3, seen=said.append)
    assert (caught.value.duplicates, said) == (1, [])


def test_a_wait_for_a_lock_is_seen(table: str) -> None:
    def hold(connection: psycopg.Connection, number: int) -> None:
        with connection.transaction():
            connection.execute("LOCK TABLE contada")
            time.sleep(0.2)

    def run(clients: int) -> int:
        together(table, clients, hold)
        return clients

    measured = compare(table, [Way("alone", lambda: run(1)), Way("both", lambda: run(2))], 1, warm_up=0)
    assert measured.of("alone", "lock_waits").median == 0
    assert measured.of("both", "lock_waits").median > 3
    assert measured.of("both", "connections").median == 2
    assert measured.of("both", "wait Lock:relation").median > 0


def test_the_table_is_tidy_and_says_what_its_figures_hang_on(table: str, tmp_path: Path) -> None:
    measured = compare(table, [Way("one", lambda: 1)], 2, seed=11)
    frame = measured.frame()
    assert tuple(frame.columns) == rounds.COLUMNS
    assert len(frame[frame.figure == "rate"]) == 2
    measured.write(tmp_path / "figures.csv")
    lines = (tmp_path / "figures.csv").read_text(encoding="utf-8").splitlines()
    head = [line for line in lines if line.startswith("# ")]
    assert [line for line in head if line.startswith("# postgresql: PostgreSQL ")]
    assert "# seed: 11" in head and [line for line in head if line.startswith("# commit: ")]
    assert lines[len(head)] == ",".join(rounds.COLUMNS) and len(lines) == len(head) + 1 + len(frame)


def test_sessions_are_released_together(table: str) -> None:
    def at(connection: psycopg.Connection, number: int) -> float:
        return time.monotonic()

    with nothing_left(table):
        times, seconds = together(table, 8, at)
    assert len(times) == 8 and max(times) - min(times) < 0.1 and seconds < 1


def test_an_error_of_one_client_is_raised_and_no_session_is_left(table: str) -> None:
    def fail(connection: psycopg.Connection, number: int) -> None:
        connection.execute("SELECT 1 / %s", [number])

    with nothing_left(table), pytest.raises(psycopg.errors.DivisionByZero):
        together(table, 3, fail)


def test_more_connections_than_can_be_had_are_not_run(table: str) -> None:
    with nothing_left(table), pytest.raises(CannotRunHere, match="150 connections"):
        together(table, 150, lambda connection, number: None)


def test_after_an_interruption_nothing_is_left(table: str) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def work(connection: psycopg.Connection, number: int) -> None:
        if number == 0:
            signal.pthread_kill(main, signal.SIGINT)
        connection.execute("SELECT pg_sleep(60)")

    started = time.monotonic()
    with nothing_left(table), pytest.raises(KeyboardInterrupt):
        together(table, 3, work)
    assert time.monotonic() - started < 5


def test_counters_leave_out_what_the_server_does_not_count(table: str) -> None:
    with SessionPins().psycopg_connection(table, "lab/test") as connection:
        counted = counters.counters(connection)
    assert counted["wal_bytes"] > 0 and "updates" not in counted
    extension = fetch(table, "SELECT to_regclass('pg_stat_statements') IS NOT NULL")
    assert ("statements" in counted) == (extension == [(True,)])
