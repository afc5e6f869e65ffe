"""A server to be crashed, copied or promoted: made for one experiment, in a folder that goes with it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from lab.base import wait
from lab.base.errors import ServerError
from lab.base.language import say
from lab.server import postmaster
from lab.server.embedded import MAINTENANCE, USER, EmbeddedServer

END_SECONDS = 20


@contextmanager
def scratch_server(**settings: str) -> Iterator[EmbeddedServer]:
    """A server like the lab's own that lasts as long as the block, with these settings changed.

    Raises ServerError if it cannot be made or started.
    """
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder:
        server = EmbeddedServer(home=Path(folder))
        try:
            server.up()
            with psycopg.connect(server.conninfo(MAINTENANCE), autocommit=True) as connection:
                for name, value in settings.items():
                    connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
                connection.execute("SELECT pg_reload_conf()")
            yield server
        finally:
            server.down()


@contextmanager
def copied(server: EmbeddedServer, standby: bool = False) -> Iterator[EmbeddedServer]:
    """A copy of a server that is down, not yet started: its backup, or with `standby` what follows it once both are up.

    Raises ServerError if it cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder:
        copy = EmbeddedServer(home=Path(folder))
        copy.make_folder()
        # With its owner and rights, which the server insists on.
        done = subprocess.run(["cp", "-a", str(server.data), str(copy.data)], capture_output=True, text=True)
        if done.returncode != 0:
            raise ServerError(
                say(f"The server cannot be copied: {done.stderr}", f"Não dá para copiar o servidor: {done.stderr}")
            )
        if standby:
            source = f"host={server.socket} port={server.passfile.port()} user={USER} application_name=standby"
            with (copy.data / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"primary_conninfo = '{source}'\n")
            (copy.data / "standby.signal").touch()
        try:
            yield copy
        finally:
            copy.down()


def follows(standby: EmbeddedServer) -> None:
    """Wait until the standby receives what its primary writes. Raises ServerError if it does not."""
    _receives(standby, True)


def cut_off(standby: EmbeddedServer) -> None:
    """End the standby's connection to its primary for good. Raises ServerError if it does not end."""
    with psycopg.connect(standby.conninfo(MAINTENANCE), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
    _receives(standby, False)


def promote(standby: EmbeddedServer) -> None:
    """Make the standby a server that may be written to. Raises ServerError if it does not become one."""
    with psycopg.connect(standby.conninfo(MAINTENANCE), autocommit=True) as connection:
        row = connection.execute("SELECT pg_promote(wait_seconds => %s)", [END_SECONDS]).fetchone()
    if row != (True,):
        raise ServerError(say("The standby was not promoted.", "O standby não foi promovido."))


def _receives(standby: EmbeddedServer, wanted: bool) -> None:
    receives = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"
    with psycopg.connect(standby.conninfo(MAINTENANCE), autocommit=True) as connection:
        if not wait.until(lambda: connection.execute(receives).fetchone() == (int(wanted),), END_SECONDS):
            raise ServerError(
                say("The standby does not follow its primary.", "O standby não acompanha o primário.")
                if wanted
                else say("The standby still follows its primary.", "O standby ainda acompanha o primário.")
            )


def crash(server: EmbeddedServer) -> None:
    """Kill the server's main process, so that what it held only in memory is lost; `server.up()` starts it again.

    Raises ServerError if it is not running, or if its sessions do not notice and end.
    """
    main = postmaster.find(server.data)
    if main is None:
        raise ServerError(say("There is no server to crash.", "Não há servidor para derrubar."))
    processes = [main, *main.children()]
    main.kill()
    if not wait.until(lambda: all(map(postmaster.has_ended, processes)), END_SECONDS):
        raise ServerError(
            say(
                f"The sessions of the killed server (process {main.pid}) did not end.",
                f"As sessões do servidor derrubado (processo {main.pid}) não terminaram.",
            )
        )
