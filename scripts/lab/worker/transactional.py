"""Work inside the database: it shares the finishing transaction, so it happens exactly once, without key, stage or receiver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import psycopg

from lab.worker.client import Claim, Queue
from lab.worker.failures import Failure, classify

NOT_OURS = Failure("sistemico", "a document of the batch is no longer this worker's")


def finish_together(
    queue: Queue, claims: Sequence[Claim], work: Callable[[psycopg.Connection, Claim], None], *, savepoints: bool = True
) -> None:
    """Work on a batch and finish it in one transaction; `work` writes through the connection it is given.

    Each document has a savepoint, so that one which fails, whatever `work` raises, takes nothing back but its own; and so does one
    that is no longer this worker's. Without savepoints the first of these rolls all back, and all of them have failed. Raises
    psycopg.Error if not even that can be written; the leases will end.
    """
    try:
        with queue.transaction() as connection:
            for claim in claims:
                _finish(queue, connection, claim, work, savepoints)
    except Exception as error:
        failure = NOT_OURS if isinstance(error, _NotOursError) else classify(error)
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
                raise _NotOursError
    except _NotOursError:
        if not savepoints:
            raise
    except Exception as error:
        if not savepoints or connection.closed:
            raise
        failure = classify(error)
        queue.fail(claim, failure.category, failure.reason)


class _NotOursError(Exception):
    """Another worker has the document by now: what was written for it goes back."""
