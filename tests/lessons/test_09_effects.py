"""Lesson 09: the invariants find what is wrong, the copies lack one defence only, and what the pages show was seen."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.drills import ablation, catalogue, invariants, process, random_kills, report
from lab.drills.ablated_schema import STATE, without
from lab.drills.catalogue import DrillOutcome
from lab.drills.harness import Harness, open_harness
from lab.drills.invariants import Change, Damage, Document, Order, Tables
from lab.drills.random_kills import Size
from lab.maintain import readme
from lab.protocol import history, source
from lab.scenario.stage import Stage
from lab.server import psql, schema
from lab.server.target import Target
from tests.conftest import child_processes
from tests.helpers import check_lesson, execute, fetch

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sql_semana_12%' ORDER BY 1"
NOON = datetime(2026, 10, 16, 12, tzinfo=UTC)
NEW = Document("padrao/NFE-0001", "pendente", 0, 0, 5, NOON)
BEFORE = Tables({1: NEW}, [])
CHAIN = [
    Change(1, 1, 1, "pendente", "processando", 1, "worker-a", "reserva", NOON),
    Change(2, 1, 2, "processando", "pendente", 1, "vigia", "reserva vencida", NOON),
    Change(3, 1, 3, "pendente", "processando", 2, "worker-b", "reserva", NOON),
    Change(4, 1, 4, "processando", "concluido", 2, "worker-b", "conclusao", NOON),
]
DONE = replace(NEW, status="concluido", version=4, attempts=2)
GOOD = Tables({1: DONE}, CHAIN)
ONE_EFFECT = {"padrao/NFE-0001": 1}


@pytest.fixture
def harness(database: str) -> Iterator[Harness]:
    schema.build(database, 9)
    with open_harness(database) as found:
        yield found


# The upgrade


def test_an_attempt_from_before_the_stages_may_have_called(database: str) -> None:
    schema.build(database, 8)
    execute(
        database,
        "SET search_path = sql_semana_12; UPDATE fila_documentos SET max_tentativas = 1 WHERE documento_id = 2;"
        " SELECT reservar('worker-a'); SELECT reservar('worker-b'); SELECT reservar('worker-c');"
        " SELECT falhar(1, 1, 'sistemico', 'timeout during the call'); SELECT concluir(3, 3)",
    )
    psql.run_scripts(database, paths.SQL / "09_effects.sql")
    stages = "SELECT status, etapa FROM sql_semana_12.fila_documentos ORDER BY documento_id"
    assert fetch(database, stages) == [
        ("pendente", "desconhecido"),
        ("processando", "desconhecido"),
        ("concluido", "nao_chamado"),
        ("pendente", "nao_chamado"),
    ]
    execute(database, "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = '1 hour'")
    recovered = "SELECT documento_id, status FROM sql_semana_12.recuperar('vigia')"
    assert fetch(database, recovered) == [(2, "conciliacao")]
    execute(database, "UPDATE sql_semana_12.fila_documentos SET etapa = 'nao_chamado'")
    psql.run_scripts(database, paths.SQL / "09_effects.sql")
    assert {stage for _, stage in fetch(database, stages)} == {"nao_chamado"}, "a second run lost what was recorded"


def test_no_tenant_has_a_slash(database: str) -> None:
    schema.build(database, 9)
    with pytest.raises(psycopg.errors.CheckViolation, match="fila_documentos_inquilino_check"):
        execute(database, "UPDATE sql_semana_12.fila_documentos SET inquilino = 'a/b'")


# The invariants


def test_a_chain_that_fits_together_has_no_fault() -> None:
    assert invariants.faults(BEFORE, GOOD) == []
    assert invariants.damage(BEFORE, GOOD, ONE_EFFECT, []) == Damage()


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
    assert any(fault in found for found in invariants.faults(BEFORE, after))


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
        (replace(DONE, status="pausado"), {}, [], Damage(stuck=1)),
        (replace(DONE, status="falhou", attempts=1), ONE_EFFECT, [], Damage(over_limit=1)),
        (replace(DONE, status="conciliacao"), ONE_EFFECT, [], Damage()),
        (replace(DONE, status="conciliacao"), {}, [], Damage()),
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
    assert invariants.damage(BEFORE, after, effects, events) == damage
    assert damage.total == sum(vars(damage).values())


def test_a_document_that_rightly_fails_is_lost_only_if_it_is_said_to_be_done() -> None:
    hopeless = frozenset({NEW.key})
    for status, damage in (("falhou", Damage()), ("concluido", Damage(lost=1))):
        after = Tables({1: replace(DONE, status=status)}, CHAIN)
        assert invariants.damage(BEFORE, after, {}, [], hopeless) == damage


def test_exactly_once_wants_every_document_finished() -> None:
    good = DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 0.0)
    assert catalogue.exactly_once(good)
    for spoilt in (replace(good, finished=3), replace(good, effects=3), replace(good, damage=Damage(stuck=1))):
        assert not catalogue.exactly_once(spoilt)


# The order in a free race: documents are due by their ids here; each word is who claims what in one statement, - ends it


@pytest.mark.parametrize(
    ("story", "overtaking", "passed_over"),
    [
        ("a1 b2 a- a3 b- b4", 0, 0),
        ("a12 b34 a- a5", 0, 0),
        # b locked 1 before a came, and wrote it down later: the audit says no more than that.
        ("a2 b1", 1, 0),
        ("b1 b- a3 b2", 1, 0),
        ("a23 b1", 1, 0),
        # b wrote something, then came for 1: so it was free when a took 2.
        ("a2 b- b1", 1, 1),
        ("a2 a- a3 b- b1", 2, 1),
        ("a34 b- b1 b- b2", 1, 2),
        ("b2 a- a3 b- b1", 2, 1),
        # Put back, 1 is due last of all; a claim of it leaves 2 behind.
        ("a1 b2 b- c1", 0, 0),
        ("a1 c1 b- b2", 1, 1),
    ],
)
def test_a_claim_past_a_free_document_is_told_from_one_past_a_document_in_other_hands(
    story: str, overtaking: int, passed_over: int
) -> None:
    audit = list(written(story))
    numbers = sorted({change.document for change in audit if invariants.is_claim(change)})
    before = Tables({number: replace(NEW, due=NOON + number * timedelta(seconds=1)) for number in numbers}, [])
    assert invariants.order(before, Tables({}, audit)) == Order(overtaking, passed_over)
    assert invariants.order(before, Tables({}, audit), locked=numbers).passed_over == 0


def test_tokens_that_no_row_has_are_of_claims_that_were_rolled_back() -> None:
    claims = [Change(n, n, 1, "pendente", "processando", token, "a", "reserva", NOON) for n, token in ((1, 1), (2, 4))]
    assert invariants.uncommitted(Tables({}, claims)) == 2
    assert invariants.uncommitted(Tables({}, [])) == 0


@pytest.mark.parametrize(
    ("passed_over", "uncommitted", "good"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False)]
)
def test_a_document_passed_over_is_forgiven_only_where_a_kill_rolled_a_claim_back(
    passed_over: int, uncommitted: int, good: bool
) -> None:
    seen = random_kills.RandomKillsOutcome(5, 1, 5, 4, 20, 320, 320, 320, uncommitted, Order(9, passed_over))
    assert seen.good == good


def written(story: str) -> Iterator[Change]:
    number = 0
    for moment, word in enumerate(story.split()):
        who, when = word[0], NOON + moment * timedelta(seconds=1)
        for document in word[1:]:
            number += 1
            if document == "-":
                yield Change(number, 0, number, "processando", "concluido", number, who, "conclusao", when)
            else:
                yield Change(number, int(document), number, "pendente", "processando", number, who, "reserva", when)


# Random kills (the lesson's check holds the drill itself)

QUEUE_ORDER = "ORDER BY disponivel_em, documento_id"
FREE_ROWS = f"WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())\n            {QUEUE_ORDER}\n            FOR UPDATE"
SMALL = Size(documents=60, workers=3, seed=1)


def claim_by(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let whatever defence is taken away be this text of the claim."""
    claim = history.text(source.find("reservar").edition(STATE))
    assert claim.count(old) == 1
    monkeypatch.setattr(source, "without", lambda mark, lesson: [f"CREATE OR REPLACE {claim.replace(old, new)}"])


