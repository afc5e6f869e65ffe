"""What a worker says of its work."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import IO

import pytest

from lab.base import wait
from lab.drills.harness import Harness
from lab.drills.process import Child
from lab.worker import event_log, worker
from lab.worker.event_log import EventLog
from lab.worker.worker import Options
from tests.helpers import execute, fetch
from tests.worker.pretended import CANARY, Pretended


def test_a_password_and_a_payload_stand_in_no_line(harness: Harness) -> None:
    execute(harness.conninfo, f"SELECT sql_semana_12.enfileirar('C', 'c.xml', '<nfe><valor>{CANARY}</valor></nfe>')")
    secret = Child(
        "worker",
        "--until-empty",
        "--receiver",
        harness.url,
        environment={"LAB_DSN": f"{harness.conninfo} password={CANARY}"},
    )
    secret.drain()
    secret.close()
    assert [event["event"] for event in secret.events].count("finished") == 4
    assert CANARY not in json.dumps(secret.events)


def _run_with_stdout(conninfo: str, stdout: IO[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker empty a queue of 504 documents, with that stdout."""
    execute(
        conninfo,
        "SELECT sql_semana_12.enfileirar('K' || n, 'k.xml', '<nfe/>') FROM generate_series(1, 500) AS n",
    )
    monkeypatch.setattr("sys.stdout", stdout)
    monkeypatch.setattr(event_log, "MOST_WAITING", 50)
    worker.make(conninfo, Pretended(), Options("worker-a", until_empty=True, batch=50, beat=0.0)).run()


@pytest.mark.parametrize("way", ["nothing reads", "reader gone", "disk full"])
def test_work_goes_on_where_no_line_can_be_written(queue_09: str, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A pipe that is full blocks its writer; one whose reader is gone, and a full disk, are errors."""
    reading, writing = os.pipe()
    if way == "nothing reads":
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
    if way == "reader gone":
        os.close(reading)
    with open("/dev/full" if way == "disk full" else writing, "w", encoding="utf-8") as stdout:
        _run_with_stdout(queue_09, stdout, monkeypatch)
        monkeypatch.undo()
        assert fetch(queue_09, "SELECT count(*) FROM sql_semana_12.fila_documentos WHERE status = 'concluido'") == [
            (504,)
        ]
        if way == "nothing reads":
            os.close(reading)  # the thread that writes ends with an error
    if way == "disk full":
        os.close(reading)
        os.close(writing)


def test_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_WAITING", 2)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    with open(writing, "w", encoding="utf-8") as stdout, open(reading, encoding="utf-8") as back:
        monkeypatch.setattr("sys.stdout", stdout)
        log = EventLog("worker-a")
        for number in range(10):
            log.say("event", number=number)
        back.read(filled)
        wait.until(log._waiting.empty, 5)
        log.say("last")
        log.close()
        monkeypatch.undo()
        stdout.close()
        events = [json.loads(line) for line in back.read().splitlines()]
    lost = sum(event.get("lines", 0) for event in events)
    assert lost > 0 and lost + len([event for event in events if event["event"] == "event"]) == 10
    assert events[-1]["event"] == "last"
