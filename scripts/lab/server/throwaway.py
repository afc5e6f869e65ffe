"""A server to be crashed: made for one experiment, in a folder that goes with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from lab.base import wait
from lab.base.errors import ServerError
from lab.base.language import say
from lab.server import postmaster
from lab.server.embedded import MAINTENANCE, EmbeddedServer

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
