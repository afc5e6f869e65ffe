"""Each statement of the episode is the lab's own, or differs for a reason that is told."""

from __future__ import annotations

import pytest

from lab.base import sql_text
from lab.maintain import episode
from lab.maintain.episode import Compared

STATEMENTS = episode.statements()


@pytest.mark.parametrize("each", STATEMENTS, ids=lambda each: each.name)
def test_a_statement_is_the_labs_or_says_why_not(each: Compared) -> None:
    assert each.same is not (bool(each.why.en) and bool(each.why.pt)), f"{each.where}\n{each.lab}"


def test_all_but_the_deadlines_column_are_the_episodes_own() -> None:
    assert [each.name for each in STATEMENTS if not each.same] == ["lease"]
    assert len(STATEMENTS) == 15


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("select Chave  from t -- all\n where x = 'A'", True),
        ("SELECT chave FROM t WHERE x = 'a'", False),
        ("SELECT chave, x FROM t WHERE x = 'A'", False),
    ],
)
def test_statements_are_compared_without_white_space_and_case(other: str, same: bool) -> None:
    assert sql_text.same("SELECT chave\nFROM t\nWHERE x = 'A';", other) is same
