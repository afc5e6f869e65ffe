"""A free race: many connections, released together, claim until the queue is empty."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import psycopg

from lab.base.errors import LabError
from lab.base.language import say
from lab.measure.rounds import together
from lab.scenario.library import find_scenario
from lab.server import schema
from lab.server.session import SessionPins

Way = Literal["skip_locked", "for_update", "select_commit_update"]


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


def race(
    conninfo: str, *, sessions: int = 10, documents: int = 200, claim: Way = "skip_locked", work: float = 0.0
) -> Race:
    """Rebuild the queue with so many documents, and let so many sessions claim at once until they get none.

    `claim` is the statement used: the episode's, the same without SKIP LOCKED, or the faulty SELECT, COMMIT, UPDATE. `work` is
    the seconds each session spends on a document inside its claim transaction, as a worker does that does not commit first.
    Raises LabError if the queue cannot be built, CannotRunHere if so many connections cannot be had, psycopg.Error if a
    session fails.
    """
    fill(conninfo, documents)
    return empty(conninfo, sessions=sessions, claim=claim, work=work)


def fill(conninfo: str, documents: int) -> None:
    """Rebuild the queue with so many documents. Raises LabError if it cannot be built."""
    schema.build(conninfo, 4)
    with SessionPins().psycopg_connection(conninfo, "lab/race") as connection:
        connection.execute("TRUNCATE fila_documentos RESTART IDENTITY")
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, criado_em)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', timestamptz '2026-10-16 09:00-03' + n * interval '1 s'"
            " FROM generate_series(1, %s) AS n",
            [documents],
        )
        connection.execute("ANALYZE fila_documentos")


def empty(conninfo: str, *, sessions: int, claim: Way, work: float = 0.0) -> Race:
    """Let so many sessions claim from the queue as it is until they get none; parameters and errors are those of `race`."""
    take_one = _claimer(claim, work)

    def session(connection: psycopg.Connection, number: int) -> tuple[int, ...]:
        return tuple(iter(lambda: take_one(connection), None))

    by_session, seconds = together(conninfo, sessions, session)
    with SessionPins().psycopg_connection(conninfo, "lab/race") as monitor:
        row = monitor.execute(
            "SELECT count(*), count(*) FILTER (WHERE status = 'pendente') FROM fila_documentos"
        ).fetchone()
    assert row
    return Race(row[0], tuple(by_session), row[1], seconds)


_TakeOne = Callable[[psycopg.Connection], int | None]


def _claimer(claim: Way, work: float) -> _TakeOne:
    """How a session takes one document; None when it gets none."""
    if claim == "select_commit_update":
        story = find_scenario("04_select_commit_update")
        choose = story.step("a_chooses").sql
        mark = _changed(story.step("a_marks").sql, "documento_id = 1", "documento_id = %s")

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
        statement = _changed(statement, "FOR UPDATE SKIP LOCKED", "FOR UPDATE")

    def take(connection: psycopg.Connection) -> int | None:
        with connection.transaction():
            row = connection.execute(statement.encode()).fetchone()
            if row is not None and work:
                time.sleep(work)
        return None if row is None else int(row[0])

    return take


def _changed(statement: str, old: str, new: str) -> str:
    """The statement with one place changed; LabError if it has no such place, or several."""
    if statement.count(old) != 1:
        raise LabError(
            say(
                f"The race expects {old!r} once in the scenario's statement: {statement}",
                f"A disputa espera {old!r} uma vez no comando do cenário: {statement}",
            )
        )
    return statement.replace(old, new)
