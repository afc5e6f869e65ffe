"""Lesson 09: the upgrade to stages, and its checks, on this server."""

from __future__ import annotations

import psycopg
import pytest

from lab.base import paths
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server import psql, schema
from tests.helpers import check_lesson, execute, fetch, mutated

# The upgrade


def test_an_attempt_from_before_the_stages_may_have_called(database: str) -> None:
    schema.build(database, 8)
    execute(
        database,
        "SET search_path = sql_semana_12; UPDATE fila_documentos SET max_tentativas = 1 WHERE documento_id = 2;"
        " SELECT reservar('worker-a'); SELECT reservar('worker-b'); SELECT reservar('worker-c');"
        " SELECT falhar(1, 1, 'sistemico', 'timeout during the call'); SELECT concluir(3, 3)",
    )
    psql.run_scripts(database, paths.SQL / "09_effects.sql")
    stages = "SELECT status, etapa FROM sql_semana_12.fila_documentos ORDER BY documento_id"
    assert fetch(database, stages) == [
        ("pendente", "desconhecido"),
        ("processando", "desconhecido"),
        ("concluido", "nao_chamado"),
        ("pendente", "nao_chamado"),
    ]
    execute(database, "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = '1 hour'")
    recovered = "SELECT documento_id, status FROM sql_semana_12.recuperar('vigia')"
    assert fetch(database, recovered) == [(2, "conciliacao")]
    execute(database, "UPDATE sql_semana_12.fila_documentos SET etapa = 'nao_chamado'")
    psql.run_scripts(database, paths.SQL / "09_effects.sql")
    assert {stage for _, stage in fetch(database, stages)} == {"nao_chamado"}, "a second run lost what was recorded"


def test_no_tenant_has_a_slash(database: str) -> None:
    schema.build(database, 9)
    with pytest.raises(psycopg.errors.CheckViolation, match="fila_documentos_inquilino_check"):
        execute(database, "UPDATE sql_semana_12.fila_documentos SET inquilino = 'a/b'")


# The scenarios


def test_with_one_order_of_locks_the_other_program_waits_at_its_first_lock(module_database: str) -> None:
    told = mutated(
        "09_lock_order",
        (
            "UPDATE saldos\nSET saldo = saldo + 10\nWHERE conta = 1\nRETURNING saldo;\n-- @step b_begin B",
            "SELECT documento_id FROM concluir(1, 1);\n-- @step b_begin B",
        ),
    )
    schema.build(module_database, told.state)
    assert "b_locks" in (play(told, module_database).failure or "")


def test_after_a_deadlock_only_the_token_of_the_claim_finishes(module_database: str) -> None:
    again = "a_finishes_again A\n-- Does the token of the claim still hold?\n-- @pt O token da reserva ainda vale?\n"
    statement = "SELECT documento_id, status\nFROM concluir(1, %d);"
    told = mutated("09_lock_order", (again + statement % 1, again + statement % 2))
    schema.build(module_database, told.state)
    assert play(told, module_database)["a_finishes_again"].rows == ()


def test_every_check_of_lesson_09_passes(stage: Stage) -> None:
    check_lesson("09_effects", stage)
