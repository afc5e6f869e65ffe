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


def test_a_pipe_gets_the_question_first_the_guess_beside_the_answer_and_no_control_code(
    queue_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = stepped(queue_database, monkeypatch, "02_lock_timeout", 100, typed="\n\n\nthe second one\n")
    question, claim = "Which one does B get?", "B, asking for the oldest pending document"
    assert 0 < printed.index(question) < printed.index("A │ BEGIN;") < printed.index(claim)
    assert "guess     the second one  →  B: 55P03 lock_not_available" in printed
    assert "observed  55P03 after 2.0" in printed
    assert "holds     yes" in printed
    assert "\x1b" not in printed


def test_the_end_of_input_and_q_stop_it(queue_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(queue_database, superuser=True, embedded=True)
    for typed in ("", "\n", "\nq\n\n"):
        told = io.StringIO()
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert Stepper(stage, Console(file=told, width=100)).tell(registry.told(["03_passes", "03_all_locked"]))
        assert "[1/" in told.getvalue()
        assert "03_all_locked" not in told.getvalue()
    assert stage.played == []
