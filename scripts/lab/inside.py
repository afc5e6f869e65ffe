"""Work inside the database: it shares the finishing transaction, so it happens exactly once, without key, stage or receiver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import psycopg

from lab.failure import classify
from lab.workqueue import Claim, Queue


def finish_together(
    queue: Queue, claims: Sequence[Claim], work: Callable[[psycopg.Connection, Claim], None], *, savepoints: bool = True
) -> None:
    """Work on a batch and finish it in one transaction; `work` writes through the connection it is given.

    Each document has a savepoint, so that one which fails takes nothing back but its own. Without savepoints the first failure
    rolls all back, and all of them have failed.
    """
    try:
        with queue.transaction() as connection:
            for claim in claims:
                _finish(queue, connection, claim, work, savepoints)
    except psycopg.Error as error:
        failure = classify(error)
        for claim in claims:
            queue.fail(claim, failure.category, failure.reason)


def _finish(
    queue: Queue,
    connection: psycopg.Connection,
    claim: Claim,
    work: Callable[[psycopg.Connection, Claim], None],
    savepoints: bool,
) -> None:
    try:
        with connection.transaction() if savepoints else nullcontext():
            work(connection, claim)
            if queue.finish(claim, None) is None:
                raise _NotOurs
    except _NotOurs:
        if not savepoints:
            raise
    except psycopg.Error as error:
        if not savepoints or connection.closed:
            raise
        failure = classify(error)
        queue.fail(claim, failure.category, failure.reason)


class _NotOurs(psycopg.Error):
    """Somebody else has the document by now: what was written for it goes back."""
