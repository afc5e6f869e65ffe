"""The reader's own queue: the right verdict for queues that are known, and a sentence for what cannot be examined."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from lab.base import paths
from lab.base.errors import LabError, QueueError
from lab.examine import queue_file, scratch, trials
from lab.examine.verdict import Verdict
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.helpers import run_lab

QUEUES = paths.ROOT / "data" / "queues"
# By what is seen, out of the orders in which two claims overlap.
TWO_CLAIMS = {
    "blog_claim": "HOLDS",
    "for_update": "WAITS",
    "lease_without_token": "HOLDS",
    "select_then_update": "BREAKS",
    "subselect": "BREAKS",
}
SCHEMA = (
    "-- @schema\nCREATE TABLE jobs (id INT, status TEXT DEFAULT 'pending');\nINSERT INTO jobs VALUES (1), (2), (3);\n"
)
CLAIM = (
    "-- @claim\nUPDATE jobs SET status = 'running' WHERE id ="
    " (SELECT id FROM jobs WHERE status = 'pending' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id;\n"
)


def examined(path: Path, server: Target) -> Verdict:
    queue = queue_file.read(path)
    with scratch.scratch(server) as conninfo:
        trials.build(queue, conninfo)
        return trials.two_claims(queue, conninfo)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.sql"


def test_every_small_queue_has_its_verdict_asserted() -> None:
    assert {path.stem for path in QUEUES.glob("*.sql")} == set(TWO_CLAIMS)


@pytest.mark.parametrize("name", sorted(TWO_CLAIMS))
def test_two_claims_at_once(name: str, own_server: Target) -> None:
    verdict = examined(QUEUES / f"{name}.sql", own_server)
    assert verdict.word == TWO_CLAIMS[name]
    assert verdict.of > 0, "it really raced"
    assert (verdict.seen == 0) == (verdict.word == "HOLDS")


@pytest.mark.parametrize(("taken_out", "word"), [(" FOR UPDATE SKIP LOCKED", "BREAKS"), (" SKIP LOCKED", "WAITS")])
def test_the_verdict_turns_when_the_defence_is_taken_out(
    taken_out: str, word: str, file: Path, own_server: Target
) -> None:
    assert taken_out in CLAIM
    file.write_text(SCHEMA + CLAIM)
    assert examined(file, own_server).word == "HOLDS"
    file.write_text(SCHEMA + CLAIM.replace(taken_out, ""))
    assert examined(file, own_server).word == word


def test_one_row_is_no_race_and_never_holds(file: Path, own_server: Target) -> None:
    file.write_text(SCHEMA.replace(", (2), (3)", "") + CLAIM)
    assert examined(file, own_server).word == "NOT TRIED"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (SCHEMA + "-- @clam\nSELECT 1;\n", 4, "unknown marker `@clam`"),
        (SCHEMA, 1, "no `-- @claim` block"),
        ("SELECT 1;\n" + SCHEMA + CLAIM, 1, "SQL before the first marker"),
        (SCHEMA + "-- @claim twice\nSELECT 1;\n", 4, "cannot read `twice`"),
        (SCHEMA + "-- @claim\n\nSELECT id FROM jobs;\nCOMMIT;\n", 7, "COMMIT must not stand in a block"),
        (SCHEMA + "-- @claim\nSELECT id\nFROM jobs WHERE id = :nada;\n", 6, "no value for :nada; there are"),
        (SCHEMA + "-- @claim\nSELECT id FROM jobs WHERE FALSE;\n", 4, "returned no row"),
        (SCHEMA + "-- @claim\nSELECT id FRM jobs;\n", 5, "failed with 42601"),
        (SCHEMA + "CREATE TABLE jobs (id INT);\n" + CLAIM, 4, "failed with 42P07"),
        (SCHEMA + "SELECT pg_sleep(60);\n" + CLAIM, 4, "did not end within"),
        (SCHEMA + "-- @claim\nSELECT 1 AS id FROM pg_sleep(60);\n", 5, "did not end within"),
        (SCHEMA + "SELECT pg_read_file('/etc/passwd');\n" + CLAIM, 4, "failed with 42501"),
        (SCHEMA + "COPY jobs TO PROGRAM 'true';\n" + CLAIM, 4, "failed with 42501"),
        (SCHEMA + "CREATE ROLE mine;\n" + CLAIM, 4, "failed with 42501"),
        (SCHEMA + "DROP DATABASE postgres;\n" + CLAIM, 4, "failed with 42501"),
    ],
)
def test_what_cannot_be_examined_is_named_with_file_and_line(
    text: str, line: int, words: str, file: Path, own_server: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "PINS", SessionPins(statement_timeout="500ms", search_path="public"))
    file.write_text(text)
    with pytest.raises(QueueError) as error:
        examined(file, own_server)
    assert f"{file}, line {line}: " in str(error.value)
    assert words in str(error.value)


def test_nothing_is_left_on_the_server_whatever_happens(file: Path, own_server: Target) -> None:
    file.write_text(SCHEMA + "SELECT 1 / 0;\n" + CLAIM)
    with pytest.raises(LabError):
        examined(file, own_server)
    with psycopg.connect(own_server.conninfo) as connection:
        for query in (
            "SELECT rolname FROM pg_roles WHERE rolname LIKE 'lab_exam%'",
            "SELECT datname FROM pg_database WHERE datname LIKE 'lab_exam%'",
        ):
            assert connection.execute(query).fetchall() == []


def test_a_trigger_that_is_always_on_runs_as_the_ordinary_role(file: Path, own_server: Target) -> None:
    """Putting rows back fires it: as a superuser it could do anything."""
    trigger = (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n"
        "IF current_setting('is_superuser') = 'on' THEN RAISE 'as a superuser'; END IF; RETURN new; END $$;\n"
        "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION f();\n"
        "ALTER TABLE jobs ENABLE ALWAYS TRIGGER t;\n"
    )
    file.write_text(SCHEMA + trigger + CLAIM)
    assert examined(file, own_server).word == "HOLDS"


@pytest.mark.parametrize(("name", "status"), [("blog_claim", 0), ("for_update", 0), ("subselect", 1)])
def test_the_command_ends_with_its_verdict(name: str, status: int, own_server: Target) -> None:
    done = run_lab("examine", str(QUEUES / f"{name}.sql"), "--json")
    assert done.returncode == status, done.stderr
    words = [each["word"] for each in json.loads(done.stdout)["verdicts"]]
    assert words == [TWO_CLAIMS[name], "NOT TRIED", "NOT TRIED"], "they have no @finish"


def test_what_cannot_be_examined_ends_with_two(file: Path) -> None:
    file.write_text("-- @nada\n")
    done = run_lab("examine", str(file))
    assert done.returncode == 2
    assert "line 1: unknown marker" in done.stderr


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_template_can_be_examined_as_it_stands(language: str, file: Path, own_server: Target) -> None:
    file.write_text(run_lab("examine", "--template", LAB_LANG=language).stdout)
    assert examined(file, own_server).word == "BREAKS"
