"""The evidence of a drill: chains, damage and order are judged by what is in the tables and in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lab.drills import invariants
from lab.drills.invariants import Change, Damage, Document, Order, Tables

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


def test_tokens_that_no_row_has_are_of_claims_that_were_rolled_back() -> None:
    claims = [Change(n, n, 1, "pendente", "processando", token, "a", "reserva", NOON) for n, token in ((1, 1), (2, 4))]
    assert invariants.uncommitted(Tables({}, claims)) == 2
    assert invariants.uncommitted(Tables({}, [])) == 0
