"""The grammar of a scenario file: what breaks it is named by file and line, and the files that are here keep its rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.base import paths
from lab.base.errors import ScenarioError
from lab.lessons import lesson, registry
from lab.scenario import grammar, library
from lab.scenario.grammar import Ends, Scenario, Step
from tests.helpers import HEAD, WAIT, all_scenarios, mutated, parsed

STEP = "-- @step a_asks A\nSELECT 1;\n"


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        grammar.parse(text, Path("sql/02_for_update_waits/02_case.sql"))
    return str(caught.value)


# What is read


def test_a_scenario_is_read_in_the_order_of_launching() -> None:
    read = parsed(
        "-- @builds_on 04_claim_and_finish\n-- @setup\nSELECT 1;\nSELECT 2;\n" + WAIT + "-- @teardown\nSELECT 3;\n"
    )
    assert (read.name, read.lesson, read.builds_on, read.state) == ("01_made_up", "01_queue", "04_claim_and_finish", 4)
    assert (read.setup, read.teardown) == (("SELECT 1;", "SELECT 2;"), ("SELECT 3;",))
    assert [action.name if isinstance(action, Step) else "ends" for action in read.actions] == [
        "a_begin", "a_locks", "b_asks", "a_commits", "ends",
    ]  # fmt: skip
    assert read.sessions == ("A", "B")
    assert read.step("b_asks").blocks == "A"


def test_a_scenario_starts_from_the_state_of_its_own_lesson_unless_told() -> None:
    assert (parsed(STEP).builds_on, parsed(STEP).state) == ("01_queue", 1)


def test_options_of_a_step_stand_in_any_order() -> None:
    assert parsed("-- @step a_asks A errors 22012\nSELECT 1/0;\n").step("a_asks").errors == "22012"
    text = WAIT.replace("-- @ends b_asks", "-- @ends b_asks errors 55P03")
    (ends,) = (action for action in parsed(text).actions if isinstance(action, Ends))
    assert ends.errors == "55P03"


def test_prose_goes_with_the_marker_above_it_in_both_languages() -> None:
    read = parsed(
        "-- @step a_asks A\n-- First line,\n-- second line.\n-- @pt Primeira linha,\n-- @pt segunda linha.\nSELECT 1;\n"
    )
    prose = read.step("a_asks").prose
    assert prose is not None
    assert (prose.en, prose.pt) == ("First line, second line.", "Primeira linha, segunda linha.")
    assert (read.claim.en, read.claim.pt) == ("A claim.", "Uma afirmação.")


@pytest.mark.parametrize(
    "statement",
    [
        "DO $$ BEGIN RAISE NOTICE 'one;'; RAISE NOTICE 'two'; END $$;",
        "DO $body$ BEGIN IF TRUE THEN PERFORM 1; END IF; END $body$",
        "CREATE FUNCTION f() RETURNS INTEGER LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;",
        "SELECT CASE WHEN TRUE THEN ';' END;",
        "BEGIN;",
    ],
)
def test_a_statement_with_semicolons_inside_is_one(statement: str) -> None:
    assert parsed(f"-- @step a_asks A\n{statement}\n").step("a_asks").sql == statement


# What is refused, with file and line


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "must begin with a comment that states its claim"),
        (STEP, 1, "must begin with a comment that states its claim"),
        (HEAD, 1, "the scenario has no step"),
        (HEAD + "SELECT 1;\n" + STEP, 1, "SQL before the first marker"),
        (HEAD + "-- @wait a_asks\n" + STEP, 3, "unknown marker `-- @wait a_asks`; known: builds_on"),
        (HEAD + "-- @step a_asks\nSELECT 1;\n", 3, "unknown marker `-- @step a_asks`"),
        (HEAD + "-- @setup A\nSELECT 1;\n" + STEP, 3, "unknown marker `-- @setup A`"),
        (HEAD + "-- @step a_asks A\n-- Why?\n-- @ptbr Por quê?\nSELECT 1;\n", 5, "unknown marker `-- @ptbr Por quê?`"),
        (HEAD + "-- @step a_asks A\n-- Why?\n-- @pt\nSELECT 1;\n", 5, "unknown marker `-- @pt`"),
        (HEAD + "--@step a_asks A\nSELECT 1;\n", 3, "begins with `-- @`, with one space"),
        (HEAD + "--  @step a_asks A\nSELECT 1;\n", 3, "begins with `-- @`, with one space"),
        (HEAD + STEP + "SELECT 2; -- @ends a_asks\n", 5, "a line of its own"),
        ("-- @pt Uma afirmação.\n" + STEP, 1, "`@pt` without an English comment line above it"),
        (HEAD + "-- @step a_asks A\n-- @pt Por quê?\nSELECT 1;\n", 4, "`@pt` without an English comment line above it"),
        (HEAD + "-- More.\n" + STEP, 3, "write the English lines first"),
        (HEAD + "-- @step a_asks A\nSELECT 1\n-- one more\n, 2;\n", 5, "stands above the statement, not after or inside it"),
        (HEAD + "-- @step a_asks A\n-- Why?\nSELECT 1;\n-- @pt Por quê?\n", 6, "stands above the statement, not after or inside it"),
        (HEAD + "-- @step a_asks A\n", 3, "step a_asks has no statement"),
        (HEAD + "-- @step a_asks A\nSELECT 1; SELECT 2;\n", 3, "step a_asks holds more than one statement"),
        (HEAD + "-- @step a_asks A\nSELECT '{}';\n", 3, "step a_asks contains a closing brace"),
        (HEAD + "-- @step A_asks A\nSELECT 1;\n", 3, "a step's name is lower-case letters, digits and _, not A_asks"),
        (HEAD + "-- @step ends_it A\nSELECT 1;\n", 3, "names that begin with ends_ are kept"),
        (HEAD + "-- @step a_asks a\nSELECT 1;\n", 3, "a session's name begins with a capital letter"),
        (HEAD + STEP + STEP, 5, "a second step is called a_asks"),
        (HEAD + "-- @step a_asks A waits B\nSELECT 1;\n", 3, "cannot read `waits B`"),
        (HEAD + "-- @step a_asks A blocks\nSELECT 1;\n", 3, "cannot read `blocks`"),
        (HEAD + "-- @step a_asks A errors 22012 errors 22012\nSELECT 1;\n", 3, "once"),
        (HEAD + "-- @step a_asks A errors 2201\nSELECT 1;\n", 3, "2201 is not an SQLSTATE"),
        (HEAD + "-- @step a_asks A errors division_by_zero\nSELECT 1;\n", 3, "division_by_zero is not an SQLSTATE"),
        (HEAD + "-- @builds_on episode\n" + STEP, 3, "builds_on wants a lesson such as 04_claim_and_finish, not episode"),
        (HEAD + "-- @builds_on\n" + STEP, 3, "unknown marker `-- @builds_on`"),
        (HEAD + "-- @builds_on 01_queue\nSELECT 1;\n" + STEP, 3, "no SQL may stand under `@builds_on`"),
        (HEAD + WAIT + "SELECT 1;\n", 11, "no SQL may stand under `@ends`"),
        (HEAD + WAIT.replace("-- @ends b_asks", ""), 7, "step b_asks waits, but no `@ends b_asks`"),
        (HEAD + WAIT.replace(" blocks A", ""), 11, "`@ends b_asks`: that step is not marked `blocks`"),
        (HEAD + WAIT + "-- @ends b_asks\n", 12, "`@ends b_asks`: that step has ended already"),
        (HEAD + WAIT.replace("@ends b_asks", "@ends b_ask"), 11, "`@ends b_ask`: no step of that name stands above"),
        (HEAD + WAIT.replace("@ends b_asks", "@ends b_asks blocks A"), 11, "cannot read `blocks A`"),
        (HEAD + WAIT.replace("blocks A", "blocks B"), 7, "step b_asks cannot wait for B"),
        (HEAD + WAIT.replace("blocks A", "blocks C"), 7, "step b_asks cannot wait for C"),
        (HEAD + WAIT.replace("blocks A", "blocks A errors 55P03"), 7, "write the error of b_asks on its `@ends` only"),
        (HEAD + WAIT.replace("a_commits A", "b_again B"), 9, "session B still waits in b_asks; `@ends b_asks` must stand above"),
    ],
)  # fmt: skip
def test_what_breaks_the_grammar_is_named_with_file_and_line(text: str, line: int, words: str) -> None:
    message = refusal(text)
    assert message.startswith(f"02_case.sql, line {line}: ")
    assert words in message


def test_a_misspelt_marker_in_a_real_scenario_is_refused() -> None:
    with pytest.raises(
        ScenarioError, match=r"02_lock_timeout\.sql, line \d+: unknown marker `-- @end b_asks errors 55P03`"
    ):
        mutated("02_lock_timeout", ("-- @ends b_asks", "-- @end b_asks"))


def test_dropping_ends_from_a_real_scenario_is_refused() -> None:
    with pytest.raises(
        ScenarioError, match=r"02_finished_meanwhile\.sql, line \d+: step b_asks waits, but no `@ends b_asks`"
    ):
        mutated("02_finished_meanwhile", ("-- @ends b_asks\n", ""))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"01_absent\.sql: cannot be read as UTF-8 text"):
        grammar.read(tmp_path / "01_absent.sql")
    (tmp_path / "01_latin.sql").write_bytes("-- é\n".encode("latin-1"))
    with pytest.raises(ScenarioError, match=r"01_latin\.sql: cannot be read as UTF-8 text"):
        grammar.read(tmp_path / "01_latin.sql")


def test_a_file_with_windows_line_ends_reads_the_same() -> None:
    original = library.find_scenario("02_commit")
    text = original.path.read_text(encoding="utf-8")
    assert grammar.parse(text.replace("\n", "\r\n"), original.path) == original


# The files that are here


each_scenario = pytest.mark.parametrize("told", all_scenarios(), ids=lambda told: told.name)


@each_scenario
def test_every_english_line_for_the_reader_has_its_portuguese_one(told: Scenario) -> None:
    texts = [told.claim, *(action.prose for action in told.actions if action.prose)]
    one_sided = [text for text in texts if not (text.en and text.pt)]
    assert not one_sided


@each_scenario
def test_lines_for_the_reader_come_in_pairs(told: Scenario) -> None:
    text = told.path.read_text(encoding="utf-8")
    english = len(re.findall(r"^-- (?!@)", text, re.MULTILINE))
    assert english == len(re.findall(r"^-- @pt ", text, re.MULTILINE))


@each_scenario
def test_a_scenario_starts_from_a_lesson_that_is_here(told: Scenario) -> None:
    assert (paths.SQL / f"{told.builds_on}.sql").is_file()
    assert told.name.startswith(told.lesson[:3])


@pytest.mark.parametrize("path", sorted(paths.SQL.rglob("*.sql")), ids=lambda path: path.name)
def test_no_script_sleeps(path: Path) -> None:
    # But between two looks, at another terminal or at calls of before an upgrade, up to a deadline.
    polls = 1 if path.name in ("turns.sql", "1_to_2.sql") else 0
    assert path.read_text(encoding="utf-8").lower().count("pg_sleep") == polls


@pytest.mark.parametrize("told", registry.lessons(), ids=lambda told: told.name)
def test_every_scenario_is_a_claim_of_its_lesson_and_has_a_golden_transcript(told: lesson.Lesson) -> None:
    files = {path.stem[3:] for path in (paths.SQL / told.name).glob("*.sql")}
    claimed = {claim.id.removeprefix(f"{told.number}.") for claim in told.checks}
    assert files <= claimed
    golden = {path.stem[3:] for path in (paths.EXPECTED / told.name).glob("*.out")}
    assert golden == files


def test_every_folder_of_scenarios_and_of_transcripts_belongs_to_a_lesson() -> None:
    names = {told.name for told in registry.lessons()}
    assert {path.name for path in paths.SQL.iterdir() if path.is_dir()} - {"protocol", "upgrade"} <= names
    assert {path.name for path in paths.EXPECTED.iterdir()} <= names
