"""Databases on the lab's own server: the one to play in, and those that last for one run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

# No client can be connected to this template, so a copy of it never has to wait or fail.
PLAIN = "template0"

# The first half of the lab's advisory lock keys, so that they meet no other program's.
LOCK_FAMILY = 0x6C6162

TEMPORARY = r"^lab_[a-z0-9_]+_[0-9]+_[0-9]+$"


@contextmanager
def temporary(maintenance: str, purpose: str, template: str) -> Iterator[str]:
    """Make a database that lasts as long as the block.

    Parameters: maintenance, the conninfo of another database of that server; purpose, a word for
    the name; template, the database to copy. Returns the name.
    """
    word = re.sub(r"[^a-z0-9]+", "_", purpose.lower())[:30]
    # This session's advisory lock is the sign of life: it goes when the lab goes, even if killed.
    with psycopg.connect(maintenance, autocommit=True) as keeper:
        name = _create(keeper, f"lab_{word}_{os.getpid()}", template)
        try:
            yield name
        finally:
            # If the server is gone, the database is dropped when it is next started.
            with suppress(psycopg.OperationalError):
                _drop(keeper, name)


def _create(keeper: psycopg.Connection, stem: str, template: str) -> str:
    for number in count(1):
        name = f"{stem}_{number}"
        if not _try_lock(keeper, name):
            continue
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        try:
            keeper.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        except psycopg.errors.DuplicateDatabase:
            _unlock(keeper, name)
            continue
        return name
    raise AssertionError("count() has no end")


def drop_abandoned(connection: psycopg.Connection) -> None:
    """Drop the temporary databases that no living lab holds."""
    found = connection.execute("SELECT datname FROM pg_database WHERE datname ~ %s", [TEMPORARY])
    for (name,) in found.fetchall():
        if _try_lock(connection, name):
            _drop(connection, name)
            _unlock(connection, name)


def ensure(connection: psycopg.Connection, name: str, schema: str) -> None:
    """Make the database if it is not there; a plain psql on it finds the tables of the schema, too, and makes its own elsewhere."""
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
    if found.fetchone() is None:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    statement = sql.SQL('ALTER DATABASE {} SET search_path = "$user", public, {}')
    connection.execute(statement.format(sql.Identifier(name), sql.Identifier(schema)))


def has_password(connection: psycopg.Connection, user: str) -> bool:
    """Whether the role was given a password."""
    found = connection.execute("SELECT 1 FROM pg_authid WHERE rolname = %s AND rolpassword IS NOT NULL", [user])
    return found.fetchone() is not None


def set_password(connection: psycopg.Connection, user: str, password: str) -> None:
    """Give the role its password, hashed here so that the server never reads it in a statement."""
    pgconn = connection.pgconn
    hashed = pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256")
    statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
    connection.execute(statement.format(sql.Identifier(user), sql.Literal(hashed.decode())))


def _drop(connection: psycopg.Connection, name: str) -> None:
    # FORCE ends sessions, but no prepared transaction, and only its own database can end that.
    prepared = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]).fetchall()
    if prepared:
        with psycopg.connect(make_conninfo(connection.info.dsn, dbname=name), autocommit=True) as inside:
            for (gid,) in prepared:
                inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    connection.execute(statement.format(sql.Identifier(name)))


def _try_lock(connection: psycopg.Connection, name: str) -> bool:
    answer = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [LOCK_FAMILY, name])
    row = answer.fetchone()
    return bool(row and row[0])


def _unlock(connection: psycopg.Connection, name: str) -> None:
    connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [LOCK_FAMILY, name])
