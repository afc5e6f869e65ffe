"""Lesson 02: its checks, on this server."""

from __future__ import annotations

from lab.scenario.stage import Stage
from tests.helpers import check_lesson


def test_every_check_of_lesson_02_passes(stage: Stage) -> None:
    check_lesson("02_for_update_waits", stage)
