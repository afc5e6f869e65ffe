"""Many workers, killed at random: what the drill sees, and where it would see a queue that is wrong."""

from __future__ import annotations

import pytest

from lab.base.errors import LabError
from lab.drills import catalogue, random_kills
from lab.drills.ablated_schema import STATE, without
from lab.drills.invariants import Order
from lab.drills.random_kills import Size
from lab.protocol import history, source

QUEUE_ORDER = "ORDER BY disponivel_em, documento_id"


FREE_ROWS = f"WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())\n            {QUEUE_ORDER}\n            FOR NO KEY UPDATE"


SMALL = Size(documents=60, workers=3, seed=1)


def claim_by(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let whatever defence is taken away be this text of the claim."""
    claim = history.text(source.find("reservar").edition(STATE))
    assert claim.count(old) == 1
    monkeypatch.setattr(source, "without", lambda mark, lesson: [f"CREATE OR REPLACE {claim.replace(old, new)}"])


@pytest.mark.parametrize(
    ("passed_over", "uncommitted", "good"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False)]
)
def test_a_document_passed_over_is_forgiven_only_where_a_kill_rolled_a_claim_back(
    passed_over: int, uncommitted: int, good: bool
) -> None:
    seen = random_kills.RandomKillsOutcome(5, 1, 5, 4, 20, 320, 320, 320, uncommitted, Order(9, passed_over))
    assert seen.good == good


def test_without_the_order_a_claim_passes_over_free_documents(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_by(monkeypatch, FREE_ROWS, FREE_ROWS.replace(QUEUE_ORDER, ""))
    with without(database, "ordem") as name:
        seen = catalogue.hold_random_kills(database, name, SMALL)
    assert seen.random_kills and seen.random_kills.order.passed_over > seen.random_kills.uncommitted
    assert catalogue.exactly_once(seen) and not catalogue.each_once(seen)


@pytest.mark.parametrize("lock", ["FOR NO KEY UPDATE", ""])
def test_without_skip_locked_the_workers_stand_still_behind_one_lock(
    lock: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_kills, "STILL", 2.0)
    free = f"{FREE_ROWS} SKIP LOCKED"
    claim_by(monkeypatch, free, free.replace("FOR NO KEY UPDATE SKIP LOCKED", lock))
    with (
        without(database, "pular") as name,
        pytest.raises(
            LabError, match=r"No worker claimed .* 60 documents have not ended.* lab/worker-00\d → lab/drill"
        ),
    ):
        catalogue.hold_random_kills(database, name, SMALL)
