"""The orders of several sessions' steps: all of them, each once, and samples that can be drawn again."""

from __future__ import annotations

from itertools import permutations

import pytest

from lab.scenario import orders


@pytest.mark.parametrize("counts", [[1], [2, 1], [2, 2], [3, 1, 2], [0, 2]])
def test_the_ranks_give_every_order_once_in_order(counts: list[int]) -> None:
    places = [session for session, count in enumerate(counts) for _ in range(count)]
    every = sorted(set(permutations(places)))
    assert [orders.order(counts, rank) for rank in range(orders.number(counts))] == every


def test_a_sample_has_so_many_different_orders_and_is_drawn_again_with_its_seed() -> None:
    drawn = list(orders.sample([6, 6], 50, 3))
    assert len(set(drawn)) == 50
    assert drawn == list(orders.sample([6, 6], 50, 3)) != list(orders.sample([6, 6], 50, 4))


def test_no_sample_is_drawn_where_all_fit() -> None:
    assert list(orders.sample([2, 2], 6, 1)) == [0, 1, 2, 3, 4, 5]
