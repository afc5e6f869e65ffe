"""A free race: many connections, released together, claim until the queue is empty."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import psycopg

from lab import schema
from lab.lesson import find_scenario
from lab.session import SessionPins

Claim = Literal["skip_locked", "for_update", "select_commit_update"]


@dataclass(frozen=True)
class Race:
    """What a race came to. In a free race only totals mean anything, never who got what.

    `by_session` are the documents each session claimed, in its order; `inversions` counts the claims of a session that were
    older than its claim before; `left` the documents still pending; `seconds` from the release to the last session's end.
    """

    documents: int
    by_session: tuple[tuple[int, ...], ...]
    left: int
    seconds: float

    @property
    def claimed(self) -> int:
        return sum(map(len, self.by_session))

    @property
    def distinct(self) -> int:
        return len({document for claims in self.by_session for document in claims})

    @property
    def duplicates(self) -> int:
        return self.claimed - self.distinct

    @property
    def inversions(self) -> int:
        return sum(later < earlier for claims in self.by_session for earlier, later in pairwise(claims))

    @property
    def shares(self) -> Counter[str]:
        """How many documents each session claimed."""
        return Counter({f"session {number}": len(claims) for number, claims in enumerate(self.by_session, start=1)})


def race(
    conninfo: str, *, sessions: int = 10, documents: int = 200, claim: Claim = "skip_locked", work: float = 0.0
) -> Race:
    """Rebuild the queue with so many documents, and let so many sessions claim at once until they get none.

    `claim` is the statement used: the episode's, the same without SKIP LOCKED, or the faulty SELECT, COMMIT, UPDATE. `work` is
    the seconds each session spends on a document inside its claim transaction, as a worker does that does not commit first.
    Raises LabError if the queue cannot be built, psycopg.Error if a session fails.
    """
    schema.build(conninfo, 4)
    pins = SessionPins()
    with pins.psycopg_connection(conninfo, "lab/race") as referee:
        referee.execute("TRUNCATE fila_documentos RESTART IDENTITY")
        referee.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, criado_em)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', timestamptz '2026-10-16 09:00-03' + n * interval '1 s'"
            " FROM generate_series(1, %s) AS n",
            [documents],
        )
        referee.execute("ANALYZE fila_documentos")
        barrier = threading.Barrier(sessions + 1)
        takers = [_Taker(conninfo, pins, number, barrier, _claimer(claim, work)) for number in range(1, sessions + 1)]
        for taker in takers:
            taker.start()
        with suppress(threading.BrokenBarrierError):  # a session could not connect; its error is raised below
            barrier.wait()
        started = time.monotonic()
        for taker in takers:
            taker.join()
        seconds = time.monotonic() - started
        for taker in takers:
            if taker.error is not None:
                raise taker.error
        row = referee.execute("SELECT count(*) FROM fila_documentos WHERE status = 'pendente'").fetchone()
        assert row
    return Race(documents, tuple(tuple(taker.claimed) for taker in takers), row[0], seconds)


_TakeOne = Callable[[psycopg.Connection], int | None]


class _Taker(threading.Thread):
    def __init__(
        self, conninfo: str, pins: SessionPins, number: int, barrier: threading.Barrier, take_one: _TakeOne
    ) -> None:
        super().__init__(name=f"lab/{number}", daemon=True)
        self.conninfo = conninfo
        self.pins = pins
        self.barrier = barrier
        self.take_one = take_one
        self.claimed: list[int] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self.pins.psycopg_connection(self.conninfo, self.name) as connection:
                self.barrier.wait()
                while (document := self.take_one(connection)) is not None:
                    self.claimed.append(document)
        except threading.BrokenBarrierError:
            pass
        except Exception as error:
            self.error = error
            self.barrier.abort()


def _claimer(claim: Claim, work: float) -> _TakeOne:
    """How a session takes one document; None when it gets none."""
    if claim == "select_commit_update":
        story = find_scenario("04_select_commit_update")
        choose = story.step("a_chooses").sql
        mark = story.step("a_marks").sql.replace("documento_id = 1", "documento_id = %s")

        def take_in_two(connection: psycopg.Connection) -> int | None:
            with connection.transaction():
                row = connection.execute(choose.encode()).fetchone()
            if row is None:
                return None
            connection.execute(mark.encode(), [row[0]])
            return int(row[0])

        return take_in_two

    statement = find_scenario("04_claim").step("a_claims").sql
    if claim == "for_update":
        statement = statement.replace("FOR UPDATE SKIP LOCKED", "FOR UPDATE")

    def take(connection: psycopg.Connection) -> int | None:
        with connection.transaction():
            row = connection.execute(statement.encode()).fetchone()
            if row is not None and work:
                time.sleep(work)
        return None if row is None else int(row[0])

    return take
