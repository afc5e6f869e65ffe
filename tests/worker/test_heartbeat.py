"""The heartbeat: it renews what is held, and notices what is lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from lab.base.errors import LabError
from lab.worker import client, worker
from lab.worker.client import Claim, Queue, Renewal
from lab.worker.event_log import EventLog
from lab.worker.heartbeat import Heartbeat
from lab.worker.worker import Options
from tests.helpers import execute, fetch
from tests.worker.pretended import CANARY, NOWHERE, Pretended, Said, claimed


def test_the_heartbeat_renews_what_is_held_and_notices_what_is_lost(queue_09: str) -> None:
    queue, claim = claimed(queue_09)
    beaten = threading.Semaphore(0)
    log = EventLog("worker-a")
    log.each = lambda event, claims: beaten.release()  # type: ignore[method-assign]
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


class Beats:
    """A queue that renews as told, by document, and counts."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.counts = dict.fromkeys(answers, 0)
        self.thrice = threading.Event()

    def renew(self, claims: Sequence[Claim], lease: float) -> list[Renewal]:
        return [self.renew_one(claim) for claim in claims]

    def renew_one(self, claim: Claim) -> Renewal:
        self.counts[claim.key] += 1
        if self.counts[claim.key] == 3:
            self.thrice.set()
        if isinstance(answer := self.answers[claim.key], Exception):
            raise answer
        return "renovada" if answer else "recusada"

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
    log = EventLog("worker-a")
    heartbeat = beating(beats, log, "failing")
    assert beats.thrice.wait(20)
    heartbeat.stop()
    log.close()
    ran = said()
    assert ran.of("not_renewed")[2]["error"] == type(error).__name__
    assert CANARY not in ran.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_heartbeat_that_has_died_counts_as_a_loss() -> None:
    log = EventLog("worker-a")

    def broken(*event: object, **facts: object) -> None:
        raise BrokenPipeError

    log.each = broken  # type: ignore[method-assign]
    heartbeat = beating(Beats(kept=True), log, "kept")
    (claim,) = heartbeat.held()
    heartbeat.join(20)
    assert heartbeat.lost(claim)


def test_a_row_that_is_locked_does_not_cost_the_others_their_renewals(queue_09: str, said: Said) -> None:
    made = worker.make(queue_09, Pretended(), Options("worker-a", batch=2, beat=0.5))
    for claim in made._queue.claim("worker-a", 2, 30, None):
        made._heartbeat.hold(claim)
    renewed = threading.Event()
    noted: dict[str, list[int]] = {}

    def note(event: str, claims: list[tuple[Claim, object]]) -> None:
        noted.setdefault(event, [claim.document for claim, _ in claims])
        renewed.set()

    made._heartbeat._log.each = note  # type: ignore[method-assign, assignment]
    with psycopg.connect(queue_09) as stranger:
        stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 1 FOR UPDATE")
        made._heartbeat.start()
        assert renewed.wait(client.LOCK_TIMEOUT - 2)
    assert noted["renewed"] == [2]
    made._heartbeat.stop()
    made._queue.close()


def test_a_beat_is_one_statement_whatever_is_held(queue_09: str) -> None:
    execute(queue_09, "SELECT sql_semana_12.enfileirar('M-' || n, 'm.xml', '<nfe/>') FROM generate_series(1, 996) AS n")
    made = worker.make(queue_09, Pretended(), Options("worker-a", batch=1000, beat=0.05))
    made._heartbeat.hold(*made._queue.claim("worker-a", 1000, 30, None))
    calls: list[client.Statement] = []
    beaten = threading.Event()
    answer = made._heartbeat._queue._answer

    def counted(connection: Any, statement: client.Statement, values: Any) -> Any:
        calls.append(statement)
        return answer(connection, statement, values)

    made._heartbeat._queue._answer = counted  # type: ignore[method-assign]
    made._heartbeat._log.each = lambda event, claims: beaten.set() if len(list(claims)) == 1000 else None  # type: ignore[method-assign]
    made._heartbeat.start()
    assert beaten.wait(20)
    assert len(calls) <= 3
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
