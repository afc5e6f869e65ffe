"""A queue in state 09 with a receiver, for workers to be killed at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.drills.harness import Harness, open_harness
from lab.server import schema


@pytest.fixture
def harness(database: str) -> Iterator[Harness]:
    schema.build(database, 9)
    with open_harness(database) as found:
        yield found
