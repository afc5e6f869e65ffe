"""One attempt at a document: its stages, its call, its outcome; and the attempt after one that died."""

from __future__ import annotations

import re
import textwrap

import psycopg
import pytest

from lab.base import paths
from lab.worker import worker
from lab.worker.client import Queue
from lab.worker.failures import InProgress, NotSent, Rejected, Unanswered
from lab.worker.handler import PostToReceiver
from lab.worker.worker import Options
from tests.helpers import execute, fetch
from tests.worker.pretended import CANARY, MINUTES, Pretended, Run, Said, document

# One attempt


def test_a_document_is_claimed_staged_called_confirmed_and_finished(queue_09: str, run: Run) -> None:
    ran = run(Pretended(), rounds=5)
    assert ran.names() == ["claimed", "stage", "called", "stage", "finished"]
    assert [event["stage"] for event in ran.of("stage")[:2]] == ["desconhecido", "obtido"]
    # A version stands where one was read or written, and nowhere an old one.
    assert [event.get("version") for event in ran.events if event.get("id") == 1] == [1, 2, None, 3, 4]
    assert [document(queue_09, number)[:2] for number in (1, 2, 3, 4)] == [("concluido", "obtido")] * 4
    assert fetch(
        queue_09, "SELECT array_agg(referencia_externa ORDER BY documento_id) FROM sql_semana_12.fila_documentos"
    ) == [(["R-1", "R-2", "R-3", "R-4"],)]


