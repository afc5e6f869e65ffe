"""Which server the lab uses: one that the reader named, or the lab's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from lab.base import config
from lab.base.errors import LabError, NotRunning
from lab.base.language import say
from lab.server import refusals, temp_databases
from lab.server.binaries import NEWEST, OLDEST
from lab.server.conninfo import NAMING_VARIABLES, Source, describe, readable
from lab.server.embedded import EmbeddedServer, Started


@dataclass(frozen=True)
class Target:
    """The server in use, checked to be fit for the lab."""

    source: Source
    version: str  # "17.10"
    version_num: int  # 170010
    conninfo: str = field(repr=False)  # it may hold a password
    superuser: bool
    started: Started | None  # None for a given server
    embedded: EmbeddedServer | None  # None for a given server

    def headline(self) -> str:
        """The first line printed: which server and database, never a password."""
        name = f"PostgreSQL {self.version}{_newer_than_tried(self.version_num)}"
        if self.started is None:
            return f"{name}, {describe(self.conninfo)}"
        state = say("already up", "já no ar")
        if not self.started.was_running:
            seconds = f"{self.started.seconds:.1f}"
            state = say(f"up in {seconds} s", f"no ar em {seconds.replace('.', ',')} s")
        own = say("private to this folder", "só desta pasta")
        stop = say("stop", "parar")
        return f"{name}, {own}, {state}        ({stop}: ./lab down)"

    @contextmanager
    def database(self, purpose: str = "run", template: str | None = None) -> Iterator[str]:
        """The database for one run.

        On the lab's own server it is a new one, a copy of the template (default: an empty one),
        and is dropped at the end. On a given server it is the given database itself, kept from
        other labs meanwhile, and no template is looked at.

        Parameters: purpose, a word for the new database's name; template, a database's name.
        Returns a conninfo.
        Raises LabError if another lab is running in the given database, ServerError if no schema can be made in it.
        """
        if self.embedded:
            with self.embedded.database(purpose, template or temp_databases.PLAIN) as conninfo:
                yield conninfo
            return
        with _to_build_in(self.conninfo):
            yield self.conninfo

    @contextmanager
    def playground(self) -> Iterator[str]:
        """The database that one plays in by hand; on a given server kept from other labs meanwhile.

        Returns a conninfo. Raises LabError if another lab is running in the given database, ServerError if no schema can be
        made in it.
        """
        if self.embedded:
            yield self.conninfo
            return
        with _to_build_in(self.conninfo):
            yield self.conninfo


def open_target(start: bool = True) -> Target:
    """Find the server to use and check that it will do.

    LAB_DSN wins; then PGHOST and its like, unless they lead to the lab's own server; otherwise it
    is the lab's own. Parameter: start, whether to start the lab's own server if it is not running.
    Raises NotRunning if it is not and was not to be started, ServerError if the server cannot be reached or used.
    """
    if named := named_server():
        return _given(*named)
    return _embedded(EmbeddedServer(), start)


def named_server() -> tuple[Source, str] | None:
    """By what the reader named a server, and its conninfo; None if it is to be the lab's own. It is not tried.

    Raises ServerError for a connection string that cannot be read.
    """
    # Empty is as good as not set, to us; libpq would look for a service without a name.
    config.drop(*(name for name in NAMING_VARIABLES if not config.value(name)))
    if dsn := config.value("LAB_DSN"):
        return "dsn", readable("dsn", dsn)
    if any(config.value(name) for name in NAMING_VARIABLES) and not _leads_to(EmbeddedServer()):
        return "environment", readable("environment", "")
    return None


def check_version(version_num: int) -> None:
    """Raise ServerError if a server of this version (such as 170010) is too old for the lab."""
    if version_num // 10000 >= OLDEST:
        return
    raise refusals.too_old(f"PostgreSQL {version_num // 10000}", OLDEST, NEWEST)


def _leads_to(server: EmbeddedServer) -> bool:
    """Whether the variables are those that `lab env` prints."""
    if config.value("PGSERVICE") or config.value("PGHOSTADDR"):
        return False
    return server.owns_socket(config.value("PGHOST") or "")


def _embedded(server: EmbeddedServer, start: bool) -> Target:
    if not start and not server.running():
        raise NotRunning(
            say(
                "The lab's own server is not running: `./lab up` starts it.",
                "O servidor do laboratório não está no ar: `./lab up` o inicia.",
            )
        )
    started = server.up()
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        return _checked("embedded", server.conninfo(), connection, started, server)


def _given(source: Source, conninfo: str) -> Target:
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except (psycopg.Error, UnicodeError) as error:  # UnicodeError: a host that is no name
        raise refusals.cannot_enter(source, conninfo, error) from None
    with connection:
        return _checked(source, conninfo, connection, None, None)


def _checked(
    source: Source,
    conninfo: str,
    connection: psycopg.Connection,
    started: Started | None,
    embedded: EmbeddedServer | None,
) -> Target:
    version_num = connection.info.server_version
    check_version(version_num)
    _check_libxml(connection)
    return Target(
        source,
        (connection.info.parameter_status("server_version") or "?").split()[0],
        version_num,
        conninfo,
        connection.info.parameter_status("is_superuser") == "on",
        started,
        embedded,
    )


def _check_libxml(connection: psycopg.Connection) -> None:
    try:
        connection.execute("SELECT xmlparse(DOCUMENT '<a/>')")
    except psycopg.errors.FeatureNotSupported:
        raise refusals.without_libxml() from None


def _check_writable(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'),"
        " current_setting('transaction_read_only')::bool, current_database(), current_user"
    ).fetchone()
    assert row is not None
    may_create, read_only, database, user = row
    if read_only:
        raise refusals.read_only(database)
    if not may_create:
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {};")
        text = grant.format(sql.Identifier(database), sql.Identifier(user)).as_string(connection)
        raise refusals.may_not_create(database, user, text)


@contextmanager
def _to_build_in(conninfo: str) -> Iterator[None]:
    """Keep other labs out of a database that a schema can be made in; they are let in when this process ends, even killed."""
    with psycopg.connect(conninfo, autocommit=True) as keeper:
        _check_writable(keeper)
        keeper.execute("SET idle_session_timeout = 0")
        key = [temp_databases.LOCK_FAMILY, 0]
        row = keeper.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone()
        if row != (True,):
            raise LabError(
                say(
                    f"Another lab is running in database {keeper.info.dbname}. Wait until it ends,"
                    " or name another database.",
                    f"Outro laboratório está rodando no banco {keeper.info.dbname}. Espere que"
                    " termine ou indique outro banco.",
                )
            )
        try:
            yield
        finally:
            # The connection's own end frees it too, but a moment later than the next lab may ask.
            keeper.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def _newer_than_tried(version_num: int) -> str:
    if version_num // 10000 <= NEWEST:
        return ""
    return say(f" (tried up to {NEWEST})", f" (testado até {NEWEST})")
