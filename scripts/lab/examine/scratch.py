"""Where a queue of the reader's is run: a database of its own, as an ordinary role that lasts as long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base.errors import CannotRunHere
from lab.base.language import say
from lab.server.target import Target

KNOWS_PARAMETER_GRANTS = 150000
PURPOSE = "examine"
# Roles are the whole server's: one whose lab was killed is still there, its database is not.
ABANDONED = f"""
SELECT rolname
FROM pg_roles
WHERE rolname ~ '^lab_{PURPOSE}_[0-9]+_[0-9]+$' AND rolname NOT IN (SELECT datname FROM pg_database)
"""


@contextmanager
def scratch(target: Target) -> Iterator[str]:
    """A new database, and a role that may do there what it wants and nothing elsewhere; both are dropped at the end.

    Returns the role's conninfo. Raises CannotRunHere on a server that is not the lab's own, or older than 15.
    """
    if target.embedded is None or target.version_num < KNOWS_PARAMETER_GRANTS:
        raise CannotRunHere(
            say(
                "Not run here: a queue is examined only on the lab's own server, PostgreSQL 15 or newer. Unset LAB_DSN and PGHOST.",
                "Não roda aqui: uma fila só é examinada no servidor do laboratório, PostgreSQL 15 ou mais novo. Remova LAB_DSN e PGHOST.",
            )
        )
    with psycopg.connect(target.conninfo, autocommit=True) as keeper:
        for (name,) in keeper.execute(ABANDONED).fetchall():
            _drop(keeper, name)
        role = ""
        try:
            with target.database(PURPOSE) as conninfo:
                role = str(conninfo_to_dict(conninfo)["dbname"])
                name = sql.Identifier(role)
                keeper.execute(
                    sql.SQL(
                        "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
                    ).format(name)
                )
                # To put rows back with triggers and foreign keys still, without a superuser's rights.
                keeper.execute(sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(name))
                keeper.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(name, name))
                with psycopg.connect(conninfo, autocommit=True) as inside:
                    inside.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(name))
                yield make_conninfo(conninfo, user=role)
        finally:
            if role:
                _drop(keeper, role)


def _drop(keeper: psycopg.Connection, role: str) -> None:
    name = sql.Identifier(role)
    if keeper.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        keeper.execute(sql.SQL("REVOKE SET ON PARAMETER session_replication_role FROM {}").format(name))
        keeper.execute(sql.SQL("DROP ROLE {}").format(name))
