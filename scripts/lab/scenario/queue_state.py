"""What the queue holds at a moment: its clock, and one record for each document.

Read on a connection of its own, so it shows what is committed: what a session did inside its open transaction is not in it yet,
as it is not for any other session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from lab.server.session import SCHEMA, SessionPins

# Short: a play is going on, and whoever holds a lock on the whole table may hold it until its end.
PINS = SessionPins(lock_timeout="50ms", statement_timeout="500ms")


@dataclass(frozen=True)
class Document:
    """A document as the queue holds it. What the lesson's table has no column for yet is None; so is what is NULL."""

    documento_id: int
    chave: str
    status: str
    worker_id: str | None
    token: int | None
    reserved_until: datetime | None
    started: datetime | None  # of the attempt under way, or of the last one
    tries: int | None
    stage: str | None
    category: str | None
    due: datetime | None
    version: int | None
    external_reference: str | None


@dataclass(frozen=True)
class QueueState:
    """What was committed at a moment.

    `clock` is the queue's own, the lab's where that is in place; None before lesson 05. `longest` is the maximum run time, None
    before lesson 07. `documents` stand in the order of their numbers; there are none where there is no queue. `unknown` is the
    SQLSTATE of what kept it from being read (55P03: the table is locked), None if it was read; then nothing else is told.
    """

    clock: datetime | None = None
    longest: timedelta | None = None
    documents: tuple[Document, ...] = ()
    unknown: str | None = None

    def document(self, documento_id: int) -> Document | None:
        """The document of that number; None if the queue holds none."""
        return next((each for each in self.documents if each.documento_id == documento_id), None)


class Observer:
    """Reads the state of the queue. It never waits for longer than 50 ms, raises nothing, and holds no transaction open.

    To see a play, read in the `before` and `seen` of lab.scenario.player.play, where no statement is being launched.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def read(self) -> QueueState:
        """The state of the queue now; one whose `unknown` says why if it cannot be read."""
        try:
            return self._read()
        except psycopg.Error as error:
            return QueueState(unknown=error.sqlstate or "08006")

    def _read(self) -> QueueState:
        # What is there is asked first and locks nothing: a statement that names what is missing would not even be parsed.
        there = self.connection.execute(
            "SELECT to_regprocedure(%s) IS NOT NULL, to_regprocedure(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL",
            [f"{SCHEMA}.relogio()", f"{SCHEMA}.tempo_maximo()", f"{SCHEMA}.fila_documentos"],
        ).fetchone()
        assert there
        has_clock, has_maximum, has_queue = there
        # As one document of names and values: which columns there are differs from lesson to lesson.
        rows = "(SELECT jsonb_agg(to_jsonb(fila) - 'conteudo_xml' ORDER BY fila.documento_id) FROM fila_documentos AS fila)"
        clock, longest, documents = self.connection.execute(
            f"SELECT {'relogio()' if has_clock else 'NULL'}, {'tempo_maximo()' if has_maximum else 'NULL'},"
            f" {rows if has_queue else 'NULL'}".encode()
        ).fetchone() or (None, None, None)
        return QueueState(clock, longest, tuple(map(_document, documents or ())))


@contextmanager
def observing(conninfo: str) -> Iterator[Observer]:
    """An observer of the queue in this database, on a connection of its own; ServerError if the server cannot be reached."""
    with PINS.psycopg_connection(conninfo, "lab/observer") as connection:
        connection.prepare_threshold = None  # a queue that is rebuilt has other columns
        connection.execute("SET client_min_messages = error")
        yield Observer(connection)


def _document(row: Mapping[str, Any]) -> Document:
    return Document(
        documento_id=row["documento_id"],
        chave=row["chave"],
        status=row["status"],
        worker_id=row.get("worker_id"),
        token=row.get("token_reserva"),
        reserved_until=_moment(row.get("reservado_ate")),
        started=_moment(row.get("iniciado_em")),
        tries=row.get("tentativas"),
        stage=row.get("etapa"),
        category=row.get("categoria_erro"),
        due=_moment(row.get("disponivel_em")),
        version=row.get("versao"),
        external_reference=row.get("referencia_externa"),
    )


def _moment(text: str | None) -> datetime | None:
    if text in ("infinity", "-infinity"):
        return (datetime.max if text == "infinity" else datetime.min).replace(tzinfo=UTC)
    return None if text is None else datetime.fromisoformat(text)
