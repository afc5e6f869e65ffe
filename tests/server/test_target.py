from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base import paths
from lab.base.errors import LabError, ServerError
from lab.server.binaries import Binaries
from lab.server.conninfo import NAMING_VARIABLES
from lab.server.embedded import EmbeddedServer, Started
from lab.server.target import Target, check_version, open_target

HOLD_THE_GIVEN_DATABASE = """
import sys
from lab.server.target import open_target
with open_target().database():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _nothing_given(server: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAB_DSN", *NAMING_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def given(own_server: Target, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the lab's own server, named as readers would name their own."""
    monkeypatch.setenv("LAB_DSN", database)
    return database


def refusal() -> str:
    with pytest.raises(ServerError) as refused, open_target().database():
        pass
    return str(refused.value)


def test_without_a_word_it_is_the_labs_own_server(own_server: Target) -> None:
    target = open_target()
    assert target.source == "embedded" and target.superuser and target.embedded
    assert target.started and target.started.was_running
    assert target.headline().startswith(f"PostgreSQL {target.version}, private to this folder, already up ")


def test_the_headline_tells_how_long_the_start_took_in_either_language(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("embedded", "17.10", 170010, "", True, Started(0.92, False), None)
    assert target.headline() == "PostgreSQL 17.10, private to this folder, up in 0.9 s        (stop: ./lab down)"
    monkeypatch.setenv("LAB_LANG", "pt")
    assert target.headline() == "PostgreSQL 17.10, só desta pasta, no ar em 0,9 s        (parar: ./lab down)"


def test_a_version_newer_than_tried_is_noted() -> None:
    target = Target("dsn", "19.1", 190001, "host=h port=5 dbname=d user=u", False, None, None)
    assert target.headline() == "PostgreSQL 19.1 (tried up to 18), h:5, database d, user u"


def test_the_labs_own_server_is_recognised_by_what_lab_env_prints(
    own_server: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_server.embedded
    for name, value in own_server.embedded.environment().items():
        monkeypatch.setenv(name, value)
    assert open_target().source == "embedded"


def test_pghost_and_its_like_name_a_given_server(
    own_server: Target, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_server.embedded
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(own_server.embedded.passfile.port()))
    monkeypatch.setenv("PGUSER", "lab")
    monkeypatch.setenv("PGPASSFILE", str(own_server.embedded.passfile.path))
    target = open_target()
    assert target.source == "environment" and target.started is None and target.embedded is None
    with target.database() as conninfo, psycopg.connect(conninfo) as connection:
        assert connection.info.dbname == "lab"


def test_lab_dsn_wins_and_its_password_is_shown_nowhere(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "elsewhere.invalid")
    monkeypatch.setenv("LAB_DSN", make_conninfo(given, password="secret"))
    target = open_target()
    assert target.source == "dsn"
    assert "database lab_test_" in target.headline() and ", user lab" in target.headline()
    assert "secret" not in target.headline() + repr(target)


def test_a_given_database_is_used_itself_and_stays(given: str) -> None:
    with open_target().database() as conninfo, psycopg.connect(conninfo) as connection:
        connection.execute("CREATE TABLE kept ()")
    with psycopg.connect(given) as connection:
        connection.execute("TABLE kept")


def test_a_second_lab_in_a_given_database_is_refused_until_the_first_ends(given: str) -> None:
    first, second = open_target(), open_target()
    refused = pytest.raises(LabError, match="Another lab is running in database lab_test_")
    with first.database(), refused, second.database():
        pass
    with second.database():
        pass


def test_a_killed_lab_does_not_keep_the_given_database_locked(given: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_GIVEN_DATABASE],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other_lab:
        assert other_lab.stdout and other_lab.stdout.readline() == "held\n"
        target = open_target()
        with pytest.raises(LabError), target.database():
            pass
        other_lab.kill()
    for _ in range(100):  # the killed lab's session ends a moment later
        try:
            with target.database():
                return
        except LabError:
            time.sleep(0.02)
    pytest.fail("the lock outlived the lab")


def test_an_older_server_than_14_is_refused() -> None:
    with pytest.raises(ServerError, match="PostgreSQL 13, and the lab needs 14 to 18"):
        check_version(130022)
    check_version(140000)
    check_version(190001)


def test_a_role_that_may_not_create_learns_what_to_ask_for(
    given: str, own_server: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(given, autocommit=True) as connection:
        connection.execute('CREATE ROLE "lab test visitor" LOGIN')
        try:
            monkeypatch.setenv("LAB_DSN", make_conninfo(given, user="lab test visitor"))
            assert open_target().source == "dsn"  # a command that makes no schema needs no such privilege
            asked = refusal()
            assert f'GRANT CREATE ON DATABASE "{connection.info.dbname}" TO "lab test visitor";' in asked
            connection.execute(asked[asked.index("GRANT") :])
            target = open_target()
            assert target.source == "dsn" and not target.superuser
        finally:
            connection.execute('DROP OWNED BY "lab test visitor"')
            connection.execute('DROP ROLE "lab test visitor"')


def test_a_database_that_cannot_be_written_to_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_DSN", make_conninfo(given, options="-c default_transaction_read_only=on"))
    assert "is read-only" in refusal()


def test_an_unreachable_server_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        monkeypatch.setenv("LAB_DSN", f"postgresql://ana:secret@127.0.0.1:{port}/store")
        said = refusal()
    assert f"127.0.0.1:{port}, database store, user ana" in said
    assert "unset LAB_DSN" in said
    assert "secret" not in said


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.server.conninfo.CONNECT_SECONDS", 2)  # the least that libpq takes
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PGHOST", "127.0.0.1")
        monkeypatch.setenv("PGPORT", str(silent.getsockname()[1]))
        began = time.monotonic()
        assert "Check PGHOST, PGPORT" in refusal()
        assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ana:sec@ret@db.invalid/store",
        "postgresql://ana:sec/ret@db.invalid/store",
        "postgresql://ana:123/ret@db.invalid/store",
        "postgresql://ana:%zzret@db.invalid/store",
        "host=db.invalid password=se cret",
        "nonsense",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    monkeypatch.setenv("LAB_DSN", dsn)
    said = refusal()
    assert said.startswith("LAB_DSN cannot be read")
    assert "ret" not in said


def test_a_port_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "five")
    assert refusal().startswith("PGPORT cannot be read")


def test_a_stopped_server_is_not_started_if_that_is_not_wanted(
    own_server: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="lab") as home:
        monkeypatch.setenv("LAB_HOME", home)
        with pytest.raises(ServerError, match=r"not running: `\./lab up`"):
            open_target(start=False)


@pytest.fixture
def server_without_libxml() -> Iterator[EmbeddedServer]:
    if not (folder := os.environ.get("LAB_TEST_NO_LIBXML_BIN")):
        pytest.skip("LAB_TEST_NO_LIBXML_BIN names no programs built without libxml")
    with tempfile.TemporaryDirectory(prefix="lab") as home:
        server = EmbeddedServer(Path(home))
        server.binaries = Binaries(Path(folder), "?", 0, "LAB_PGBIN")
        server.up()
        yield server
        server.down()


def test_a_given_server_without_libxml_is_refused(
    server_without_libxml: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_DSN", server_without_libxml.conninfo())
    assert "built without libxml (--with-libxml)" in refusal()


def test_a_variable_that_is_set_but_empty_names_no_server(own_server: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGSERVICE", "PGHOST", "PGPORT", "PGDATABASE", "PGHOSTADDR"):
        monkeypatch.setenv(name, "")
    assert open_target().source == "embedded"
