"""The trial of a worker that comes back late: another one has its row by then, and the first still finishes it."""

from __future__ import annotations

from contextlib import closing

import psycopg
from psycopg.rows import dict_row

from lab.base.errors import QueueError
from lab.base.language import Text
from lab.examine import trials
from lab.examine.queue_file import QueueFile
from lab.examine.trials import GIVEN, Values
from lab.examine.verdict import Verdict, Word

NEEDED = ("finish", "expire")
# The versions of rows that are there: a lock changes none, an update does.
VERSIONS = """
SELECT c.oid::regclass::text
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


def late_finish(queue: QueueFile, conninfo: str, same_name: bool = False) -> Verdict:
    """A claims, its claim is made late and recovered, B claims the same row, then A finishes it with what it was given.

    `same_name` is whether B has A's worker name, as after a restart. The database must be freshly built. Raises QueueError if a
    statement fails on the way to the take-over.
    """
    trial = "late_finish_same_name" if same_name else "late_finish"
    title = (
        Text("late finish, restarted under the same name", "conclusão atrasada, reinício com o mesmo nome")
        if same_name
        else Text("late finish after a take-over", "conclusão atrasada, depois que outro assumiu")
    )

    def verdict(word: Word, seen: int, of: int, why: Text) -> Verdict:
        return Verdict(trial, title, word, seen, of, why, "06")

    if missing := [name for name in NEEDED if name not in queue.blocks]:
        names = ", ".join(f"@{name}" for name in missing)
        return verdict("NOT TRIED", 0, 0, Text(f"the file has no {names}", f"o arquivo não traz {names}"))
    with (
        closing(trials.PINS.psycopg_connection(conninfo, "lab/A")) as a,
        closing(trials.PINS.psycopg_connection(conninfo, "lab/B")) as b,
    ):
        first = _run(queue, "claim", a, {**GIVEN, "worker": "worker-a"})
        _run(queue, "expire", b, first)
        if "recover" in queue.blocks:
            _run(queue, "recover", b, {**GIVEN, "worker": "worker-c"})
        identity = "id" if "id" in first else next(name for name in first if name not in {*GIVEN, "worker"})
        # B may be given other rows first.
        for _ in range(100):
            second = _run(queue, "claim", b, {**GIVEN, "worker": "worker-a" if same_name else "worker-b"})
            if second.get(identity) in (first[identity], None):
                break
        if second.get(identity) != first[identity]:
            return verdict(
                "NOT TRIED",
                0,
                0,
                Text(
                    "no other worker got the late row: check @expire and @recover",
                    "nenhum outro worker pegou a linha atrasada: confira @expire e @recover",
                ),
            )
        before = _versions(b)
        try:
            _run(queue, "finish", a, first)
        except QueueError as error:
            if not isinstance(error.__cause__, psycopg.Error):
                raise
            return verdict(
                "HOLDS",
                0,
                1,
                Text("the late finish was refused with an error", "a conclusão atrasada foi recusada com erro"),
            )
        changed = len(before ^ _versions(b))
        if changed:
            why = Text(
                "the late finish wrote over the work of the new owner",
                "a conclusão atrasada gravou por cima do novo dono",
            )
            return verdict("BREAKS", 1, 1, why)
        # Only a finish that the owner's passes shows that the late one was refused, and not that it never works.
        _run(queue, "finish", b, second)
        if before == _versions(b):
            why = Text(
                "the owner's own finish changes nothing either", "a conclusão do próprio dono também não muda nada"
            )
            return verdict("NOT TRIED", 0, 0, why)
        return verdict(
            "HOLDS", 0, 1, Text("it changed no row, the owner's finish did", "ela não mudou linha; a do dono mudou")
        )


def _run(queue: QueueFile, name: str, connection: psycopg.Connection, values: Values) -> Values:
    """Run a block with these values; returns them with what its last row returned. Raises QueueError for a failure."""
    block = queue.blocks[name]
    connection.execute("BEGIN" if block.one_transaction else "SELECT")
    for statement in block.statements:
        try:
            cursor = connection.cursor(row_factory=dict_row)
            cursor.execute(trials.bound(queue, statement, values).encode())
            rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise trials.failed(queue, statement, error.sqlstate, error.diag.message_primary) from error
        if name == "claim" and cursor.description and not rows:
            break
        if rows:
            values = values | {key: None if value is None else str(value) for key, value in rows[0].items()}
    connection.execute("COMMIT" if block.one_transaction else "SELECT")
    return values


def _versions(connection: psycopg.Connection) -> set[tuple[str, str, str]]:
    """Table, place and writer of every row."""
    found = set()
    for (table,) in connection.execute(VERSIONS.encode()).fetchall():
        rows = connection.execute(f"SELECT ctid::text, xmin::text FROM {table}".encode()).fetchall()
        found |= {(table, place, writer) for place, writer in rows}
    return found
