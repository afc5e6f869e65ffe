"""The server's main process: is it there, stop it, clear what a killed one left."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from pathlib import Path

import psutil

from lab.base import wait
from lab.base.errors import ServerError
from lab.base.language import say

STOP_SECONDS = 60
LAST_RESORT_SECONDS = 10


def find(data: Path) -> psutil.Process | None:
    """The main process of the server on this data folder; None if it is not running.

    The number in postmaster.pid alone proves nothing: after a crash or a restart of the machine
    it may belong to any other process.
    """
    try:
        process = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
        if not process.name().startswith("postgres"):
            return None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    if _same(_started_in(process), data):
        return process
    # Root may not ask where another account's process works (in containers), so this comes last.
    with suppress(psutil.Error):
        if _same(process.cwd(), data):
            return process
    return None


def was_moved(data: Path) -> bool:
    """Whether the server runs although its data folder was moved since it started.

    It finds its files by their old path: sooner or later it fails.
    """
    process = find(data)
    return process is not None and not _same(_started_in(process), data)


def _started_in(process: psutil.Process) -> str:
    """The data folder that the process was started with, as far as it can be seen."""
    with suppress(psutil.Error):
        command = process.cmdline()
        if "-D" in command[:-1]:
            return command[command.index("-D") + 1]
    return ""


def _same(folder: str, data: Path) -> bool:
    try:
        return data.samefile(folder)
    except OSError:
        return False


def stop(data: Path) -> bool:
    """Stop the server on this data folder, its sessions too; returns whether it was running."""
    process = find(data)
    if process is None:
        return False
    for sign, seconds in (
        (signal.SIGINT, STOP_SECONDS),
        (signal.SIGQUIT, LAST_RESORT_SECONDS),
    ):
        with suppress(psutil.NoSuchProcess):  # it may have ended by itself just now
            process.send_signal(sign)
        if wait.until(lambda: has_ended(process), seconds):
            return True
    raise ServerError(
        say(
            f"The lab's server (process {process.pid}) does not stop. Its log is {data.parent / 'log'}.",
            f"O servidor do laboratório (processo {process.pid}) não para. O log dele é {data.parent / 'log'}.",
        )
    )


def has_ended(process: psutil.Process) -> bool:
    """Whether it ended, perhaps not yet waited for (a container's first process may never do it)."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def clear_marks(data: Path, sockets: Path) -> None:
    """Remove what says that a server is running, once it is known that none is.

    PostgreSQL does so itself, but not if the number in the file now belongs to another process of
    the same account. Should sessions of the killed server still live, the new one refuses to
    start all the same: they hold its shared memory.
    """
    (data / "postmaster.pid").unlink(missing_ok=True)
    for mark in sockets.glob(".s.PGSQL.*"):
        mark.unlink(missing_ok=True)


def port_is_free(port: int) -> bool:
    """Whether a server can listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
