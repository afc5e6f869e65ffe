"""The protocol's functions as a worker calls them, on a connection that comes back after the server was away."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, LiteralString

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base.errors import LabError
from lab.base.language import say
from lab.server.session import SCHEMA, SessionPins
from lab.worker.deadline import Deadline
from lab.worker.failures import classify, turned_away

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries to connect, or to send a statement
TRIES = 6  # of one statement, which loses a deadlock or its connection each time
# A statement of the protocol takes milliseconds. One that waits longer waits for a session that should not be there.
STATEMENT_TIMEOUT, LOCK_TIMEOUT = 30.0, 10.0  # seconds
TRANSACTION_TIMEOUT = 300.0  # seconds, where the server knows it: work inside the database may take several statements
DEADLINE = STATEMENT_TIMEOUT + 5  # seconds, by this process's clock: the server says first what it has stopped
# Where the connection string says nothing else: how long a network that carries nothing any more is believed in.
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "40000",
}


@dataclass(frozen=True)
class Statement:
    """A statement of the protocol; `{}` is the schema, `$1` its first value. columns: what a value of each is read by."""

    text: LiteralString
    columns: tuple[Callable[[bytes], Any], ...]


TEXT = bytes.decode
# What a claim gives, in the order of Claim's fields.
CLAIMED: LiteralString = (
    "documento_id, inquilino, token_reserva, versao, tentativas, chave_operacao, etapa, referencia_externa,"
    " conteudo_xml::TEXT"
)
CLAIMED_COLUMNS = (int, TEXT, int, int, int, TEXT, TEXT, TEXT, TEXT)
CLAIM = Statement(f"SELECT {CLAIMED} FROM {{}}.reservar($1, $2, make_interval(secs => $3), $4)", CLAIMED_COLUMNS)
FINISH_AND_CLAIM = Statement(
    f"SELECT resultado, {CLAIMED} FROM {{}}.concluir_e_reservar($1, $2, $3, $4, $5, make_interval(secs => $6), $7)",
    (TEXT, *CLAIMED_COLUMNS),
)
FINISH = Statement("SELECT versao FROM {}.concluir($1, $2, $3, $4)", (int,))
FINISH_ALL = Statement("SELECT documento_id, versao FROM {}.concluir_lote($1, $2, $3, $4)", (int, int))
RENEW = Statement(
    "SELECT documento_id, resultado FROM {}.renovar_lote($1, $2, make_interval(secs => $3), $4)", (int, TEXT)
)
GIVE_BACK = Statement("SELECT versao FROM {}.devolver($1, $2, $3)", (int,))
RECORD = Statement("SELECT versao FROM {}.registrar_etapa($1, $2, $3, $4, $5, make_interval(secs => $6), TRUE)", (int,))
RECONCILE = Statement("SELECT versao FROM {}.conciliar($1, $2, $3, $4)", (int,))
FAIL = Statement(
    "SELECT status, versao, extract(EPOCH FROM disponivel_em) FROM {}.falhar($1, $2, $3, $4, $5)",
    (TEXT, int, lambda seconds: datetime.fromtimestamp(float(seconds), UTC)),
)
RECOVER = Statement(
    "SELECT documento_id, status, versao, tentativas, etapa FROM {}.recuperar(p_quem => $1, p_inquilino => $2)",
    (int, TEXT, int, int, TEXT),
)
PENDING = Statement(
    "SELECT count(*) FROM {}.fila_documentos WHERE status = 'pendente' AND inquilino = coalesce($1, inquilino)", (int,)
)

# Set anew in each transaction where the session is a pooler's, and the next transaction has another one.
OF_A_TRANSACTION = ("lock_timeout", "statement_timeout", "TimeZone", "DateStyle", "IntervalStyle", "xmloption")
# A claim or a stage whose commit the server may lose is a second call. Stronger than on is the administrator's choice.
RAISED: LiteralString = (
    "set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'"
    " ELSE current_setting('synchronous_commit') END, {})"
)
LOOK: LiteralString = (
    "SELECT pg_backend_pid(), current_setting('search_path'), current_setting('transaction_isolation'),"
    " current_setting('synchronous_commit'), " + RAISED.format("FALSE")
)

REFUSES_OPTIONS = "unsupported startup parameter: options"

Row = tuple[Any, ...]
Renewal = Literal["renovada", "recusada", "ocupada"]


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

    Each call may raise psycopg.Error, Unreachable once it was told to give up waiting, and LabError if the server turns the login
    away.
    """

    def __init__(
        self,
        conninfo: str,
        name: str,
        schema: str = SCHEMA,
        lost: Callable[[str, psycopg.Error], None] | None = None,
        lock_timeout: float | None = None,
        *,
        deadline: float = DEADLINE,
        pooled: bool | None = None,
        told: Callable[..., None] = lambda event, **facts: None,
    ) -> None:
        theirs = conninfo_to_dict(conninfo)
        ours = {option: value for option, value in PATIENCE.items() if option not in theirs}
        self._conninfo = make_conninfo(conninfo, **ours)
        self._name = name
        self._pins = SessionPins(
            statement_timeout=_milliseconds(STATEMENT_TIMEOUT),
            lock_timeout=_milliseconds(lock_timeout or LOCK_TIMEOUT),
            transaction_timeout=_milliseconds(TRANSACTION_TIMEOUT),
            of_a_worker=True,
        )
        self._schema = schema
        self._lost = lost or (lambda kind, error: None)
        self._given_up = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._together = False
        self._queries: dict[Statement, bytes] = {}
        self._prepared: dict[Statement, bytes] = {}  # their names on this connection
        self._sent_again = False
        self._deadline = Deadline(deadline)
        self._wants_pooled = pooled
        self._pooled = False
        self._told = told
        self._said: set[str] = set()

    @property
    def sent_again(self) -> bool:
        """Whether the answer to the last call had been lost, so that what it changed may have been written before."""
        return self._sent_again

    def give_up_waiting(self) -> None:
        """From now on a lost connection raises Unreachable instead of being waited for."""
        self._given_up.set()
        self._deadline.hurry()

    def close(self) -> None:
        """Close the connection."""
        self._deadline.close()
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """A transaction around several calls and what the block writes itself; if its connection is lost, so is all of it."""
        connection = self._connected()
        self._together = True
        transaction = connection.transaction()
        try:
            with self._deadline.over(connection.fileno()):
                transaction.__enter__()
                if self._pooled:
                    connection.execute(self._settings())
            try:
                yield connection
            except BaseException:
                with self._over(connection):
                    transaction.__exit__(*sys.exc_info())
                raise
            with self._over(connection):
                transaction.__exit__(None, None, None)
        finally:
            self._together = False

    def claim(self, worker: str, batch: int, lease: float, tenant: str | None) -> list[Claim]:
        """Claim up to `batch` due documents for `lease` seconds."""
        return [Claim(*row) for row in self._rows(CLAIM, worker, batch, lease, tenant)]

    def renew(self, claims: Sequence[Claim], lease: float) -> list[Renewal]:
        """Move the deadlines in one statement; what became of each, in the order of `claims`."""
        documents, tokens = [claim.document for claim in claims], [claim.token for claim in claims]
        rows = self._rows(RENEW, documents, tokens, lease, _tenant(claims))
        results: dict[int, Renewal] = dict(rows)
        return [results[claim.document] for claim in claims]

    def give_back(self, claim: Claim) -> int | None:
        """Give back what was not begun, in general without an attempt charged; the new version, None if it is not this worker's."""
        return self._version(GIVE_BACK, claim.document, claim.token, claim.tenant)

    def record(self, claim: Claim, stage: str, reference: str | None, lease: float) -> int | None:
        """Record the stage and renew for `lease` seconds; the new version, None if the document is no longer this worker's.

        The call is the whole effect of a worker of the lab: its result is the end, also where no attempt is left.
        """
        return self._version(RECORD, claim.document, claim.token, stage, reference, claim.tenant, lease)

    def finish(self, claim: Claim, reference: str | None) -> int | None:
        """Finish the document; the new version, None if it is no longer this worker's."""
        return self._version(FINISH, claim.document, claim.token, reference, claim.tenant)

    def finish_all(self, done: Sequence[Done]) -> list[int | None]:
        """Finish documents, all or (if it raises) none; their new versions, None for each that is no longer this worker's."""
        tenant = _tenant([claim for claim, _ in done])
        return _versions(done, self._rows(FINISH_ALL, *_batch(done), tenant))

    def finish_and_claim(
        self, done: Sequence[Done], worker: str, batch: int, lease: float, tenant: str | None
    ) -> tuple[list[int | None], list[Claim]]:
        """As `finish_all` and then `claim`, of this tenant (None: any), in one statement: both happen, or (if it raises) neither."""
        rows = self._rows(FINISH_AND_CLAIM, *_batch(done), worker, batch, lease, tenant)
        finished = [(row[1], row[4]) for row in rows if row[0] == "concluido"]
        return _versions(done, finished), [Claim(*row[1:]) for row in rows[len(finished) :]]

    def reconcile(self, claim: Claim, reason: str) -> int | None:
        """Hand the document to people; the new version, None if it is no longer this worker's."""
        return self._version(RECONCILE, claim.document, claim.token, reason, claim.tenant)

    def fail(self, claim: Claim, category: str, reason: str) -> Ended | None:
        """End the attempt as failed; None if the document is no longer this worker's."""
        rows = self._rows(FAIL, claim.document, claim.token, category, reason, claim.tenant)
        return Ended(*rows[0]) if rows else None

    def recover(self, who: str, tenant: str | None) -> list[Late]:
        """Take late documents from their workers."""
        return [Late(*row) for row in self._rows(RECOVER, who, tenant)]

    def pending(self, tenant: str | None) -> int:
        """How many documents are due, now or later. Raises LabError where the account may not read the queue."""
        try:
            return int(self._rows(PENDING, tenant)[0][0])
        except psycopg.errors.InsufficientPrivilege:
            raise LabError(
                say(
                    "To end when the queue is empty a worker has to see it, which takes SELECT on fila_documentos: the role"
                    " sql_semana_12_reader has it.",
                    "Para terminar quando a fila se esvazia, o worker precisa vê-la, o que pede SELECT em fila_documentos: o papel"
                    " sql_semana_12_reader o tem.",
                )
            ) from None

    def _version(self, statement: Statement, *values: object) -> int | None:
        rows = self._rows(statement, *values)
        return int(rows[0][0]) if rows else None

    def _rows(self, statement: Statement, *values: object) -> list[Row]:
        """The rows of a statement: outside `transaction`, a transaction of its own."""
        self._sent_again = False
        tries, pause = 0, FIRST_PAUSE
        while True:
            connection = self._connected()
            try:
                with self._over(connection):
                    return _read(self._answer(connection, statement, values), statement.columns)
            except psycopg.Error as error:
                if self._together:
                    raise  # sent again it would stand alone
                tries += 1
                if tries == TRIES:
                    raise
                if connection.closed:
                    self._lost("database_lost", error)
                    self._sent_again = True
                    if self._deadline.passed and self._given_up.is_set():
                        raise Unreachable from None
                elif classify(error).category == "impasse":
                    # It is rolled back already: this is a new transaction with a new snapshot.
                    self._lost("collision", error)
                else:
                    raise
                # Asked to stop or not, what is held is brought to an end; only the wait is cut short.
                self._given_up.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _answer(
        self, connection: psycopg.Connection, statement: Statement, values: Sequence[object]
    ) -> pq.abc.PGresult:
        """The server's answer, by libpq itself: a cursor would take half of a worker's time where a batch is small."""
        libpq, texts = connection.pgconn, [_text(value) for value in values]
        if self._pooled:
            return self._answer_of_a_pool(connection, statement, texts)
        if statement not in self._prepared:
            name = f"lab_{len(self._prepared)}".encode()
            _checked(connection, libpq.prepare(name, self._query(statement)))
            self._prepared[statement] = name
        # The stub knows no nulls here.
        return _checked(connection, libpq.exec_prepared(self._prepared[statement], texts))  # type: ignore[arg-type]

    def _answer_of_a_pool(
        self, connection: psycopg.Connection, statement: Statement, texts: Sequence[bytes | None]
    ) -> pq.abc.PGresult:
        """The answer to a statement without a name, which another session may have, in a transaction that brings its settings."""
        if self._together:
            return _checked(connection, connection.pgconn.exec_params(self._query(statement), texts))
        with psycopg.RawCursor(connection) as cursor:
            # What goes to the server without a Sync in between is one transaction to it.
            with connection.pipeline():
                connection.execute(self._settings(), prepare=False)
                cursor.execute(self._query(statement), [text and text.decode() for text in texts], prepare=False)
            assert cursor.pgresult is not None
            return cursor.pgresult

    def _query(self, statement: Statement) -> bytes:
        if statement not in self._queries:
            self._queries[statement] = sql.SQL(statement.text).format(sql.Identifier(self._schema)).as_bytes()
        return self._queries[statement]

    def _over(self, connection: psycopg.Connection) -> AbstractContextManager[None]:
        """The deadline over calls on this connection; none if it is lost, which the call will say."""
        return nullcontext() if connection.closed else self._deadline.over(connection.fileno())

    def _connected(self) -> psycopg.Connection:
        """The connection, made anew if it was lost."""
        pause = FIRST_PAUSE
        while self._connection is None or self._connection.closed:
            try:
                connection = self._pins.open(self._conninfo, self._name, self._deadline.over)
                self._connection = connection  # from now on `close` closes it
                self._prepared = {}
                with self._deadline.over(connection.fileno()):
                    self._look_at(connection)
            except psycopg.OperationalError as error:
                if self._connection is not None:
                    self._connection.close()
                if turned_away(error):
                    raise _turned_away() from None
                if REFUSES_OPTIONS in str(error):
                    raise _refuses_options() from None
                self._lost("database_away", error)
                if self._given_up.wait(pause):
                    raise Unreachable from None
                pause = min(2 * pause, LONGEST_PAUSE)
        return self._connection

    def _look_at(self, connection: psycopg.Connection) -> None:
        """See through what the connection goes, and have its commits last."""
        row = connection.execute(LOOK, prepare=False).fetchone()
        assert row is not None
        backend, path, isolation, found, now = row
        looks_pooled = backend != connection.info.backend_pid or path != self._pins.settings()["search_path"]
        self._pooled = looks_pooled if self._wants_pooled is None else self._wants_pooled
        if isolation != "read committed":
            raise _isolated(isolation)
        if self._pooled:
            self._tell("pooled")
        if found != now:
            self._tell("synchronous_commit", found=found, now=now)

    def _tell(self, event: str, **facts: str) -> None:
        """Say it once, not at each connection."""
        if event not in self._said:
            self._said.add(event)
            self._told(event, **facts)

    def _settings(self) -> sql.Composed:
        """The statement that gives the transaction its settings, where a session keeps none."""
        pins = self._pins.settings()
        pairs = [sql.SQL("set_config({}, {}, TRUE)").format(name, pins[name]) for name in OF_A_TRANSACTION]
        return sql.SQL("SELECT {}").format(sql.SQL(", ").join([*pairs, sql.SQL(RAISED.format("TRUE"))]))


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(1000 * seconds))}ms"


