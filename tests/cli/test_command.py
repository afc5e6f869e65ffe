"""The `lab` command as a process: what it prints, its exit status, and what is left when it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from lab.base import paths
from lab.server import schema
from lab.server.embedded import EmbeddedServer
from lab.server.target import Target

SECONDS = 60.0


def lab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts"), "COLUMNS": "200"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_the_variables_for_psql_can_be_taken_back_and_follow_the_language(server: Target) -> None:
    told = lab("env", LAB_LANG="pt", LAB_DSN="", PGOPTIONS="-c lock_timeout=1s").stdout
    assert "export PGOPTIONS='-c lock_timeout=1s -c lab.lang=pt'" in told.splitlines()
    names = {line.split()[1].split("=")[0] for line in told.splitlines()}
    for page in ("docs/by-hand.md", "docs/pt/by-hand.md"):
        undone = re.search(r"`unset ([A-Z ]+)`", (paths.ROOT / page).read_text(encoding="utf-8"))
        assert undone and set(undone[1].split()) == names - {"PATH"}
    for options, then in [
        ("-c lock_timeout=1s -c lab.lang=pt", "export PGOPTIONS='-c lock_timeout=1s'"),
        ("-c lab.lang=pt", "unset PGOPTIONS"),
    ]:
        assert then in lab("env", LAB_LANG="en", LAB_DSN="", PGOPTIONS=options).stdout.splitlines()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of the test's own, not started yet."""
    server = EmbeddedServer(tmp_path)
    yield server
    server.down()


@pytest.fixture
def playing(own_server: Target, database: str) -> str:
    """A database given to the command as LAB_DSN."""
    assert own_server.embedded
    return database


