"""What every lesson keeps to, and how a check that fails is told, with its reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest

from lab.base import paths
from lab.base.errors import CannotRunHere, LabError, ServerError
from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons import registry, report
from lab.lessons.lesson import Check, CheckResult, Lesson, Observed
from lab.lessons.registry import choose, lessons
from lab.scenario import library
from lab.scenario.result import Play
from lab.scenario.stage import Stage
from lab.server import schema
from tests.helpers import prose_for_facts, run_checks

SEEN = Observed(True, "seen", "visto")

SLOW = [check for told in lessons() for check in told.checks if check.slow]

each_lesson = pytest.mark.parametrize("told", lessons(), ids=lambda told: told.name)


def made(name: str = "02_for_update_waits") -> Lesson:
    """A lesson without claims, in the place of a real one."""
    text = Text("", "")
    return Lesson(f"{name}.py", minutes=1, question=text, answer=text, psql_only=text)


# What holds


def test_claim_ids_are_unique_and_begin_with_their_lessons_number() -> None:
    ids = [claim.id for told in lessons() for claim in told.checks]
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    assert all(claim.id.startswith(f"{told.number}.") for told in lessons() for claim in told.checks)


@each_lesson
def test_a_lesson_has_at_most_seven_core_claims(told: Lesson) -> None:
    assert 1 <= sum(claim.core for claim in told.checks) <= 7
    assert 1 <= told.minutes <= 12


@each_lesson
def test_a_lesson_speaks_both_languages(told: Lesson) -> None:
    texts = [told.question, told.answer, told.psql_only, *(claim.text for claim in told.checks)]
    assert all(text.en and text.pt for text in texts)
    assert all(claim.text.en.endswith(".") and claim.text.pt.endswith(".") for claim in told.checks)


@pytest.mark.thorough
@pytest.mark.parametrize("check", SLOW, ids=lambda check: check.id)
def test_a_slow_check_passes(check: Check, stage: Stage) -> None:
    run_checks(registry.find(check.id[:2]), [check], stage)


def test_no_core_check_is_slow() -> None:
    assert [check.id for check in SLOW if check.core] == []


def test_without_surprises_only_core_claims_are_run(stage: Stage) -> None:
    two = made()
    two.experiment("core", "Core.", "Central.")(lambda stage: SEEN)
    two.experiment("surprise", "Surprise.", "Surpresa.", core=False)(lambda stage: SEEN)
    assert [each.check.id for each in two.run(stage).checks] == ["02.core"]
    assert [each.check.id for each in two.run(stage, surprises=True).checks] == ["02.core", "02.surprise"]


# What does not


def test_an_observation_that_is_false_does_not_hold(stage: Stage) -> None:
    one = made()
    one.scenario("rollback")(
        lambda play: Observed(
            play["b_asks"].value == "2",
            f"B got document {play['b_asks'].value}",
            f"B recebeu o documento {play['b_asks'].value}",
        )
    )
    (result,) = one.run(stage).checks
    assert result.observed == Observed(False, "B got document 1", "B recebeu o documento 1")
    assert result.scenarios == ("02_rollback",)


def test_a_golden_transcript_that_differs_makes_the_claim_not_hold_and_shows_where(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    golden = paths.EXPECTED / "02_for_update_waits" / "02_rollback.out"
    broken = tmp_path / "02_for_update_waits" / golden.name
    broken.parent.mkdir()
    broken.write_text(golden.read_text(encoding="utf-8").replace("           1|NFE-0001", "           2|NFE-0002", 1))
    monkeypatch.setattr(paths, "EXPECTED", tmp_path)
    one = made()
    one.scenario("rollback")(lambda play: pytest.fail("not to be judged"))
    result = one.run(stage)
    assert result.checks[0].observed.holds is False
    why = result.checks[0].observed.why
    assert "the transcript of 02_rollback differs from the one kept" in why
    assert "-           2|NFE-0002" in why and "+           1|NFE-0001" in why
    assert [each.as_expected for each in result.scenarios] == [False]


def test_a_scenario_without_a_golden_transcript_does_not_hold(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "EXPECTED", tmp_path)
    one = made()
    one.scenario("rollback")(lambda play: SEEN)
    (result,) = one.run(stage).checks
    assert result.observed.holds is False
    assert "no transcript of 02_rollback is kept yet: ./lab record 02" in result.observed.why


def test_a_play_that_fails_makes_the_claim_not_hold_with_the_players_reason(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made()
    one.scenario("commit")(lambda play: SEEN)

    def without_documents(conninfo: str, state: int) -> None:
        build(conninfo, state)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("DELETE FROM sql_semana_12.fila_documentos")

    build = schema.build
    monkeypatch.setattr(schema, "build", without_documents)
    (result,) = one.run(stage).checks
    assert result.observed.holds is False
    assert "step b_asks of session B was to wait for A" in result.observed.why


@pytest.mark.parametrize(
    "statement",
    ["SELECT 1/0", "SET statement_timeout = '10ms'; SELECT count(*) FROM generate_series(1, 2000000000)"],
    ids=["error", "timeout"],
)
def test_an_experiment_that_fails_does_not_hold_and_the_next_is_run(stage: Stage, statement: str) -> None:
    two = made()

    @two.experiment("fails", "It fails.", "Falha.")
    def fails(stage: Stage) -> Observed:
        with stage.connection() as connection:
            connection.execute(statement.encode())
        return SEEN

    two.experiment("holds", "It holds.", "Vale.")(lambda stage: SEEN)
    first, second = two.run(stage).checks
    assert (first.observed.holds, str(first.observed.text)) == (False, "could not be observed")
    assert first.observed.why
    assert second.observed.holds is True


def test_a_lost_server_ends_the_run(module_database: str) -> None:
    one = made()

    @one.experiment("lost", "It is lost.", "Perdeu-se.")
    def lost(stage: Stage) -> Observed:
        stage.conninfo = "host=/nonexistent"
        raise LabError("psql could not connect")

    with pytest.raises(ServerError):
        one.run(Stage(module_database, superuser=True))


def test_a_connection_lost_while_the_server_lives_is_an_observation_that_failed(stage: Stage) -> None:
    one = made()

    @one.experiment("lost", "It is lost.", "Perdeu-se.")
    def lost(stage: Stage) -> Observed:
        with stage.connection() as connection:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return SEEN

    (result,) = one.run(stage).checks
    assert result.observed.holds is False


def test_what_cannot_be_run_here_is_no_failure_and_says_why(stage: Stage) -> None:
    one = made()

    @one.experiment("elsewhere", "Elsewhere.", "Noutro lugar.")
    def elsewhere(stage: Stage) -> Observed:
        raise CannotRunHere("no superuser")

    (result,) = one.run(stage).checks
    assert (result.observed.holds, result.observed.why) == (None, "no superuser")


def test_a_claim_that_could_not_be_run_here_is_neither_true_nor_false(stage: Stage) -> None:
    one = made()
    one.experiment("elsewhere", "Elsewhere.", "Noutro lugar.")(
        lambda stage: Observed(None, "not run", "não rodou", "no superuser")
    )
    (result,) = one.run(stage).checks
    assert (result.observed.holds, result.observed.why) == (None, "no superuser")


def test_an_observation_is_shown_in_the_readers_language_and_kept_in_english(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made()
    one.experiment("one", "One.", "Um.")(lambda stage: SEEN)
    result = one.run(stage)
    monkeypatch.setenv("LAB_LANG", "pt")
    assert str(result.checks[0].observed.text) == "visto"
    assert report.as_json([result], {}, "", 0.0)["lessons"][0]["claims"][0]["observed"] == "seen"


def test_progress_is_told_before_and_after_each_claim(stage: Stage) -> None:
    told: list[tuple[str, bool]] = []
    one = made()
    one.experiment("one", "One.", "Um.")(lambda stage: SEEN)

    def progress(claim: Check, result: CheckResult | None) -> None:
        told.append((claim.id, result is not None))

    one.run(stage, progress=progress)
    assert told == [("02.one", False), ("02.one", True)]


# Facts (each lesson's own test asks the same of every observation)


ROWS = {"rows": Fact(2, "rows")}


@pytest.mark.parametrize(
    ("observed", "faults"),
    [
        (Observed(True, "B got {rows} rows of document 1", "B recebeu {rows} linhas do documento 1", facts=ROWS), []),
        (SEEN, ["no facts"]),
        (Observed(True, "{rows} of {all}", "{rows}", facts=ROWS), ["en names all, which is no fact"]),
        (Observed(True, "{rows}", "duas", facts=ROWS), ["pt does not tell rows"]),
        (Observed(True, "{rows} of 4,000", "{rows}", facts=ROWS), ["en holds 4,000 in prose"]),
        (Observed(True, "{Rows}", "{Rows}", facts={"Rows": Fact(2, "rows")}), ["Rows is not in snake_case"]),
        (Observed(True, "{rows}", "{rows}", facts={"rows": Fact("2")}), ["rows is a number kept as text"]),
        (Observed(True, "{wait}", "{wait}", facts={"wait": Fact(2.5)}), ["wait is measured and has no unit"]),
        (Observed(True, "{sqlstate}", "{sqlstate}", facts={"sqlstate": Fact("23505")}), []),
    ],
)
def test_a_number_in_prose_and_a_fact_that_is_not_told_are_found(observed: Observed, faults: list[str]) -> None:
    assert prose_for_facts(observed) == faults


def test_a_fact_may_be_kept_for_other_readers_than_the_sentences(stage: Stage) -> None:
    kept = Observed(True, "seen", "visto", facts=ROWS)
    assert prose_for_facts(kept, frozenset({"rows"})) == []


# Choosing


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ([], [told.number for told in lessons()]),
        (["02"], ["02"]),
        (["2"], ["02"]),
        (["02_for_update_waits"], ["02"]),
        (["01-04"], ["01", "02", "03", "04"]),
        (["3-4", "01", "04"], ["03", "04", "01"]),
    ],
)
def test_lessons_are_chosen_by_number_name_and_range(wanted: list[str], numbers: list[str]) -> None:
    assert [each.lesson.number for each in choose(wanted)] == numbers


@pytest.mark.parametrize(
    ("word", "named"),
    [("06.truth_table", "06.truth_table"), ("03.passes", "03.passes"), ("03_passes", "03.passes")],
)
def test_a_check_is_chosen_by_its_id_or_by_its_scenarios_name(word: str, named: str) -> None:
    (chosen,) = choose([word])
    assert [check.id for check in chosen.checks] == [named]


def test_of_a_lesson_the_core_checks_are_chosen_or_all() -> None:
    (core,), (every,) = choose(["03"]), choose(["03"], surprises=True)
    assert all(check.core for check in core.checks)
    assert list(every.checks) == every.lesson.checks


@pytest.mark.parametrize("word", ["97", "0", "skip", "011", "4-2", "1-99", "-3", "2-", ""])
def test_a_lesson_that_is_not_here_is_refused_with_what_there_is(word: str) -> None:
    with pytest.raises(
        LabError, match=f"There is no lesson or check {word}; the lessons are 01_queue, 02_for_update_waits, "
    ):
        choose([word])


@pytest.mark.parametrize(
    ("word", "near"),
    [("02_for_update", "02_for_update_waits"), ("03_pases", "03_passes"), ("06.truthtable", "06.truth_table")],
)
def test_a_mistyped_name_gets_the_nearest_one(word: str, near: str) -> None:
    with pytest.raises(LabError, match=f"There is no {word}. Did you mean {near}\\?"):
        choose([word])


def test_a_scenario_that_is_not_here_is_refused() -> None:
    with pytest.raises(LabError, match="There is no scenario 02_nothing"):
        library.find_scenario("02_nothing")
    with pytest.raises(LabError, match="cannot be read"):
        made().scenario("nothing")


def test_the_judge_of_a_scenario_is_given_its_play(stage: Stage) -> None:
    given: list[Play] = []

    def judge(play: Play) -> Observed:
        given.append(play)
        return SEEN

    one = made()
    one.scenario("rollback")(judge)
    result = one.run(stage)
    assert given == [each.play for each in result.scenarios]
