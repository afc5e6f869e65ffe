"""Lesson 09: the upgrade to stages, and its checks, on this server."""

from __future__ import annotations

import psycopg
import pytest

from lab.base import paths
from lab.scenario.stage import Stage
from lab.server import psql, schema
from tests.helpers import check_lesson, execute, fetch

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


def test_every_check_of_lesson_09_passes(stage: Stage) -> None:
    check_lesson("09_effects", stage)
