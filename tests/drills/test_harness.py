"""The harness: the processes of a drill are started, stopped and ended, whatever becomes of them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from lab.base.errors import LabError
from lab.drills import process
from lab.drills.harness import Harness
from tests.conftest import child_processes


def test_a_worker_that_ends_by_itself_ends_the_drill(harness: Harness) -> None:
    worker = harness.worker("worker-a", "--once")
    worker.drain()
    with pytest.raises(LabError, match="ended with status 0 before it was asked to"):
        worker.heard()


def test_a_drill_that_gets_stuck_says_so_and_leaves_no_process(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = child_processes()
    worker = harness.stopped_at("claimed", "worker-a")
    monkeypatch.setattr(process, "SECONDS", 0.2)
    with pytest.raises(LabError, match="said nothing for"):
        worker.wait_for("finished")
    monkeypatch.undo()
    worker.freeze()
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED
    harness.end_all()
    assert not psutil.pid_exists(worker.pid)
    assert child_processes() <= before


def test_a_worker_that_ends_early_says_why(harness: Harness) -> None:
    with pytest.raises(LabError, match=r"ended with status 1 before at: .*3F000"):
        harness.worker("worker-a", "--schema", "sql_semana_13", "--stop-at", "claimed").wait_for("at")


def test_a_drill_whose_database_is_gone_does_not_wait_for_it(harness: Harness, tmp_path: Path) -> None:
    harness.conninfo = f"host={tmp_path} dbname=lab"
    with pytest.raises(LabError, match="The database is away"):
        harness.recover()
