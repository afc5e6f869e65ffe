"""What a worker says of its work."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base import config
from lab.drills.harness import Harness
from lab.drills.process import Child
from lab.worker import event_log
from lab.worker.event_log import EventLog
from tests.helpers import execute, fetch
from tests.worker.pretended import CANARY


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


# A log that nobody reads costs no document its outcome


def worker_writing_to(harness: Harness, stdout: int, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "lab",
            "worker",
            "--receiver",
            harness.url,
            "--lease",
            "1",
            "--poll",
            "0.05",
            *more,
        ],
        env=config.for_lab_process(LAB_DSN=harness.conninfo),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def gone() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.close(reading)
    return writing, -1


def full_disk() -> tuple[int, int]:
    return os.open("/dev/full", os.O_WRONLY), -1


def full_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b" " * 512)
    except BlockingIOError:
        os.set_blocking(writing, True)
    return writing, reading


def full_pipe_that_does_not_block() -> tuple[int, int]:
    writing, reading = full_pipe()
    os.set_blocking(writing, False)
    return writing, reading


@pytest.mark.parametrize("stdout", [gone, full_disk, full_pipe, full_pipe_that_does_not_block])
def test_a_log_that_cannot_be_written_stops_neither_work_nor_beats_nor_sigterm(
    harness: Harness, stdout: Callable[[], tuple[int, int]]
) -> None:
    execute(harness.conninfo, "UPDATE sql_semana_12.fila_documentos SET conteudo_xml = '<nfe><valor>1</valor></nfe>'")
    harness.behave(delay=1.2)
    writing, reading = stdout()
    process = worker_writing_to(harness, writing)
    os.close(writing)
    # Each call takes longer than the lease: only beats keep the document.
    until = time.monotonic() + 30
    counted = "SELECT count(*) FROM sql_semana_12.fila_documentos WHERE status = 'concluido' AND tentativas = 1"
    while fetch(harness.conninfo, counted) != [(4,)] and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.05)
    assert fetch(harness.conninfo, counted) == [(4,)]
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=10)
    assert (process.returncode, complaints) == (0, b"")
    if reading >= 0:
        os.close(reading)


def test_what_was_lost_is_counted_once_lines_can_be_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "LONGEST_BACKLOG", 1000)
    writing, reading = full_pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        monkeypatch.setattr(sys, "stdout", stream)
        log = EventLog("worker-a")
        for number in range(50):
            log.say("said", number=number)
        os.read(reading, 65536)
        log.flush()
        log.say("after")
        log.close()
        monkeypatch.undo()
        stream.close()
        events = [json.loads(line) for line in reader.read().splitlines()]
    said = [event for event in events if event["event"] == "said"]
    (lost,) = [event["lines"] for event in events if event["event"] == "log_lost"]
    assert 0 < len(said) == 50 - lost
    assert events[-1]["event"] == "after"


def test_a_line_that_was_written_in_part_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with file.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        log = EventLog("worker-a")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
        try:
            log.say("torn")
            log.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.say("after")
        log.close()
        monkeypatch.undo()
    torn, *rest = file.read_text().splitlines()
    assert (len(torn), [json.loads(line)["event"] for line in rest]) == (20, ["log_lost", "after"])
