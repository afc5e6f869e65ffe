from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base import paths
from lab.base.errors import ServerError
from lab.server import private_dir
from lab.server.binaries import find_server_binaries
from lab.server.embedded import EmbeddedServer, Started
from lab.server.target import Target
from tests.helpers import short_home

HOLD_A_DATABASE = """
import sys
from pathlib import Path
from lab.server.embedded import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1])).database("run") as conninfo:
    print(conninfo, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_PORT", raising=False)


@pytest.fixture(scope="module")
def made_home() -> Iterator[Path]:
    """A home whose server was made once."""
    with short_home() as home:
        EmbeddedServer(home).up()
        yield home
        EmbeddedServer(home).down()


@pytest.fixture
def own(made_home: Path) -> EmbeddedServer:
    """A server that is up, and that the test may treat badly."""
    server = EmbeddedServer(made_home)
    server.up()
    return server


def main_process(server: EmbeddedServer) -> psutil.Process:
    return psutil.Process(int((server.data / "postmaster.pid").read_text().split()[0]))


def answer(conninfo: str, query: str) -> object:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(query).fetchone()
        return row and row[0]


def databases(server: EmbeddedServer) -> set[str]:
    with psycopg.connect(server.conninfo("postgres")) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


def name_of(conninfo: str) -> str:
    return str(conninfo_to_dict(conninfo)["dbname"])


def test_a_running_server_is_left_running_and_the_next_lab_finds_it(own: EmbeddedServer) -> None:
    process = main_process(own)
    assert own.running()
    assert own.up().was_running
    assert main_process(own) == process


def test_down_stops_the_server_and_says_whether_there_was_one(own: EmbeddedServer) -> None:
    process = main_process(own)
    assert own.down()
    assert not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE
    assert not own.running()
    assert not own.down()


def test_an_interrupt_at_the_terminal_does_not_reach_the_server(own: EmbeddedServer) -> None:
    assert os.getsid(main_process(own).pid) != os.getsid(0)


def test_only_the_owner_can_enter_and_tcp_asks_for_the_password(own: EmbeddedServer) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (own.folder, own.socket, own.passfile.path)}
    assert modes == {own.folder.name: 0o700, "socket": 0o700, "passfile": 0o600}
    by_tcp = {"host": "127.0.0.1", "hostaddr": "127.0.0.1", "passfile": str(own.passfile.path)}
    assert answer(make_conninfo(own.conninfo(), **by_tcp), "SELECT 1") == 1
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(make_conninfo(own.conninfo(), **by_tcp | {"passfile": os.devnull}))
    assert answer(own.conninfo(), "SHOW listen_addresses") == "127.0.0.1"


def test_the_server_speaks_plainly_and_keeps_every_write(own: EmbeddedServer) -> None:
    wanted = {
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "lc_messages": "C",
        "fsync": "on",
        "synchronous_commit": "on",
        "max_connections": "100",
    }
    assert {name: answer(own.conninfo(), f"SHOW {name}") for name in wanted} == wanted


def test_no_value_of_a_statement_reaches_the_log(own: EmbeddedServer) -> None:
    with psycopg.connect(own.conninfo(), autocommit=True) as connection:
        for query in ("SELECT %s::int", "SELECT xmlparse(DOCUMENT %s)", "SELECT pg_sleep(0), %s::uuid"):
            with pytest.raises(psycopg.DataError):
                connection.execute(query, ["secret"])
        connection.execute("DO $$BEGIN RAISE WARNING 'secret'; END$$")
    assert "ready to accept connections" in own.log.read_text()
    assert "secret" not in own.log.read_text()


def test_a_pid_left_by_a_crash_does_not_hinder_the_next_start(own: EmbeddedServer) -> None:
    with psycopg.connect(own.conninfo(), autocommit=True) as connection:
        session = threading.Thread(target=_run_until_the_end, args=(connection, "SELECT pg_sleep(30)"))
        session.start()
        main_process(own).kill()
        while own.running():
            time.sleep(0.01)
        assert (own.data / "postmaster.pid").exists()
        assert not own.up().was_running
        session.join()


def test_a_pid_that_now_belongs_to_another_process_is_not_taken_for_the_server(own: EmbeddedServer) -> None:
    leave_marks = _crash(own)
    # The stranger even works in the data folder, as a shell might.
    command = ["sh", "-c", 'cd "$1" && echo && exec sleep 60', "sh", str(own.data)]
    with subprocess.Popen([*own._prefix, *command], cwd="/", stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout and stranger.stdout.readline()
        leave_marks(stranger.pid)
        assert not own.running()
        assert not own.up().was_running
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_that_now_belongs_to_another_labs_server_is_not_taken_for_the_own(
    own: EmbeddedServer, own_server: Target
) -> None:
    assert own_server.embedded
    leave_marks = _crash(own)
    leave_marks(main_process(own_server.embedded).pid)
    assert not own.running()
    assert not own.up().was_running
    assert own_server.embedded.running()


def _crash(server: EmbeddedServer) -> Callable[[int], None]:
    """Stop the server; what is returned leaves its marks behind, as a crash does, with another process's number."""
    marks = [server.data / "postmaster.pid", server.socket / f".s.PGSQL.{server.passfile.port()}.lock"]
    left_behind = [mark.read_text().splitlines() for mark in marks]
    server.down()

    def leave_marks(pid: int) -> None:
        for mark, lines in zip(marks, left_behind, strict=True):
            mark.write_text("\n".join([str(pid), *lines[1:], ""]))

    return leave_marks


