"""What a statement costs in buffers and in WAL: unlike its time, the same on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True)
class Explained:
    """One execution of a statement: buffers touched, WAL bytes written (before its commit), milliseconds, rows, and its plan.

    What the functions that it calls did is counted, too.
    """

    buffers: int
    wal_bytes: int
    ms: float
    rows: int
    plan: Mapping[str, Any]

    @property
    def node(self) -> str:
        """The kind of the first node that reads a table or an index."""
        return next(
            str(node["Node Type"]) for node in nodes(self.plan) if "Relation Name" in node or "Index Name" in node
        )

    @property
    def index(self) -> str:
        """The index that was used, empty if none was."""
        return next((str(node["Index Name"]) for node in nodes(self.plan) if "Index Name" in node), "")


def explain(connection: psycopg.Connection, statement: str, values: Sequence[object] = ()) -> Explained:
    """Execute a statement with these parameters, and tell what it cost; what it changes is changed.

    Parameters: statement, with %s for each of `values`. Raises psycopg.Error if it fails.
    """
    row = connection.execute(
        f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) {statement}".encode(), values or None
    ).fetchone()
    assert row
    plan = row[0][0]["Plan"]
    buffers = int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return Explained(
        buffers, int(plan["WAL Bytes"]), float(row[0][0]["Execution Time"]), int(plan["Actual Rows"]), plan
    )


def tried(connection: psycopg.Connection, statement: str, values: Sequence[object] = ()) -> Explained:
    """As `explain`, but it is rolled back."""
    with connection.transaction(force_rollback=True):
        return explain(connection, statement, values)


def touched(connection: psycopg.Connection, statement: str, values: Sequence[object] = ()) -> int:
    """The buffers that one execution of a statement with these parameters touches; it is rolled back."""
    return tried(connection, statement, values).buffers


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The nodes of a plan, from the top down."""
    yield plan
    for each in plan.get("Plans", []):
        yield from nodes(each)
