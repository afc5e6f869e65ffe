"""Every interleaving: what can be played, what comes of it, and isolationtester's word on both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import ScenarioError
from lab.scenario import explore as explorer
from lab.scenario import grammar, library, transcript
from lab.scenario import isolationtester as lab_isolationtester
from lab.scenario.explore import Explored, explore
from lab.scenario.grammar import Scenario
from lab.scenario.player import play
from lab.server import schema
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.helpers import fetch, mutated, parsed
from tests.scenario.test_isolationtester import isolationtester  # noqa: F401

TAKEN_TWICE = "-- @invariant taken_twice\nSELECT documento_id FROM fila_documentos WHERE tentativas > 1;\n"

# SELECT, COMMIT, then UPDATE of what was chosen: the naive claim.
NAIVE = (
    "".join(
        f"-- @step {s}_chooses {s.upper()}\n"
        "SELECT set_config('lab.chosen', min(documento_id)::text, FALSE) FROM fila_documentos WHERE status = 'pendente';\n"
        f"-- @step {s}_marks {s.upper()}\n"
        "UPDATE fila_documentos SET status = 'processando', tentativas = tentativas + 1"
        " WHERE documento_id = current_setting('lab.chosen')::bigint RETURNING documento_id;\n"
        for s in "ab"
    )
    + TAKEN_TWICE
)

# A holds the row until it commits; B asks for it and has one more step to go.
WAITS = (
    "-- @step a_begin A\nBEGIN;\n-- @step a_takes A\nUPDATE fila_documentos SET tentativas = tentativas + 1 WHERE documento_id = 1;\n"
    "-- @step a_ends A\nCOMMIT;\n"
    "-- @step b_takes B\nUPDATE fila_documentos SET tentativas = tentativas + 1 WHERE documento_id = 1;\n"
    "-- @step b_more B\nSELECT tentativas FROM fila_documentos WHERE documento_id = 1;\n"
)

OPPOSITE = "".join(
    f"-- @step {s}_begin {s.upper()}\nBEGIN;\n"
    f"-- @step {s}_one {s.upper()}\nUPDATE fila_documentos SET tentativas = 1 WHERE documento_id = {one};\n"
    f"-- @step {s}_two {s.upper()}\nUPDATE fila_documentos SET tentativas = 1 WHERE documento_id = {two};\n"
    f"-- @step {s}_ends {s.upper()}\nROLLBACK;\n"
    for s, one, two in (("a", 1, 2), ("b", 2, 1))
)


def two_steps() -> Scenario:
    """A recovery that selects first and updates by id afterwards, against a finish."""
    return parsed(
        "-- @builds_on 06_token\n-- @setup\nSELECT reservar('worker-a');\n"
        "UPDATE relogio_do_laboratorio SET adiantado = INTERVAL '1 minute';\n"
        "-- @step c_selects C\nSELECT set_config('lab.late', coalesce(min(documento_id), 0)::text, FALSE) FROM fila_documentos"
        " WHERE status = 'processando' AND reservado_ate < relogio();\n"
        "-- @step c_updates C\nUPDATE fila_documentos SET status = 'pendente', worker_id = NULL, reservado_ate = NULL"
        " WHERE documento_id = current_setting('lab.late')::bigint;\n"
        "-- @step a_finishes A\nSELECT documento_id FROM concluir(1, 1);\n"
        "-- @invariant stays\nSELECT 1 FROM fila_documentos WHERE status <> 'concluido'"
        " AND documento_id IN (SELECT a.documento_id FROM auditoria AS a WHERE a.para = 'concluido');\n"
    )


def sequence(explored: Explored) -> set[str]:
    return {" ".join(step.name for step in order.play.scenario.steps) for order in explored.possible}


def test_the_naive_claim_duplicates_in_every_order_in_which_both_choose_before_one_marks(database: str) -> None:
    explored = explore(parsed(NAIVE), database)
    assert (explored.total, len(explored.possible), explored.impossible) == (6, 6, [])
    breaking = explored.breaking("taken_twice")
    assert len(breaking) == 4  # the two that do not: one worker after the other
    assert sequence(explored) - {" ".join(step.name for step in order.play.scenario.steps) for order in breaking} == {
        "a_chooses a_marks b_chooses b_marks",
        "b_chooses b_marks a_chooses a_marks",
    }


def test_no_order_of_the_one_statement_claim_takes_a_document_twice(database: str) -> None:
    explored = explore(library.find_scenario("04_claim"), database)
    assert (explored.total, len(explored.possible), explored.breaking("um_worker_por_documento")) == (126, 126, [])
    # Both claimed in each of them, else nothing was shown.
    assert {(len(order.play["a_claims"].rows), len(order.play["b_claims"].rows)) for order in explored.possible} == {
        (1, 1)
    }


def test_that_claim_without_its_skip_and_recheck_takes_one_twice(database: str) -> None:
    """The defence taken out: a choice without a lock."""
    explored = explore(library.find_scenario("04_subselect_without_lock"), database)
    assert len(explored.breaking("um_worker_por_documento")) == 1


def test_an_order_in_which_a_session_that_waits_would_go_on_is_impossible(database: str) -> None:
    explored = explore(parsed(WAITS), database)
    assert explored.total == 10
    impossible = {" ".join(step.name for step in steps) for steps in explored.impossible}
    # B's update falls between A's and A's commit, and B's next step too.
    assert impossible == {"a_begin a_takes b_takes b_more a_ends"}
    assert sequence(explored) & impossible == set()


def test_a_deadlock_is_an_outcome_and_no_impossible_order(database: str) -> None:
    explored = explore(parsed(OPPOSITE), database)
    states = {value for order in explored.possible for _, value in order.outcome}
    assert "40P01" in states
    assert len(explored.possible) + len(explored.impossible) == explored.total == 70


def test_rows_and_sequences_are_the_same_before_each_order(database: str) -> None:
    body = (
        "-- @step a_adds A\nINSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
        " VALUES ('K', 'k.xml', '<nfe/>') RETURNING documento_id;\n-- @step b_counts B\nSELECT count(*) FROM fila_documentos;\n"
    )
    explored = explore(parsed(body), database)
    assert [order.play["a_adds"].value for order in explored.possible] == ["5", "5"]
    assert [order.play["b_counts"].value for order in explored.possible] == ["5", "4"]
    assert fetch(database, "SELECT to_regnamespace('lab_kept')") == [(None,)]


def test_it_is_built_anew_only_where_a_step_changed_the_schema(database: str) -> None:
    assert explore(parsed(NAIVE), database).rebuilt == 0
    body = "-- @step a_adds A\nALTER TABLE fila_documentos ADD COLUMN nova INTEGER;\n-- @step b_looks B\nSELECT 1 FROM fila_documentos;\n"
    explored = explore(parsed(body), database)
    assert explored.rebuilt == 1
    assert {order.play["a_adds"].outcome for order in explored.possible} == {"done"}


def test_settings_and_session_locks_do_not_reach_the_next_order(database: str) -> None:
    body = (
        "-- @step a_looks A\nSELECT current_setting('lock_timeout');\n-- @step a_sets A\nSET lock_timeout = '7s';\n"
        "-- @step a_locks A\nSELECT pg_advisory_lock(1);\n-- @step b_tries B\nSELECT pg_try_advisory_lock(1);\n"
    )
    explored = explore(parsed(body), database)
    assert {order.play["a_looks"].value for order in explored.possible} == {"0"}
    assert sorted(str(order.play["b_tries"].value) for order in explored.possible) == ["f", "t", "t", "t"]


def test_beyond_the_bound_a_sample_is_tried_and_said(database: str) -> None:
    explored = explore(library.find_scenario("04_claim"), database, most=10, seed=5)
    assert (explored.tried, explored.sampled) == (10, True)
    assert "10 of 126 orders tried, a random sample (seed 5)" in explorer.report(explored)


def test_an_invariant_that_cannot_be_asked_is_named_with_its_line(database: str) -> None:
    told = parsed("-- @step a_asks A\nSELECT 1;\n-- @invariant none\nSELECT 1 FROM nada;\n")
    with pytest.raises(ScenarioError, match=r"line \d+: the query of invariant none failed with 42P01"):
        explore(told, database)


def test_no_order_of_recovery_and_finish_reopens_a_finished_document(database: str) -> None:
    explored = explore(library.find_scenario("06_not_taken_over"), database)
    assert (explored.total, len(explored.possible)) == (84, 84)
    assert explored.breaking("concluido_fica_concluido") == []
    finished = {len(order.play["a_finishes"].rows) for order in explored.possible}
    assert finished == {0, 1}, "in some orders the recovery came first, in others the finish"


def test_a_recovery_in_two_steps_reopens_one_where_the_finish_falls_between_them(database: str) -> None:
    explored = explore(two_steps(), database)
    assert len(explored.breaking("stays")) == 1
    (breaking,) = explored.breaking("stays")
    assert [step.name for step in breaking.play.scenario.steps] == ["c_selects", "a_finishes", "c_updates"]


@pytest.mark.parametrize("told", [library.find_scenario("04_subselect_without_lock"), two_steps(), parsed(NAIVE)])
def test_a_written_counterexample_replays(told: Scenario, database: str, tmp_path: Path) -> None:
    explored = explore(told, database)
    (file,) = explorer.write(explored, tmp_path)
    replayed = grammar.read(file)
    schema.build(database, replayed.state)
    played = play(replayed, database)
    assert played.failure is None
    assert played["invariant"].rows, "the last step shows what is broken"


@pytest.mark.parametrize(
    ("name", "most"),
    [("04_claim", 20), ("04_subselect_without_lock", 10), ("06_not_taken_over", 20), ("04_stranger_lock", 20)],
)
def test_isolationtester_plays_the_possible_orders_with_the_same_outcomes(
    name: str,
    most: int,
    database: str,
    server: Target,
    isolationtester: Path,  # noqa: F811
) -> None:
    if not server.superuser:
        pytest.skip("only a superuser may ask for the server's messages in English")
    explored = explore(library.find_scenario(name), database, most=most, pins=SessionPins(english=True))
    assert explored.possible
    for order in explored.possible:
        told = explorer.as_seen(order)
        schema.build(database, told.state)
        said = lab_isolationtester.judge(told, database, isolationtester)
        assert said == transcript.referee(order.play)


def test_isolationtester_does_not_get_through_an_impossible_order(
    database: str,
    isolationtester: Path,  # noqa: F811
) -> None:
    told = parsed(WAITS)
    explored = explore(told, database)
    for steps in explored.impossible:
        schema.build(database, told.state)
        said = lab_isolationtester.judge(replace(told, actions=steps), database, isolationtester, 1)
        assert "isolationtester: canceling step b_takes" in said


def test_a_misspelt_invariant_is_refused() -> None:
    with pytest.raises(ScenarioError, match="one query"):
        mutated("04_claim", ("WHERE tentativas > 1;", "WHERE tentativas > 1; SELECT 1;"))
