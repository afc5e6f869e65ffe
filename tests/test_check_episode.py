"""check_episode.sql tells readers of the episode how far their own schema is, and writes nothing."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from lab.base import paths
from lab.scenario.library import find_scenario
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment
from lab.server.target import Target
from tests.helpers import execute, fetch

SCRIPT = paths.SQL / "check_episode.sql"
BUILD = (paths.SQL / "01_queue.sql").read_text(encoding="utf-8")
SCHEMA = "CREATE SCHEMA sql_semana_12;"
TABLE = re.search(r"CREATE TABLE .*?;", BUILD, re.DOTALL)
INDEX = re.search(r"CREATE INDEX .*?;", BUILD, re.DOTALL)
DOCUMENTS = re.search(r"INSERT INTO .*?;", BUILD, re.DOTALL)
assert TABLE and INDEX and DOCUMENTS
CLAIMS = [find_scenario("04_claim").step(step).sql for step in ("a_claims", "b_claims")]
OUTCOMES = [find_scenario("04_outcome").step(step).sql for step in ("a_finishes", "b_fails")]
TYPED = [SCHEMA, TABLE[0], INDEX[0], DOCUMENTS[0], *CLAIMS, *OUTCOMES]


def check(conninfo: str, *options: str) -> str:
    """What the script prints, in English."""
    done = subprocess.run(
        [str(find_psql()), "-X", "-v", "lang=en", *options, "-f", str(SCRIPT)],
        env=os.environ | libpq_environment(conninfo),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "following"),
    [
        (0, "CREATE SCHEMA"),
        (1, "CREATE TABLE"),
        (2, "CREATE INDEX"),
        (3, "INSERT INTO"),
        (4, "in terminal A: BEGIN; and the claim"),
        (5, "in terminal B: the same claim with worker-b"),
        (6, "the UPDATE that finishes document 1"),
        (7, "the other one of the two UPDATEs"),
        (8, "the episode is complete"),
    ],
)
def test_at_each_step_the_next_one_is_named_and_nothing_is_written(
    own_server: Target, database: str, typed: int, following: str
) -> None:
    for statement in TYPED[:typed]:
        execute(database, statement)
    before = fetch(database, "SELECT pg_current_snapshot()::TEXT")
    *_, last = check(database).splitlines()
    assert last.startswith(f"Next: {following}")
    assert fetch(database, "SELECT pg_current_snapshot()::TEXT") == before


def test_documents_that_are_missing_or_differ_are_named(own_server: Target, database: str) -> None:
    for statement in TYPED[:4]:
        execute(database, statement)
    execute(database, "DELETE FROM sql_semana_12.fila_documentos WHERE documento_id = 3")
    execute(database, "UPDATE sql_semana_12.fila_documentos SET nome_arquivo = 'outro.xml' WHERE documento_id = 4")
    told = check(database)
    assert "Documents missing: NFE-0003" in told
    assert "differs from the episode: NFE-0004" in told


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("ALTER COLUMN criado_em DROP DEFAULT", "criado_em: timestamp with time zone NOT NULL clock_timestamp()"),
        ("ALTER COLUMN nome_arquivo DROP NOT NULL", "nome_arquivo: text NOT NULL → text"),
        ("DROP COLUMN ultimo_erro", "ultimo_erro: text → -"),
        ("ADD COLUMN meu INTEGER", "meu: - → integer"),
        ("DROP CONSTRAINT fila_documentos_chave_key", "UNIQUE (chave): yes → missing"),
        ("DROP CONSTRAINT fila_documentos_status_check", "CHECK (status IN"),
        ("DROP CONSTRAINT fila_documentos_tentativas_check", "CHECK (tentativas >= 0): yes → missing"),
    ],
)
def test_what_differs_from_the_episode_is_named(own_server: Target, database: str, edit: str, told: str) -> None:
    for statement in TYPED[:4]:
        execute(database, statement)
    assert "Table and index are as in the episode." in check(database)
    execute(database, f"ALTER TABLE sql_semana_12.fila_documentos {edit}")
    assert told in check(database)


def test_the_labs_own_schema_is_left_to_the_lab(queue_database: str) -> None:
    assert "the lab's own" in check(queue_database)


def test_it_speaks_portuguese_unless_told_otherwise(own_server: Target, database: str) -> None:
    assert "A seguir: CREATE SCHEMA" in check(database, "-v", "lang=pt")
