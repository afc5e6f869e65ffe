"""How far back old row versions are still needed: up to the oldest transaction that is open anywhere on the server."""

from __future__ import annotations

import psycopg

from lab.base import wait
from lab.base.errors import CannotRunHere
from lab.base.language import say

PATIENCE = 30.0  # seconds


def wait_for_older_transactions(connection: psycopg.Connection, patience: float = PATIENCE) -> None:
    """Wait until every transaction with an id that was open when this was called has ended, in whichever database.

    Until then no version that died since may be removed from its page, and no index that was built over such versions is
    used. Parameters: patience, in seconds. Raises CannotRunHere if one stays open longer.
    """
    row = connection.execute("SELECT pg_current_xact_id()").fetchone()
    assert row
    older = "SELECT 1 FROM pg_current_snapshot() AS seen WHERE pg_snapshot_xmin(seen) <= %s::xid8"
    if not wait.until(lambda: connection.execute(older, row).fetchone() is None, patience):
        raise CannotRunHere(
            say(
                "a transaction stays open on this server; until it ends, dead row versions cannot be removed",
                "uma transação continua aberta neste servidor; até ela acabar, versões mortas não podem ser removidas",
            )
        )
