"""The matrix of the defences: what is recorded is what the pages show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.drills import ablation
from lab.drills.invariants import Damage
from lab.maintain import readme


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_page_shows_the_recorded_matrix(language: str) -> None:
    lines = readme.defence_matrix(language).splitlines()
    assert len(lines) == 2 + len(ablation.defences())
    assert all("**" in line for line in lines[2:])


def test_the_recorded_matrix_is_read_whole() -> None:
    assert ablation.RECORDED.read_text(encoding="utf-8") == ablation.recorded().as_json()


def test_a_matrix_in_which_a_defence_is_not_missed_is_worth_nothing() -> None:
    matrix = ablation.recorded()
    useless = replace(matrix.rows[0], without_it=Damage())
    harmful = replace(matrix.rows[0], with_it=Damage(lost=1))
    for row in (useless, harmful):
        assert not ablation.worth(replace(matrix, rows=(row, *matrix.rows[1:])))
