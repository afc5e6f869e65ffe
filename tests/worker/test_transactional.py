"""Work inside the database: it commits with its finish, or not at all."""

from __future__ import annotations

import psycopg
import pytest

from lab.worker.client import Claim, Queue
from lab.worker.transactional import NOT_OURS, finish_together
from tests.helpers import execute, fetch
from tests.worker.pretended import CANARY, MINUTES, claimed, document


def _book(connection: psycopg.Connection, key: str) -> None:
    connection.execute("INSERT INTO sql_semana_12.lancamentos VALUES (%s)", [key])


def test_work_inside_the_database_goes_back_with_a_finish_that_is_refused(queue_09: str) -> None:
    execute(queue_09, "CREATE TABLE sql_semana_12.lancamentos (chave TEXT)")
    queue, claim = claimed(queue_09)
    execute(queue_09, MINUTES)
    execute(queue_09, "SELECT sql_semana_12.recuperar('vigia')")
    finish_together(queue, [claim], lambda connection, each: _book(connection, each.key), savepoints=True)
    queue.close()
    assert fetch(queue_09, "SELECT count(*) FROM sql_semana_12.lancamentos") == [(0,)]
    assert document(queue_09)[0] == "pendente"


@pytest.mark.parametrize("savepoints", [True, False])
def test_work_inside_the_database_may_raise_what_it_likes(queue_09: str, savepoints: bool) -> None:
    execute(queue_09, "CREATE TABLE sql_semana_12.lancamentos (chave TEXT)")
    queue = Queue(queue_09, "lab/test")

    def book(connection: psycopg.Connection, each: Claim) -> None:
        _book(connection, each.key)
        if each.document == 3:
            raise ValueError(CANARY)

    finish_together(queue, queue.claim("worker-a", 4, 30, None), book, savepoints=savepoints)
    queue.close()
    failed, kept = ("pendente", "nao_chamado", "sistemico", 1), ("concluido", "nao_chamado", None, 1)
    assert [document(queue_09, number) for number in (1, 2, 3, 4)] == [
        failed if number == 3 or not savepoints else kept for number in (1, 2, 3, 4)
    ]
    assert fetch(queue_09, "SELECT count(*) FROM sql_semana_12.lancamentos") == [(3 if savepoints else 0,)]
    assert fetch(
        queue_09, "SELECT DISTINCT ultimo_erro FROM sql_semana_12.fila_documentos WHERE status = 'pendente'"
    ) == [("ValueError",)]


def test_without_savepoints_a_document_that_is_lost_takes_the_batch_back_and_is_named(queue_09: str) -> None:
    queue = Queue(queue_09, "lab/test")
    claims = queue.claim("worker-a", 2, 30, None)
    assert queue.finish(claims[1], None)
    finish_together(queue, claims, lambda connection, each: None, savepoints=False)
    queue.close()
    assert [document(queue_09, number)[0] for number in (1, 2)] == ["pendente", "concluido"]
    assert fetch(queue_09, "SELECT ultimo_erro FROM sql_semana_12.fila_documentos WHERE documento_id = 1") == [
        (NOT_OURS.reason,)
    ]
