"""The tour on a terminal of 80 columns."""

from __future__ import annotations

import pytest

from tests.terminal import lab_in_terminal


@pytest.mark.thorough
@pytest.mark.parametrize("language", ["en", "pt"])
def test_no_word_of_the_tour_is_broken_at_80_columns(language: str) -> None:
    with lab_in_terminal(rows=40, columns=80, environment={"LAB_LANG": language}) as terminal:
        assert terminal.wait() == 0
        assert ("Checks passed: 6 of 6." if language == "en" else "Verificações: 6 de 6.") in str(terminal.grid)
        assert terminal.grid.overflowed == 0
