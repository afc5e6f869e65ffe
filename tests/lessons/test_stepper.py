"""The view for the projector: what a session's column has no room for is shown value by value."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.lessons.stepper import Stepper
from lab.scenario.library import find_scenario
from lab.scenario.stage import Stage


@pytest.mark.parametrize(("width", "shown"), [(80, "vencida      t"), (200, "|processando|worker-a |         1|t")])
def test_a_wide_result_is_broken_between_values_and_never_within_one(
    queue_database: str, monkeypatch: pytest.MonkeyPatch, width: int, shown: str
) -> None:
    told = io.StringIO()
    stepper = Stepper(Stage(queue_database, superuser=True, embedded=True), Console(file=told, width=width))
    monkeypatch.setattr(stepper.console, "input", lambda *asked: "")
    assert stepper.play(find_scenario("05_orphan")).as_expected
    assert shown in told.getvalue()
