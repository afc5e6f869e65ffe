"""How a session of the lab is opened: the settings it is pinned to, so that it behaves alike on every server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import psycopg
from psycopg import conninfo as libpq_conninfo
from psycopg import pq

from lab.base import config
from lab.server import refusals

SCHEMA = "sql_semana_12"
KNOWS_TRANSACTION_TIMEOUT = 170000
THE_ADMINISTRATORS = ("default_transaction_read_only", "idle_in_transaction_session_timeout", "idle_session_timeout")


@dataclass(frozen=True)
class SessionPins:
    """The settings every session starts with.

    `statement_timeout`, `lock_timeout` and `transaction_timeout` are in PostgreSQL's notation ("60s", "0" for none); `english` asks
    for the server's own English messages, which only a superuser may; `search_path` is the lab's schema unless another queue is
    looked at. `of_a_worker` leaves to the administrator what a lesson pins: whether the session may write, and how long it may be
    idle.
    """

    statement_timeout: str = "60s"
    lock_timeout: str = "0"
    english: bool = False
    transaction_timeout: str = "0"
    of_a_worker: bool = False
    search_path: str = SCHEMA

    def settings(self) -> dict[str, str]:
        """The settings by name, in the order in which they are given."""
        settings = {
            "search_path": self.search_path,
            "TimeZone": "UTC",
            "DateStyle": "ISO,YMD",
            "IntervalStyle": "postgres",
            "client_encoding": "UTF8",
            "client_min_messages": "notice",
            "xmloption": "content",
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "lock_timeout": self.lock_timeout,
            "statement_timeout": self.statement_timeout,
            "idle_in_transaction_session_timeout": "0",
            "idle_session_timeout": "0",
        }
        if self.english:
            settings["lc_messages"] = "C"
        if self.of_a_worker:
            for name in THE_ADMINISTRATORS:
                del settings[name]
        return settings

    def options(self) -> str:
        """The settings as libpq's `options` (and PGOPTIONS) want them."""
        return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in self.settings().items())

    def psycopg_connection(self, conninfo: str, name: str) -> psycopg.Connection:
        """A pinned psycopg connection in autocommit, called `name` in pg_stat_activity.

        Raises ServerError if the server cannot be reached.
        """
        try:
            return self.open(conninfo, name)
        except psycopg.OperationalError as error:
            raise refusals.unreachable(error) from error

    def open(
        self, conninfo: str, name: str, over: Callable[[int], AbstractContextManager[object]] = nullcontext
    ) -> psycopg.Connection:
        """As `psycopg_connection`, for a caller that waits for a server: raises psycopg.OperationalError if it cannot be reached.

        over: what the caller holds over the calls that follow the login, by the number of their socket.
        """
        connection = psycopg.connect(_with_options(conninfo, self.options(), name), autocommit=True)
        with over(connection.fileno()):
            _pin(connection.pgconn, self.transaction_timeout)
        return connection


def connect(conninfo: str, options: str, name: str) -> pq.abc.PGconn:
    """A raw libpq connection with these options, called `name` in pg_stat_activity.

    Raises ServerError if the server cannot be reached.
    """
    pgconn = pq.PGconn.connect(_with_options(conninfo, options, name).encode())
    if pgconn.status != pq.ConnStatus.OK:
        raise refusals.unreachable(pgconn.error_message.decode(errors="replace"))
    _pin(pgconn)
    return pgconn


def _pin(pgconn: pq.abc.PGconn, transaction_timeout: str = "0") -> None:
    """Pin what cannot stand in the options, or would win over them: libpq sends some of the environment after them."""
    wanted = SessionPins().settings()
    for variable, setting in (("PGDATESTYLE", "DateStyle"), ("PGTZ", "TimeZone")):
        if config.is_set(variable):
            pgconn.exec_(f"SET {setting} = {wanted[setting]}".encode())
    if pgconn.server_version >= KNOWS_TRANSACTION_TIMEOUT:  # an older server would refuse the option
        pgconn.exec_(f"SET transaction_timeout = '{transaction_timeout}'".encode())


def _with_options(conninfo: str, options: str, name: str) -> str:
    theirs = libpq_conninfo.conninfo_to_dict(conninfo).get("options")
    # The encoding stands by itself too: there it wins over PGCLIENTENCODING.
    return libpq_conninfo.make_conninfo(
        conninfo,
        options=f"{theirs} {options}" if theirs else options,
        application_name=name,
        client_encoding="UTF8",
    )