def _run_until_the_end(connection: psycopg.Connection, query: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        connection.execute(query)


def test_an_initdb_that_was_killed_half_way_is_done_again() -> None:
    with tempfile.TemporaryDirectory(prefix="lab") as home:
        server = EmbeddedServer(Path(home))
        unfinished = server.folder / f"unfinished.{os.getpid()}"
        unfinished.mkdir(parents=True)
        (unfinished / "PG_VERSION").write_text("17\n")
        try:
            assert not server.up().was_running  # also: the home is closed (0700) to the server's account
            assert not unfinished.exists()
            assert answer(server.conninfo(), "SELECT current_database()::text") == "lab"
        finally:
            server.down()


def test_two_labs_that_start_the_server_at_once_both_succeed(own: EmbeddedServer) -> None:
    own.down()
    outcomes: list[Started] = []
    labs = [threading.Thread(target=lambda: outcomes.append(EmbeddedServer(own._home).up())) for _ in range(3)]
    for each in labs:
        each.start()
    for each in labs:
        each.join()
    assert sorted(each.was_running for each in outcomes) == [False, True, True]


def test_a_taken_port_is_named_and_another_can_be_chosen(own: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    port = own.passfile.port()
    own.down()
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(ServerError, match=rf"Port {port}.*taken.*LAB_PORT=NNNN \./lab up"):
            own.up()
        monkeypatch.setenv("LAB_PORT", str(_free_port()))
        own.up()
    monkeypatch.delenv("LAB_PORT")
    assert own.passfile.port() != port
    assert answer(own.conninfo(), "SHOW port") == str(own.passfile.port())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("text", ["80", "70000", "five", "²"])
def test_a_port_that_is_none_is_refused(own: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    own.down()
    monkeypatch.setenv("LAB_PORT", text)
    with pytest.raises(ServerError, match="a number from 1024 to 65535"):
        own.up()


def test_an_emptied_passfile_is_written_anew(own: EmbeddedServer) -> None:
    own.down()
    own.passfile.path.write_text("")
    own.up()
    test_only_the_owner_can_enter_and_tcp_asks_for_the_password(own)


def test_a_checkout_may_be_moved_while_its_server_runs() -> None:
    with tempfile.TemporaryDirectory(prefix="lab") as parent:
        before, after = Path(parent, "a"), Path(parent, "b c")
        EmbeddedServer(before).up()
        before.rename(after)
        server = EmbeddedServer(after)
        try:
            server.up()
            with psycopg.connect(server.conninfo(), autocommit=True) as connection:
                connection.execute("CHECKPOINT")  # it needs the files by the path the server started with
        finally:
            assert server.down()


def test_a_data_folder_belongs_to_one_major_version(own: EmbeddedServer) -> None:
    assert (own.data / "PG_VERSION").read_text().strip() == own.folder.name == str(own.binaries.major)


def test_a_run_has_a_database_of_its_own_and_drops_it_also_after_an_error(own: EmbeddedServer) -> None:
    names: set[str] = set()

    def failing_run(open_longer: ExitStack) -> None:
        with own.database("run") as first, own.database("run") as second:
            names.update({name_of(first), name_of(second)})
            assert names <= databases(own)
            open_longer.enter_context(psycopg.connect(first, autocommit=True))
            raise ZeroDivisionError

    with ExitStack() as open_longer:
        with pytest.raises(ZeroDivisionError):
            failing_run(open_longer)
        assert len(names) == 2 and not names & databases(own)


def test_a_killed_labs_database_goes_at_the_next_start_and_a_living_labs_stays(own: EmbeddedServer) -> None:
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts")}
    command = [sys.executable, "-c", HOLD_A_DATABASE, str(own._home)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other_lab:
        assert other_lab.stdout
        theirs = name_of(other_lab.stdout.readline().strip())
        own.up()
        assert theirs in databases(own)
        other_lab.send_signal(signal.SIGKILL)
    with own.database("run") as ours:
        for _ in range(100):  # the killed lab's session ends a moment later
            own.up()
            if theirs not in databases(own):
                break
            time.sleep(0.02)
        assert theirs not in databases(own)
        assert name_of(ours) in databases(own)


def test_what_lab_env_prints_is_enough_for_a_plain_psql(own: EmbeddedServer) -> None:
    environment = own.environment()
    assert environment["PATH"].endswith(os.environ["PATH"])  # before an older psql of the machine
    if not (psql := shutil.which("psql", path=environment["PATH"])):
        pytest.skip("no psql on this machine")
    asked = [psql, "-XAtc", "SELECT current_user, current_database()"]
    assert subprocess.run(asked, env=environment, capture_output=True, text=True).stdout == "lab|lab\n"
    assert own.owns_socket(environment["PGHOST"])
    assert not own.owns_socket("/var/run/postgresql")


def test_a_given_server_needs_no_folder_of_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    assert not EmbeddedServer(Path(os.devnull, "home")).owns_socket("db.invalid")


def test_a_server_that_cannot_start_says_why(own: EmbeddedServer) -> None:
    own.down()
    control = own.data / "global" / "pg_control"
    control.rename(control.with_suffix(".away"))
    try:
        with pytest.raises(ServerError, match=r"does not start: .*log: "):
            own.up()
    finally:
        control.with_suffix(".away").rename(control)


class TestFolder:
    """Where the server's folder lies."""

    def test_it_lies_in_home(self) -> None:
        with tempfile.TemporaryDirectory(prefix="lab") as home:
            assert private_dir.server_folder(Path(home)) == Path(home, "server")

    @pytest.mark.parametrize("name", ["x" * 80, "a, b", 'a"b', "a$b"])
    def test_a_path_that_would_be_misread_or_too_long_moves_it_to_the_state_folder(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="lab") as parent:
            monkeypatch.setenv("XDG_STATE_HOME", f"{parent}/state")
            folder = private_dir.server_folder(Path(parent, name))
            assert folder.parent == Path(parent, "state", "queue-lab")
            assert folder != private_dir.server_folder(Path(parent, f"{name}2"))

    def test_a_disk_without_unix_permissions_moves_it_to_the_state_folder(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="lab") as parent:
            monkeypatch.setenv("XDG_STATE_HOME", f"{parent}/state")
            monkeypatch.setattr(private_dir, "holds_private_mode", lambda folder: "state" in str(folder))
            assert private_dir.server_folder(Path(parent)).is_relative_to(f"{parent}/state")

    def test_without_any_fit_folder_it_asks_for_a_short_lab_home(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        deep = tmp_path / ("x" * 100)
        monkeypatch.setenv("XDG_STATE_HOME", str(deep))
        with pytest.raises(ServerError, match="Set LAB_HOME"):
            private_dir.server_folder(deep)


class TestChosenPrograms:
    """LAB_PGBIN is used or refused, never passed over."""

    def refusal(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
        monkeypatch.setenv("LAB_PGBIN", str(folder))
        with pytest.raises(ServerError) as refused:
            find_server_binaries()
        assert f"LAB_PGBIN names {folder}" in str(refused.value)
        return str(refused.value)

    def programs(self, folder: Path, postgres: str) -> Path:
        for name, script in (("postgres", postgres), ("initdb", ""), ("pg_ctl", "")):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return folder

    def test_no_such_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert "no such folder" in self.refusal(monkeypatch, tmp_path / "none")

    def test_a_folder_without_the_programs(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (self.programs(tmp_path, "") / "pg_ctl").unlink()
        assert "it lacks pg_ctl" in self.refusal(monkeypatch, tmp_path)

    def test_programs_of_another_kind_of_machine(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert "does not run here" in self.refusal(monkeypatch, self.programs(tmp_path, "exit 127"))

    def test_version_13(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        folder = self.programs(tmp_path, "echo 'postgres (PostgreSQL) 13.22'")
        assert "PostgreSQL 13.22, and the lab needs 14 to 18" in self.refusal(monkeypatch, folder)

    def test_a_version_newer_than_tried_is_taken(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.programs(tmp_path, "echo 'postgres (PostgreSQL) 19beta1'")
        monkeypatch.setenv("LAB_PGBIN", str(tmp_path))
        found = find_server_binaries()
        assert (found.version, found.version_num, found.source) == ("19beta1", 190000, "LAB_PGBIN")

    def test_built_without_libxml(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not (folder := os.environ.get("LAB_TEST_NO_LIBXML_BIN")):
            pytest.skip("LAB_TEST_NO_LIBXML_BIN names no programs built without libxml")
        assert "without libxml (--with-libxml)" in self.refusal(monkeypatch, Path(folder))
