"""The budget of a lease: the work's percentile and a margin."""

from __future__ import annotations

from lab.experiments.lease_budget import Measured, measure, percentile
from tests.helpers import fetch


def test_the_budget_is_the_works_percentile_and_the_margin() -> None:
    work = tuple(float(number) for number in range(101))
    measured = Measured(work, tuple(seconds + 2 for seconds in work))
    assert percentile(work, 50) == 50
    assert measured.margin == 2
    assert measured.lease == 99 + 2
    assert measured.overruns(measured.lease) == 1
    assert measured.overruns(52) == 50


def test_both_halves_are_of_the_same_minutes() -> None:
    one, other = Measured((1.0, 2.0, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0)).halves
    assert (one, other) == (Measured((1.0, 3.0), (5.0, 7.0)), Measured((2.0, 4.0), (6.0, 8.0)))


def test_what_is_measured_is_held_for_longer_than_the_work_takes(database: str) -> None:
    measured = measure(database, 20)
    assert len(measured.work) == len(measured.held) == 20
    assert all(held > work for held, work in zip(measured.held, measured.work, strict=True))
    states = fetch(database, "SELECT status, count(*) FROM sql_semana_12.fila_documentos GROUP BY status")
    assert states == [("concluido", 20)]
