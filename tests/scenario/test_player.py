"""The player: what a scenario announces is what must be seen, and whatever happens nothing is left behind.

Every test has a database of its own, which is watched: no session, thread or process outlives the test (conftest.nothing_left).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from lab.base.errors import PlayError, ServerError
from lab.scenario import transcript
from lab.scenario.grammar import Scenario, Step
from lab.scenario.library import find_scenario
from lab.scenario.player import play
from lab.scenario.result import Event, Play
from lab.server.session import SessionPins
from tests.helpers import WAIT, execute, fetch, mutated, parsed, terminate


def failure(scenario: Scenario, conninfo: str, limit: float = 20.0) -> str:
    """Play a scenario that must fail; returns why it did, after seeing that the database can be worked in again."""
    played = play(scenario, conninfo, limit=limit)
    assert played.failure is not None, transcript.golden(played)
    assert_free(conninfo)
    return played.failure


def assert_free(conninfo: str, patience: str = "1ms") -> None:
    """No lock of the play is left: a lock on the whole table is had at once."""
    execute(
        conninfo, f"SET lock_timeout = '{patience}'; LOCK TABLE sql_semana_12.fila_documentos IN ACCESS EXCLUSIVE MODE"
    )


def kinds(played: Play) -> list[tuple[str, str]]:
    """What was seen, in order: the kind of event and the step's name, or the notice's text."""
    return [
        (event.kind, event.run.step.name if event.run else event.notice.message if event.notice else "")
        for event in played.events
    ]


def when(name: str, kind: str, act: Callable[[], None]) -> Callable[[Play, Event], None]:
    """A callback for `seen` that acts when the step of that name is reported so."""

    def seen(played: Play, event: Event) -> None:
        if event.kind == kind and event.run is not None and event.run.step.name == name:
            act()

    return seen


# What goes as announced


def test_a_wait_is_seen_named_and_ended_where_the_scenario_says(queue_database: str) -> None:
    played = play(parsed(WAIT), queue_database)
    assert played.failure is None
    assert kinds(played) == [
        ("done", "a_begin"), ("done", "a_locks"), ("waiting", "b_asks"), ("done", "a_commits"), ("completed", "b_asks"),
    ]  # fmt: skip
    asks = played["b_asks"]
    assert (asks.outcome, asks.waited_for, asks.columns, asks.rows) == ("done", ("A",), ("documentos",), (("4",),))
    assert asks.wait_ms is not None and asks.wait_ms < 5000
    assert played["a_locks"].wait_ms is None


def test_a_wait_is_concluded_from_the_server_not_from_time(queue_database: str) -> None:
    """B computes for far longer than the player's poll, without waiting for anybody."""
    busy = parsed("-- @step b_counts B\nSELECT count(*) FROM generate_series(1, 1500000);\n")
    played = play(busy, queue_database)
    assert played.failure is None
    assert played["b_counts"].seconds > 0.05
    assert played["b_counts"].waited_for == ()


def test_a_step_may_wait_for_two_sessions_and_names_both(queue_database: str) -> None:
    two = parsed(
        "-- @step a_begin A\nBEGIN;\n-- @step a_reads A\nLOCK TABLE fila_documentos IN ROW EXCLUSIVE MODE;\n"
        "-- @step b_begin B\nBEGIN;\n-- @step b_reads B\nLOCK TABLE fila_documentos IN ROW EXCLUSIVE MODE;\n"
        "-- @step c_begin C\nBEGIN;\n-- @step c_locks C blocks B\nLOCK TABLE fila_documentos;\n"
        "-- @step a_ends A\nCOMMIT;\n-- @step b_ends B\nCOMMIT;\n-- @ends c_locks\n-- @step c_ends C\nCOMMIT;\n"
    )
    played = play(two, queue_database)
    assert played.failure is None
    assert played["c_locks"].waited_for == ("A", "B")


CHAIN = (
    "-- @step a_begin A\nBEGIN;\n-- @step a_takes A\nUPDATE fila_documentos SET worker_id = 'a' WHERE documento_id = 1;\n"
    "-- @step b_begin B\nBEGIN;\n-- @step b_takes B\nUPDATE fila_documentos SET worker_id = 'b' WHERE documento_id = 2;\n"
    "-- @step b_asks B blocks A\nSELECT worker_id FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;\n"
    "-- @step c_asks C blocks B\nSELECT worker_id FROM fila_documentos WHERE documento_id = 2 FOR UPDATE;\n"
    "-- @step a_ends A\nCOMMIT;\n-- @ends b_asks\n-- @step b_ends B\nCOMMIT;\n-- @ends c_asks\n"
)


