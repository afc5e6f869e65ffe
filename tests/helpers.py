"""Scenarios made in memory: real ones with an edit, and short ones written for a test."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from lab.base import paths
from lab.base.errors import LabError
from lab.lessons import registry
from lab.scenario import grammar, library
from lab.scenario.grammar import Scenario
from lab.scenario.stage import Stage
from lab.server.binaries import find_server_binaries

HEAD = "-- A claim.\n-- @pt Uma afirmação.\n"

# A locks a table, B waits for it until A commits: the shortest play with a wait.
WAIT = """\
-- @step a_begin A
BEGIN;
-- @step a_locks A
LOCK TABLE fila_documentos;
-- @step b_asks B blocks A
SELECT count(*) AS documentos FROM fila_documentos;
-- @step a_commits A
COMMIT;
-- @ends b_asks
"""


def parsed(body: str, head: str = HEAD) -> Scenario:
    """A scenario of lesson 01, by its markers and statements."""
    return grammar.parse(head + body, Path("sql/01_queue/01_made_up.sql"))


def mutated(name: str, *edits: tuple[str, str]) -> Scenario:
    """The scenario NN_case with each text replaced by another; the text must stand there exactly once."""
    original = library.find_scenario(name)
    text = original.path.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    return grammar.parse(text, original.path)


def all_scenarios() -> list[Scenario]:
    """The scenarios of all lessons."""
    return library.scenarios()


@contextmanager
def short_home() -> Iterator[Path]:
    """A folder for a server of its own, whose path is short and open, unlike pytest's; skips where there is no server to start."""
    try:
        find_server_binaries()
    except LabError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="lab") as folder:
        home = Path(folder)
        home.chmod(0o755)
        yield home


def fetch(conninfo: str, query: str, *values: object) -> list[tuple[object, ...]]:
    """The rows of a query, run on a connection of its own."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


def execute(conninfo: str, statements: str) -> None:
    """Run statements on a connection of their own, as one transaction."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statements.encode())


def run_lab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The `lab` command in a process of its own, on a wide screen."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts"), "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def terminate(conninfo: str, name: str) -> None:
    """End the backend of the session that is called so in pg_stat_activity, as an operator would."""
    rows = fetch(
        conninfo,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s",
        name,
    )
    assert rows == [(True,)]


def check_lesson(name: str, stage: Stage) -> None:
    """Run every check of a lesson, the surprises too; fails with what was observed of those that do not hold."""
    told = registry.find(name)
    result = told.run(stage, surprises=True)
    failed = [
        f"{each.check.id}: {each.observed.text}. {each.observed.why}"
        for each in result.checks
        if not each.observed.holds
    ]
    assert not failed
    assert [each.check for each in result.checks] == told.checks
    assert all(each.observed.text.en and each.observed.text.pt for each in result.checks)
