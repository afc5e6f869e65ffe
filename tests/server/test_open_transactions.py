"""Claims about dead row versions wait for the transactions that may still need them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import psycopg
import pytest

from lab.base import wait
from lab.base.errors import CannotRunHere
from lab.lessons.registry import lessons
from lab.scenario.stage import Stage
from lab.server import open_transactions
from lab.server.target import Target


@pytest.fixture
def elsewhere(own_server: Target) -> Iterator[psycopg.Connection]:
    """A transaction that has written, left open in another database of the server."""
    with psycopg.connect(own_server.conninfo) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection
        connection.rollback()


def test_a_transaction_that_stays_open_is_no_failure_of_the_claim(database: str, elsewhere: psycopg.Connection) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(CannotRunHere, match="a transaction stays open on this server"):
            open_transactions.wait_for_older_transactions(connection, patience=0.05)
        elsewhere.rollback()
        open_transactions.wait_for_older_transactions(connection)


@pytest.mark.parametrize("claim_id", ["07.indexed_deadline", "08.due_order"])
def test_a_claim_holds_although_another_lab_had_a_transaction_open(
    server: Target, database: str, elsewhere: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, claim_id: str
) -> None:
    polls = list[float]()

    def poll(seconds: float) -> None:
        polls.append(seconds)
        elsewhere.rollback()

    monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=time.monotonic, sleep=poll))
    told = next(each for each in lessons() if each.number == claim_id[:2])
    claim = next(each for each in told.checks if each.id == claim_id)
    observed = claim.observe(Stage(database, server.superuser, embedded=True))
    assert observed.holds, observed.text.en
    assert polls
