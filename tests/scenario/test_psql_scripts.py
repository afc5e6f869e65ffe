"""The two-terminal scripts: kept in step with their scenarios, and played by real psql processes Enter by Enter."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from lab.scenario import library, psql_scripts
from lab.scenario.grammar import Ends, Scenario
from lab.scenario.player import play
from lab.server import psql, schema
from lab.server.binaries import find_psql

SCENARIOS = library.scenarios()
PROMPT = "Enter: "
SECONDS = 20.0


# The two languages differ in words only, so one scenario in Portuguese is enough.
@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("scenario", "language"),
    [*((scenario, "en") for scenario in SCENARIOS), (SCENARIOS[-1], "pt")],
    ids=lambda value: getattr(value, "name", value),
)
def test_psql_processes_end_in_the_same_state_as_the_player(scenario: Scenario, language: str, database: str) -> None:
    schema.build(database, scenario.state)
    played = play(scenario, database)
    assert played.failure is None
    with psycopg.connect(database, autocommit=True) as monitor:
        by_player = _state(monitor)
        monitor.execute("DROP SCHEMA sql_semana_12 CASCADE")
        with _opened(scenario, language, database) as sessions:
            _walk(scenario, sessions, monitor)
            assert _state(monitor) == by_player
        for session in sessions.values():
            assert session.process.returncode == 0, session.shown


class _Psql:
    """A psql process that runs the script of one terminal, with a pipe to press Enter on."""

    def __init__(self, path: Path, conninfo: str) -> None:
        self.process = subprocess.Popen(
            [str(find_psql()), "-X", "-f", str(path)],
            env=os.environ | psql.libpq_environment(conninfo),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.shown = ""

    def press_enter(self) -> None:
        assert self.process.stdin is not None
        self.shown = ""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def await_prompt(self) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        while not self.shown.endswith(PROMPT):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert data, f"no prompt came: {self.shown}"
            self.shown += data.decode()

    def close(self) -> None:
        """Press Enter at the last prompt, which ends the script."""
        self.process.communicate(b"\n", timeout=SECONDS)


class _opened:
    def __init__(self, scenario: Scenario, language: str, conninfo: str) -> None:
        self.sessions = {
            name: _Psql(psql_scripts.script_path(scenario, name, language), conninfo) for name in scenario.sessions
        }

    def __enter__(self) -> dict[str, _Psql]:
        return self.sessions

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for session in self.sessions.values():
                session.process.kill()
        for session in self.sessions.values():
            session.close()


def _walk(scenario: Scenario, sessions: dict[str, _Psql], monitor: psycopg.Connection) -> None:
    """Press Enter in the order of the scenario; a step is over when the next prompt stands there, or it is seen waiting."""
    first = sessions[scenario.sessions[0]]
    first.await_prompt()
    first.press_enter()
    for session in sessions.values():
        session.await_prompt()
    for action in scenario.actions:
        if isinstance(action, Ends):
            sessions[scenario.step(action.step).session].await_prompt()
            continue
        session = sessions[action.session]
        session.press_enter()
        if action.blocks is None:
            session.await_prompt()
        else:
            _await_wait(monitor, action.session, action.blocks)


def _await_wait(monitor: psycopg.Connection, session: str, blocker: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        row = monitor.execute(
            "SELECT count(*) FROM pg_stat_activity AS waiter JOIN pg_stat_activity AS blocker"
            " ON blocker.pid = ANY(pg_blocking_pids(waiter.pid)) WHERE waiter.datname = current_database()"
            " AND waiter.application_name = %s AND blocker.application_name = %s",
            [f"lab/{session}", f"lab/{blocker}"],
        ).fetchone()
        if row == (1,):
            return
        assert time.monotonic() < deadline, f"{session} was not seen waiting for {blocker}"


def _state(monitor: psycopg.Connection) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Every row of every table of the lab's schema; of a time only whether it is set."""
    tables = monitor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'sql_semana_12' ORDER BY 1").fetchall()
    rows = (
        "SELECT (SELECT jsonb_object_agg(key, CASE WHEN value::TEXT ~ %s THEN 'true' ELSE value END)"
        " FROM jsonb_each(to_jsonb(t))) FROM sql_semana_12.{} AS t ORDER BY 1"
    )
    return [
        (table, monitor.execute(rows.format(table).encode(), [r'^"\d{4}-\d\d-\d\dT']).fetchall()) for (table,) in tables
    ]
