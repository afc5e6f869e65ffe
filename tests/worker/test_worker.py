"""The worker: what it does when its work, the receiver, the database or another worker does not do what it should."""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from defusedxml.ElementTree import ParseError, fromstring

from lab.base.errors import LabError
from lab.drills.harness import Harness, open_harness
from lab.drills.process import Child
from lab.server import schema
from lab.worker import circuit_breaker, client, worker
from lab.worker.circuit_breaker import CircuitBreaker
from lab.worker.client import Claim, Queue
from lab.worker.event_log import EventLog
from lab.worker.failures import BadDocument, InProgress, NotSent, Rejected, Unanswered, classify, of_status
from lab.worker.handler import Answer, PostToReceiver
from lab.worker.heartbeat import Heartbeat
from lab.worker.transactional import NOT_OURS, finish_together
from lab.worker.worker import Options
from tests.helpers import execute, fetch, terminate

STATE = 9
CANARY = "CANARIO-4711"
NOWHERE = "host=127.0.0.1 port=1 dbname=x user=x"
MINUTES = "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '10 minutes'"


@pytest.fixture
def queue_09(database: str) -> str:
    """The conninfo of a database with the queue in state 09."""
    schema.build(database, STATE)
    return database


@pytest.fixture
def harness(queue_09: str) -> Iterator[Harness]:
    with open_harness(queue_09) as found:
        yield found


@dataclass
class Pretended:
    """Work without a receiver: what is called and asked is noted, and may go wrong."""

    known: dict[str, str] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    calls_raise: Exception | None = None
    asking_raises: Exception | None = None
    before_calling: Callable[[], None] = lambda: None
    outside: bool = True

    def prepare(self, payload: str) -> bytes:
        fromstring(payload, forbid_dtd=True)
        return payload.encode()

    def call(self, key: str, content: bytes) -> Answer:
        self.called.append(key)
        self.before_calling()
        if self.calls_raise:
            raise self.calls_raise
        repeated = key in self.known
        return Answer(self.known.setdefault(key, f"R-{len(self.known) + 1}"), repeated)

    def ask(self, key: str) -> str | None:
        self.asked.append(key)
        if self.asking_raises:
            raise self.asking_raises
        return self.known.get(key)


@dataclass
class Ran:
    """What a worker has said."""

    events: list[dict[str, Any]]
    text: str

    def names(self, document: int = 1) -> list[str]:
        return [event["event"] for event in self.events if event.get("id") == document]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]


Run = Callable[..., Ran]


