"""A transcript is the same in every language of the server, and has the form of PQprint and isolationtester."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.scenario import library, transcript
from lab.scenario.player import play
from lab.server.embedded import EmbeddedServer
from lab.server.schema import build
from tests.helpers import WAIT, parsed

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
FRENCH_MESSAGES = Path("/usr/share/locale/fr/LC_MESSAGES/postgres-15.mo")


@pytest.mark.parametrize(
    ("sqlstate", "name"),
    [
        ("55P03", "lock_not_available"),
        ("23505", "unique_violation"),
        ("40P01", "deadlock_detected"),
        ("42883", "undefined_function"),
        ("42704", "undefined_object"),
        ("2200M", "invalid_xml_document"),
        ("2200N", "invalid_xml_content"),
        ("P0001", "raise_exception"),
        ("25P02", "in_failed_sql_transaction"),
        ("QL001", "other_content_under_the_key"),
        ("QL002", "unknown condition"),
        ("", "unknown condition"),
    ],
)
def test_a_condition_has_the_name_of_the_manuals_appendix(sqlstate: str, name: str) -> None:
    assert transcript.condition(sqlstate) == name


def test_numbers_stand_right_and_text_left() -> None:
    assert transcript.table(("id", "nome"), (("1", "um"), ("20", None))) == (
        "id|nome\n--+----\n 1|um  \n20|    \n(2 rows)\n\n"
    )


def test_no_rows_and_one_row_are_counted_in_words() -> None:
    assert transcript.table(("id",), ()) == "id\n--\n(0 rows)\n\n"
    assert transcript.table(("id",), (("1",),)) == "id\n--\n 1\n(1 row)\n\n"


def test_a_result_without_columns_prints_nothing() -> None:
    assert transcript.table((), ((), ())) == ""


def test_the_golden_view_of_a_wait(queue_database: str) -> None:
    assert transcript.golden(play(parsed(WAIT), queue_database)) == (
        "scenario 01_made_up\n\n"
        "step a_begin: BEGIN;\n"
        "step a_locks: LOCK TABLE fila_documentos;\n"
        "step b_asks: SELECT count(*) AS documentos FROM fila_documentos; <waiting ...>\n"
        "step a_commits: COMMIT;\n"
        "step b_asks: <... completed>\n"
        "documentos\n----------\n         4\n(1 row)\n\n"
    )


def test_a_difference_shows_what_was_expected_and_what_was_seen() -> None:
    assert transcript.difference("a\nb\n", "a\nb\n") == ""
    diff = transcript.difference("step a\n 1\n", "step a\n 2\n").splitlines()
    assert diff[:2] == ["--- expected", "+++ seen"]
    assert {"- 1", "+ 2"} <= set(diff)


class FrenchServer(EmbeddedServer):
    """The lab's server, told by LANGUAGE to speak French wherever lc_messages is not C."""

    @cached_property
    def _prefix(self) -> list[str]:
        return [*super()._prefix, "env", "LANGUAGE=fr"]


@pytest.fixture(scope="module")
def french() -> Iterator[str]:
    """The conninfo of a database whose server speaks French."""
    if not (DEBIAN_15 / "postgres").is_file() or not FRENCH_MESSAGES.is_file():
        pytest.skip("needs Debian's PostgreSQL 15, which brings its messages in French")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="lab") as home:
        patch.setenv("LAB_PGBIN", str(DEBIAN_15))
        server = FrenchServer(Path(home))
        server.up()
        try:
            with server.database("french") as conninfo:
                yield make_conninfo(conninfo, options="-c lc_messages=C.UTF-8")
        finally:
            server.down()


@pytest.mark.parametrize(
    ("name", "french_words"),
    [
        ("02_lock_timeout", "annulation de la requête"),
        ("01_duplicate_key", "contrainte unique"),
        ("01_xml_has_no_equality", "n'existe pas"),
    ],
)
def test_a_server_that_speaks_french_gives_the_same_golden_transcript(
    french: str, name: str, french_words: str
) -> None:
    with psycopg.connect(french) as connection, pytest.raises(psycopg.Error, match="division par zéro"):
        connection.execute("SELECT 1/0")
    told = library.find_scenario(name)
    build(french, told.state)
    played = play(told, french)
    assert played.failure is None
    said = " ".join(run.message for run in played.runs.values() if run.message)
    assert french_words in said
    assert transcript.golden(played) == library.golden_path(told).read_text(encoding="utf-8")
