"""What a claim reads while something old keeps dead entries at the head of the index, and who it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo

from lab.base import paths, wait
from lab.base.errors import CannotRunHere, ServerError
from lab.base.language import say
from lab.base.sql_text import statements
from lab.measure.buffers import Explained, tried
from lab.measure.rounds import Spread, spread
from lab.server import schema
from lab.server.open_transactions import wait_for_older_transactions
from lab.server.session import SessionPins
from lab.server.throwaway import copied, follows, scratch_server

STATE = 10
BATCH = 100  # documents a worker claims and finishes at once
LEFT = 200  # documents that are still pending in the end, so that a claim always finds one
CLAIM = "SELECT FROM reservar('worker-a')"
REPORT = "lab/report"  # the session with the old snapshot, as pg_stat_activity calls it
SLOT = "lab_standby"

Holder = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Phases:
    """A claim before the holder came, while it was there and documents were finished, after it ended, and after a vacuum.

    `first` is the first claim after its end, which still walks over the dead entries, and marks them; `named` is whom the query
    of sql/horizon.sql named meanwhile, as (where, who).
    """

    before: Explained
    during: Explained
    first: Explained
    after: Explained
    vacuumed: Explained
    named: tuple[tuple[str, str], ...]


def horizon() -> str:
    """The query of sql/horizon.sql: who keeps dead rows from being removed."""
    text = (paths.SQL / "horizon.sql").read_text(encoding="utf-8")
    return next(each.text for each in statements(text) if each.begins("SELECT"))


def holders(connection: psycopg.Connection) -> tuple[tuple[str, str], ...]:
    """Whom that query names, the oldest first, as (where, who)."""
    return tuple((where, who) for where, who, *_ in connection.execute(horizon().encode()))


@contextmanager
def filled(conninfo: str, documents: int) -> Iterator[psycopg.Connection]:
    """Build the queue with so many documents that are due, and LEFT more; autovacuum leaves its tables alone."""
    schema.build(conninfo, STATE)
    with SessionPins().psycopg_connection(conninfo, "lab/experiment") as connection:
        connection.execute("TRUNCATE fila_documentos, auditoria RESTART IDENTITY")
        for table in ("fila_documentos", "auditoria"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, disponivel_em, chave_operacao)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', relogio() - INTERVAL '1 hour' + n * INTERVAL '1 ms', 'padrao/LOTE-' || n"
            " FROM generate_series(1, %s) AS n",
            [documents + LEFT],
        )
        connection.execute("VACUUM (ANALYZE) fila_documentos")
        wait_for_older_transactions(connection)
        claim(connection)
        yield connection


def claim(connection: psycopg.Connection) -> Explained:
    """What a claim of one document costs; it is rolled back."""
    return tried(connection, CLAIM)


def process(connection: psycopg.Connection, documents: int) -> None:
    """Claim and finish so many documents, a multiple of BATCH."""
    for _ in range(documents // BATCH):
        rows = connection.execute(
            "SELECT documento_id, token_reserva FROM reservar('worker-a', %s)", [BATCH]
        ).fetchall()
        ids, tokens = (list(each) for each in zip(*rows, strict=True))
        connection.execute("SELECT FROM concluir_lote(%s::BIGINT[], %s::BIGINT[])", [ids, tokens])


def phases(conninfo: str, holder: Holder, documents: int) -> Phases:
    """Claim before, during and after `holder`, while so many documents are finished. Raises CannotRunHere as the holder does."""
    with filled(conninfo, documents) as connection:
        before = claim(connection)
        with holder(conninfo):
            process(connection, documents)
            claim(connection)
            during, named = claim(connection), holders(connection)
        wait_for_older_transactions(connection)
        first, after = claim(connection), claim(connection)
        return Phases(before, during, first, after, _vacuumed(connection), named)


def curves(
    conninfo: str, holders: Mapping[str, Holder], documents: int, every: int, rounds: int
) -> dict[str, list[tuple[int, Spread]]]:
    """Buffers of a claim by the number of documents finished, for each holder, in interleaved rounds.

    The last two points are those after the holder's end (the second claim) and after a vacuum; nothing is finished between them, and
    they stand an eighth of the documents further each.
    """
    seen: dict[str, list[list[tuple[int, int]]]] = {name: [] for name in holders}
    for _ in range(rounds):
        for name, holder in holders.items():
            seen[name].append(_curve(conninfo, holder, documents, every))
    return {
        name: [(points[0][0], spread([buffers for _, buffers in points])) for points in zip(*runs, strict=True)]
        for name, runs in seen.items()
    }


def _curve(conninfo: str, holder: Holder, documents: int, every: int) -> list[tuple[int, int]]:
    points = []
    with filled(conninfo, documents) as connection:
        with holder(conninfo):
            for done in range(0, documents + 1, every):
                points.append((done, claim(connection).buffers))
                if done < documents:
                    process(connection, every)
        wait_for_older_transactions(connection)
        claim(connection)
        points.append((documents + documents // 8, claim(connection).buffers))
        points.append((documents + documents // 4, _vacuumed(connection).buffers))
    return points


def _vacuumed(connection: psycopg.Connection) -> Explained:
    """What a claim costs after a vacuum; it is the second one, since the first plans anew."""
    connection.execute("VACUUM (INDEX_CLEANUP ON) fila_documentos")
    claim(connection)
    return claim(connection)


# -- who may hold the horizon back


def nobody(conninfo: str) -> AbstractContextManager[object]:
    """No holder: for comparison."""
    return nullcontext()


@contextmanager
def snapshot(conninfo: str) -> Iterator[None]:
    """A long report: a session whose transaction has a snapshot of its beginning."""
    with SessionPins().psycopg_connection(conninfo, REPORT) as report:
        report.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT count(*) FROM fila_documentos")
        yield


@contextmanager
def idle(conninfo: str) -> Iterator[None]:
    """A false suspect: idle in a transaction that has only read, by a plain statement under READ COMMITTED."""
    with SessionPins().psycopg_connection(conninfo, REPORT) as report:
        report.execute("BEGIN")
        report.execute("SELECT count(*) FROM fila_documentos")
        yield


@contextmanager
def portal(conninfo: str) -> Iterator[None]:
    """As `idle`, but the query has a parameter: the extended protocol leaves its portal open, and the portal its snapshot."""
    with SessionPins().psycopg_connection(conninfo, REPORT) as report:
        report.execute("BEGIN")
        report.execute("SELECT count(*) FROM fila_documentos WHERE documento_id > %s", [0])
        yield


@contextmanager
def elsewhere(conninfo: str) -> Iterator[None]:
    """A false suspect: an old snapshot in another database of the server. Raises CannotRunHere where none can be entered."""
    try:
        report = SessionPins().psycopg_connection(make_conninfo(conninfo, dbname="postgres"), REPORT)
    except ServerError as error:
        raise CannotRunHere(str(error)) from error
    with report:
        report.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT count(*) FROM pg_class")
        yield


@contextmanager
def written(conninfo: str) -> Iterator[None]:
    """Idle in a transaction that has written something, anywhere."""
    with SessionPins().psycopg_connection(conninfo, REPORT) as report:
        report.execute("BEGIN")
        report.execute("SELECT pg_current_xact_id()")
        yield


@contextmanager
def prepared(conninfo: str) -> Iterator[None]:
    """A transaction that was prepared (PREPARE TRANSACTION), and whose second half does not come; it is rolled back at the end.

    Raises CannotRunHere where max_prepared_transactions is 0.
    """
    with SessionPins().psycopg_connection(conninfo, "lab/coordinator") as coordinator:
        if coordinator.execute("SHOW max_prepared_transactions").fetchone() == ("0",):
            raise CannotRunHere(
                say("max_prepared_transactions is 0 on this server", "max_prepared_transactions é 0 neste servidor")
            )
        row = coordinator.execute("SELECT 'lab_' || current_database()").fetchone()
        assert row
        name = row[0]
        if coordinator.execute(
            "SELECT FROM pg_prepared_xacts WHERE gid = %s", [name]
        ).fetchone():  # of a lab that was killed
            coordinator.execute(f"ROLLBACK PREPARED '{name}'".encode())
        coordinator.execute("BEGIN")
        coordinator.execute("SELECT pg_current_xact_id()")
        coordinator.execute(f"PREPARE TRANSACTION '{name}'".encode())
        try:
            yield
        finally:
            coordinator.execute(f"ROLLBACK PREPARED '{name}'".encode())


@dataclass(frozen=True)
class Slots:
    """Buffers of a claim on a server of its own, and whom the query named with each slot.

    none: without a holder; logical: with a logical slot; standby: with the slot of a standby that went away; dropped: without it.
    """

    none: int
    logical: int
    standby: int
    dropped: int
    named_logical: tuple[tuple[str, str], ...]
    named_standby: tuple[tuple[str, str], ...]


def slots(documents: int) -> Slots:
    """Try a logical slot and a standby with hot_standby_feedback that went away, each while so many documents are finished.

    Raises ServerError if the servers cannot be made.
    """
    settings = {
        "wal_level": "logical",
        "hot_standby_feedback": "on",
        "wal_receiver_status_interval": "1s",
        "fsync": "off",
    }
    with scratch_server(**settings) as server:
        server.down()
        with copied(server, standby=True) as standby:
            with (standby.data / "postgresql.auto.conf").open("a") as file:
                file.write(f"primary_slot_name = '{SLOT}'\n")
            server.up()  # with the settings that only a start can change
            conninfo = server.conninfo()
            with filled(conninfo, 0) as connection:
                pass
            none = _finished(conninfo, documents)[0]
            with SessionPins().psycopg_connection(conninfo, "lab/slots") as connection:
                connection.execute("SELECT pg_create_logical_replication_slot('lab_logical', 'pgoutput')")
                logical, named_logical = _finished(conninfo, documents)
                connection.execute("SELECT pg_drop_replication_slot('lab_logical')")
                schema.build(conninfo, STATE)
                connection.execute("SELECT pg_create_physical_replication_slot(%s)", [SLOT])
                standby.up()
                follows(standby)
                _wait_for_feedback(connection)
                standby.down()
                away, named_standby = _finished(conninfo, documents)
                connection.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
                wait_for_older_transactions(connection)
                claim(connection)
                dropped = claim(connection).buffers
    return Slots(none, logical, away, dropped, named_logical, named_standby)


def _finished(conninfo: str, documents: int) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Buffers of a claim once so many documents are finished, and whom the query names then."""
    with filled(conninfo, documents) as connection:
        process(connection, documents)
        wait_for_older_transactions(connection)
        claim(connection)
        return claim(connection).buffers, holders(connection)


