"""What the page on scheduling tells to type is typed here, against a queue that was taken home."""

from __future__ import annotations

import os
import re
import subprocess

import psycopg
import pytest

from lab.base import paths
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment
from lab.server.target import Target
from tests.helpers import fetch
from tests.protocol.test_take_home import installed
from tests.protocol.test_take_home import plain as plain


def typed(language: str, kind: str) -> list[str]:
    """The blocks of this kind on the page, in order."""
    page = (paths.ROOT / f"docs/{language}scheduling.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


def late(plain: dict[str, str]) -> None:
    """A queue with a document whose worker is gone."""
    home = installed(plain, "pt", "fila")
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    home.fetch("worker", "SELECT {schema}.{reservar}('w', 1, '1 microsecond')")


def test_the_line_for_the_timer_recovers(plain: dict[str, str]) -> None:
    late(plain)
    (line,) = typed("", "sh")
    assert typed("pt/", "sh") == [line]
    command = line.removeprefix("* * * * * ").replace("psql", str(find_psql()), 1).replace('"service=queue" ', "")
    done = subprocess.run(
        ["sh", "-c", command],
        env=os.environ | libpq_environment(plain["worker"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert fetch(plain["owner"], "SELECT status, versao FROM fila.fila_documentos") == [("pendente", 2)]


def test_the_job_for_pg_cron_is_one_that_it_takes(plain: dict[str, str], own_server: Target, database: str) -> None:
    late(plain)
    job, _ = typed("", "sql")
    assert typed("pt/", "sql")[0] == job
    statement = re.search(r"\$\$(.*)\$\$", job)
    assert statement is not None
    assert fetch(plain["worker"], statement[1]) == [(1,)]
    if not fetch(database, "SELECT FROM pg_available_extensions WHERE name = 'pg_cron'"):
        pytest.skip("pg_cron is not installed beside this server (apt-get install postgresql-15-cron)")


def test_a_hint_is_sent_with_the_document_or_not_at_all(plain: dict[str, str]) -> None:
    home = installed(plain, "pt", "fila")
    _, hint = typed("", "sql")
    assert typed("pt/", "sql")[1] == hint
    with psycopg.connect(plain["worker"], autocommit=True) as listener:
        listener.execute("LISTEN fila")
        with psycopg.connect(plain["application"], autocommit=True) as caller:
            caller.execute(hint.replace("COMMIT", "ROLLBACK").encode())
            assert list(listener.notifies(timeout=0.2)) == []
            caller.execute(hint.encode())
        assert [each.channel for each in listener.notifies(timeout=10, stop_after=1)] == ["fila"]
    assert home.fetch("owner", "SELECT count(*) FROM {schema}.{fila_documentos}") == [(1,)]
