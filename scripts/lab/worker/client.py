"""The protocol's functions as a worker calls them, on a connection that comes back after the server was away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base.errors import LabError
from lab.base.language import say
from lab.server.session import SCHEMA, SessionPins
from lab.worker.failures import classify, turned_away

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries to connect, or to send a statement
TRIES = 6  # of one statement, which loses a deadlock or its connection each time
# A statement of the protocol takes milliseconds. One that waits longer waits for a session that should not be there.
STATEMENT_TIMEOUT, LOCK_TIMEOUT = 30.0, 10.0  # seconds
# The server keeps the statement's; where it says nothing at all, although the network acknowledges what is sent, the client must.
ANSWER_TIMEOUT, LAST_ANSWER = STATEMENT_TIMEOUT + 5, 5.0  # seconds; LAST_ANSWER once the worker was asked to stop
# With less than that a commit may be lost though it was reported, and a call be made twice. Anything more is the administrator's choice.
RAISE_COMMIT = """
SELECT set_config('synchronous_commit', 'on', FALSE)
WHERE current_setting('synchronous_commit') IN ('off', 'local')
"""
READ_BACK = "SELECT pg_backend_pid(), current_setting('synchronous_commit') IN ('off', 'local')"
# Where the connection string says nothing else: how long a network that carries nothing any more is believed in.
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "40000",
}

CLAIM: LiteralString = (
    "SELECT documento_id, inquilino, token_reserva, versao, tentativas, chave_operacao, etapa, referencia_externa,"
    " conteudo_xml::TEXT FROM {}.reservar(%s, %s, make_interval(secs => %s), %s)"
)
FINISH: LiteralString = "SELECT documento_id, versao FROM {}.concluir_lote(%s::BIGINT[], %s::BIGINT[], %s::TEXT[], %s)"

Row = tuple[Any, ...]
T = TypeVar("T")


class Silent(psycopg.OperationalError):
    """The server has said nothing for as long as a call may take."""


class _Connection(psycopg.Connection[Row]):
    """A connection that is closed where an answer takes longer than `patience` says, in seconds, while it is waited for."""

    patience: Callable[[], float] = staticmethod(lambda: ANSWER_TIMEOUT)

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(self._limited(gen), interval, timeout)

    def _limited(self, gen: PQGen[T]) -> PQGen[T]:
        begun = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() - begun > self.patience():
                    self.pgconn.finish()
                    raise Silent("the server says nothing")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value


class Unreachable(LabError):
    """The database is away, and no longer waited for."""

    def __init__(self) -> None:
        super().__init__(say("The database is away.", "O banco não responde."))


@dataclass(frozen=True, slots=True)
class Claim:
    """A document as it was claimed: what the attempt needs, and the token that proves whose it is."""

    document: int
    tenant: str
    token: int
    version: int
    attempt: int
    key: str
    stage: str
    reference: str | None
    payload: str


Done = tuple[Claim, str | None]  # a document whose work is done, and the receiver's reference if it was called


@dataclass(frozen=True)
class Ended:
    """How a failed attempt left its document; `due` is None if it is over."""

    status: str
    version: int
    due: datetime | None


@dataclass(frozen=True)
class Late:
    """A document that was taken from a late worker."""

    document: int
    status: str
    version: int
    attempt: int
    stage: str


class Queue:
    """A connection to the queue in `schema`; `name` is what the server calls it, `lost` is told of each loss and its error.

    Each call is a transaction of its own. One that loses its connection, or a collision with another, is sent again, TRIES times
    in all: an outcome is guarded by its token, so sent twice it finishes nothing twice (a stage is recorded anew, under the next
    version), and what a claim took whose answer was lost is found by its lease. The server parses each statement once a
    connection (`named_statements`; None: unless a pooler is in between). It waits `lock_timeout` seconds for a locked row, and
    this client `answer_timeout` seconds for a server that says nothing. Commits are durable: synchronous_commit is raised to on
    where it is off or local. `told` is told of that, and of a pooler.

    Each call may raise psycopg.Error, Unreachable once it was told to give up waiting, and LabError if the server turns the login
    away or commits cannot be durable.
    """

    def __init__(
        self,
        conninfo: str,
        name: str,
        schema: str = SCHEMA,
        lost: Callable[[str, psycopg.Error], None] | None = None,
        lock_timeout: float | None = None,
        answer_timeout: float = ANSWER_TIMEOUT,
        told: Callable[[str], None] | None = None,
        named_statements: bool | None = None,
    ) -> None:
        theirs = conninfo_to_dict(conninfo)
        ours = {option: value for option, value in PATIENCE.items() if option not in theirs}
        self._conninfo = make_conninfo(conninfo, **ours)
        self._name = name
        self._pins = SessionPins(
            statement_timeout=_milliseconds(STATEMENT_TIMEOUT), lock_timeout=_milliseconds(lock_timeout or LOCK_TIMEOUT)
        )
        self._answer_timeout = answer_timeout
        self._told = told or (lambda event: None)
        self._named_statements = named_statements
        self._prepare = False
        self._schema = schema
        self._lost = lost or (lambda kind, error: None)
        self._given_up = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._together = False
        self._queries: dict[str, bytes] = {}
        self._sent_again = False

    @property
    def sent_again(self) -> bool:
        """Whether the answer to the last call had been lost, so that what it changed may have been written before."""
        return self._sent_again

    def give_up_waiting(self) -> None:
        """From now on a lost connection raises Unreachable instead of being waited for."""
        self._given_up.set()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """A transaction around several calls and what the block writes itself; if its connection is lost, so is all of it."""
        connection = self._connected()
        self._together = True
        try:
            with connection.transaction():
                yield connection
        finally:
            self._together = False

    def claim(self, worker: str, batch: int, lease: float, tenant: str | None) -> list[Claim]:
        """Claim up to `batch` due documents for `lease` seconds."""
        return [Claim(*row) for row in self._rows(CLAIM, [worker, batch, lease, tenant])]

    def renew(self, claim: Claim, lease: float) -> bool:
        """Move the deadline; False if the document is no longer this worker's, or its time is up."""
        return bool(
            self._rows(
                "SELECT documento_id FROM {}.renovar(%s, %s, make_interval(secs => %s), %s)",
                [claim.document, claim.token, lease, claim.tenant],
            )
        )

    def record(self, claim: Claim, stage: str, reference: str | None, lease: float) -> int | None:
        """Record the stage and renew for `lease` seconds; the new version, None if the document is no longer this worker's.

        The call is the whole effect of a worker of the lab: its result is the end, also where no attempt is left.
        """
        return self._version(
            "SELECT versao FROM {}.registrar_etapa(%s, %s, %s, %s, %s, make_interval(secs => %s), TRUE)",
            [claim.document, claim.token, stage, reference, claim.tenant, lease],
        )

    def finish(self, claim: Claim, reference: str | None) -> int | None:
        """Finish the document; the new version, None if it is no longer this worker's."""
        return self._version(
            "SELECT versao FROM {}.concluir(%s, %s, %s, %s)", [claim.document, claim.token, reference, claim.tenant]
        )

    def finish_all(self, done: Sequence[Done]) -> list[int | None]:
        """Finish documents, all or (if it raises) none; their new versions, None for each that is no longer this worker's."""
        return _versions(done, self._rows(FINISH, _batch(done)))

    def finish_and_claim(
        self, done: Sequence[Done], worker: str, batch: int, lease: float, tenant: str | None
    ) -> tuple[list[int | None], list[Claim]]:
        """As `finish_all` and then `claim`, in one round trip and one transaction: both happen, or (if it raises) neither.

        In this order only: a worker that claimed first would wait for others with what it has just locked in its hands.
        """
        finished, claimed = self._answers((FINISH, _batch(done)), (CLAIM, [worker, batch, lease, tenant]))
        return _versions(done, finished), [Claim(*row) for row in claimed]

    def reconcile(self, claim: Claim, reason: str) -> int | None:
        """Hand the document to people; the new version, None if it is no longer this worker's."""
        return self._version(
            "SELECT versao FROM {}.conciliar(%s, %s, %s, %s)", [claim.document, claim.token, reason, claim.tenant]
        )

    def fail(self, claim: Claim, category: str, reason: str) -> Ended | None:
        """End the attempt as failed; None if the document is no longer this worker's."""
        rows = self._rows(
            "SELECT status, versao, disponivel_em FROM {}.falhar(%s, %s, %s, %s, %s)",
            [claim.document, claim.token, category, reason, claim.tenant],
        )
        return Ended(*rows[0]) if rows else None

    def recover(self, who: str, tenant: str | None) -> list[Late]:
        """Take late documents from their workers."""
        rows = self._rows(
            "SELECT documento_id, status, versao, tentativas, etapa FROM {}.recuperar(p_quem => %s, p_inquilino => %s)",
            [who, tenant],
        )
        return [Late(*row) for row in rows]

    def pending(self, tenant: str | None) -> int:
        """How many documents are due, now or later. Raises LabError where the account may not read the queue."""
        statement: LiteralString = (
            "SELECT count(*) FROM {}.fila_documentos WHERE status = 'pendente' AND inquilino = coalesce(%s, inquilino)"
        )
        try:
            return int(self._rows(statement, [tenant])[0][0])
        except psycopg.errors.InsufficientPrivilege:
            raise LabError(
                say(
                    "To end when the queue is empty a worker has to see it, which takes SELECT on fila_documentos: the role"
                    " sql_semana_12_reader has it.",
                    "Para terminar quando a fila se esvazia, o worker precisa vê-la, o que pede SELECT em fila_documentos: o papel"
                    " sql_semana_12_reader o tem.",
                )
            ) from None

    def _version(self, statement: LiteralString, values: Sequence[object]) -> int | None:
        rows = self._rows(statement, values)
        return int(rows[0][0]) if rows else None

    def _rows(self, statement: LiteralString, values: Sequence[object]) -> list[Row]:
        (rows,) = self._answers((statement, values))
        return rows

    def _answers(self, *calls: tuple[LiteralString, Sequence[object]]) -> list[list[Row]]:
        """The rows of statements sent together: outside `transaction`, one transaction of their own."""
        self._sent_again = False
        tries, pause = 0, FIRST_PAUSE
        while True:
            connection = self._connected()
            try:
                # What goes to the server without a Sync in between is one transaction to it.
                with connection.pipeline() if len(calls) > 1 else nullcontext():
                    cursors = [
                        connection.execute(self._query(text), values, prepare=self._prepare) for text, values in calls
                    ]
                return [cursor.fetchall() for cursor in cursors]
            except psycopg.Error as error:
                if self._together:
                    raise  # sent again it would stand alone
                tries += 1
                if tries == TRIES:
                    raise
                if connection.closed:
                    self._lost("database_lost", error)
                    self._sent_again = True
                elif classify(error).category == "impasse":
                    # It is rolled back already: this is a new transaction with a new snapshot.
                    self._lost("collision", error)
                else:
                    raise
                # Asked to stop or not, what is held is brought to an end; only the wait is cut short.
                self._given_up.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _query(self, statement: LiteralString) -> bytes:
        if statement not in self._queries:
            self._queries[statement] = sql.SQL(statement).format(sql.Identifier(self._schema)).as_bytes()
        return self._queries[statement]

    def _connected(self) -> psycopg.Connection:
        """The connection, made anew if it was lost."""
        pause = FIRST_PAUSE
        while self._connection is None or self._connection.closed:
            try:
                self._connection = self._opened()
            except psycopg.OperationalError as error:
                if turned_away(error):
                    raise _turned_away() from None
                self._lost("database_away", error)
                if self._given_up.wait(pause):
                    raise Unreachable from None
                pause = min(2 * pause, LONGEST_PAUSE)
        return self._connection

    def _opened(self) -> psycopg.Connection:
        """A new connection whose commits are durable.

        Raises psycopg.OperationalError if the server is away, LabError if what stands in between does not let commits be so.
        """
        connection = self._pins.open(self._conninfo, self._name, _Connection)
        assert isinstance(connection, _Connection)
        connection.patience = lambda: LAST_ANSWER if self._given_up.is_set() else self._answer_timeout
        if connection.execute(RAISE_COMMIT).fetchone():
            self._told("synchronous_commit_raised")
        process, fleeting = connection.execute(READ_BACK).fetchone() or (0, True)
        if fleeting:
            connection.close()
            raise LabError(
                say(
                    "synchronous_commit cannot be raised to on here: is there a pooler in between that drops settings? Set it for the"
                    " account: ALTER ROLE … SET synchronous_commit = on;",
                    "Não dá para elevar synchronous_commit para on aqui: há no meio um pooler que descarta configurações? Defina na"
                    " conta: ALTER ROLE … SET synchronous_commit = on;",
                )
            )
        # Behind a pooler the process that answers is not the one that was connected to: statements that are prepared there under a
        # name may be another client's.
        pooled = process != connection.info.backend_pid
        if pooled:
            self._told("pooler")
        self._prepare = not pooled if self._named_statements is None else self._named_statements
        connection.prepare_threshold = 5 if self._prepare else None
        return connection


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(1000 * seconds))}ms"


def _turned_away() -> LabError:
    return LabError(
        say(
            "The server turns the worker's login away: check user, password and database in the connection string.",
            "O servidor recusa o login do worker: confira usuário, senha e banco na string de conexão.",
        )
    )


def _batch(done: Sequence[Done]) -> list[object]:
    """The arguments of `FINISH`. Its tenant is null, which is any, unless it is the same for all."""
    references = [reference for _, reference in done]
    tenants = {claim.tenant for claim, _ in done}
    return [
        [claim.document for claim, _ in done],
        [claim.token for claim, _ in done],
        references if any(references) else None,
        tenants.pop() if len(tenants) == 1 else None,
    ]


def _versions(done: Sequence[Done], rows: Sequence[Row]) -> list[int | None]:
    versions: dict[int, int] = dict(rows)
    return [versions.get(claim.document) for claim, _ in done]
