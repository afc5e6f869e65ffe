"""What the server counts meanwhile, what its sessions wait for, and what a figure depends on."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from lab.base import paths
from lab.server.session import SessionPins

SAMPLE_SECONDS = 0.01  # between two looks at what the sessions wait for


def counters(connection: psycopg.Connection, tables: Sequence[str] = ()) -> dict[str, float]:
    """What the server has counted so far, by name; what it does not count, or not for this user, is left out.

    wal_bytes is the position of the whole server's WAL; updates, hot_updates, dead_rows and size (bytes, with indexes) are of the
    tables; statements and statement_ms come from pg_stat_statements, where it is loaded.
    """
    queries = [
        "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal_bytes",
        "SELECT wal_records, wal_fpi AS wal_images FROM pg_stat_wal",
        "SELECT sum(calls) AS statements, sum(total_exec_time) AS statement_ms FROM pg_stat_statements"
        " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
    ]
    if tables:
        queries.append(
            "SELECT sum(pg_stat_get_tuples_updated(oid)) AS updates, sum(pg_stat_get_tuples_hot_updated(oid)) AS hot_updates,"
            " sum(pg_stat_get_dead_tuples(oid)) AS dead_rows, sum(pg_total_relation_size(oid)) AS size"
            " FROM unnest(%s::regclass[]) AS oid"
        )
    counted: dict[str, float] = {}
    for query in queries:
        with suppress(
            psycopg.errors.UndefinedTable,
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ObjectNotInPrerequisiteState,
        ):
            cursor = connection.execute(query.encode(), [list(tables)] if "%s" in query else None)
            row = cursor.fetchone()
            names = [column.name for column in cursor.description or ()]
            counted |= {name: float(value) for name, value in zip(names, row or (), strict=True) if value is not None}
    return counted


@dataclass
class Waits:
    """What the other sessions of the database were seen waiting for: how many at each look, by event, and the most at once."""

    samples: int = 0
    connections: int = 0
    events: Counter[str] = field(default_factory=Counter)


@contextmanager
def sampled(conninfo: str, every: float = SAMPLE_SECONDS) -> Iterator[Waits]:
    """Look at pg_stat_activity every so many seconds, while the block runs."""
    waits, over = Waits(), threading.Event()
    query = (
        "SELECT wait_event_type || ':' || wait_event FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND application_name NOT IN ('lab/measure', 'lab/sampler')"
    )

    def look(connection: psycopg.Connection) -> None:
        while not over.wait(every):
            seen = connection.execute(query.encode()).fetchall()
            waits.samples += 1
            waits.connections = max(waits.connections, len(seen))
            waits.events.update(event for (event,) in seen if event and not event.startswith("Client:"))

    with SessionPins().psycopg_connection(conninfo, "lab/sampler") as connection:
        thread = threading.Thread(target=look, args=[connection], name="lab/sampler", daemon=True)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join()


def environment(connection: psycopg.Connection) -> dict[str, object]:
    """What a figure depends on: server, its settings that are not its defaults, machine, system, Python and commit."""
    settings = connection.execute(
        "SELECT name, setting FROM pg_settings WHERE source NOT IN ('default', 'override', 'client', 'session')"
        " AND name !~ '(file|director|path|port|listen|socket|application_name|log_)' ORDER BY name"
    ).fetchall()
    row = connection.execute("SELECT version()").fetchone()
    assert row
    return {
        "postgresql": row[0],
        **{f"settings.{name}": setting for name, setting in settings},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that the lab stands at, with a + if files differ from it; empty where that cannot be told."""
    with suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return ""