def _wait_for_feedback(connection: psycopg.Connection) -> None:
    held = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND xmin IS NOT NULL"
    if not wait.until(lambda: connection.execute(held, [SLOT]).fetchone() is not None, 20):
        raise ServerError(say("The standby sends no feedback.", "O standby não manda feedback."))


# -- what is locked, and what is leased


def behind_locked(conninfo: str, sizes: tuple[int, ...]) -> dict[int, Explained]:
    """A claim behind so many rows at the head of the index that another session has locked, for each of the sizes."""
    seen = {}
    with filled(conninfo, max(sizes)) as connection, SessionPins().psycopg_connection(conninfo, "lab/locker") as locker:
        for size in sizes:
            locker.execute("BEGIN")
            locker.execute(
                "SELECT FROM fila_documentos WHERE status = 'pendente' ORDER BY disponivel_em, documento_id LIMIT %s FOR UPDATE",
                [size],
            )
            claim(connection)
            seen[size] = claim(connection)
            locker.execute("ROLLBACK")
    return seen


def behind_leased(conninfo: str, size: int) -> Explained:
    """A claim behind so many documents at the head that another worker has claimed, its transaction committed."""
    with filled(conninfo, size) as connection:
        for _ in range(size // BATCH):
            connection.execute("SELECT FROM reservar('worker-b', %s)", [BATCH])
        claim(connection)
        return claim(connection)