Said = Callable[[], Ran]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What was said in this process since it was asked last."""

    def read() -> Ran:
        text = capsys.readouterr().out
        return Ran([json.loads(line) for line in text.splitlines()], text)

    return read


@pytest.fixture
def run(queue_09: str, said: Said) -> Run:
    """Runs a worker for some rounds in this process."""

    def work(pretended: Any, conninfo: str = queue_09, **options: Any) -> Ran:
        wanted = Options("worker-a", **{"rounds": 1, "poll": 0.01, "beat": 0.0} | options)
        worker.make(conninfo, pretended, wanted).run()
        return said()

    return work


def document(conninfo: str, number: int = 1) -> tuple[object, ...]:
    (row,) = fetch(
        conninfo,
        "SELECT status, etapa, categoria_erro, tentativas FROM sql_semana_12.fila_documentos WHERE documento_id = %s",
        number,
    )
    return row


def left_by_a_dead_worker(conninfo: str, *stages: tuple[str, str | None]) -> None:
    """Document 1 as a worker left it that died in the last of these stages; only it is in the queue."""
    execute(conninfo, "DELETE FROM sql_semana_12.fila_documentos WHERE documento_id > 1")
    queue = Queue(conninfo, "lab/dead")
    (claim,) = queue.claim("worker-dead", 1, 30, None)
    for stage, reference in stages:
        queue.record(claim, stage, reference)
    queue.close()
    execute(conninfo, MINUTES)
    assert fetch(conninfo, "SELECT count(*) FROM sql_semana_12.recuperar('vigia')") == [(1,)]
    execute(conninfo, MINUTES)


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


def test_a_batch_is_worked_on_one_by_one(queue_09: str, run: Run) -> None:
    pretended = Pretended()
    ran = run(pretended, batch=10)
    assert pretended.called == [f"padrao/NFE-000{number}" for number in (1, 2, 3, 4)]
    assert len(ran.of("finished")) == 4


def test_a_worker_of_one_tenant_leaves_the_others_alone(queue_09: str, run: Run) -> None:
    execute(queue_09, "SELECT sql_semana_12.enfileirar('A-1', 'a.xml', '<nfe/>', 'outro')")
    pretended = Pretended()
    run(pretended, tenant="outro", batch=10)
    assert pretended.called == ["outro/A-1"]


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


# Taking over


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


@pytest.mark.parametrize("irreversible", [True, False])
def test_unknown_and_the_receiver_is_still_at_it_is_waited_for(queue_09: str, run: Run, irreversible: bool) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(asking_raises=InProgress())
    ran = run(pretended, irreversible=irreversible)
    assert ran.names() == ["claimed", "asked", "failed"] and ran.of("asked")[0]["in_progress"] is True
    assert (pretended.called, document(queue_09)[:3]) == ([], ("pendente", "desconhecido", "sistemico"))
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


# Finishing together with the next claim


def taken_away(conninfo: str, number: int) -> None:
    """Its lease ends, and it is recovered."""
    late = "UPDATE sql_semana_12.fila_documentos SET reservado_ate = '2000-01-01' WHERE documento_id = "
    execute(conninfo, f"{late}{number}; SELECT sql_semana_12.recuperar('vigia')")


@dataclass
class Pure(Pretended):
    """Work without a call, and what happens while it works on its last document."""

    outside: bool = False
    last: str = "NFE-0004"
    meanwhile: Callable[[], None] = lambda: None

    def prepare(self, payload: str) -> bytes:
        if self.last in payload:
            self.meanwhile()
        return super().prepare(payload)


def test_work_without_a_call_is_finished_without_stages(queue_09: str, run: Run) -> None:
    pure = Pure()
    ran = run(pure, batch=3, rounds=2)
    assert (pure.called, pure.asked) == ([], [])
    assert [ran.names(number) for number in (1, 2, 3, 4)] == [["claimed", "finished"]] * 4
    assert {document(queue_09, number)[:2] for number in (1, 2, 3, 4)} == {("concluido", "nao_chamado")}


@pytest.mark.parametrize(("batch", "transactions"), [(1, 5), (2, 3), (4, 2)])
def test_a_finish_and_the_next_claim_are_one_transaction(
    queue_09: str, run: Run, batch: int, transactions: int
) -> None:
    run(Pure(), batch=batch, rounds=None, until_empty=True)
    # Row versions of one transaction have the same xmin.
    assert fetch(queue_09, "SELECT count(DISTINCT xmin::TEXT) FROM sql_semana_12.auditoria") == [(transactions,)]
    together = (
        "SELECT count(*) FROM sql_semana_12.auditoria AS a INNER JOIN sql_semana_12.auditoria AS b ON a.xmin::TEXT = b.xmin::TEXT"
        " WHERE a.para = 'concluido' AND b.de = 'pendente' AND b.auditoria_id < a.auditoria_id"
    )
    assert fetch(queue_09, together) == [(0,)], "the finish comes first"


def test_a_finish_and_a_claim_answer_each_for_itself(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    versions, claims = queue.finish_and_claim([(claim, "R-1")], "worker-a", 2, 30, None)
    assert (versions, [each.document for each in claims]) == ([2], [2, 3])
    assert queue.finish_all([(claims[1], None), (claim, None), (claims[0], "R-2")]) == [2, None, 2]
    queue.close()


def test_a_late_document_in_a_batch_changes_nothing_and_holds_back_no_other(queue_09: str, run: Run) -> None:
    ran = run(Pure(meanwhile=lambda: taken_away(queue_09, 2)), batch=4)
    assert ran.names(2) == ["claimed", "refused"]
    assert ran.of("refused")[0]["wanted"] == "finished"
    assert sorted(event["id"] for event in ran.of("finished")) == [1, 3, 4]
    assert {event["version"] for event in ran.of("finished")} == {2}
    assert document(queue_09, 2)[0] == "pendente"


@pytest.mark.parametrize("error", [LabError, None])
def test_a_claim_that_fails_loses_no_finish(queue_09: str, run: Run, error: type[LabError] | None) -> None:
    # Refused for good, or for a while.
    body = "RAISE EXCEPTION 'not now' USING ERRCODE = '%s'" % ("22023" if error else "53000")

    def no_more_claims() -> None:
        name = "sql_semana_12.reservar(TEXT, INTEGER, INTERVAL, TEXT)"
        ((text,),) = fetch(queue_09, f"SELECT pg_get_functiondef('{name}'::REGPROCEDURE)")
        execute(queue_09, str(text).replace("BEGIN\n", f"BEGIN\n{body};\n", 1))

    pure = Pure(last="NFE-0002", meanwhile=no_more_claims)
    if error:
        with pytest.raises(error):
            run(pure, batch=2, rounds=3)
    else:
        ran = run(pure, batch=2, rounds=2)
        assert [event["event"] for event in ran.events[-4:]] == ["finished", "finished", "error", "stopped"]
    assert [document(queue_09, number)[0] for number in (1, 2, 3)] == ["concluido", "concluido", "pendente"]


def test_a_finish_that_is_refused_is_not_taken_for_the_claim(queue_09: str, run: Run) -> None:
    refusing(queue_09, "22023", what=FINISHES)
    ran = run(Pure(), batch=2, rounds=4)
    assert [event["sqlstate"] for event in ran.of("error")] == ["22023"] * 2
    assert {document(queue_09, number)[0] for number in (1, 2, 3, 4)} == {"concluido"}


def test_a_document_that_cannot_be_finished_holds_back_no_other(
    queue_09: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOCK_TIMEOUT", 0.05)
    with psycopg.connect(queue_09) as stranger:

        def lock() -> None:
            stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 2 FOR UPDATE")

        ran = run(Pure(meanwhile=lock), batch=4)
    assert sorted(event["id"] for event in ran.of("finished")) == [1, 3, 4]
    assert [(event["id"], event["sqlstate"]) for event in ran.of("unwritten")] == [(2, "55P03")]


def test_a_batch_whose_connection_is_lost_is_sent_again(queue_09: str, run: Run) -> None:
    ran = run(Pure(meanwhile=lambda: terminate(queue_09, "lab/worker-a")), batch=4, rounds=2)
    assert len(ran.of("finished")) == 4
    assert len(ran.of("database_lost")) == 1


def test_a_document_is_held_until_it_is_finished(queue_09: str, capsys: pytest.CaptureFixture[str]) -> None:
    held: list[int] = []
    pure = Pure()
    made = worker.make(queue_09, pure, Options("worker-a", batch=4, rounds=1, beat=0.0))
    pure.meanwhile = lambda: held.extend(claim.document for claim in made._heartbeat.held())
    made.run()
    assert sorted(held) == [1, 2, 3, 4]
    assert made._heartbeat.held() == []


@pytest.mark.parametrize("batch", [[1, 2], [2, 1]])
def test_a_batch_is_locked_in_the_order_of_its_keys_whatever_its_own(queue_09: str, batch: list[int]) -> None:
    # So that the plan meets the rows in the order of the batch, unless they are put in that of their keys.
    execute(
        queue_09,
        "SELECT sql_semana_12.enfileirar('K' || n, 'k.xml', '<nfe/>') FROM generate_series(1, 2000) AS n;"
        " DROP INDEX sql_semana_12.fila_documentos_processando_idx; ANALYZE sql_semana_12.fila_documentos",
    )
    queue = Queue(queue_09, "lab/test")
    claims = {claim.document: claim for claim in queue.claim("worker-a", 2, 30, None)}
    done = [(claims[number], None) for number in batch]
    answers: list[list[int | None]] = []
    with psycopg.connect(queue_09) as stranger, psycopg.connect(queue_09, autocommit=True) as watch:
        stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")
        finishing = threading.Thread(target=lambda: answers.append(queue.finish_all(done)))
        finishing.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while watch.execute(waits, [stranger.info.backend_pid]).fetchone() != (1,):
            assert finishing.is_alive()
        # It waits for the first, and holds nothing that the session with the first could wait for.
        watch.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 2 FOR UPDATE NOWAIT")
        stranger.rollback()
        finishing.join()
    queue.close()
    assert answers == [[2, 2]]


# Losing a document


def test_a_superseded_worker_writes_nothing_and_says_so(queue_09: str, run: Run) -> None:
    def taken_over() -> None:
        execute(queue_09, MINUTES)
        execute(queue_09, "SELECT sql_semana_12.recuperar('vigia')")

    ran = run(Pretended(before_calling=taken_over))
    assert ran.names() == ["claimed", "stage", "called", "refused"]
    assert document(queue_09)[:2] == ("pendente", "desconhecido")


def claimed(conninfo: str) -> tuple[Queue, Claim]:
    queue = Queue(conninfo, "lab/test")
    (claim,) = queue.claim("worker-a", 1, 30, None)
    return queue, claim


def test_the_heartbeat_renews_what_is_held_and_notices_what_is_lost(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    beaten = threading.Semaphore(0)
    log = EventLog("worker-a")
    log.of = lambda *event, **facts: beaten.release()  # type: ignore[method-assign]
    heartbeat = Heartbeat(Queue(queue_09, "lab/beat"), 0.01, 30, log)
    heartbeat.hold(claim)
    heartbeat.start()
    assert beaten.acquire(timeout=20)
    execute(queue_09, "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = INTERVAL '20 seconds'")
    for _ in range(2):  # the first may have begun before the clock was moved
        while beaten.acquire(blocking=False):
            pass
        assert beaten.acquire(timeout=20)
    assert not heartbeat.lost(claim)
    assert fetch(
        queue_09,
        "SELECT reservado_ate > sql_semana_12.relogio() + INTERVAL '25 s' FROM sql_semana_12.fila_documentos WHERE documento_id = 1",
    ) == [(True,)]
    assert queue.finish(claim, None) is not None
    lost = threading.Event()
    while not heartbeat.lost(claim) and not lost.wait(0.01):
        pass
    heartbeat.release(claim)
    heartbeat.stop()
    queue.close()


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


def test_a_stage_that_is_refused_is_followed_by_no_call(queue_09: str, run: Run) -> None:
    pretended = Pretended()

    def taken_over(payload: str) -> bytes:
        execute(queue_09, MINUTES)
        execute(queue_09, "SELECT sql_semana_12.recuperar('vigia')")
        return b""

    pretended.prepare = taken_over  # type: ignore[method-assign]
    assert run(pretended).names() == ["claimed", "refused"]
    assert pretended.called == []


def test_what_is_claimed_is_held_until_it_is_over(queue_09: str) -> None:
    held: list[int] = []
    made = worker.make(queue_09, Pretended(), Options("worker-a", rounds=1, batch=3, beat=0.0))
    made._attempts._work.before_calling = lambda: held.append(len(made._heartbeat.held()))  # type: ignore[attr-defined]
    made.run()
    assert (held, made._heartbeat.held()) == ([3, 3, 3], [])  # what is called is still to be finished
    made = worker.make(queue_09, Pretended(calls_raise=Rejected(422)), Options("worker-a", rounds=1, beat=0.0))
    made.run()
    assert (document(queue_09, 4)[0], made._heartbeat.held()) == ("falhou", [])


class Beats:
    """A queue that renews as told, by document, and counts."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.counts = dict.fromkeys(answers, 0)
        self.thrice = threading.Event()

    def renew(self, claim: Claim, lease: float) -> bool:
        self.counts[claim.key] += 1
        if self.counts[claim.key] == 3:
            self.thrice.set()
        if isinstance(answer := self.answers[claim.key], Exception):
            raise answer
        return bool(answer)

    def give_up_waiting(self) -> None: ...

    def close(self) -> None: ...