def test_a_run_written_as_json_has_the_promised_shape(playing: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    done = lab("run", "02", "--quiet", "--json", str(file), LAB_DSN=playing)
    assert done.returncode == 0, done.stderr
    run = json.loads(file.read_text(encoding="utf-8"))
    assert set(run) == {"server", "started", "seconds", "lessons"}
    assert run["server"]["source"] == "dsn"
    assert set(run["server"]) == {"version", "version_num", "source"}
    (lesson,) = run["lessons"]
    assert set(lesson) == {"number", "name", "seconds", "claims", "scenarios"}
    claim = lesson["claims"][0]
    assert set(claim) == {"id", "claim", "core", "holds", "why", "observed", "scenarios"}
    assert (claim["id"], claim["holds"], claim["scenarios"]) == ("02.lock_timeout", True, ["02_lock_timeout"])
    scenario = lesson["scenarios"][0]
    assert set(scenario) == {"name", "as_expected", "steps"}
    waited = next(step for step in scenario["steps"] if step["name"] == "b_asks")
    assert set(waited) == {"name", "session", "outcome", "sqlstate", "waited_for", "wait_ms", "columns", "rows"}
    assert (waited["outcome"], waited["sqlstate"], waited["waited_for"]) == ("error", "55P03", ["A"])
    assert waited["wait_ms"] > 1900


def test_json_on_the_screen_is_json_only(playing: str) -> None:
    done = lab("run", "01", "--json", "-", LAB_DSN=playing)
    assert json.loads(done.stdout)["lessons"][0]["number"] == "01"


def test_a_file_that_cannot_be_written_is_said_before_the_run(playing: str) -> None:
    done = lab("run", "02", "--json", "/nonexistent/run.json", LAB_DSN=playing)
    assert done.returncode == 1
    assert "/nonexistent/run.json" in done.stderr
    assert "02." not in done.stdout


@pytest.mark.parametrize("arguments", [("run", "97"), ("step", "02_nothing"), ("walk", "77"), ("run", "--json", "02")])
def test_what_does_not_exist_gets_one_sentence(arguments: tuple[str, ...], playing: str) -> None:
    done = lab(*arguments, LAB_DSN=playing)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (("receiver", "--behaviour", "[]"), {"psycopg", "lab.worker.worker"}),
        (
            ("worker", "--stop-at", "nowhere"),
            {"lab.lessons.lesson", "lab.drills.catalogue", "lab.receiver.service", "rich.table"},
        ),
        (("walk", "02"), {"lab.worker.worker", "lab.drills.catalogue", "lab.receiver.service", "lab.lessons.tour"}),
    ],
)
def test_a_command_imports_what_it_needs_alone(arguments: tuple[str, ...], never: set[str]) -> None:
    told = lab(*arguments, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "lab.cli.app" in imported
    assert not imported & never


def test_an_unknown_command_is_a_usage_error() -> None:
    done = lab("nonsense")
    assert done.returncode == 2
    assert "There is no command nonsense." in done.stderr


@pytest.mark.parametrize(
    "arguments", [("zombie", "--workers", "3"), ("random_kills", "--documents", "20", "--workers", "20")]
)
def test_a_crowd_that_a_drill_cannot_have_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = lab("drill", *arguments)
    assert done.returncode == 2
    assert "workers" in done.stderr


def test_a_schema_of_the_readers_own_ends_the_run_at_once_and_stays(playing: str) -> None:
    with psycopg.connect(playing, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA sql_semana_12 CREATE TABLE minha (x INTEGER)")
        for command in (("run", "01"), ("load", str(paths.DOCUMENTS / "nfe-0001.xml")), ()):
            done = lab(*command, LAB_DSN=playing)
            assert done.returncode == 1
            assert done.stderr.count("sql_semana_12") >= 1
            assert "NO" not in done.stdout.split()
        assert connection.execute("SELECT count(*) FROM sql_semana_12.minha").fetchone() == (0,)


def test_what_depends_on_the_queue_from_outside_is_not_dropped_along(playing: str) -> None:
    schema.build(playing, 1)
    with psycopg.connect(playing, autocommit=True) as connection:
        connection.execute("CREATE VIEW public.relatorio AS SELECT chave FROM sql_semana_12.fila_documentos")
        done = lab("run", "01", LAB_DSN=playing)
        assert done.returncode == 1
        assert "relatorio" in done.stderr
        assert connection.execute("SELECT count(*) FROM public.relatorio").fetchone() == (4,)


def test_a_lost_server_ends_the_run_and_judges_no_claim(own: EmbeddedServer, tmp_path: Path) -> None:
    process = _start(tmp_path, "run", "02")
    _await_play(own)
    own.down()
    printed, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "NO" not in printed.split()
    assert errors.strip()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_leaves_no_server(sign: signal.Signals, own: EmbeddedServer, tmp_path: Path) -> None:
    process = _start(tmp_path, "run", "02")
    _await_play(own)
    process.send_signal(sign)
    errors = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 130, errors
    assert "nothing of it is left" in errors
    assert not own.running()


def test_a_command_that_is_stopped_leaves_the_server_to_another_lab(own: EmbeddedServer, tmp_path: Path) -> None:
    process = _start(tmp_path, "run", "02")
    _await_play(own)
    with psycopg.connect(own.conninfo("postgres"), autocommit=True) as other:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 130
        row = other.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'lab_run%'").fetchone()
        assert row == (0,)


def test_a_crowd_that_is_stopped_leaves_no_process_server_or_database(own: EmbeddedServer, tmp_path: Path) -> None:
    process = _start(tmp_path, "drill", "random_kills", "--documents", "2000", "--workers", "3")
    _await(
        own, "SELECT 1 WHERE 3 <= (SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT%.registrar_etapa(%')"
    )
    started = psutil.Process(process.pid).children(recursive=True)
    assert sum("worker" in child.cmdline() for child in started) >= 3
    with psycopg.connect(own.conninfo("postgres"), autocommit=True) as other:
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 130, errors
        assert other.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'lab_drill%'").fetchone() == (0,)
    assert [child for child in started if child.is_running()] == []


def _start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts"), "LAB_HOME": str(home), "LAB_DSN": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what runs in the background with ^C ignored, and so the tests, and what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def _await_play(server: EmbeddedServer) -> None:
    """Wait until a session of a scenario is seen."""
    _await(server, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'lab/B' AND wait_event_type = 'Lock'")


def _await(server: EmbeddedServer, seen: str) -> None:
    """Wait until this query returns a row."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
                while time.monotonic() < deadline:
                    if connection.execute(seen.encode()).fetchone():
                        return
                    time.sleep(0.01)
        except (psycopg.OperationalError, OSError, ValueError, LookupError):
            time.sleep(0.05)  # not there yet
        except Exception as error:
            if "LabError" not in [base.__name__ for base in type(error).__mro__]:
                raise
            time.sleep(0.05)
    raise AssertionError("it was not seen")
