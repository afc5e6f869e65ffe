"""What lies between a worker and its server: silence, poolers, and commits that do not last."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base.errors import LabError
from lab.worker import worker
from lab.worker.client import Queue, Statement, Unreachable
from lab.worker.worker import Options
from tests.helpers import execute, fetch
from tests.worker.pretended import Pretended, Pure, Run, Said

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Line:
    """A line to the server which, once it is silent, takes everything and carries nothing."""

    def __init__(self, conninfo: str, folder: str) -> None:
        parts = conninfo_to_dict(conninfo)
        self._server = f"{parts['host']}/.s.PGSQL.{parts['port']}"
        self.conninfo = make_conninfo(conninfo, host=folder)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/.s.PGSQL.{parts['port']}")
        self._listener.listen()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self.silent = False
        self._start(self._accept)

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _start(self, work: object, *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._sockets += [client, server]
                self._start(self._carry, client, server)
                self._start(self._carry, server, client)

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := here.recv(65536):
                if not self.silent:
                    there.sendall(data)
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(queue_09: str) -> Iterator[Line]:
    if not str(conninfo_to_dict(queue_09).get("host", "")).startswith("/"):
        pytest.skip("the line ends at a Unix socket of the server")
    with tempfile.TemporaryDirectory() as folder:
        made = Line(queue_09, folder)
        yield made
        made.close()


# Silence


def test_a_call_that_is_not_answered_has_lost_its_connection_and_is_sent_again(line: Line) -> None:
    lost: list[str] = []

    def heal(kind: str, error: psycopg.Error) -> None:
        lost.append(kind)
        line.silent = False

    queue = Queue(line.conninfo, "lab/test", lost=heal, deadline=0.5)
    assert queue.pending(None) == 4
    line.silent = True
    started = time.monotonic()
    assert queue.pending(None) == 4
    assert 0.5 <= time.monotonic() - started < 10
    assert lost == ["database_lost"]
    queue.close()


def test_silence_in_a_transaction_ends_it(line: Line) -> None:
    queue = Queue(line.conninfo, "lab/test", deadline=0.5)

    def fall_silent() -> None:
        with queue.transaction():
            queue.claim("worker-a", 1, 30, None)
            line.silent = True

    with pytest.raises(psycopg.OperationalError):
        fall_silent()
    queue.close()


def test_silence_while_the_session_is_set_up_is_not_believed_in(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(line.conninfo, "lab/test", deadline=0.5)
    look = queue._look_at

    def silent(connection: psycopg.Connection) -> None:
        line.silent = True
        queue.give_up_waiting()
        look(connection)

    monkeypatch.setattr(queue, "_look_at", silent)
    with pytest.raises(Unreachable):
        queue.pending(None)
    queue.close()


def test_a_worker_that_is_asked_to_stop_leaves_a_silent_server(line: Line, said: Said) -> None:
    pretended = Pretended()
    made = worker.make(line.conninfo, pretended, Options("worker-a", beat=0.0))

    def silence() -> None:
        line.silent = True
        threading.Timer(0.5, made.stop).start()

    pretended.before_calling = silence
    started = time.monotonic()
    made.run()
    assert time.monotonic() - started < 15
    assert said().of("left_behind")


def test_a_beat_that_is_not_answered_is_followed_by_another(line: Line, said: Said) -> None:
    made = worker.make(line.conninfo, Pretended(), Options("worker-a", beat=1.0))
    (claim,) = made._queue.claim("worker-a", 1, 30, None)
    made._heartbeat.hold(claim)
    line.silent = True
    made._heartbeat._queue._lost = lambda kind, error: setattr(line, "silent", False)
    renewed = threading.Event()
    made._heartbeat._log.each = lambda event, claims: renewed.set() if event == "renewed" else None  # type: ignore[method-assign]
    made._heartbeat.start()
    assert renewed.wait(20)
    made._heartbeat.stop()
    made._queue.close()


# Commits that last


@pytest.mark.parametrize(
    ("found", "now"),
    [("off", "on"), ("local", "on"), ("on", "on"), ("remote_write", "remote_write"), ("remote_apply", "remote_apply")],
)
def test_a_commit_that_may_be_lost_is_made_to_last_and_a_stronger_one_is_left(
    queue_09: str, run: Run, found: str, now: str
) -> None:
    name = conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET synchronous_commit = '{found}'")
    queue = Queue(queue_09, "lab/test")
    assert queue._connected().execute("SHOW synchronous_commit").fetchone() == (now,)
    queue.close()
    told = run(Pretended()).of("synchronous_commit")
    assert [(event["found"], event["now"]) for event in told] == ([(found, now)] if found != now else [])


# Poolers


@contextmanager
def pgbouncer(conninfo: str, folder: str, **settings: str) -> Iterator[str]:
    """A PgBouncer in transaction mode with two sessions; the conninfo that leads through it."""
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not installed (apt-get install pgbouncer)")
    parts = conninfo_to_dict(conninfo)
    lines = {
        "listen_port": "6432",
        "unix_socket_dir": folder,
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": "2",
        "ignore_startup_parameters": "options",
        "logfile": f"{folder}/log",
    } | settings
    Path(folder, "ini").write_text(
        f"[databases]\n{parts['dbname']} = host={parts['host']} port={parts['port']} user={parts['user']}\n[pgbouncer]\n"
        + "".join(f"{name} = {value}\n" for name, value in lines.items())
    )
    other = None
    if os.geteuid() == 0:  # as which it does not run
        other = os.stat(str(parts["host"])).st_uid
        os.chown(folder, other, -1)
    process = subprocess.Popen([PGBOUNCER, "-q", f"{folder}/ini"], user=other, stderr=subprocess.DEVNULL)
    through = make_conninfo(conninfo, host=folder, port="6432")
    try:
        until = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(through).close()
                break
            except psycopg.OperationalError as error:
                if "unsupported startup parameter" in str(error):
                    break
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield through
    finally:
        process.terminate()
        process.wait()


def test_through_a_pooler_no_statement_has_a_name_and_each_transaction_brings_its_settings(
    line: Line, queue_09: str, said: Said
) -> None:
    name = conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET synchronous_commit = 'off'")
    execute(queue_09, "SELECT sql_semana_12.enfileirar('D-' || n, 'd.xml', '<nfe/>') FROM generate_series(1, 96) AS n")
    with tempfile.TemporaryDirectory() as folder, pgbouncer(queue_09, folder) as through:
        queues = [Queue(through, f"lab/{number}") for number in range(4)]
        settings = Statement(
            "SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('lock_timeout'))",
            (bytes.decode,),
        )
        assert queues[0]._rows(settings) == [("on 10s",)]
        with queues[0].transaction():
            assert queues[0]._rows(settings) == [("on 10s",)]
        workers = [
            worker.make(
                through, Pure() if number % 2 else Pretended(), Options(f"w{number}", batch=2, rounds=20, beat=0.3)
            )
            for number in range(4)
        ]
        threads = [threading.Thread(target=made.run) for made in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for queue in queues:
            queue.close()
        with psycopg.connect(through) as other:
            assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    ran = said()
    assert len(ran.of("pooled")) == 4
    assert not [event for event in ran.events if event["event"] in ("error", "unwritten", "database_lost")]
    assert fetch(queue_09, "SELECT status, count(*) FROM sql_semana_12.fila_documentos GROUP BY 1") == [
        ("concluido", 100)
    ]


def test_a_pooler_that_refuses_the_settings_is_named(queue_09: str, line: Line) -> None:
    with tempfile.TemporaryDirectory() as folder, pgbouncer(queue_09, folder, ignore_startup_parameters="") as through:
        queue = Queue(through, "lab/test")
        with pytest.raises(LabError, match="ignore_startup_parameters = options"):
            queue.pending(None)
        queue.close()


@pytest.mark.parametrize(("pooled", "named"), [(None, True), (False, True), (True, False)])
def test_an_option_decides_whether_there_is_a_pooler(queue_09: str, pooled: bool | None, named: bool) -> None:
    queue = Queue(queue_09, "lab/test", pooled=pooled)
    queue.pending(None)
    count = queue._connected().execute("SELECT count(*) > 0 FROM pg_prepared_statements").fetchone()
    assert count == (named,)
    queue.close()


# What is the administrator's


def test_a_worker_leaves_to_the_administrator_what_is_theirs(queue_09: str) -> None:
    name = conninfo_to_dict(queue_09)["dbname"]
    theirs = {"idle_in_transaction_session_timeout": "7s", "idle_session_timeout": "8s"}
    for setting, value in theirs.items():
        execute(queue_09, f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'")
    queue = Queue(queue_09, "lab/w")
    try:
        for setting, value in theirs.items():
            assert queue._rows(Statement(f"SELECT current_setting('{setting}')", (bytes.decode,))) == [(value,)]
        isolation = Statement("SELECT current_setting('transaction_isolation')", (bytes.decode,))
        execute(queue_09, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
        queue.close()
        assert queue._rows(isolation) == [("read committed",)]
        known = Statement("SELECT current_setting('transaction_timeout', TRUE)", (bytes.decode,))
        assert queue._rows(known) in ([("5min",)], [(None,)])
    finally:
        queue.close()


def test_a_worker_does_not_write_where_an_administrator_said_read_only(queue_09: str, said: Said) -> None:
    name = conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET default_transaction_read_only = 'on'")
    worker.make(queue_09, Pretended(), Options("worker-a", poll=0.01, rounds=2)).run()
    assert [event["sqlstate"] for event in said().of("error")] == ["25006", "25006"]
    assert fetch(queue_09, "SELECT count(*) FROM sql_semana_12.auditoria") == [(0,)]


def test_a_pooler_whose_sessions_are_isolated_is_named_at_once(queue_09: str) -> None:
    name = conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    with (
        tempfile.TemporaryDirectory() as folder,
        pgbouncer(queue_09, folder) as through,
        pytest.raises(LabError, match="run in repeatable read"),
    ):
        worker.make(through, Pretended(), Options("worker-a", poll=0.01)).run()
