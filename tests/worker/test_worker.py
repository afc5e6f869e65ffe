"""A worker: what it claims, holds, finishes and recovers, and how it ends."""

from __future__ import annotations

import os
import signal
import time

import psycopg
import pytest

from lab.base.errors import LabError
from lab.drills.harness import Harness
from lab.drills.process import Child
from lab.worker import client, worker
from lab.worker.client import Queue
from lab.worker.failures import Rejected, Unanswered
from lab.worker.worker import Options
from tests.helpers import execute, fetch, terminate
from tests.worker.pretended import MINUTES, NOWHERE, Pretended, Pure, Run, Said, claimed, document, taken_away

# What it claims


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


def test_an_empty_queue_is_looked_at_once_a_poll(queue_09: str, run: Run) -> None:
    started = time.monotonic()
    run(Pretended(), tenant="ninguem", rounds=3, poll=0.2)
    assert time.monotonic() - started >= 0.4


def test_until_empty_is_about_the_own_tenant(queue_09: str, run: Run) -> None:
    ran = run(Pretended(), tenant="outro", until_empty=True, rounds=5)
    assert ran.of("waiting") == []
    ran = run(
        Pretended(calls_raise=Unanswered("sistemico", "x")), until_empty=True, rounds=6, batch=4, longest_pause=0.001
    )
    assert [event["pending"] for event in ran.of("waiting")] == [4] * 5


def test_what_is_claimed_is_held_until_it_is_over(queue_09: str) -> None:
    held: list[int] = []
    made = worker.make(queue_09, Pretended(), Options("worker-a", rounds=1, batch=3, beat=0.0))
    made._attempts._work.before_calling = lambda: held.append(len(made._heartbeat.held()))  # type: ignore[attr-defined]
    made.run()
    assert (held, made._heartbeat.held()) == ([3, 3, 3], [])  # what is called is still to be finished
    made = worker.make(queue_09, Pretended(calls_raise=Rejected(422)), Options("worker-a", rounds=1, beat=0.0))
    made.run()
    assert (document(queue_09, 4)[0], made._heartbeat.held()) == ("falhou", [])


def test_a_document_is_held_until_it_is_finished(queue_09: str, capsys: pytest.CaptureFixture[str]) -> None:
    held: list[int] = []
    pure = Pure()
    made = worker.make(queue_09, pure, Options("worker-a", batch=4, rounds=1, beat=0.0))
    pure.meanwhile = lambda: held.extend(claim.document for claim in made._heartbeat.held())
    made.run()
    assert sorted(held) == [1, 2, 3, 4]
    assert made._heartbeat.held() == []


# What it finishes


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
        " WHERE a.para = 'concluido' AND b.de = 'pendente' AND b.quando < a.quando"
    )
    assert fetch(queue_09, together) == [(0,)], "the finish comes first"


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


def test_a_late_document_in_a_batch_changes_nothing_and_holds_back_no_other(queue_09: str, run: Run) -> None:
    ran = run(Pure(meanwhile=lambda: taken_away(queue_09, 2)), batch=4)
    assert ran.names(2) == ["claimed", "refused"]
    assert ran.of("refused")[0]["wanted"] == "finished"
    assert sorted(event["id"] for event in ran.of("finished")) == [1, 3, 4]
    assert {event["version"] for event in ran.of("finished")} == {2}
    assert document(queue_09, 2)[0] == "pendente"


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


def test_a_superseded_worker_writes_nothing_and_says_so(queue_09: str, run: Run) -> None:
    def taken_over() -> None:
        execute(queue_09, MINUTES)
        execute(queue_09, "SELECT sql_semana_12.recuperar('vigia')")

    ran = run(Pretended(before_calling=taken_over))
    assert ran.names() == ["claimed", "stage", "called", "refused"]
    assert document(queue_09)[:2] == ("pendente", "desconhecido")


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


def test_what_was_not_begun_is_given_back_when_it_is_asked_to_stop(queue_09: str, said: Said) -> None:
    pretended = Pretended()
    made = worker.make(queue_09, pretended, Options("worker-a", batch=4, beat=0.0))
    pretended.before_calling = made.stop
    made.run()
    assert len(pretended.called) == 1
    assert document(queue_09)[0] == "concluido"
    assert [document(queue_09, number) for number in (2, 3, 4)] == [("pendente", "nao_chamado", None, 0)] * 3
    assert [event["id"] for event in said().of("given_back")] == [2, 3, 4]


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


# Processes


def test_sigterm_lets_it_finish_what_it_has_begun_and_give_back_the_rest(harness: Harness) -> None:
    held = harness.worker("worker-a", "--batch", "3", "--stop-at", "calling")
    held.wait_for("at")
    held.terminate()
    held.go_on()
    held.drain()
    left = "SELECT status, tentativas FROM sql_semana_12.fila_documentos ORDER BY documento_id"
    assert fetch(harness.conninfo, left) == [("concluido", 1), ("pendente", 0), ("pendente", 0), ("pendente", 0)]
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


def test_a_point_that_does_not_exist_is_refused(queue_09: str) -> None:
    wrong = Child("worker", "--stop-at", "nowhere", environment={"LAB_DSN": queue_09})
    with pytest.raises(LabError, match="status 2"):
        wrong.wait_for("started")
    wrong.close()