def test_in_a_chain_each_waiter_waits_for_the_one_before_it(queue_database: str) -> None:
    played = play(parsed(CHAIN), queue_database)
    assert played.failure is None
    assert (played["b_asks"].waited_for, played["c_asks"].waited_for) == (("A",), ("B",))
    assert (played["b_asks"].value, played["c_asks"].value) == ("a", "b")


QUEUE_OF_WAITERS = (
    "-- @step a_begin A\nBEGIN;\n-- @step a_takes A\nSELECT chave FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;\n"
    "-- @step b_begin B\nBEGIN;\n-- @step b_asks B blocks A\nSELECT chave FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;\n"
    "-- @step c_asks C blocks B\nSELECT chave FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;\n"
    "-- @step a_ends A\nCOMMIT;\n-- @ends b_asks\n-- @step b_ends B\nCOMMIT;\n-- @ends c_asks\n"
)


def test_a_waiter_behind_a_waiter_goes_on_waiting_when_the_first_is_served(queue_database: str) -> None:
    """C's wait is over for a moment when A commits, then goes on behind B: that is one wait."""
    for _ in range(5):
        played = play(parsed(QUEUE_OF_WAITERS), queue_database)
        assert played.failure is None, played.failure


DEADLOCK = (
    # B looks for a deadlock long before A does, so B is the victim; 400 ms are enough to be seen waiting.
    "-- @step a_patient A\nSET deadlock_timeout = '10s';\n-- @step b_hasty B\nSET deadlock_timeout = '400ms';\n"
    "-- @step a_begin A\nBEGIN;\n-- @step a_takes A\nUPDATE fila_documentos SET worker_id = 'a' WHERE documento_id = 1;\n"
    "-- @step b_begin B\nBEGIN;\n-- @step b_takes B\nUPDATE fila_documentos SET worker_id = 'b' WHERE documento_id = 2;\n"
    "-- @step a_asks A blocks B\nUPDATE fila_documentos SET worker_id = 'a' WHERE documento_id = 2 RETURNING worker_id;\n"
    "-- @step b_asks B blocks A\nUPDATE fila_documentos SET worker_id = 'b' WHERE documento_id = 1;\n"
    "-- @ends b_asks errors 40P01\n-- @ends a_asks\n-- @step a_ends A\nCOMMIT;\n-- @step b_ends B\nROLLBACK;\n"
)


def test_in_a_deadlock_the_announced_victim_fails_and_the_other_goes_on(
    own_server: object, queue_database: str
) -> None:
    played = play(parsed(DEADLOCK), queue_database)
    assert played.failure is None
    assert (played["a_asks"].waited_for, played["b_asks"].waited_for) == (("B",), ("A",))
    assert (played["a_asks"].value, played["b_asks"].sqlstate) == ("a", "40P01")


NOTICES = (
    "-- @setup\nCREATE FUNCTION fala_e_pede() RETURNS INTEGER LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'antes'; "
    "LOCK TABLE fila_documentos; RAISE NOTICE 'depois'; RETURN 1; END $$;\n"
    "-- @step a_begin A\nBEGIN;\n-- @step a_locks A\nLOCK TABLE fila_documentos;\n"
    "-- @step b_asks B blocks A\nSELECT fala_e_pede();\n-- @step a_ends A\nCOMMIT;\n-- @ends b_asks\n"
    "-- @step b_drops B\nDROP TABLE IF EXISTS nada;\n"
    "-- @step b_speaks B\nDO $$ BEGIN RAISE NOTICE 'um;'; RAISE WARNING 'dois' USING ERRCODE = 'QL001'; END $$;\n"
    "-- @step b_raises B errors P0001\nDO $$ BEGIN RAISE EXCEPTION 'recusado'; END $$;\n"
)


def test_notices_stand_before_the_wait_and_after_it_as_they_were_raised(queue_database: str) -> None:
    played = play(parsed(NOTICES), queue_database)
    assert played.failure is None
    assert kinds(played)[2:] == [
        ("notice", "antes"), ("waiting", "b_asks"), ("done", "a_ends"), ("notice", "depois"), ("completed", "b_asks"),
        ("notice", 'table "nada" does not exist, skipping'), ("done", "b_drops"), ("notice", "um;"), ("notice", "dois"),
        ("done", "b_speaks"), ("done", "b_raises"),
    ]  # fmt: skip