def _turned_away() -> LabError:
    return LabError(
        say(
            "The server turns the worker's login away: check user, password and database in the connection string.",
            "O servidor recusa o login do worker: confira usuário, senha e banco na string de conexão.",
        )
    )


def _isolated(level: str) -> LabError:
    return LabError(
        say(
            f"The sessions that a pooler gives this worker run in {level}, where a claim that meets another fails instead of passing"
            " it. Set them to read committed: ALTER ROLE … SET default_transaction_isolation = 'read committed'.",
            f"As sessões que um pooler dá a este worker rodam em {level}, em que uma reserva que encontra outra falha em vez de passar"
            " adiante. Use read committed: ALTER ROLE … SET default_transaction_isolation = 'read committed'.",
        )
    )


def _refuses_options() -> LabError:
    return LabError(
        say(
            "A pooler in front of the server refuses the settings of a session. Have it pass over them (PgBouncer:"
            " ignore_startup_parameters = options), or connect to the server itself.",
            "Um pooler na frente do servidor recusa as configurações da sessão. Faça-o ignorá-las (PgBouncer:"
            " ignore_startup_parameters = options) ou conecte-se direto ao servidor.",
        )
    )


def _checked(connection: psycopg.Connection, answer: pq.abc.PGresult) -> pq.abc.PGresult:
    """The answer; raises psycopg.Error if it is a refusal, or the connection is lost."""
    if answer.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        return answer
    if connection.closed and not answer.error_field(pq.DiagnosticField.SQLSTATE):
        raise psycopg.OperationalError(connection.pgconn.get_error_message())
    raise psycopg.errors.error_from_result(answer)


