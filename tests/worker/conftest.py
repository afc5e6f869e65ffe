"""A queue in state 09, and a worker that runs in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.drills.harness import Harness, open_harness
from lab.worker import worker
from lab.worker.worker import Options
from tests.conftest import QueueInState
from tests.worker.pretended import Ran, Run, Said


@pytest.fixture
def queue_09(queue_in_state: QueueInState) -> Iterator[str]:
    """The conninfo of a database with the queue in state 09."""
    with queue_in_state(9) as conninfo:
        yield conninfo


@pytest.fixture
def harness(queue_09: str) -> Iterator[Harness]:
    with open_harness(queue_09) as found:
        yield found


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What was said in this process since it was asked last."""

    def read() -> Ran:
        text = capsys.readouterr().out
        return Ran([json.loads(line) for line in text.splitlines()], text)

    return read


@pytest.fixture
def run(queue_09: str, said: Said) -> Run:
    """Runs a worker for some rounds in this process."""

    def work(pretended: Any, conninfo: str = queue_09, **options: Any) -> Ran:
        wanted = Options("worker-a", **{"rounds": 1, "poll": 0.01, "beat": 0.0} | options)
        worker.make(conninfo, pretended, wanted).run()
        return said()

    return work
