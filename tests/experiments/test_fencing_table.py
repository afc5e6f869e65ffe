"""The truth table of the guards: where a late write gets past each of them, and which let the owner through."""

from __future__ import annotations

import json

import pytest

from lab.base.errors import LabError
from lab.base.language import Text
from lab.experiments import fencing_table
from lab.experiments.fencing_table import Guard, TruthTable
from lab.maintain import readme
from tests.conftest import nothing_left

GUARDS = [guard.name for guard in fencing_table.guards()]


SITUATIONS = [situation.name for situation in fencing_table.situations()]


# One row a guard, one column a situation.
DESTROYED = {
    "id": (1, 1, 1, 1, 1),
    "status": (1, 1, 1, 0, 0),
    "worker": (0, 1, 1, 0, 0),
    "attempt": (0, 0, 1, 0, 0),
    "version": (0, 0, 0, 0, 0),
    "combined": (0, 0, 0, 0, 0),
    "token": (0, 0, 0, 0, 0),
}


KEPT = {name: tuple(not row for row in rows) for name, rows in DESTROYED.items()} | {
    "id": (True, True, True, False, False)  # where the owner still had to write, its write came last
}
BY_VERSION = ("version", "combined")  # the owner is refused, too, after a change that did not reach it


@pytest.fixture(scope="module")
def table(module_database: str) -> TruthTable:
    return fencing_table.examine(module_database)


@pytest.mark.parametrize("guard", GUARDS)
def test_a_late_write_gets_past_this_guard_exactly_here(guard: str, table: TruthTable) -> None:
    assert tuple(table.cell(guard, name).destroyed for name in SITUATIONS) == DESTROYED[guard]
    assert tuple(table.cell(guard, name).kept for name in SITUATIONS) == KEPT[guard]


def test_state_name_and_count_each_fail_where_the_next_condition_does_not(table: TruthTable) -> None:
    cumulative = ("id", "status", "worker", "attempt")
    counts = [table.destroyed(name) for name in cumulative]
    assert counts == sorted(set(counts), reverse=True)
    assert counts[-1] == 1, "even all four together let one through"


def test_an_unrelated_change_locks_out_the_owner_that_goes_by_its_version_and_no_other(table: TruthTable) -> None:
    assert table.owners == {name: int(name not in BY_VERSION) for name in GUARDS}


def test_the_recorded_table_is_the_one_seen_here(table: TruthTable) -> None:
    assert fencing_table.recorded() == table
    assert json.loads(fencing_table.RECORDED.read_text(encoding="utf-8")) == json.loads(table.as_json())


def test_a_guard_that_lets_no_worker_through_destroys_nothing_and_keeps_nothing_either(module_database: str) -> None:
    refusing = Guard("refusing", "documento_id = %(documento_id)s AND FALSE", Text("", ""))
    seen = fencing_table.examine(module_database, [refusing])
    assert seen.destroyed("refusing") == 0
    # A table of late writes alone would call this guard perfect.
    assert not any(cell.kept for cell in seen.cells)
    assert seen.owners == {"refusing": 0}


def test_the_deadline_is_no_fence_since_it_is_the_successors(module_database: str) -> None:
    deadline = Guard("deadline", "documento_id = %(documento_id)s AND reservado_ate > relogio()", Text("", ""))
    assert fencing_table.examine(module_database, [deadline]).cell("deadline", "other_worker").destroyed == 1


@pytest.mark.parametrize("where", ["documento_id =", "dono = 1", "documento_id = %(dono)s", "documento_id = 'um'"])
def test_a_guard_that_is_no_sql_is_told(where: str, module_database: str) -> None:
    with nothing_left(module_database), pytest.raises(LabError, match="This guard cannot be tried: "):
        fencing_table.examine(module_database, [Guard("mine", where, Text("", ""))])


def test_the_pages_show_every_guard_and_every_cell_in_both_languages() -> None:
    english, portuguese = readme.truth_table("en").splitlines(), readme.truth_table("pt").splitlines()
    assert len(english) == len(portuguese) == len(GUARDS) + 2
    bold = [line.count("**") // 2 for line in english[2:]]
    assert bold == [*(sum(DESTROYED[name]) + (name in BY_VERSION) for name in GUARDS)]
    assert "result lost" in english[2] and "resultado perdido" in portuguese[2]
    with pytest.raises(KeyError):
        fencing_table.recorded().cell("unknown", "pending")