def _text(value: object) -> bytes | None:
    """A value as PostgreSQL reads it."""
    if value is None:
        return None
    if isinstance(value, list):
        return f"{{{','.join(map(_element, value))}}}".encode()
    return str(value).encode()


def _element(value: object) -> str:
    """An element of an array as PostgreSQL reads it."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(answer: pq.abc.PGresult, columns: Sequence[Callable[[bytes], Any]]) -> list[Row]:
    """The rows of an answer, each column read by its own."""
    value = answer.get_value
    number_of_rows = range(answer.ntuples)
    read = [
        [None if (text := value(row, number)) is None else column(text) for row in number_of_rows]
        for number, column in enumerate(columns)
    ]
    return list(zip(*read, strict=True))


def _batch(done: Sequence[Done]) -> tuple[list[int], list[int], list[str | None] | None]:
    """Documents, tokens and references as the protocol's functions of a batch take them."""
    references = [reference for _, reference in done]
    return (
        [claim.document for claim, _ in done],
        [claim.token for claim, _ in done],
        references if any(references) else None,
    )


def _tenant(claims: Sequence[Claim]) -> str | None:
    """The one tenant of all; null, which is any, if there are several."""
    tenants = {claim.tenant for claim in claims}
    return tenants.pop() if len(tenants) == 1 else None


def _versions(done: Sequence[Done], rows: Sequence[Row]) -> list[int | None]:
    versions: dict[int, int] = dict(rows)
    return [versions.get(claim.document) for claim, _ in done]
