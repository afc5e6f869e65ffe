"""SQL of the reader's own: played in the order that is documented, with its waits and errors shown."""

from __future__ import annotations

import pytest

from lab.base.errors import LabError
from lab.notebook import api
from lab.notebook.variants import own_sql, play_working
from lab.scenario.result import Play

LOCK = "SELECT documento_id FROM fila_documentos WHERE documento_id = {} FOR UPDATE"


def _play(conninfo: str, order: str = "", **sessions: str) -> Play:
    return play_working(own_sql(sessions, order), conninfo, {}, announced=False)


def test_sessions_take_turns_and_one_that_waits_is_passed_over(queue_database: str) -> None:
    played = _play(
        queue_database,
        a=f"BEGIN; {LOCK.format(1)}; SELECT 'a works'; COMMIT; SELECT 'a is done'",
        b=f"BEGIN; {LOCK.format(1)}; SELECT 'b has it'; COMMIT",
    )
    assert list(played.runs) == ["a_1", "b_1", "a_2", "b_2", "a_3", "a_4", "b_3", "b_4", "a_5"]
    assert [name for name, run in played.runs.items() if run.waited_for] == ["b_2"]
    assert played["b_2"].waited_for == ("A",) and played["b_2"].value == "1"
    assert (played["b_2"].ended or 0) >= played["a_4"].started


def test_an_order_is_followed(queue_database: str) -> None:
    played = _play(queue_database, "bab", a="SELECT 1", b="SELECT 2; SELECT 3")
    assert list(played.runs) == ["b_1", "a_1", "b_2"]


def test_errors_and_deadlocks_are_seen_and_end_nothing(queue_database: str) -> None:
    played = _play(
        queue_database,
        a=f"BEGIN; {LOCK.format(1)}; {LOCK.format(2)}; ROLLBACK",
        b=f"BEGIN; {LOCK.format(2)}; {LOCK.format(1)}; ROLLBACK; SELECT 1/0",
    )
    assert sorted(run.sqlstate for run in played.runs.values() if run.sqlstate) == ["22012", "40P01"]
    assert played.failure is None and all(run.outcome != "waiting" for run in played.runs.values())


def test_what_was_seen_is_shown_with_waits_and_sqlstate(queue_database: str) -> None:
    played = _play(
        queue_database,
        a=f"BEGIN; {LOCK.format(1)}",
        b=f"SET lock_timeout = '50ms'; {LOCK.format(1)}",
        c="SELEC 1",
    )
    shown = api._own(played).set_index("step")
    assert shown.loc["b_2", "waited for"] == "A"
    assert str(shown.loc["b_2", "result"]).startswith("55P03 (lock_not_available): ")
    assert str(shown.loc["c_1", "result"]).startswith("42601 (syntax_error): ")
    assert shown.loc["b_2", "SQL"] == LOCK.format(1)


@pytest.mark.parametrize(
    ("sessions", "order", "why"),
    [
        ({}, "", "Give each session its SQL"),
        ({"a": " ; -- nothing"}, "", "Session a has no statement"),
        ({"worker": "SELECT 1"}, "", "A session is named by one letter"),
        ({"a": "SELECT 1; SELECT 2", "b": "SELECT 3"}, "ab", "as aba; the statements: a 2, b 1"),
        ({"a": "SELECT 1"}, "c", "order names the session of every statement once, as a;"),
    ],
)
def test_what_cannot_be_played_is_told(sessions: dict[str, str], order: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        own_sql(sessions, order)


def test_a_copy_ends_the_play_with_a_sentence(queue_database: str) -> None:
    with pytest.raises(LabError, match="step a_1 of session A is a COPY"):
        _play(queue_database, a="COPY fila_documentos TO STDOUT")