@pytest.mark.parametrize(
    ("error", "left", "names"),
    [
        (Rejected(422), ("falhou", "nao_chamado", "conteudo", 1), ["claimed", "stage", "stage", "failed"]),
        (NotSent("conexao", "x"), ("pendente", "nao_chamado", "conexao", 1), ["claimed", "stage", "stage", "failed"]),
        (Unanswered("sistemico", "x"), ("pendente", "desconhecido", "sistemico", 1), ["claimed", "stage", "failed"]),
        (Unanswered("conteudo", "x"), ("conciliacao", "desconhecido", "conteudo", 1), ["claimed", "stage", "failed"]),
        (RuntimeError(CANARY), ("pendente", "desconhecido", "sistemico", 1), ["claimed", "stage", "failed"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failed_call_leaves_what_is_known_of_it(
    queue_09: str, run: Run, error: Exception, left: tuple[object, ...], names: list[str]
) -> None:
    ran = run(Pretended(calls_raise=error))
    assert document(queue_09) == left
    assert ran.names() == names
    failed = ran.of("failed")[0]
    assert failed["category"] == left[2]
    assert ("next_attempt" in failed) == (left[0] == "pendente")
    assert CANARY not in ran.text + str(fetch(queue_09, "SELECT ultimo_erro FROM sql_semana_12.fila_documentos"))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (f"<nfe><valor>{CANARY}</valor></nfe>", "it has no value that is a number"),
        (f"<nfe>{CANARY}</nfe>", "it has no value that is a number"),
        ("<nfe><valor>NaN</valor></nfe>", "it has no value that is a number"),
        (f'<!DOCTYPE nfe [<!ENTITY e "{CANARY}">]><nfe><valor>&e;</valor></nfe>', "it has a DOCTYPE or entities"),
    ],
)
def test_a_broken_document_fails_for_good_before_any_call_and_is_quoted_nowhere(
    queue_09: str, run: Run, payload: str, reason: str
) -> None:
    execute(queue_09, "DELETE FROM sql_semana_12.fila_documentos")
    with psycopg.connect(queue_09, autocommit=True) as connection:
        # Written past enfileirar, which refuses a DOCTYPE: the worker does not rely on it.
        connection.execute("SELECT sql_semana_12.enfileirar('B-1', 'b.xml', '<nfe/>')")
        connection.execute("UPDATE sql_semana_12.fila_documentos SET conteudo_xml = xmlparse(DOCUMENT %s)", [payload])
    ran = run(PostToReceiver("http://127.0.0.1:1"))
    ((status, stage, error, category),) = fetch(
        queue_09, "SELECT status, etapa, ultimo_erro, categoria_erro FROM sql_semana_12.fila_documentos"
    )
    assert (status, stage, error, category) == ("falhou", "nao_chamado", reason, "conteudo")
    kept = fetch(queue_09, "SELECT * FROM sql_semana_12.auditoria")
    assert CANARY not in ran.text + str(kept)


def test_a_call_that_the_receiver_knew_is_said_to_be_one(queue_09: str, run: Run) -> None:
    ran = run(Pretended(known={"padrao/NFE-0002": "R-9"}), batch=2)
    assert [event.get("repeated", False) for event in ran.of("called")] == [False, True]


def test_a_stage_that_is_refused_is_followed_by_no_call(queue_09: str, run: Run) -> None:
    pretended = Pretended()

    def taken_over(payload: str) -> bytes:
        execute(queue_09, MINUTES)
        execute(queue_09, "SELECT sql_semana_12.recuperar('vigia')")
        return b""

    pretended.prepare = taken_over  # type: ignore[method-assign]
    assert run(pretended).names() == ["claimed", "refused"]
    assert pretended.called == []


@pytest.mark.parametrize(
    ("looks", "names"),
    [([True], ["claimed", "lost"]), ([False, True], ["claimed", "stage", "lost", "stage"])],
    ids=["before the stage", "after it"],
)
def test_what_the_heartbeat_has_lost_is_not_called_and_no_attempt_has_to_ask_for_it(
    queue_09: str, said: Said, looks: list[bool], names: list[str]
) -> None:
    pretended = Pretended()
    made = worker.make(queue_09, pretended, Options("worker-a", rounds=1, beat=0.0))
    found = iter(looks)
    made._heartbeat.lost = lambda claim: next(found)  # type: ignore[method-assign]
    made.run()
    assert (pretended.called, said().names()) == ([], names)
    assert document(queue_09)[:2] == ("processando", "nao_chamado")


def test_a_loss_does_not_undo_what_an_earlier_attempt_may_have_done(queue_09: str, said: Said) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    made = worker.make(queue_09, Pretended(), Options("worker-a", rounds=1, beat=0.0))
    found = iter([False, True])
    made._heartbeat.lost = lambda claim: next(found)  # type: ignore[method-assign]
    made.run()
    assert said().names()[-1] == "lost"
    assert document(queue_09)[:2] == ("processando", "desconhecido")


# A result that is known


def test_a_result_is_kept_although_the_stage_before_it_was_lost_with_its_server(queue_09: str, run: Run) -> None:
    back = "UPDATE sql_semana_12.fila_documentos SET etapa = 'nao_chamado', versao = 1 WHERE documento_id = 1"
    undone = f"{back}; DELETE FROM sql_semana_12.auditoria WHERE documento_id = 1 AND versao > 1"
    pretended = Pretended(before_calling=lambda: execute(queue_09, undone))
    run(pretended)
    assert document(queue_09)[:2] == ("concluido", "obtido")
    assert (len(pretended.called), reference(queue_09)) == (1, "R-1")


@pytest.mark.parametrize("state", ["22023", "55000", "23514", "22021"])
@pytest.mark.parametrize("stage", ["nao_chamado", "desconhecido"])
def test_what_refuses_a_result_is_never_the_documents_fault(queue_09: str, run: Run, state: str, stage: str) -> None:
    refuse = f"IF p_etapa = 'obtido' THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF;"
    name = "sql_semana_12.registrar_etapa(BIGINT, BIGINT, TEXT, TEXT, TEXT, INTERVAL, BOOLEAN)"
    ((good,),) = fetch(queue_09, f"SELECT pg_get_functiondef('{name}'::REGPROCEDURE)")

    def refused() -> None:
        execute(queue_09, str(good).replace("BEGIN\n", f"BEGIN\n{refuse}\n", 1))
        execute(queue_09, f"UPDATE sql_semana_12.fila_documentos SET etapa = '{stage}' WHERE documento_id = 1")

    pretended = Pretended(before_calling=refused)
    run(pretended)
    assert document(queue_09) == ("pendente", stage, "sistemico", 1)
    execute(queue_09, str(good))
    execute(queue_09, MINUTES)
    execute(queue_09, "DELETE FROM sql_semana_12.fila_documentos WHERE documento_id > 1")
    pretended.before_calling = lambda: None
    run(pretended)
    assert (document(queue_09)[0], reference(queue_09)) == ("concluido", "R-1")


@pytest.mark.parametrize("unfit", ["", " \u3000", "R" * 201, "a\0b", "R-1\n", "\x7f", "\ud800"])
@pytest.mark.parametrize("earlier", [False, True], ids=["called", "asked"])
def test_a_reference_that_the_queue_cannot_keep_is_a_result_for_people(
    queue_09: str, run: Run, unfit: str, earlier: bool
) -> None:
    if earlier:
        left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(known={"padrao/NFE-0001": unfit})
    ran = run(pretended)
    assert document(queue_09)[:2] == ("conciliacao", "desconhecido")
    assert ran.names()[-1] == "reconciliation"
    ((why,),) = fetch(queue_09, "SELECT ultimo_erro FROM sql_semana_12.fila_documentos WHERE documento_id = 1")
    assert f"({len(unfit)} characters)" in str(why)
    assert len(str(why)) < 150


def reference(conninfo: str) -> object:
    ((found,),) = fetch(conninfo, "SELECT referencia_externa FROM sql_semana_12.fila_documentos WHERE documento_id = 1")
    return found


# Taking over


def left_by_a_dead_worker(conninfo: str, *stages: tuple[str, str | None]) -> None:
    """Document 1 as a worker left it that died in the last of these stages; only it is in the queue."""
    execute(conninfo, "DELETE FROM sql_semana_12.fila_documentos WHERE documento_id > 1")
    queue = Queue(conninfo, "lab/dead")
    (claim,) = queue.claim("worker-dead", 1, 30, None)
    for stage, reference in stages:
        queue.record(claim, stage, reference, 30)
    queue.close()
    execute(conninfo, MINUTES)
    assert fetch(conninfo, "SELECT count(*) FROM sql_semana_12.recuperar('vigia')") == [(1,)]
    execute(conninfo, MINUTES)


def test_where_no_attempt_called_the_call_is_made(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09)
    pretended = Pretended()
    run(pretended)
    assert (pretended.asked, pretended.called) == ([], ["padrao/NFE-0001"])


def test_unknown_and_the_receiver_knows_it_is_finished_without_a_call(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(known={"padrao/NFE-0001": "R-77"})
    run(pretended)
    assert (pretended.asked, pretended.called) == (["padrao/NFE-0001"], [])
    assert document(queue_09)[:2] == ("concluido", "obtido")
    assert fetch(queue_09, "SELECT referencia_externa FROM sql_semana_12.fila_documentos") == [("R-77",)]


def test_unknown_and_the_receiver_does_not_know_it_is_called_under_the_same_key(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended()
    run(pretended)
    assert pretended.asked == pretended.called == ["padrao/NFE-0001"]
    assert document(queue_09)[0] == "concluido"


def test_unknown_and_the_receiver_cannot_be_asked_is_tried_later(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(asking_raises=Unanswered("sistemico", "HTTP 503"))
    ran = run(pretended, rounds=2, longest_pause=0.001)
    assert pretended.called == []
    assert document(queue_09) == ("pendente", "desconhecido", "sistemico", 2)
    assert len(ran.of("resting")) == 1


def test_unknown_irreversible_and_the_receiver_cannot_be_asked_is_for_people(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(asking_raises=Unanswered("sistemico", "HTTP 503"))
    ran = run(pretended, irreversible=True)
    assert pretended.called == []
    assert document(queue_09)[:2] == ("conciliacao", "desconhecido")
    assert ran.names() == ["claimed", "reconciliation"]


@pytest.mark.parametrize(
    ("receiver", "asked", "called", "status"),
    [
        ("both", 1, 1, "concluido"),
        ("query", 1, 1, "concluido"),
        ("keys", 0, 1, "concluido"),
        ("neither", 0, 0, "conciliacao"),
    ],
)
@pytest.mark.parametrize("irreversible", [False, True])
def test_unknown_is_found_out_as_the_receiver_can(
    queue_09: str, run: Run, receiver: str, asked: int, called: int, status: str, irreversible: bool
) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended()
    run(pretended, receiver=receiver, irreversible=irreversible)
    assert (len(pretended.asked), len(pretended.called), document(queue_09)[0]) == (asked, called, status)


@pytest.mark.parametrize("irreversible", [False, True])
def test_a_question_that_was_not_sent_is_asked_again(queue_09: str, run: Run, irreversible: bool) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    run(Pretended(asking_raises=NotSent("conexao", "x")), irreversible=irreversible)
    assert document(queue_09) == ("pendente", "desconhecido", "conexao", 2)


def test_a_call_that_is_in_progress_is_waited_for(queue_09: str, run: Run) -> None:
    ran = run(Pretended(calls_raise=InProgress()), receiver="keys")
    assert document(queue_09) == ("pendente", "desconhecido", "sistemico", 1)
    assert ran.of("resting") == []


@pytest.mark.parametrize("last", [(), (("confirmando", None),)], ids=["obtido", "confirmando"])
def test_a_result_that_was_obtained_is_finished_without_asking(
    queue_09: str, run: Run, last: tuple[tuple[str, None], ...]
) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None), ("obtido", "R-9"), *last)
    pretended = Pretended()
    ran = run(pretended)
    assert (pretended.asked, pretended.called) == ([], [])
    assert ran.names() == ["claimed", "finished"]
    assert document(queue_09)[0] == "concluido"


def test_not_sent_does_not_undo_what_an_earlier_attempt_may_have_done(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    run(Pretended(calls_raise=NotSent("conexao", "x")))
    assert document(queue_09)[:2] == ("pendente", "desconhecido")


@pytest.mark.parametrize("irreversible", [True, False])
def test_unknown_and_the_receiver_is_still_at_it_is_waited_for(queue_09: str, run: Run, irreversible: bool) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(asking_raises=InProgress())
    ran = run(pretended, irreversible=irreversible)
    assert ran.names() == ["claimed", "asked", "failed"] and ran.of("asked")[0]["in_progress"] is True
    assert (pretended.called, document(queue_09)[:3]) == ([], ("pendente", "desconhecido", "sistemico"))
    assert ran.of("resting") == []


@pytest.mark.parametrize("language", ["", "pt/"])
def test_after_a_restore_the_pages_statement_keeps_calls_from_being_made_twice(
    queue_09: str, run: Run, language: str
) -> None:
    """What was executed after the backup stands at nao_chamado again: without a word of doubt it would be called once more."""
    page = (paths.ROOT / f"docs/{language}restoring.md").read_text(encoding="utf-8")
    statements = [textwrap.dedent(block) for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)]
    assert len(statements) == 2
    execute(queue_09, "".join(statements))
    pretended = Pretended(known={f"padrao/NFE-000{number}": f"R-{number}" for number in (1, 2, 3)})
    run(pretended, rounds=4)
    assert (pretended.asked, pretended.called) == (
        [f"padrao/NFE-000{number}" for number in (1, 2, 3, 4)],
        ["padrao/NFE-0004"],
    )
    assert document(queue_09, 4)[:2] == ("concluido", "obtido")
