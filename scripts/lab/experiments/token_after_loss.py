"""Does a token come again when a server loses what it had committed: by a crash, from a backup, on a promoted standby?

Each way ends alike: A claims, what A did is lost, B claims what is left, and A's late failure arrives.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from lab.base import paths
from lab.server import schema
from lab.server.embedded import EmbeddedServer
from lab.server.psql import run_scripts
from lab.server.session import SessionPins
from lab.server.throwaway import copied, crash, cut_off, follows, promote, scratch_server

STATE = 6


@dataclass(frozen=True)
class Loss:
    """Document 1's token before and after the loss, and the rows that A's late failure changed."""

    before: int
    after: int
    late_rows: int


def crashed(server: EmbeddedServer, synchronous_commit: str, counted: bool = True) -> Loss:
    """The server crashes after A's claim and starts again; returns what came of it.

    Parameters: synchronous_commit, A's setting; counted, whether tokens are the lab's, which count, or those of production.
    """
    # A new sequence has logged no number yet: it logs 32 ahead, and only the loss of that record can bring a number back.
    _build(server, counted)
    with SessionPins().psycopg_connection(server.conninfo(), "lab/A") as a:
        # A commits once before and waits for the disk: on 16.14 the crash lost none of 8 claims that were a session's first commit.
        a.execute("COMMENT ON FUNCTION novos_tokens IS 'of the crash'")
        a.execute("CHECKPOINT")  # what was built is on the disk; what comes after it may be lost
        a.execute(f"SET synchronous_commit = {synchronous_commit}".encode())
        before = _claim(a)
        crash(server)  # at once, while A is connected: what waits in memory is soon written
    server.up()
    return _take_over(server, before)


def restored(counted: bool) -> Loss:
    """A backup of before A's claim is started in place of the server; `counted` as above."""
    with scratch_server() as server:
        _build(server, counted)
        server.down()
        with copied(server) as backup:
            server.up()
            with SessionPins().psycopg_connection(server.conninfo(), "lab/A") as a:
                before = _claim(a)
            crash(server)
            backup.up()
            return _take_over(backup, before)


def promoted(counted: bool) -> Loss:
    """A standby that A's claim had not reached is promoted in place of the server; `counted` as above."""
    with scratch_server() as server:
        _build(server, counted)
        server.down()
        with copied(server, standby=True) as standby:
            server.up()
            standby.up()
            follows(standby)
            cut_off(standby)
            with SessionPins().psycopg_connection(server.conninfo(), "lab/A") as a:
                before = _claim(a)
            crash(server)
            promote(standby)
            return _take_over(standby, before)


def _build(server: EmbeddedServer, counted: bool) -> None:
    schema.build(server.conninfo(), STATE)
    if not counted:
        run_scripts(server.conninfo(), paths.SQL / "06_token.sql")  # puts the tokens of production back


def _claim(a: psycopg.Connection) -> int:
    claimed = a.execute("SELECT token_reserva FROM reservar('worker-a')").fetchone()
    assert claimed
    return int(claimed[0])


def _take_over(server: EmbeddedServer, before: int) -> Loss:
    with SessionPins().psycopg_connection(server.conninfo(), "lab/B") as b:
        b.execute("UPDATE relogio_do_laboratorio SET adiantado = INTERVAL '1 minute'")
        b.execute("SELECT documento_id FROM recuperar('vigia')")
        again = b.execute("SELECT token_reserva FROM reservar('worker-b')").fetchone()
        assert again
        late = b.execute("SELECT documento_id FROM falhar(1, %s, 'tempo esgotado')", [before])
        return Loss(before, again[0], late.rowcount)
