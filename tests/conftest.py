"""The server the tests run on, a database for each test, and a watch over what a test leaves behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from lab.base import paths
from lab.base.errors import LabError
from lab.server.binaries import find_server_binaries
from lab.server.conninfo import NAMING_VARIABLES
from lab.server.schema import build
from lab.server.target import Target, named_server, open_target
from tests.reader import say_to_reader

pytest_plugins = ("tests.report", "tests.tiers")

QueueInState = Callable[[int], AbstractContextManager[str]]  # by the state; it gives the conninfo

TARGET = pytest.StashKey[Target]()
MOST_PROCESSES = 4
SECONDS_TO_END = 5.0  # a closed connection's backend ends a moment later


def pytest_configure() -> None:
    """Give the tests a server of their own, beside the one that the reader plays with; if they are shared out, one a process."""
    if not _server_is_given():
        for name in NAMING_VARIABLES:  # set by `lab env`: what they lead to is no given server
            os.environ.pop(name, None)
    # This early, so that what is made at an import, or once for a module, is English, too.
    os.environ.pop("LAB_LANG", None)
    os.environ["LAB_HOME"] = str(paths.home() / os.environ.get("PYTEST_XDIST_WORKER", "test"))


def pytest_xdist_auto_num_workers() -> int:
    """Into how many processes `-n auto` shares the tests out; a given server has one database for them, so there into none."""
    return 0 if _server_is_given() else min(os.cpu_count() or 1, MOST_PROCESSES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, else one process is left with them at the end."""
    items.sort(
        key=lambda item: not (item.name.startswith("test_every_check_of_lesson") or item.path.stem == "test_notebooks")
    )


def pytest_report_header(config: pytest.Config) -> str:
    try:
        if config.getoption("numprocesses", None):
            version = find_server_binaries().version
            return say_to_reader(
                f"server: PostgreSQL {version}, one a process", f"servidor: PostgreSQL {version}, um por processo"
            )
        return f"{say_to_reader('server', 'servidor')}: {_target(config).headline()}"
    except LabError as error:
        return say_to_reader(f"server: none. {error}", f"servidor: nenhum. {error}")


def pytest_unconfigure(config: pytest.Config) -> None:
    target = config.stash.get(TARGET, None)
    if target and target.embedded:
        target.embedded.down_if_alone()


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Target:
    """The lab's own server, or the one that was given."""
    return _target(pytestconfig)


@pytest.fixture
def database(server: Target) -> Iterator[str]:
    """The conninfo of a database of the test's own (on a given server: the given one, perhaps with an earlier test's queue)."""
    with server.database("test") as conninfo, nothing_left(conninfo):
        yield conninfo


@pytest.fixture(scope="session")
def queue_in_state(server: Target) -> Iterator[QueueInState]:
    """Makes a database of a test's own with the queue in a state: a copy of one that is built once; on a given server it is built."""
    with ExitStack() as templates:

        @cache
        def template(state: int) -> str:
            conninfo = templates.enter_context(server.database(f"state_{state:02}"))
            build(conninfo, state)
            return str(conninfo_to_dict(conninfo)["dbname"])

        @contextmanager
        def make(state: int) -> Iterator[str]:
            with server.database("test", template=template(state) if server.embedded else None) as conninfo:
                if server.embedded is None:
                    build(conninfo, state)
                with nothing_left(conninfo):
                    yield conninfo

        yield make


@pytest.fixture
def queue_database(queue_in_state: QueueInState) -> Iterator[str]:
    """The conninfo of a database of the test's own, with the queue in state 01."""
    with queue_in_state(1) as conninfo:
        yield conninfo


@pytest.fixture
def grown(queue_in_state: QueueInState) -> Iterator[str]:
    """The conninfo of a database of the test's own, with the queue in state 10."""
    with queue_in_state(10) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def module_database(server: Target) -> Iterator[str]:
    """The conninfo of a database for the tests of a module that rebuild the queue themselves before each play."""
    with server.database("module") as conninfo:
        yield conninfo


@pytest.fixture
def own_server(server: Target) -> Target:
    """The server, if it is the lab's own: for tests that do what is not done to a given server."""
    if server.embedded is None:
        pytest.skip("only on the lab's own server: it makes roles, or a schema without the lab's mark")
    return server


@contextmanager
def nothing_left(conninfo: str) -> Iterator[None]:
    """Fail if the block leaves a connection to the database, a prepared transaction, a thread or a child process."""
    with psycopg.connect(conninfo, autocommit=True) as watch:
        strangers = _sessions(watch)
        threads, children = set(threading.enumerate()), child_processes()
        yield
        deadline = time.monotonic() + SECONDS_TO_END
        while (left := _sessions(watch) - strangers) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert not left, f"connections left behind: {left}"
        assert not watch.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall()
    assert not set(threading.enumerate()) - threads, "a thread was left behind"
    assert not child_processes() - children, "a child process was left behind"


def child_processes() -> set[int]:
    """The processes started by this one that have not been waited for (Linux; elsewhere nothing is seen)."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for children in lists for pid in children.read_text().split()}


def _sessions(connection: psycopg.Connection) -> set[tuple[int, str]]:
    """The other client sessions in the database; a lock cannot outlive its session."""
    return set(
        connection.execute(
            "SELECT pid, application_name FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    )


def _server_is_given() -> bool:
    """Whether the environment names a server that is not the lab's own; one whose name cannot be read is for the header to tell."""
    try:
        return named_server() is not None
    except LabError:
        return True


def _hasten(target: Target) -> None:
    """Let the tests' own server not wait for the disk: every test makes and drops a database, and none survives them."""
    if target.embedded:
        with psycopg.connect(target.conninfo, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")


def _target(config: pytest.Config) -> Target:
    if TARGET not in config.stash:
        config.stash[TARGET] = open_target()
        _hasten(config.stash[TARGET])
    return config.stash[TARGET]
