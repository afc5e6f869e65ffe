"""The worker: what it does when its work, the receiver, the database or another worker does not do what it should."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from defusedxml.ElementTree import ParseError, fromstring

from lab import schema, worker
from lab.child import Child
from lab.effect import PostToReceiver
from lab.errors import LabError
from lab.failure import BadDocument, NotSent, Rejected, Unanswered, classify
from lab.ground import Ground, ground
from lab.heartbeat import Heartbeat
from lab.inside import finish_together
from lab.worker import Options
from lab.worklog import WorkLog
from lab.workqueue import Claim, Queue
from tests.helpers import execute, fetch, terminate

STATE = 9
CANARY = "CANARIO-4711"
MINUTES = "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '10 minutes'"


@pytest.fixture
def queue_09(database: str) -> str:
    """The conninfo of a database with the queue in state 09."""
    schema.build(database, STATE)
    return database


@pytest.fixture
def here(queue_09: str) -> Iterator[Ground]:
    with ground(queue_09) as found:
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

    def call(self, key: str, content: bytes) -> str:
        self.called.append(key)
        self.before_calling()
        if self.calls_raise:
            raise self.calls_raise
        return self.known.setdefault(key, f"R-{len(self.known) + 1}")

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


@pytest.fixture
def run(queue_09: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a worker for some rounds in this process."""

    def work(pretended: Any, conninfo: str = queue_09, **options: Any) -> Ran:
        wanted = Options("worker-a", **{"rounds": 1, "poll": 0.01, "beat": 0.0} | options)
        worker.make(conninfo, pretended, wanted).run()
        text = capsys.readouterr().out
        return Ran([json.loads(line) for line in text.splitlines()], text)

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
    assert CANARY not in ran.text


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
        connection.execute("SELECT sql_semana_12.enfileirar('B-1', 'b.xml', xmlparse(DOCUMENT %s))", [payload])
    ran = run(PostToReceiver("http://127.0.0.1:1"))
    ((status, stage, error, category),) = fetch(
        queue_09, "SELECT status, etapa, ultimo_erro, categoria_erro FROM sql_semana_12.fila_documentos"
    )
    assert (status, stage, error, category) == ("falhou", "nao_chamado", reason, "conteudo")
    kept = fetch(queue_09, "SELECT * FROM sql_semana_12.auditoria")
    assert CANARY not in ran.text + str(kept)


# Taking over


def test_nobody_called_the_call_is_made(queue_09: str, run: Run) -> None:
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
    run(pretended)
    assert pretended.called == []
    assert document(queue_09) == ("pendente", "desconhecido", "sistemico", 2)


def test_unknown_irreversible_and_the_receiver_cannot_be_asked_is_for_people(queue_09: str, run: Run) -> None:
    left_by_a_dead_worker(queue_09, ("desconhecido", None))
    pretended = Pretended(asking_raises=Unanswered("sistemico", "HTTP 503"))
    ran = run(pretended, irreversible=True)
    assert pretended.called == []
    assert document(queue_09)[:2] == ("conciliacao", "desconhecido")
    assert ran.names() == ["claimed", "reconciliation"]


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
            run(pure, batch=2, rounds=2)
    else:
        ran = run(pure, batch=2, rounds=2)
        assert [event["event"] for event in ran.events[-4:]] == ["finished", "finished", "error", "stopped"]
    assert [document(queue_09, number)[0] for number in (1, 2, 3)] == ["concluido", "concluido", "pendente"]


def test_a_document_that_cannot_be_finished_holds_back_no_other(
    queue_09: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.workqueue.SETTINGS", "-c lock_timeout=50ms")
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
        # It waits for the first, and holds nothing that whoever has the first could wait for.
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
    log = WorkLog("worker-a")
    log.of = lambda *event: beaten.release()  # type: ignore[method-assign]
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


def test_what_the_heartbeat_has_lost_is_not_called(queue_09: str, capsys: pytest.CaptureFixture[str]) -> None:
    pretended = Pretended()
    made = worker.make(queue_09, pretended, Options("worker-a", rounds=1, beat=0.0))
    made._heartbeat.lost = lambda claim: True  # type: ignore[method-assign]
    made.run()
    assert pretended.called == []
    assert '"event": "lost"' in capsys.readouterr().out


# The database


def test_a_connection_that_is_lost_comes_back_and_the_outcome_is_sent_again(queue_09: str, run: Run) -> None:
    ran = run(Pretended(before_calling=lambda: terminate(queue_09, "lab/worker-a")))
    assert ran.names() == ["claimed", "stage", "called", "stage", "finished"]
    assert len(ran.of("database_lost")) == 1
    assert document(queue_09)[0] == "concluido"


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
    monkeypatch.setattr("lab.workqueue.SETTINGS", "-c lock_timeout=50ms")
    with psycopg.connect(queue_09) as stranger:

        def lock() -> None:
            stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")

        ran = run(Pretended(before_calling=lock), rounds=2)
    assert ran.of("unwritten")[0]["sqlstate"] == "55P03"
    assert document(queue_09)[0] == "processando"


# Processes


def test_sigterm_lets_it_finish_what_it_holds_and_claim_no_more(here: Ground) -> None:
    held = here.worker("worker-a", "--batch", "3", "--stop-at", "calling")
    held.wait_for("at")
    held.terminate()
    held.go_on()
    held.drain()
    states = [each.status for _, each in sorted(here.tables().documents.items())]
    assert states == ["concluido", "concluido", "concluido", "pendente"]
    assert [event["event"] for event in held.events][-1] == "stopped"


def test_sigterm_ends_an_idle_worker(here: Ground) -> None:
    idle = here.worker("worker-a", "--tenant", "ninguem", "--poll", "60")
    idle.wait_for("started")
    idle.terminate()
    idle.drain()


def test_a_password_and_a_payload_stand_in_no_line(here: Ground) -> None:
    execute(here.conninfo, f"SELECT sql_semana_12.enfileirar('C', 'c.xml', '<nfe><valor>{CANARY}</valor></nfe>')")
    secret = Child(
        "worker",
        "--until-empty",
        "--receiver",
        here.url,
        environment={"LAB_DSN": f"{here.conninfo} password={CANARY}"},
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