def test_a_message_of_our_own_sql_shows_its_text_and_the_servers_only_its_sqlstate(queue_database: str) -> None:
    text = transcript.golden(play(parsed(NOTICES), queue_database))
    assert "\nB: NOTICE 00000: antes\n" in text
    assert "\nB: WARNING QL001: dois\n" in text
    assert "\nERROR P0001 (raise_exception): recusado\n" in text
    assert "\nB: NOTICE 00000\n" in text
    assert "does not exist" not in text


def test_setup_runs_before_and_teardown_after_each_statement_alone(queue_database: str) -> None:
    """VACUUM refuses to run in a transaction, so it could not stand beside another statement."""
    setup = "-- @setup\nVACUUM fila_documentos;\nCREATE TABLE feito (a INTEGER);\n"
    teardown = "-- @teardown\nVACUUM fila_documentos;\nCREATE TABLE acabado (a INTEGER);\n"
    played = play(parsed(f"{setup}-- @step a_sees A\nTABLE feito;\n{teardown}"), queue_database)
    assert played.failure is None
    assert fetch(queue_database, "SELECT to_regclass('sql_semana_12.acabado') IS NOT NULL") == [(True,)]


def test_when_a_play_is_over_its_backends_are_gone(queue_database: str) -> None:
    """A closed connection's backend ends a moment later; the next play must not meet its locks."""
    with psycopg.connect(queue_database, autocommit=True) as watch:
        for _ in range(5):
            play(parsed(WAIT.replace("COMMIT;", "SELECT 1/0;")), queue_database)
            left = "SELECT application_name FROM pg_stat_activity WHERE application_name ~ '^lab/[AB]$'"
            assert watch.execute(f"{left} AND datname = current_database()".encode()).fetchall() == []


def test_callbacks_see_each_launch_and_each_event(queue_database: str) -> None:
    launched: list[str] = []
    seen: list[str] = []
    play(
        parsed(WAIT),
        queue_database,
        before=lambda played, step: launched.append(step.name),
        seen=lambda played, event: seen.append(event.kind),
    )
    assert launched == ["a_begin", "a_locks", "b_asks", "a_commits"]
    assert seen == ["done", "done", "waiting", "done", "completed"]


def test_sessions_are_pinned_and_named(queue_database: str) -> None:
    settings = ", ".join(f"current_setting('{name}')" for name in (*SessionPins().settings(), "application_name"))
    played = play(parsed(f"-- @step a_asks A\nSELECT {settings};\n"), queue_database)
    pinned = [*SessionPins().settings().values(), "lab/A"]
    assert [value.replace("1min", "60s") for value in played["a_asks"].rows[0] if value] == [
        value.replace("ISO,YMD", "ISO, YMD") for value in pinned
    ]


# What does not: waits


def test_dropping_blocks_fails(queue_database: str) -> None:
    """The parser wants `ends` gone too; then the play meets a wait that is not announced."""
    told = mutated("02_finished_meanwhile", ("b_asks B blocks A", "b_asks B"), ("-- @ends b_asks\n", ""))
    why = failure(told, queue_database)
    assert "step b_asks of session B waits for A, which the scenario does not announce (`blocks A`)" in why
    assert why.startswith("02_finished_meanwhile.sql, line ")


def test_blocks_on_a_step_that_does_not_wait_fails(queue_database: str) -> None:
    told = mutated(
        "03_passes",
        ("@step b_asks B\n", "@step b_asks B blocks A\n"),
        ("-- @step b_ends B\n", "-- @ends b_asks\n-- @step b_ends B\n"),
    )
    why = failure(told, queue_database)
    assert "step b_asks of session B was to wait for A (`blocks A`), but it ended at once (SELECT 1)" in why
    assert "no lock held it up" in why


def test_skip_locked_swapped_in_fails(queue_database: str) -> None:
    theirs = "FOR UPDATE\nLIMIT 1;\n-- @step a_commits A"  # the end of B's query
    why = failure(mutated("02_commit", (theirs, theirs.replace("UPDATE", "UPDATE SKIP LOCKED"))), queue_database)
    assert "step b_asks of session B was to wait for A (`blocks A`), but it ended at once (SELECT 1)" in why


def test_skip_locked_left_out_fails(queue_database: str) -> None:
    told = mutated("03_nowait", ("FOR UPDATE NOWAIT", "FOR UPDATE"))
    assert "step b_asks of session B waits for A, which the scenario does not announce" in failure(told, queue_database)


def test_waiting_for_another_session_than_announced_fails(queue_database: str) -> None:
    told = parsed(WAIT.replace("blocks A", "blocks C") + "-- @step c_asks C\nSELECT 1;\n")
    assert "step b_asks of session B waits for A, not for C as announced" in failure(told, queue_database)


