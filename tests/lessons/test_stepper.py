"""The view for a room: what does not fit is folded, what is not wide enough is said in the lane of its session."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.lessons import registry
from lab.lessons.stepper import Stepper
from lab.scenario.stage import Stage


def stepped(conninfo: str, monkeypatch: pytest.MonkeyPatch, name: str, width: int, typed: str = "") -> str:
    """What is printed into a pipe of that width when the scenario is played with these lines typed, and then Enters."""
    told = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(typed + "\n" * 50))
    stepper = Stepper(Stage(conninfo, superuser=True, embedded=True), Console(file=told, width=width))
    assert stepper.tell(registry.told([name]))
    return told.getvalue()


@pytest.mark.parametrize(("width", "shown"), [(50, "C │ vencida      t"), (80, "|processando|worker-a |         1|t")])
def test_a_wide_result_is_broken_between_values_and_never_within_one(
    queue_database: str, monkeypatch: pytest.MonkeyPatch, width: int, shown: str
) -> None:
    printed = stepped(queue_database, monkeypatch, "05_orphan", width)
    assert shown in printed
    assert max(map(len, printed.splitlines())) <= width
