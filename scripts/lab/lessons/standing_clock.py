"""Let the lab's clock stand still while people talk: a lease of 30 s must not end because a room discusses it for a minute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lab.scenario.grammar import Scenario
from lab.server.session import SCHEMA

# A sequence is read outside of any snapshot: a statement that began before the talk, and waits through it, sees what is set
# after it. While the clock stands, is_called is true and last_value is the moment, in microseconds since 1970; while it goes,
# last_value is by how much it is late.
STANDING = f"""
CREATE SEQUENCE IF NOT EXISTS {SCHEMA}.relogio_parado MINVALUE 0 START 0;

CREATE OR REPLACE FUNCTION {SCHEMA}.relogio()
RETURNS TIMESTAMPTZ
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT
            CASE WHEN is_called THEN TIMESTAMPTZ '1970-01-01 00:00+00' ELSE clock_timestamp() END
            + (CASE WHEN is_called THEN 1 ELSE -1 END) * last_value * INTERVAL '1 microsecond'
        FROM {SCHEMA}.relogio_parado
    ) + (SELECT adiantado FROM {SCHEMA}.relogio_do_laboratorio);
END
$$;
"""
MICROSECONDS = "(extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT"


# A clock that has stood is behind the server's: where a scenario compares the two, it must not stand.
SERVERS_CLOCK = re.compile(r"\b(now|clock_timestamp)\(\)")


class StandingClock:
    """The lab's clock of the queue in which the scenario is played; set on `connection`, which is in autocommit.

    Nothing is done where there is no lab's clock, nor in a scenario whose statements read the server's own.
    """

    def __init__(self, connection: psycopg.Connection, scenario: Scenario) -> None:
        self.connection = connection
        self.late = 0  # microseconds
        row = connection.execute(
            "SELECT CASE WHEN to_regclass(%s) IS NOT NULL THEN pg_get_functiondef(to_regprocedure(%s)) END",
            [f"{SCHEMA}.relogio_do_laboratorio", f"{SCHEMA}.relogio()"],
        ).fetchone()
        assert row
        statements = (*scenario.setup, *(step.sql for step in scenario.steps))
        servers = any(SERVERS_CLOCK.search(statement) for statement in statements)
        self.before: str | None = None if servers else row[0]
        if self.before:
            connection.execute(STANDING.encode())

    @contextmanager
    def standing(self) -> Iterator[None]:
        """The clock stands still inside of the block."""
        if not self.before:
            yield
            return
        stopped = self.set(f"{MICROSECONDS} - {self.late}", stands=True)
        try:
            yield
        finally:
            # It goes on from the moment at which it stood.
            self.late = self.set(f"{MICROSECONDS} - {stopped}", stands=False)

    def remove(self) -> None:
        """Put the lab's clock back as it was; a moment later it shows what it would have shown without any standing still."""
        if self.before:
            self.connection.execute(self.before.encode())
            self.connection.execute(f"DROP SEQUENCE {SCHEMA}.relogio_parado".encode())

    def set(self, value: str, stands: bool) -> int:
        row = self.connection.execute(
            f"SELECT setval('{SCHEMA}.relogio_parado', {value}, {stands})".encode()
        ).fetchone()
        assert row
        return int(row[0])