@pytest.mark.parametrize("round_", range(3))
def test_ends_placed_too_late_fails_every_time(queue_database: str, round_: int) -> None:
    """The wait is over with the commit: whether its end is seen before a_more or after it would be chance."""
    told = parsed(WAIT.replace("-- @ends b_asks\n", "-- @step a_more A\nSELECT 1;\n-- @ends b_asks\n"))
    why = failure(told, queue_database)
    assert "step b_asks of session B ended its wait after a_commits; `@ends b_asks` must stand right below that" in why


def test_ends_placed_too_early_fails(queue_database: str) -> None:
    told = parsed(
        WAIT.replace("-- @ends b_asks\n", "").replace("-- @step a_commits", "-- @ends b_asks\n-- @step a_commits")
    )
    why = failure(told, queue_database, limit=0.5)
    assert "step b_asks of session B still waits for A where `@ends b_asks` says that it is over" in why


def test_a_step_that_neither_ends_nor_waits_fails(queue_database: str) -> None:
    told = parsed("-- @step a_counts A\nSELECT count(*) FROM generate_series(1, 2000000000);\n")
    started = time.monotonic()
    why = failure(told, queue_database, limit=0.3)
    assert (
        "step a_counts of session A neither ended nor waited for another session within 0.3 s, so it was cancelled"
        in why
    )
    assert time.monotonic() - started < 5


def test_waiting_for_a_stranger_is_no_wait_of_the_play(queue_database: str) -> None:
    told = parsed("-- @step a_asks A\nSELECT count(*) FROM fila_documentos;\n")
    with psycopg.connect(queue_database) as stranger:
        stranger.execute("LOCK TABLE sql_semana_12.fila_documentos")
        played = play(told, queue_database, limit=0.3)
    assert played.failure is not None
    assert "step a_asks of session A neither ended nor waited for another session" in played.failure
    assert_free(queue_database)


# What does not: errors


def test_a_wrong_sqlstate_on_ends_fails(queue_database: str) -> None:
    told = mutated("02_lock_timeout", ("errors 55P03", "errors 40P01"), ("'2s'", "'200ms'"))
    why = failure(told, queue_database)
    assert "step b_asks of session B was to fail with 40P01, but it failed with 55P03" in why


def test_a_wrong_sqlstate_on_a_plain_step_fails(queue_database: str) -> None:
    why = failure(mutated("03_nowait", ("errors 55P03", "errors 40001")), queue_database)
    assert "step b_asks of session B was to fail with 40001, but it failed with 55P03" in why


def test_an_error_that_is_not_announced_fails(queue_database: str) -> None:
    why = failure(mutated("01_duplicate_key", (" errors 23505", "")), queue_database)
    assert "step a_inserts of session A failed with 23505 (" in why
    assert "which the scenario does not announce" in why


def test_an_error_after_a_wait_that_is_not_announced_fails(queue_database: str) -> None:
    why = failure(mutated("02_lock_timeout", (" errors 55P03", ""), ("'2s'", "'200ms'")), queue_database)
    assert "step b_asks of session B failed with 55P03" in why


def test_an_announced_error_that_does_not_come_fails(queue_database: str) -> None:
    why = failure(mutated("01_duplicate_key", ("VALUES ('NFE-0001'", "VALUES ('NFE-0005'")), queue_database)
    assert "step a_inserts of session A was to fail with 23505, but it ended without an error (INSERT 0 1)" in why


def test_an_announced_error_that_does_not_come_after_a_wait_fails(queue_database: str) -> None:
    why = failure(parsed(WAIT.replace("-- @ends b_asks", "-- @ends b_asks errors 55P03")), queue_database)
    assert "step b_asks of session B was to fail with 55P03, but it ended without an error (SELECT 1)" in why


def test_a_step_that_fails_instead_of_waiting_fails(queue_database: str) -> None:
    told = parsed(WAIT.replace("SELECT count(*) AS documentos FROM fila_documentos;", "SELECT 1/0;"))
    why = failure(told, queue_database)
    assert "step b_asks of session B was to wait for A (`blocks A`), but it failed with 22012" in why


def test_the_server_itself_refuses_two_statements_in_a_step(queue_database: str) -> None:
    """Past the parser's check: what the extended protocol makes sure of."""
    two = Step("a_asks", "A", "SELECT 1; SELECT 2;", 3)
    told = parsed("-- @step a_asks A\nSELECT 1;\n")
    why = failure(Scenario(Path("01_two.sql"), told.claim, told.builds_on, (), (), (two,)), queue_database)
    assert "step a_asks of session A failed with 42601" in why


