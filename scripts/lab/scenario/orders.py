"""The orders in which the steps of several sessions can follow each other, when each session keeps its own order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import comb


def number(counts: Sequence[int]) -> int:
    """How many orders there are of so many steps of each session."""
    total, orders = 0, 1
    for count in counts:
        total += count
        orders *= comb(total, count)
    return orders


def order(counts: Sequence[int], rank: int) -> tuple[int, ...]:
    """The order of that rank, from 0, in lexicographic order: which session goes on at each place, by its index."""
    left, found = list(counts), []
    while any(left):
        for session, count in enumerate(left):
            if count == 0:
                continue
            left[session] -= 1
            here = number(left)
            if rank < here:
                found.append(session)
                break
            rank -= here
            left[session] += 1
    return tuple(found)


def sample(counts: Sequence[int], most: int, seed: int) -> Iterator[int]:
    """The ranks of at most so many orders, rising: all, if there are no more, else as many different ones, drawn with the seed."""
    total = number(counts)
    if total <= most:
        yield from range(total)
        return
    drawn: set[int] = set()
    generator = random.Random(seed)  # a sample that can be drawn again, no secret
    while len(drawn) < most:
        drawn.add(generator.randrange(total))
    yield from sorted(drawn)
