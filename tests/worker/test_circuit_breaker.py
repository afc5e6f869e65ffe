"""The receiver is away: the worker rests, tries with one document, and no document loses an attempt by it."""

from __future__ import annotations

import threading
import time

import pytest

from lab.worker import circuit_breaker, worker
from lab.worker.circuit_breaker import CircuitBreaker
from lab.worker.event_log import EventLog
from lab.worker.failures import NotSent, Rejected, Unanswered
from lab.worker.handler import PostToReceiver
from lab.worker.worker import Options
from tests.helpers import execute, fetch
from tests.worker.pretended import MINUTES, Pretended, Run, Said, document


def test_an_outage_of_the_receiver_costs_no_document_its_attempts(queue_09: str, run: Run) -> None:
    gone = NotSent("conexao", "x")
    pretended = Pretended(calls_raise=gone, asking_raises=gone)
    asked = pretended.ask

    def ask(key: str) -> str | None:
        execute(queue_09, MINUTES)  # every document that was put off is due again
        if len(pretended.asked) == 40:
            pretended.calls_raise = pretended.asking_raises = None
        return asked(key)

    pretended.ask = ask  # type: ignore[method-assign]
    ran = run(pretended, rounds=30, longest_pause=0.001)
    assert len(ran.of("resting")) == 41
    assert fetch(
        queue_09,
        "SELECT count(*) FILTER (WHERE status = 'falhou'), count(*) FILTER (WHERE status = 'concluido'), sum(tentativas)"
        " FROM sql_semana_12.fila_documentos",
    ) == [(0, 4, 5)]


def test_a_receiver_that_does_not_answer_is_tried_with_one_document_a_pause(queue_09: str, run: Run) -> None:
    for number in range(12):
        execute(queue_09, f"SELECT sql_semana_12.enfileirar('S-{number}', 's.xml', '<nfe/>')")
    pretended = Pretended(
        calls_raise=Unanswered("sistemico", "HTTP 404"), asking_raises=Unanswered("sistemico", "HTTP 404")
    )

    def comes_to_itself() -> None:
        if len(pretended.called) == 6:
            pretended.calls_raise = None

    pretended.before_calling = comes_to_itself
    ran = run(pretended, rounds=5, batch=4, longest_pause=0.001)
    assert len(ran.of("resting")) == 2
    sizes = "SELECT count(*) FROM sql_semana_12.auditoria WHERE por_que = 'reserva' GROUP BY quando ORDER BY quando"
    assert fetch(queue_09, sizes) == [(4,), (1,), (1,), (4,), (4,)]


def test_what_is_done_is_finished_before_a_pause(queue_09: str, run: Run) -> None:
    seen: list[object] = []
    pretended = Pretended()

    def goes_away() -> None:
        if len(pretended.called) == 2:
            pretended.calls_raise = NotSent("conexao", "x")

    def ask(key: str) -> str | None:
        seen.append(document(queue_09)[0])
        return None

    pretended.before_calling, pretended.ask = goes_away, ask  # type: ignore[method-assign]
    run(pretended, batch=2, rounds=2, longest_pause=0.001)
    assert seen == ["concluido"]


def test_a_rejection_is_an_answer(queue_09: str, run: Run) -> None:
    pretended = Pretended(calls_raise=NotSent("conexao", "x"))

    def comes_back() -> None:
        if len(pretended.called) == 4:
            pretended.calls_raise = Rejected(422)

    pretended.before_calling = comes_back
    assert run(pretended, batch=4, rounds=2).of("resting") == []


def test_a_document_that_is_the_matter_opens_no_circuit_breaker(queue_09: str, run: Run) -> None:
    assert run(Pretended(calls_raise=Unanswered("conteudo", "HTTP 409")), rounds=5).of("resting") == []
    assert document(queue_09, 4)[0] == "conciliacao"


def test_a_rest_grows_up_to_its_longest_and_an_answer_ends_it(said: Said) -> None:
    gone = NotSent("conexao", "x")
    stopping = threading.Event()
    pretended = Pretended(asking_raises=gone)
    log = EventLog("worker-a")
    breaker = CircuitBreaker(pretended, 2.0, log)
    stopping.wait = lambda seconds: len(pretended.asked) == 4  # type: ignore[assignment, method-assign, misc]
    breaker.unanswered("k", gone)
    breaker.wait(stopping)
    log.close()
    seconds = [event["seconds"] for event in said().of("resting")]
    assert all(most / 2 <= each <= most for each, most in zip(seconds, (0.5, 1, 2, 2, 2), strict=True))
    assert (breaker.is_open, breaker.is_half_open) == (False, True)
    breaker.answered()
    assert not breaker.is_half_open


def test_a_rest_ends_at_once_when_the_worker_is_asked_to_stop(queue_09: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_breaker, "FIRST_PAUSE", 60.0)
    gone = NotSent("conexao", "x")
    made = worker.make(queue_09, Pretended(calls_raise=gone, asking_raises=gone), Options("worker-a", beat=0.0))
    asked = threading.Timer(1, made.stop)
    asked.start()
    started = time.monotonic()
    made.run()
    assert time.monotonic() - started < 20
    asked.join()


def test_the_operator_is_told_once_that_no_receiver_answers(queue_09: str, capsys: pytest.CaptureFixture[str]) -> None:
    execute(queue_09, "UPDATE sql_semana_12.fila_documentos SET conteudo_xml = '<nfe><valor>1</valor></nfe>'")
    worker.make(queue_09, PostToReceiver("http://127.0.0.1:1"), Options("worker-a", rounds=1, batch=4, beat=0.0)).run()
    told = capsys.readouterr().err
    assert told == (
        "No receiver answers at http://127.0.0.1:1; the documents are put off, none is lost. Start one: ./lab receiver\n"
    )