def test_without_the_order_a_claim_passes_over_free_documents(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_by(monkeypatch, FREE_ROWS, FREE_ROWS.replace(QUEUE_ORDER, ""))
    with without(database, "ordem") as name:
        seen = catalogue.hold_random_kills(database, name, SMALL)
    assert seen.random_kills and seen.random_kills.order.passed_over > seen.random_kills.uncommitted
    assert catalogue.exactly_once(seen) and not catalogue.each_once(seen)


@pytest.mark.parametrize("lock", ["FOR UPDATE", ""])
def test_without_skip_locked_the_workers_stand_still_behind_one_lock(
    lock: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_kills, "STILL", 2.0)
    free = f"{FREE_ROWS} SKIP LOCKED"
    claim_by(monkeypatch, free, free.replace("FOR UPDATE SKIP LOCKED", lock))
    with (
        without(database, "pular") as name,
        pytest.raises(
            LabError, match=r"No worker claimed .* 60 documents have not ended.* lab/worker-00\d → lab/drill"
        ),
    ):
        catalogue.hold_random_kills(database, name, SMALL)


def test_a_worker_that_ends_by_itself_ends_the_drill(harness: Harness) -> None:
    worker = harness.worker("worker-a", "--once")
    worker.drain()
    with pytest.raises(LabError, match="ended with status 0 before it was asked to"):
        worker.heard()


# The copies with one defence taken away


CHANGED = {
    "reserva": {"recuperar"},
    "token": {"travar", "concluir_lote"},
    "linhas": {"registrar_etapa"},
    "etapa": {"mudar"},
}


@pytest.mark.parametrize("defence", CHANGED)
def test_a_copy_is_marked_and_dropped_and_leaves_the_protocol_alone(database: str, defence: str) -> None:
    schema.build(database, 9)
    bodies = "SELECT proname, md5(prosrc) FROM pg_proc WHERE pronamespace = '{}'::regnamespace ORDER BY 1"
    whole = fetch(database, bodies.format("sql_semana_12"))
    with without(database, defence) as name:
        assert fetch(database, SCHEMAS) == [("sql_semana_12",), (name,)]
        assert fetch(database, f"SELECT obj_description('{name}'::regnamespace)") == [("queue lab, state 09",)]
        copy = fetch(database, bodies.format(name))
        different = {name for name, body in copy if (name, body) not in whole}
        assert different == CHANGED[defence]
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


# The matrix (the lesson's check compares the recorded one with what is seen)


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


# The drills (the lesson's checks hold each of them)


def test_every_drill_is_held_by_a_claim() -> None:
    text = (paths.ROOT / "scripts" / "09_effects.py").read_text(encoding="utf-8")
    names = [each.name for each in catalogue.drills()]
    assert [name for name in names if f'"{name}"' not in text and f"catalogue.{name.upper()}" not in text] == []


def test_what_the_drills_do_not_try_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "hold", lambda *_: DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 0.0))
    shown = Console(file=io.StringIO(), width=1000)
    report.show_drills(catalogue.drills(), "", shown, times=1)
    *_, last = shown.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert last.startswith("not tried: several workers killed at once; a machine that loses power; ")
    assert all(last.count(str(each)) == 1 for each_drill in catalogue.drills() for each in each_drill.not_tried)
    assert shown.file.getvalue().count("not tried") == 1  # type: ignore[attr-defined]