@pytest.mark.parametrize("statement", ["COPY fila_documentos TO STDOUT;", "COPY fila_documentos (chave) FROM STDIN;"])
def test_a_copy_from_or_to_the_client_is_refused(queue_database: str, statement: str) -> None:
    why = failure(parsed(f"-- @step a_copies A\n{statement}\n"), queue_database)
    assert "step a_copies of session A is a COPY" in why


@pytest.mark.parametrize("part", ["setup", "teardown"])
def test_a_failing_setup_or_teardown_fails_the_play(queue_database: str, part: str) -> None:
    body = "-- @step a_asks A\nSELECT 1;\n"
    broken = f"-- @{part}\nSELECT 1/0;\n"
    why = failure(parsed(broken + body if part == "setup" else body + broken), queue_database)
    assert f"01_made_up.sql: the {part} failed with 22012 (" in why
    assert "in: SELECT 1/0;" in why


def test_a_failing_teardown_does_not_hide_why_the_play_failed(queue_database: str) -> None:
    why = failure(parsed("-- @step a_asks A\nSELECT 1/0;\n-- @teardown\nSELECT 1/0;\n"), queue_database)
    assert "step a_asks of session A failed with 22012" in why


def test_a_step_that_was_not_reached_is_named(queue_database: str) -> None:
    played = play(parsed("-- @step a_asks A\nSELECT 1/0;\n-- @step a_more A\nSELECT 1;\n"), queue_database)
    with pytest.raises(PlayError, match=r"step a_more was not reached.*step a_asks of session A failed with 22012"):
        played["a_more"]


# What does not: lost sessions


def test_a_session_terminated_while_it_waits_fails(queue_database: str) -> None:
    played = play(
        parsed(WAIT), queue_database, seen=when("b_asks", "waiting", lambda: terminate(queue_database, "lab/B"))
    )
    assert played.failure is not None
    assert "step b_asks of session B lost its connection to the server (57P01" in played.failure
    assert played["b_asks"].outcome == "error"
    assert_free(queue_database)


def test_the_next_step_of_a_session_terminated_while_idle_fails(queue_database: str) -> None:
    def before(played: Play, step: Step) -> None:
        if step.name == "a_commits":
            terminate(queue_database, "lab/A")

    played = play(parsed(WAIT), queue_database, before=before)
    assert played.failure is not None
    assert "step a_commits of session A lost its connection to the server (57P01" in played.failure
    assert_free(queue_database)


def test_a_session_that_is_killed_by_its_play_and_not_used_again_is_no_failure(queue_database: str) -> None:
    played = play(find_scenario("04_dead_worker"), queue_database)
    assert played.failure is None


def test_a_lost_monitor_fails(queue_database: str) -> None:
    played = play(
        parsed(WAIT), queue_database, seen=when("a_locks", "done", lambda: terminate(queue_database, "lab/monitor"))
    )
    assert played.failure is not None
    assert "01_made_up.sql: the monitor lost its connection to the server" in played.failure
    assert_free(queue_database, patience="5s")  # without the monitor nothing waited for the backends to end


def test_a_server_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="could not connect"):
        play(parsed(WAIT), f"host={tmp_path} port=1")


# Interruptions


@pytest.mark.parametrize("step", ["a_begin", "b_asks", "a_commits"])
def test_an_interrupt_before_a_launch_leaves_nothing(queue_database: str, step: str) -> None:
    def before(played: Play, launched: Step) -> None:
        if launched.name == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(parsed(WAIT), queue_database, before=before)
    assert_free(queue_database)


@pytest.mark.parametrize(("step", "kind"), [("a_locks", "done"), ("b_asks", "waiting"), ("b_asks", "completed")])
def test_an_interrupt_after_an_event_leaves_nothing(queue_database: str, step: str, kind: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    made = WAIT + "-- @teardown\nCREATE TABLE acabado (a INTEGER);\n"
    with pytest.raises(KeyboardInterrupt):
        play(parsed(made), queue_database, seen=when(step, kind, interrupt))
    assert_free(queue_database)
    assert fetch(queue_database, "SELECT to_regclass('sql_semana_12.acabado') IS NOT NULL") == [(True,)]


def test_an_error_of_the_callers_own_is_not_taken_for_the_plays(queue_database: str) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        play(
            parsed(WAIT), queue_database, seen=when("b_asks", "waiting", lambda: execute(queue_database, "SELECT 1/0"))
        )
    assert_free(queue_database)
