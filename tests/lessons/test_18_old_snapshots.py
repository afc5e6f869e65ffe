"""Lesson 18: its checks, on this server; who holds dead rows is named by the query, the alert and the doctor."""

from __future__ import annotations

import psycopg
import pytest

from lab.base import paths
from lab.base.sql_text import statements
from lab.experiments import old_snapshots
from lab.lessons import registry
from lab.lessons.lesson import Observed
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server import doctor, schema, temp_databases
from lab.server.embedded import MAINTENANCE
from lab.server.target import Target
from tests.helpers import check_lesson, fetch, mutated, run_lab

NOBODY = old_snapshots.nobody


def observed(check: str, stage: Stage) -> Observed:
    return registry.find_check(f"18.{check}").observe(stage)


def alert() -> str:
    """The alert on who holds dead rows."""
    text = (paths.SQL / "alerts.sql").read_text(encoding="utf-8")
    return [each.text for each in statements(text) if each.begins("SELECT")][-1]


def test_every_check_of_lesson_18_passes(stage: Stage) -> None:
    check_lesson("18_old_snapshots", stage)
    assert fetch(stage.conninfo, "SELECT gid FROM pg_prepared_xacts") == []
    assert fetch(stage.conninfo, "SELECT slot_name FROM pg_replication_slots") == []


# Each claim, with what it is about taken away


@pytest.mark.parametrize(
    ("check", "holder"), [("dead_entries", "snapshot"), ("prepared", "prepared"), ("open_portal", "portal")]
)
def test_without_its_holder_the_check_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, check: str, holder: str
) -> None:
    monkeypatch.setattr(old_snapshots, holder, NOBODY)
    assert observed(check, stage).holds is False


def test_a_suspect_that_has_written_is_not_false(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_snapshots, "idle", old_snapshots.written)
    assert observed("false_suspects", stage).holds is False


def test_leased_in_an_open_transaction_is_as_dear_as_locked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(conninfo: str, size: int) -> object:
        return old_snapshots.behind_locked(conninfo, (size,))[size]

    monkeypatch.setattr(old_snapshots, "behind_leased", locked)
    assert observed("locked_rows", stage).holds is False


def test_a_report_under_read_committed_is_not_named(module_database: str) -> None:
    told = mutated(
        "18_who_holds",
        ("SET transaction_isolation = 'repeatable read';", "SELECT 1 AS nada;"),
        (
            "-- @step r_reads R\nSELECT count(*) AS documentos\nFROM fila_documentos;",
            "-- @step r_reads R\nSHOW search_path;",
        ),
    )
    schema.build(module_database, told.state)
    played = play(told, module_database)
    assert played["o_asks"].column("quem") == ()


# Who it is


def test_the_alert_asks_what_the_query_asks() -> None:
    asked, all_of_it = alert(), old_snapshots.horizon()
    assert (
        asked[asked.index("FROM (") : asked.index(") AS retem")]
        == all_of_it[all_of_it.index("FROM (") : all_of_it.index(") AS retem")]
    )


def test_only_what_is_old_is_an_alert(stage: Stage) -> None:
    stage.build(old_snapshots.STATE)
    older = alert().replace("INTERVAL '10 minutes'", "INTERVAL '0'")
    with old_snapshots.snapshot(stage.conninfo), stage.connection() as connection:
        assert [who for _, who in old_snapshots.holders(connection)] == [old_snapshots.REPORT]
        assert connection.execute(alert().encode()).fetchall() == []
        assert [row[1] for row in connection.execute(older.encode())] == [old_snapshots.REPORT]


def test_the_doctor_names_who_holds_dead_rows_for_long(
    own_server: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    assert "old snapshots" in run_lab("doctor").stdout
    finding = next(each for each in doctor.examine() if each.what == "old snapshots")
    assert finding.good is True
    schema.build(own_server.conninfo, 1)
    with psycopg.connect(own_server.conninfo) as report:
        report.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        told = (paths.SQL / "horizon.sql").read_text(encoding="utf-8").replace("INTERVAL '10 minutes'", "INTERVAL '0'")
        monkeypatch.setattr(doctor, "paths", _with(tmp_path, told))
        finding = next(each for each in doctor.examine() if each.what == "old snapshots")
        assert finding.good is False
        assert f"pid {report.info.backend_pid}" in finding.found


def _with(folder: object, text: str) -> object:
    """`paths` with a folder of SQL in which horizon.sql has this text."""
    from pathlib import Path
    from types import SimpleNamespace

    assert isinstance(folder, Path)
    (folder / "horizon.sql").write_text(text, encoding="utf-8")
    return SimpleNamespace(SQL=folder, home=paths.home)


# Nothing is left


def test_an_interrupted_experiment_leaves_no_prepared_transaction(stage: Stage) -> None:
    stage.build(old_snapshots.STATE)

    def interrupted() -> None:
        with old_snapshots.prepared(stage.conninfo):
            assert len(fetch(stage.conninfo, "SELECT FROM pg_prepared_xacts")) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert fetch(stage.conninfo, "SELECT FROM pg_prepared_xacts") == []


def test_a_killed_labs_database_goes_with_its_prepared_transaction(own_server: Target) -> None:
    assert own_server.embedded
    # In the database of the keepers: an advisory lock is one of its database.
    with psycopg.connect(own_server.embedded.conninfo(MAINTENANCE), autocommit=True) as keeper:
        name = temp_databases._create(keeper, "lab_killed_1", temp_databases.PLAIN)
        temp_databases._unlock(keeper, name)
        with psycopg.connect(own_server.embedded.conninfo(name), autocommit=True) as session:
            session.execute("BEGIN")
            session.execute("SELECT pg_current_xact_id()")
            session.execute("PREPARE TRANSACTION 'lab_killed'")
        temp_databases.drop_abandoned(keeper)
        assert keeper.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None
        assert keeper.execute("SELECT FROM pg_prepared_xacts").fetchone() is None
