"""Lesson 04: its checks, on this server."""

from __future__ import annotations

from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.schema import build
from tests.helpers import check_lesson, mutated


def test_ids_that_are_not_locked_claim_a_document_that_was_cancelled_meanwhile(module_database: str) -> None:
    told = mutated(
        "04_locked_ids",
        ("    FOR UPDATE SKIP LOCKED\n    LIMIT 2\n)\nSELECT set_config", "    LIMIT 2\n)\nSELECT set_config"),
        ("@step c_cancels C blocks B", "@step c_cancels C"),
        (
            "-- @ends c_cancels\n-- C cancelled nothing: by now document 2 is in work.\n"
            "-- @pt C não cancelou nada: a essa altura, o documento 2 já está em processamento.\n",
            "",
        ),
    )
    build(module_database, told.state)
    played = play(told, module_database)
    assert played.failure is None
    assert played["c_cancels"].column("status") == ("falhou",)
    assert played["b_gives_back"].column("documento_id") == ("2", "3")


def test_every_check_of_lesson_04_passes(stage: Stage) -> None:
    check_lesson("04_claim_and_finish", stage)
