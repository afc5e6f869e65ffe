"""Lesson 09: the evidence finds what is wrong, the copies lack one defence only, and what the pages show was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from lab import child, defences, drill, evidence, pages, paths, schema
from lab.errors import LabError
from lab.evidence import Change, Damage, Document, Tables
from lab.ground import Ground, ground
from lab.target import Target
from lab.weakened import EDITS, without
from tests.conftest import child_processes
from tests.helpers import execute, fetch

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sql_semana_12%' ORDER BY 1"
NEW = Document("padrao/NFE-0001", "pendente", 0, 0, 5)
BEFORE = Tables({1: NEW}, [])
CHAIN = [
    Change(1, 1, "pendente", "processando", 1, "reserva"),
    Change(1, 2, "processando", "pendente", 1, "reserva vencida"),
    Change(1, 3, "pendente", "processando", 2, "reserva"),
    Change(1, 4, "processando", "concluido", 2, "conclusao"),
]
DONE = replace(NEW, status="concluido", version=4, attempts=2)
GOOD = Tables({1: DONE}, CHAIN)
ONE_EFFECT = {"padrao/NFE-0001": 1}


@pytest.fixture
def here(database: str) -> Iterator[Ground]:
    schema.build(database, 9)
    with ground(database) as found:
        yield found


# The evidence


def test_a_chain_that_fits_together_has_no_fault() -> None:
    assert evidence.faults(BEFORE, GOOD) == []
    assert evidence.damage(BEFORE, GOOD, ONE_EFFECT, []) == Damage()


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        (Tables({}, CHAIN), "document 1 is gone"),
        (Tables({1: DONE}, CHAIN[:2] + CHAIN[3:]), "document 1: versions with a gap"),
        (Tables({1: replace(DONE, version=5)}, CHAIN), "document 1: versions with a gap"),
        (Tables({1: replace(DONE, status="falhou")}, CHAIN), "does not begin where the one before it ended"),
        (Tables({1: DONE}, [replace(CHAIN[0], before="falhou"), *CHAIN[1:]]), "does not begin where the one before it"),
        (Tables({1: DONE}, [*CHAIN[:2], replace(CHAIN[2], token=1), CHAIN[3]]), "token 1 was handed out twice"),
        (Tables({1: replace(DONE, attempts=6)}, CHAIN), "document 1: 6 attempts of 5"),
    ],
)
def test_a_chain_that_does_not_fit_together_is_told(after: Tables, fault: str) -> None:
    assert any(fault in found for found in evidence.faults(BEFORE, after))


def wrote(token: int, version: int) -> dict[str, object]:
    return {"event": "finished", "id": 1, "token": token, "version": version}


@pytest.mark.parametrize(
    ("document", "effects", "events", "damage"),
    [
        (DONE, {"padrao/NFE-0001": 3}, [], Damage(duplicates=2)),
        (DONE, {}, [], Damage(lost=1)),
        (None, ONE_EFFECT, [], Damage(lost=1)),
        (replace(DONE, status="falhou"), {}, [], Damage(lost=1)),
        (replace(DONE, status="processando"), ONE_EFFECT, [], Damage(stuck=1)),
        (replace(DONE, status="conciliacao"), ONE_EFFECT, [], Damage()),
        (replace(DONE, status="conciliacao", attempts=5), ONE_EFFECT, [], Damage(over_limit=1)),
        (DONE, ONE_EFFECT, [wrote(2, 4)], Damage()),
        (DONE, ONE_EFFECT, [wrote(1, 4)], Damage(overwritten=1)),
        (DONE, ONE_EFFECT, [wrote(1, 2)], Damage()),
    ],
)
def test_damage_is_counted(
    document: Document | None, effects: dict[str, int], events: list[dict[str, object]], damage: Damage
) -> None:
    after = Tables({} if document is None else {1: document}, CHAIN)
    assert evidence.damage(BEFORE, after, effects, events) == damage
    assert damage.total == sum(vars(damage).values())


# The copies with one defence taken away


@pytest.mark.parametrize("defence", sorted(EDITS))
def test_a_copy_is_marked_and_dropped_and_leaves_the_protocol_alone(database: str, defence: str) -> None:
    schema.build(database, 9)
    bodies = "SELECT proname, md5(prosrc) FROM pg_proc WHERE pronamespace = '{}'::regnamespace ORDER BY 1"
    whole = fetch(database, bodies.format("sql_semana_12"))
    with without(database, defence) as name:
        assert fetch(database, SCHEMAS) == [("sql_semana_12",), (name,)]
        assert fetch(database, f"SELECT obj_description('{name}'::regnamespace)") == [("queue lab, state 09",)]
        copy = fetch(database, bodies.format(name))
        (different,) = {body for body in copy if body not in whole}
        assert different[0] == {"reserva": "recuperar", "token": "travar", "etapa": "mudar"}[defence]
        assert fetch(database, bodies.format("sql_semana_12")) == whole
        settings = fetch(
            database, f"SELECT DISTINCT proconfig FROM pg_proc WHERE pronamespace = '{name}'::regnamespace"
        )
        assert settings == [([f"search_path={name}, pg_temp"],)]
    assert fetch(database, SCHEMAS) == [("sql_semana_12",)]


def test_a_schema_of_that_name_without_the_labs_mark_stays(own_server: Target, database: str) -> None:
    execute(database, "CREATE SCHEMA sql_semana_12_sem_token; CREATE TABLE sql_semana_12_sem_token.minha ()")
    with pytest.raises(LabError, match="that this lab did not make"), without(database, "token"):
        pass
    assert fetch(database, "SELECT to_regclass('sql_semana_12_sem_token.minha') IS NOT NULL") == [(True,)]


# The matrix (test_lessons compares the recorded one with what is seen)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_page_shows_the_recorded_matrix(language: str) -> None:
    lines = pages.defence_matrix(language).splitlines()
    assert len(lines) == 2 + len(defences.defences())
    assert all("**" in line for line in lines[2:])


def test_a_matrix_in_which_a_defence_is_not_missed_is_worth_nothing() -> None:
    matrix = defences.recorded()
    useless = replace(matrix.rows[0], without_it=Damage())
    harmful = replace(matrix.rows[0], with_it=Damage(lost=1))
    for row in (useless, harmful):
        assert not defences.worth(replace(matrix, rows=(row, *matrix.rows[1:])))


# The drills (test_lessons holds each of them)


def test_every_drill_is_held_by_a_claim() -> None:
    text = (paths.ROOT / "scripts" / "09_effects.py").read_text(encoding="utf-8")
    assert [
        each.name for each in drill.drills() if f'"{each.name}"' not in text and each.name != drill.DATABASE_CRASH
    ] == []
    assert "drill.DATABASE_CRASH" in text


def test_a_drill_that_does_not_exist_is_named() -> None:
    with pytest.raises(LabError, match="There is no drill kill_all; there are kill_before_commit"):
        drill.find("kill_all")


def test_a_drill_that_gets_stuck_says_so_and_leaves_no_process(here: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    before = child_processes()
    worker = here.stopped_at("claimed", "worker-a")
    monkeypatch.setattr(child, "SECONDS", 0.2)
    with pytest.raises(LabError, match="said nothing for"):
        worker.wait_for("finished")
    monkeypatch.undo()
    worker.freeze()
    here.end_all()
    assert not psutil.pid_exists(worker.pid)
    assert child_processes() <= before


def test_a_worker_that_ends_early_says_why(here: Ground) -> None:
    with pytest.raises(LabError, match=r"ended with status 1 before at: .*3F000"):
        here.worker("worker-a", "--schema", "sql_semana_13", "--stop-at", "claimed").wait_for("at")