def beating(beats: Any, log: EventLog, *keys: str) -> Heartbeat:
    heartbeat = Heartbeat(beats, 0.01, 30, log)
    for token, key in enumerate(keys):
        heartbeat.hold(Claim(token, "padrao", token, 1, 1, key, "nao_chamado", None, ""))
    heartbeat.start()
    return heartbeat


def test_what_is_lost_is_renewed_no_more() -> None:
    beats = Beats(lost=False, kept=True)
    heartbeat = beating(beats, EventLog("worker-a"), "lost", "kept")
    assert beats.thrice.wait(20)
    heartbeat.stop()
    assert beats.counts["lost"] == 1


@pytest.mark.parametrize("error", [psycopg.errors.LockNotAvailable(), RuntimeError(CANARY)])
def test_a_renewal_that_fails_is_tried_again_whatever_it_was(said: Said, error: Exception) -> None:
    beats = Beats(failing=error)
    heartbeat = beating(beats, EventLog("worker-a"), "failing")
    assert beats.thrice.wait(20)
    heartbeat.stop()
    ran = said()
    assert ran.of("not_renewed")[2]["error"] == type(error).__name__
    assert CANARY not in ran.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_heartbeat_that_has_died_counts_as_a_loss() -> None:
    log = EventLog("worker-a")

    def broken(*event: object, **facts: object) -> None:
        raise BrokenPipeError

    log.of = broken  # type: ignore[method-assign]
    heartbeat = beating(Beats(kept=True), log, "kept")
    (claim,) = heartbeat.held()
    heartbeat.join(20)
    assert heartbeat.lost(claim)


