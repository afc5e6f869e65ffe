"""Lesson 13: its checks, on this server; and what they say where the index is another one."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from lab.base.errors import CannotRunHere
from lab.experiments import index_forms
from lab.lessons import registry
from lab.scenario.stage import Stage
from tests.helpers import check_lesson, fetch

FAULTY = {
    "another state": index_forms.FORMS["partial"].replace("'pendente'", "'falhou'"),
    "another order": index_forms.FORMS["partial"].replace("disponivel_em, documento_id", "documento_id"),
    "not partial": index_forms.FORMS["full"],
}


def tables(stage: Stage) -> list[tuple[object, ...]]:
    """The experiment's tables that are there."""
    return fetch(
        stage.conninfo, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^fila_(medida|cheia|renovada)'"
    )


def test_every_check_of_lesson_13_passes(stage: Stage) -> None:
    check_lesson("13_indexes", stage)
    assert tables(stage) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", FAULTY)
def test_another_index_does_not_find_what_is_due_as_cheaply(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(index_forms, "FORMS", {**index_forms.FORMS, "partial": FAULTY[form]})
    assert registry.find_check("13.due_query").observe(stage).holds is False


def test_an_index_that_does_not_name_the_state_costs_no_heap_only_update(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {
        **index_forms.FORMS,
        "partial": f"CREATE INDEX medida_idx ON {index_forms.TABLE} (disponivel_em, documento_id)",
    }
    monkeypatch.setattr(index_forms, "FORMS", other)
    seen = registry.find_check("13.write_cost").observe(stage)
    assert (seen.holds, seen.facts["hot_partial"].value) == (False, 100)


def test_an_interrupted_experiment_leaves_no_table(stage: Stage) -> None:
    def interrupted() -> None:
        with index_forms.filled(stage.conninfo, 1000):
            assert tables(stage)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert tables(stage) == []


def test_too_little_disk_is_said_before_anything_is_made(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    if not stage.superuser:
        pytest.skip("the server does not say where its files lie")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10, 10, 1_000_000))
    said = "1,000,000 rows want 1,400 MB of disk, and 1 MB are free"
    with pytest.raises(CannotRunHere, match=said), index_forms.filled(stage.conninfo, index_forms.FULL):
        raise AssertionError
    assert tables(stage) == []