def test_a_drill_that_does_not_exist_is_named() -> None:
    with pytest.raises(LabError, match="There is no drill kill_all; there are kill_before_commit"):
        catalogue.find("kill_all")


def test_a_drill_that_gets_stuck_says_so_and_leaves_no_process(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = child_processes()
    worker = harness.stopped_at("claimed", "worker-a")
    monkeypatch.setattr(process, "SECONDS", 0.2)
    with pytest.raises(LabError, match="said nothing for"):
        worker.wait_for("finished")
    monkeypatch.undo()
    worker.freeze()
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED
    harness.end_all()
    assert not psutil.pid_exists(worker.pid)
    assert child_processes() <= before


def test_a_worker_that_ends_early_says_why(harness: Harness) -> None:
    with pytest.raises(LabError, match=r"ended with status 1 before at: .*3F000"):
        harness.worker("worker-a", "--schema", "sql_semana_13", "--stop-at", "claimed").wait_for("at")


def test_a_drill_whose_database_is_gone_does_not_wait_for_it(harness: Harness, tmp_path: Path) -> None:
    harness.conninfo = f"host={tmp_path} dbname=lab"
    with pytest.raises(LabError, match="The database is away"):
        harness.recover()


def test_every_check_of_lesson_09_passes(stage: Stage) -> None:
    check_lesson("09_effects", stage)