def test_a_row_that_is_locked_does_not_cost_the_others_their_renewals(queue_09: str, said: Said) -> None:
    made = worker.make(queue_09, Pretended(), Options("worker-a", batch=2, beat=0.5))
    for claim in made._queue.claim("worker-a", 2, 30, None):
        made._heartbeat.hold(claim)
    renewed = threading.Event()
    made._heartbeat._log.of = lambda claim, event, **facts: renewed.set() if event == "renewed" else None  # type: ignore[method-assign]
    with psycopg.connect(queue_09) as stranger:
        stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")
        made._heartbeat.start()
        assert renewed.wait(client.LOCK_TIMEOUT - 2)
    made._heartbeat.stop()
    made._queue.close()


def test_a_heartbeat_stops_while_the_database_is_away(queue_09: str) -> None:
    away = threading.Event()
    queue = Queue(NOWHERE, "lab/beat", lost=lambda kind, error: away.set())
    heartbeat = beating(queue, EventLog("worker-a"), "kept")
    assert away.wait(20)
    stopping = threading.Thread(target=heartbeat.stop, daemon=True)
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive()


def test_a_beat_leaves_time_for_another_within_the_lease() -> None:
    assert Options("worker-a", lease=30).seconds_between_beats == 10
    for beat in (30.0, 31.0, -1.0):
        with pytest.raises(LabError, match="too late"):
            Options("worker-a", lease=30, beat=beat)


# Orphans


