"""A watched database to run a lesson's checks in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.scenario.stage import Stage
from lab.server.target import Target
from tests.conftest import nothing_left


@pytest.fixture
def stage(server: Target, module_database: str) -> Iterator[Stage]:
    """A watched database, as a lesson finds it: with whatever the lesson before it left."""
    with nothing_left(module_database):
        yield Stage(module_database, server.superuser, embedded=server.embedded is not None)
