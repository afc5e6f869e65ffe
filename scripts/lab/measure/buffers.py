"""What a statement costs in buffers: unlike its time, the same on a busy machine."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg


def touched(connection: psycopg.Connection, statement: str, values: Sequence[object] = ()) -> int:
    """The buffers that one execution of a statement with these parameters touches; it is rolled back.

    Parameters: statement, with %s for each of `values`. Raises psycopg.Error if it fails.
    """
    with connection.transaction(force_rollback=True):
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
        row = connection.execute(explain.encode(), values or None).fetchone()
    assert row
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