def test_an_orphan_is_recovered_under_a_backlog_that_never_empties(queue_09: str, said: Said) -> None:
    queue, _ = claimed(queue_09)
    queue.close()
    execute(queue_09, MINUTES)
    pretended = Pretended()
    made = worker.make(queue_09, pretended, Options("worker-a", lease=0.5, rounds=1000, beat=0.0))

    def more() -> None:
        execute(queue_09, f"SELECT sql_semana_12.enfileirar('M-{len(pretended.called)}', 'm.xml', '<nfe/>')")
        if document(queue_09)[0] == "pendente":
            made.stop()

    pretended.before_calling = more
    made.run()
    assert [event["id"] for event in said().of("recovered")] == [1]
    assert len(pretended.called) < 1000


def test_an_idle_worker_recovers_the_orphans_of_its_tenant(queue_09: str, run: Run) -> None:
    execute(queue_09, "SELECT sql_semana_12.enfileirar('A-1', 'a.xml', '<nfe/>', 'outro')")
    queue = Queue(queue_09, "lab/dead")
    queue.claim("worker-dead", 10, 30, None)
    queue.close()
    execute(queue_09, MINUTES)
    assert [event["id"] for event in run(Pretended(), tenant="outro").of("recovered")] == [5]


def test_an_empty_queue_is_looked_at_once_a_poll(queue_09: str, run: Run) -> None:
    started = time.monotonic()
    run(Pretended(), tenant="ninguem", rounds=3, poll=0.2)
    assert time.monotonic() - started >= 0.4


# The receiver is away


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
    breaker = CircuitBreaker(pretended, 2.0, EventLog("worker-a"))
    stopping.wait = lambda seconds: len(pretended.asked) == 4  # type: ignore[assignment, method-assign, misc]
    breaker.unanswered("k", gone)
    breaker.wait(stopping)
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


