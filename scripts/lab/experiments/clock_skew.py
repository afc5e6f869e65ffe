"""Leases on the lab's clock: how long a dead worker's document waits, and what workers' own clocks do to deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from lab.scenario.stage import Stage

STATE = 5
LEASE = timedelta(minutes=10)
FAR_TOO_LONG = LEASE + timedelta(hours=1)


def recovery_delay(stage: Stage, lease: str, every: str = "10 seconds") -> float:
    """Let a worker claim a document and die, and move the lab's clock on until `recuperar` takes the document back.

    `lease` and `every`, the pace at which recovery looks, are intervals in PostgreSQL's notation; a lease is at most a day.
    Returns the seconds from the claim to the recovery on the lab's clock.
    """
    stage.build(STATE)
    with stage.connection() as connection:
        connection.execute("SELECT documento_id FROM reservar('worker-a', 1, %s)", [lease])
        recovered = None
        while recovered is None:
            connection.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + %s::INTERVAL", [every])
            recovered = connection.execute("SELECT documento_id FROM recuperar()").fetchone()
        row = connection.execute(
            "SELECT relogio() - iniciado_em FROM fila_documentos WHERE documento_id = %s", recovered
        ).fetchone()
    assert row
    delay: timedelta = row[0]
    return delay.total_seconds()


@dataclass(frozen=True)
class Deadlines:
    """What became of the leases of workers that are all alive: but for the first, each count should be 0."""

    leases: int
    born_expired: int
    hours_too_long: int
    taken_from_the_living: int


def deadlines(
    stage: Stage, *, own_clocks: bool, hours_fast: Sequence[float] = (-2, 0, 2), documents_each: int = 20
) -> Deadlines:
    """Let workers whose clocks are so many hours fast (negative: slow) claim documents and then take back what is late.

    With `own_clocks` each worker computes the deadlines and judges who is late by its own clock; otherwise it calls the
    protocol's functions. All of this takes a moment, and a lease is of ten minutes: no worker is really late.
    """
    stage.build(STATE)
    kind = _OwnClock if own_clocks else _Worker
    workers = [kind(f"worker-{number}", timedelta(hours=fast)) for number, fast in enumerate(hours_fast, start=1)]
    with stage.connection() as connection:
        connection.execute("DELETE FROM fila_documentos")
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(1, %s) AS n",
            [documents_each * len(workers)],
        )
        for worker in workers:
            for _ in range(documents_each):
                worker.claim(connection)
        row = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE reservado_ate < relogio()),"
            " count(*) FILTER (WHERE reservado_ate > relogio() + %s)"
            " FROM fila_documentos WHERE status = 'processando'",
            [FAR_TOO_LONG],
        ).fetchone()
        taken = sum(worker.take_back(connection) for worker in workers)
    assert row
    leases, expired, too_long = row
    return Deadlines(leases, expired, too_long, taken)


@dataclass(frozen=True)
class _Worker:
    """A worker that calls the protocol: it says for how long, never until when."""

    name: str
    fast: timedelta

    def claim(self, connection: psycopg.Connection) -> None:
        connection.execute("SELECT documento_id FROM reservar(%s, 1, %s)", [self.name, LEASE])

    def take_back(self, connection: psycopg.Connection) -> int:
        return connection.execute("SELECT documento_id FROM recuperar(p_limite => 1000)").rowcount


class _OwnClock(_Worker):
    """The faulty way: its own clock says until when, and who is late."""

    def claim(self, connection: psycopg.Connection) -> None:
        connection.execute(
            "UPDATE fila_documentos SET status = 'processando', tentativas = tentativas + 1, worker_id = %s, reservado_ate = %s"
            " WHERE documento_id = (SELECT documento_id FROM fila_documentos WHERE status = 'pendente'"
            " ORDER BY criado_em, documento_id FOR UPDATE SKIP LOCKED LIMIT 1)",
            [self.name, self.clock(connection) + LEASE],
        )

    def take_back(self, connection: psycopg.Connection) -> int:
        return connection.execute(
            "UPDATE fila_documentos SET status = 'pendente', worker_id = NULL"
            " WHERE status = 'processando' AND reservado_ate < %s",
            [self.clock(connection)],
        ).rowcount

    def clock(self, connection: psycopg.Connection) -> datetime:
        """What it takes for the time; the database's is the true one, so that the reader's machine does not matter."""
        row = connection.execute("SELECT relogio()").fetchone()
        assert row
        true: datetime = row[0]
        return true + self.fast
