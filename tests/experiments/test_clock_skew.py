"""Whose clock judges a lease: the database's, whatever the workers' clocks say."""

from __future__ import annotations

import pytest

from lab.experiments import clock_skew
from lab.scenario.stage import Stage
from tests.conftest import nothing_left


@pytest.mark.parametrize("hours", [(-1000, 1000), (-0.5, 0.5)])
def test_the_database_judges_whatever_the_workers_clocks_say(module_database: str, hours: tuple[float, ...]) -> None:
    stage = Stage(module_database, superuser=True)
    with nothing_left(module_database):
        seen = clock_skew.deadlines(stage, own_clocks=False, hours_fast=hours, documents_each=3)
    assert seen == clock_skew.Deadlines(6, 0, 0, 0)


def test_a_worker_whose_own_clock_is_right_does_no_harm_by_it(module_database: str) -> None:
    seen = clock_skew.deadlines(
        Stage(module_database, superuser=True), own_clocks=True, hours_fast=(0,), documents_each=3
    )
    assert seen == clock_skew.Deadlines(3, 0, 0, 0)


@pytest.mark.parametrize(("length", "at_least"), [("1 second", 1), ("2 minutes", 120), ("24 hours", 86400)])
def test_recovery_comes_within_one_look_after_the_end_of_the_lease(
    module_database: str, length: str, at_least: int
) -> None:
    delay = clock_skew.recovery_delay(Stage(module_database, superuser=True), length, every="1 minute")
    assert at_least <= delay < at_least + 90