def test_a_receiver_that_drips_has_no_more_time_than_one_that_answers() -> None:
    class Dripping(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            with suppress(OSError):
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
                while not over.wait(0.1):
                    self.request.sendall(b" ")

    over = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        longest = threading.Timer(10, over.set)
        longest.start()
        started = time.monotonic()
        with pytest.raises(Unanswered, match="timeout"):
            PostToReceiver(f"http://127.0.0.1:{server.server_address[1]}", timeout=0.5).call("k", b"x")
        assert time.monotonic() - started < 5
        over.set()
        longest.cancel()
        server.shutdown()


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("X-Request-Id: a-1\r\n", "a-1"),
        (f"X-Request-Id: <\x1b[31m{'x' * 99}\r\n", f"%3C%1B%5B31m{'x' * 52}"),
        ("", None),
    ],
)
def test_the_id_of_an_answer_is_kept_short_and_escaped(header: str, kept: str | None) -> None:
    class Refusing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(f"HTTP/1.1 503 -\r\n{header}Content-Length: 0\r\n\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(Unanswered) as caught:
            PostToReceiver(f"http://127.0.0.1:{server.server_address[1]}").call("k", b"x")
        server.shutdown()
    assert caught.value.failure.response == kept


def test_a_call_that_the_receiver_knew_is_said_to_be_one(queue_09: str, run: Run) -> None:
    ran = run(Pretended(known={"padrao/NFE-0002": "R-9"}), batch=2)
    assert [event.get("repeated", False) for event in ran.of("called")] == [False, True]


# The database


def test_a_connection_that_is_lost_comes_back_and_the_outcome_is_sent_again(queue_09: str, run: Run) -> None:
    ran = run(Pretended(before_calling=lambda: terminate(queue_09, "lab/worker-a")))
    assert ran.names() == ["claimed", "stage", "called", "stage", "finished"]
    assert len(ran.of("database_lost")) == 1
    assert document(queue_09)[0] == "concluido"


def cut_answer(queue: Queue, to: str) -> None:
    """Let the server do the next statement in which this stands, and lose its answer."""
    connected = queue._connected
    cut: list[str] = []

    class Connection:
        def __init__(self, real: psycopg.Connection) -> None:
            self.real = real

        def execute(self, query: bytes, values: list[object], **options: Any) -> psycopg.Cursor:
            cursor = self.real.execute(query, values, **options)
            if not cut and (to in query.decode() or to in values):
                cut.append(to)
                self.real.close()
                raise psycopg.OperationalError("the connection is lost")
            return cursor

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    queue._connected = lambda: Connection(connected())  # type: ignore[assignment, method-assign, return-value]


@pytest.mark.parametrize(
    ("to", "error", "names", "left"),
    [
        ("desconhecido", None, ["claimed", "stage", "called", "stage", "finished"], "concluido"),
        ("obtido", None, ["claimed", "stage", "called", "stage", "finished"], "concluido"),
        ("concluir_lote", None, ["claimed", "stage", "called", "stage", "perhaps_written"], "concluido"),
        ("nao_chamado", NotSent("conexao", "x"), ["claimed", "stage", "stage", "failed"], "pendente"),
        ("falhar", Unanswered("sistemico", "x"), ["claimed", "stage", "perhaps_written"], "pendente"),
        ("reservar", None, [], "processando"),
    ],
)
def test_the_answer_to_a_statement_is_lost_and_it_is_sent_again(
    queue_09: str, said: Said, to: str, error: Exception | None, names: list[str], left: str
) -> None:
    made = worker.make(queue_09, Pretended(calls_raise=error), Options("worker-a", rounds=1, beat=0.0))
    cut_answer(made._queue, to)
    made.run()
    ran = said()
    assert (ran.names(), document(queue_09)[0], len(ran.of("database_lost"))) == (names, left, 1)
    assert ran.of("refused") == []  # that is what is said of a late write, and this is none


CLAIMS = "exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)"
FINISHES = "exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])"


def refusing(conninfo: str, sqlstate: str, times: int = 1000, what: str = CLAIMS) -> None:
    """Claims are refused with this SQLSTATE so many times (a sequence counts on when its transaction is rolled back)."""
    execute(
        conninfo,
        "CREATE SEQUENCE sql_semana_12.recusas;"
        f"CREATE OR REPLACE FUNCTION sql_semana_12.{what} RETURNS VOID"
        " LANGUAGE plpgsql SET search_path = sql_semana_12, pg_temp AS $$ BEGIN"
        f" IF nextval('recusas') <= {times} THEN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END IF; END $$",
    )


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time between two tries."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("sqlstate", ["25006", "XX000", "57014", "55P03", "53300", "58030", "0A000", "P0001"])
def test_what_passes_by_is_waited_for(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate, times=2)
    ran = run(Pretended(), rounds=3)
    assert [event["sqlstate"] for event in ran.of("error")] == [sqlstate] * 2
    assert document(queue_09)[0] == "concluido"


@pytest.mark.parametrize("sqlstate", ["42501", "42883", "22023", "3F000"])
def test_what_the_next_claim_would_meet_too_ends_the_worker(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate)
    with pytest.raises(LabError, match=f"SQLSTATE {sqlstate}.*psql -X -f sql/01_queue.sql, then 05 to 09"):
        run(Pretended(), rounds=3)


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
@pytest.mark.usefixtures("hasty")
def test_a_collision_is_tried_again(queue_09: str, run: Run, sqlstate: str) -> None:
    refusing(queue_09, sqlstate, times=2)
    ran = run(Pretended())
    assert [event["sqlstate"] for event in ran.of("collision")] == [sqlstate] * 2
    assert document(queue_09)[0] == "concluido"


@pytest.mark.usefixtures("hasty")
def test_a_late_write_that_collided_first_is_a_late_write(queue_09: str, run: Run) -> None:
    refusing(queue_09, "40P01", times=1, what=FINISHES)
    ran = run(Pure(meanwhile=lambda: taken_away(queue_09, 2)), batch=4)
    assert (len(ran.of("collision")), ran.names(2)) == (1, ["claimed", "refused"])


def test_the_time_between_two_tries_grows(queue_09: str) -> None:
    refusing(queue_09, "40P01", times=4)
    queue = Queue(queue_09, "lab/test")
    waited: list[float] = []
    queue._given_up.wait = waited.append  # type: ignore[method-assign, assignment]
    assert len(queue.claim("worker-a", 1, 30, None)) == 1
    queue.close()
    assert waited == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.usefixtures("hasty")
def test_a_collision_is_not_tried_again_without_end(queue_09: str, run: Run) -> None:
    refusing(queue_09, "40P01")
    ran = run(Pretended(), rounds=2)
    assert (len(ran.of("collision")), len(ran.of("error"))) == (2 * (client.TRIES - 1), 2)


@pytest.mark.usefixtures("hasty")
def test_a_collision_within_a_transaction_is_for_the_code_that_opened_it(queue_09: str) -> None:
    refusing(queue_09, "40P01", times=1)
    queue = Queue(queue_09, "lab/test")
    with pytest.raises(psycopg.errors.DeadlockDetected), queue.transaction():
        queue.claim("worker-a", 1, 30, None)
    assert len(queue.claim("worker-a", 1, 30, None)) == 1
    queue.close()


@pytest.mark.usefixtures("hasty")
def test_connections_that_are_lost_one_after_the_other_do_not_end_the_worker(queue_09: str, said: Said) -> None:
    made = worker.make(queue_09, Pretended(), Options("worker-a", rounds=2, poll=0.01, beat=0.0))
    connected, left = made._queue._connected, list(range(client.TRIES))

    def cut() -> psycopg.Connection:
        connection = connected()
        if left and left.pop() is not None:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
        return connection

    made._queue._connected = cut  # type: ignore[method-assign]
    made.run()
    ran = said()
    assert (len(ran.of("database_lost")), len(ran.of("error"))) == (client.TRIES - 1, 1)
    assert document(queue_09)[0] == "concluido"


def test_what_was_in_hand_when_the_database_went_away_is_counted(queue_09: str, said: Said) -> None:
    pretended = Pretended()
    made = worker.make(queue_09, pretended, Options("worker-a", batch=3, beat=0.0))

    def away() -> None:
        terminate(queue_09, "lab/worker-a")
        made._queue._conninfo = NOWHERE
        made.stop()

    pretended.before_calling = away
    made.run()
    assert [event["documents"] for event in said().of("left_behind")] == [3]


def test_a_session_is_pinned_whatever_the_environment_and_the_database_say(
    queue_09: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(queue_09)["dbname"]
    execute(queue_09, f"ALTER DATABASE \"{name}\" SET datestyle = 'German'")
    execute(queue_09, "UPDATE sql_semana_12.fila_documentos SET conteudo_xml = '<nfe>日</nfe>'")
    for variable, value in {"PGCLIENTENCODING": "LATIN1", "PGDATESTYLE": "SQL", "PGTZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(variable, value)
    ran = run(Pretended(calls_raise=Unanswered("sistemico", "x")))
    assert ran.of("failed")[0]["next_attempt"].endswith("+00:00")


def test_what_the_connection_string_asks_of_the_server_is_kept(queue_09: str) -> None:
    queue = Queue(f"{queue_09} options='-c work_mem=7MB' keepalives_idle=77", "lab/test")
    connection = queue._connected()
    assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
    assert {"keepalives_idle": "77", "tcp_user_timeout": "40000"}.items() <= connection.info.get_parameters().items()
    queue.close()


def test_until_empty_is_about_the_own_tenant(queue_09: str, run: Run) -> None:
    ran = run(Pretended(), tenant="outro", until_empty=True, rounds=5)
    assert ran.of("waiting") == []
    ran = run(
        Pretended(calls_raise=Unanswered("sistemico", "x")), until_empty=True, rounds=6, batch=4, longest_pause=0.001
    )
    assert [event["pending"] for event in ran.of("waiting")] == [4] * 5


def test_who_may_not_see_the_queue_is_told_what_until_empty_takes(queue_09: str) -> None:
    queue = Queue(f"{queue_09} options='-c role=pg_monitor'", "lab/test")
    with pytest.raises(LabError, match="SELECT on fila_documentos"):
        queue.pending(None)
    queue.close()


def test_a_stage_that_is_sent_again_is_recorded_again(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    assert [queue.record(claim, "desconhecido", None) for _ in range(2)] == [2, 3]
    assert [queue.record(claim, "obtido", "R-1") for _ in range(2)] == [4, 5]
    assert queue.finish(claim, None) == 6
    queue.close()


@pytest.mark.parametrize("options", [{"lease": 3600.0}, {"batch": 5000}])
def test_what_the_protocol_refuses_ends_the_worker_with_a_sentence(
    queue_09: str, run: Run, options: dict[str, Any]
) -> None:
    with pytest.raises(LabError, match=r"cannot be claimed from .SQLSTATE 22023."):
        run(Pretended(), **options)


def test_a_queue_that_is_not_there_ends_the_worker_with_a_sentence(database: str, run: Run) -> None:
    execute(database, "DROP SCHEMA sql_semana_12 CASCADE")
    with pytest.raises(LabError, match=r"cannot be claimed from .SQLSTATE 3F000."):
        run(Pretended())


def test_an_outcome_that_waits_too_long_for_a_lock_leaves_the_worker_alive(
    queue_09: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOCK_TIMEOUT", 0.05)
    started = time.monotonic()
    with psycopg.connect(queue_09) as stranger:

        def lock() -> None:
            stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")

        ran = run(Pretended(before_calling=lock), rounds=2)
    assert time.monotonic() - started < 5
    assert ran.of("unwritten")[0]["sqlstate"] == "55P03"
    assert document(queue_09)[0] == "processando"


# Processes


def test_sigterm_lets_it_finish_what_it_holds_and_claim_no_more(harness: Harness) -> None:
    held = harness.worker("worker-a", "--batch", "3", "--stop-at", "calling")
    held.wait_for("at")
    held.terminate()
    held.go_on()
    held.drain()
    states = [each.status for _, each in sorted(harness.tables().documents.items())]
    assert states == ["concluido", "concluido", "concluido", "pendente"]
    assert [event["event"] for event in held.events][-1] == "stopped"


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_worker(harness: Harness, sign: signal.Signals) -> None:
    idle = harness.worker("worker-a", "--tenant", "ninguem", "--poll", "60")
    idle.wait_for("started")
    os.kill(idle.pid, sign)
    idle.drain()


def test_a_second_signal_ends_a_worker_that_hangs(harness: Harness) -> None:
    harness.behave(hold="before")
    hanging = harness.worker("worker-a", "--timeout", "600")
    harness.receivers[0].wait_for("holding")
    deadline = time.monotonic() + 20
    while hanging._process.poll() is None and time.monotonic() < deadline:
        hanging.terminate()
        time.sleep(0.05)  # two signals at once would be one
    assert hanging._process.poll() == -signal.SIGTERM


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_waits_for_a_database_that_is_away_until_a_signal(sign: signal.Signals) -> None:
    waiting = Child("worker", environment={"LAB_DSN": NOWHERE})
    assert waiting.wait_for("database_away")["error"] == "OperationalError"
    os.kill(waiting.pid, sign)
    waiting.drain()
    assert [event["documents"] for event in waiting.events if event["event"] == "left_behind"] == [0]
    waiting.close()


def test_a_login_that_is_turned_away_is_not_waited_for(queue_09: str) -> None:
    wrong = Child("worker", environment={"LAB_DSN": f"{queue_09} user=ninguem"})
    with pytest.raises(LabError, match=r"status 1 .* turns the worker's login away"):
        wrong.drain()
    wrong.close()


def test_a_password_and_a_payload_stand_in_no_line(harness: Harness) -> None:
    execute(harness.conninfo, f"SELECT sql_semana_12.enfileirar('C', 'c.xml', '<nfe><valor>{CANARY}</valor></nfe>')")
    secret = Child(
        "worker",
        "--until-empty",
        "--receiver",
        harness.url,
        environment={"LAB_DSN": f"{harness.conninfo} password={CANARY}"},
    )
    secret.drain()
    secret.close()
    assert [event["event"] for event in secret.events].count("finished") == 4
    assert CANARY not in json.dumps(secret.events)


def test_a_point_that_does_not_exist_is_refused(queue_09: str) -> None:
    wrong = Child("worker", "--stop-at", "nowhere", environment={"LAB_DSN": queue_09})
    with pytest.raises(LabError, match="status 2"):
        wrong.wait_for("started")
    wrong.close()


# Work inside the database


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


def _book(connection: psycopg.Connection, key: str) -> None:
    connection.execute("INSERT INTO sql_semana_12.lancamentos VALUES (%s)", [key])


# Classes of failure


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (BadDocument("x"), "conteudo"),
        (Rejected(400), "conteudo"),
        (Unanswered("conexao", "x"), "conexao"),
        (psycopg.errors.DeadlockDetected(), "impasse"),
        (psycopg.errors.SerializationFailure(), "impasse"),
        (psycopg.errors.AdminShutdown(), "conexao"),
        (psycopg.errors.CrashShutdown(), "conexao"),
        (psycopg.errors.CannotConnectNow(), "conexao"),
        (psycopg.errors.IdleSessionTimeout(), "conexao"),
        (psycopg.errors.IdleInTransactionSessionTimeout(), "conexao"),
        (psycopg.errors.ConnectionFailure(), "conexao"),
        (psycopg.OperationalError("the connection is lost"), "conexao"),
        (psycopg.errors.InvalidTextRepresentation(), "conteudo"),
        (psycopg.errors.CheckViolation(), "conteudo"),
        (psycopg.errors.LockNotAvailable(), "sistemico"),
        (psycopg.errors.DiskFull(), "sistemico"),
        (TimeoutError(), "sistemico"),
        (ConnectionRefusedError(), "conexao"),
        (ZeroDivisionError(), "sistemico"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_error_has_its_class(error: Exception, category: str) -> None:
    assert classify(error).category == category


@pytest.mark.parametrize(
    ("status", "error", "category"),
    [
        (400, Rejected, "conteudo"),
        (404, Unanswered, "sistemico"),
        (409, Unanswered, "conteudo"),
        (503, Unanswered, "sistemico"),
    ],
)
def test_an_answer_rejects_only_if_it_says_so(status: int, error: type[Exception], category: str) -> None:
    meant = of_status(status)
    assert (type(meant), classify(meant).category) == (error, category)


def test_malformed_xml_is_told_by_its_place_only() -> None:
    with pytest.raises(ParseError) as caught:
        fromstring(f"<nfe>\n<{CANARY}></nfe>")
    assert classify(caught.value).reason.startswith("malformed XML: line 2, column ")


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ('<nfe id="NFE-0001"><valor>101.10</valor></nfe>', "101.10"),
        (
            '<NFe xmlns="http://www.portalfiscal.inf.br/nfe"><infNFe><total><ICMSTot><vNF>7.50</vNF></ICMSTot></total></infNFe></NFe>',
            "7.50",
        ),
    ],
)
def test_the_value_of_a_document_is_read(payload: str, value: str) -> None:
    assert json.loads(PostToReceiver("http://127.0.0.1:1").prepare(payload)) == {"valor": value}
