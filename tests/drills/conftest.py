"""A queue in state 09 with a receiver, for workers to be killed at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.drills.harness import Harness, open_harness
from tests.conftest import QueueInState


@pytest.fixture
def harness(queue_in_state: QueueInState) -> Iterator[Harness]:
    with queue_in_state(9) as conninfo, open_harness(conninfo) as found:
        yield found
