"""The worker: claim, work outside, write the outcome; and what it does when it, the database or the receiver fails."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType

import psycopg

from lab.base.errors import LabError
from lab.base.language import say
from lab.server.session import SCHEMA
from lab.worker.attempt import RECEIVERS as RECEIVERS
from lab.worker.attempt import STOPS as STOPS
from lab.worker.attempt import Attempts
from lab.worker.attempt import Knows as Knows
from lab.worker.attempt import StopAt as StopAt
from lab.worker.circuit_breaker import CircuitBreaker
from lab.worker.client import DEADLINE, Claim, Done, Queue, Unreachable
from lab.worker.event_log import EventLog
from lab.worker.failures import lasts, of_protocol
from lab.worker.handler import Work
from lab.worker.heartbeat import Heartbeat

SHORTEST_DEADLINE = 1.0  # seconds
LOOKS_FOR_SIGNALS = 0.2  # seconds between two


class Found(Enum):
    """What a look at the queue found."""

    DOCUMENTS = auto()
    NOTHING_NOW = auto()
    NOTHING_MORE = auto()


@dataclass(frozen=True)
class Options:
    """How a worker works.

    batch: documents a claim. lease: seconds. tenant: None for any. poll: seconds between two looks at an empty queue. beat:
    seconds between renewals (None: a third of the lease; 0: none). longest_pause: seconds at most between two looks at a
    receiver that does not answer. irreversible: an effect that cannot be undone, so that an unknown result is for people.
    receiver: what it can: execute a key once ("keys"), tell what became of one ("query"), "both" or "neither"; an unknown
    result is repeated under its key, asked for, or for people accordingly. rounds: how many claims at most (None: no end).
    until_empty: end when no document (of the tenant) is due or put off; one in other hands then is not waited for. stop_at: for
    drills, the point at which to say so and wait for a line on stdin, once. pooled: see Queue.

    Raises LabError for a beat that would come too late for the lease.
    """

    name: str
    batch: int = 1
    lease: float = 30.0
    tenant: str | None = None
    poll: float = 1.0
    beat: float | None = None
    longest_pause: float = 60.0
    irreversible: bool = False
    receiver: Knows = "both"
    rounds: int | None = None
    until_empty: bool = False
    stop_at: StopAt | None = None
    pooled: bool | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seconds_between_beats < self.lease:
            raise LabError(
                say(
                    f"A beat each {self.beat} s comes too late for a lease of {self.lease} s; a third of it is a good one, 0 is none.",
                    f"Um sinal de vida a cada {self.beat} s chega tarde para uma reserva de {self.lease} s; um terço dela é um bom"
                    " valor, 0 é nenhum.",
                )
            )

    @property
    def seconds_between_beats(self) -> float:
        """Seconds between two renewals; 0 for none."""
        return self.lease / 3 if self.beat is None else self.beat


class Worker:
    """One worker on a queue; `work` is what it does with a document. It runs in the thread that calls `run`.

    What it has begun when it is asked to stop it brings to an end, what it has not it gives back, and claims nothing more.
    """

    def __init__(self, queue: Queue, heartbeat: Heartbeat, work: Work, options: Options, log: EventLog) -> None:
        self._queue = queue
        self._heartbeat = heartbeat
        self._options = options
        self._log = log
        self._breaker = CircuitBreaker(work, options.longest_pause, log)
        self._attempts = Attempts(
            queue,
            heartbeat,
            work,
            self._breaker,
            log,
            lease=options.lease,
            irreversible=options.irreversible,
            receiver=options.receiver,
            pause=self._pause,
        )
        self._recovered = time.monotonic()
        self._stopping = threading.Event()
        self._stop_at = options.stop_at
        # Worked on, and not yet written: they are finished together, with the next claim. If this process dies before, a result
        # from outside is known all the same (its stage is committed), so that no worker calls again; pure work is done again.
        self._done: list[Done] = []

    def stop(self) -> None:
        """Ask it to stop; safe in a signal handler."""
        self._stopping.set()
        self._queue.give_up_waiting()

    def run(self) -> None:
        """Work until the options' end or `stop`. A database that is away, already at the start, or in trouble is waited for.

        Raises LabError if the queue refuses to be claimed from as it will the next time, or the server to be logged into.
        """
        self._log.say("started")
        self._heartbeat.start()
        rounds = 0
        try:
            while not self._stopping.is_set():
                found = self._round()
                rounds += 1
                if found is Found.NOTHING_MORE or rounds == self._options.rounds:
                    break
                if self._breaker.is_open:
                    self._finish_all()
                    self._breaker.wait(self._stopping)
                elif found is Found.NOTHING_NOW:
                    self._stopping.wait(self._options.poll)
            self._finish_all()
        except Unreachable:
            # Asked to stop while the database was away: what is held is found by its lease.
            self._log.say("left_behind", documents=len(self._heartbeat.held()))
        finally:
            self._heartbeat.stop()
            self._queue.close()
            self._log.say("stopped")
            self._log.close()

    def _round(self) -> Found:
        """Claim and work; look for what others left behind when there is nothing to claim, and in time when there always is."""
        try:
            if time.monotonic() >= self._recovered + self._options.lease / 3:
                self._recover()
            claims = self._claim()
            if not claims:
                return Found.NOTHING_MORE if self._nothing_left() else Found.NOTHING_NOW
        except psycopg.Error as error:
            claim_alone = not self._done
            self._finish_all()
            self._log.failure("error", error)
            # Sent together with a finish, either of them may be what was refused; the next round tells.
            if claim_alone and lasts(error):
                raise _refusal(error) from None
            return Found.NOTHING_NOW
        for number, claim in enumerate(claims):
            if self._stopping.is_set():
                self._give_back(claims[number:])
                break
            self._take(claim)
        return Found.DOCUMENTS

    def _claim(self) -> list[Claim]:
        """Claim, and finish with it what is done. If it raises, that is still to be finished."""
        batch = 1 if self._breaker.is_half_open else self._options.batch
        wanted = (self._options.name, batch, self._options.lease, self._options.tenant)
        if self._stop_at == "locked":
            with self._queue.transaction():
                claims = self._queue.claim(*wanted)
                if claims:
                    self._pause("locked")
        elif self._done:
            versions, claims = self._queue.finish_and_claim(self._done, *wanted)
            self._finished(versions)
        else:
            claims = self._queue.claim(*wanted)
        self._heartbeat.hold(*claims)
        self._log.each(
            "claimed",
            [(claim, {"version": claim.version, "attempt": claim.attempt, "stage": claim.stage}) for claim in claims],
        )
        return claims

    def _nothing_left(self) -> bool:
        """Nothing was there to claim: look for what others left behind, and whether there is anything to wait for."""
        if self._recover() or not self._options.until_empty:
            return False
        pending = self._queue.pending(self._options.tenant)
        if pending:
            self._log.say("waiting", pending=pending)
        return not pending

    def _recover(self) -> bool:
        """Take late documents from their workers; whether there were any."""
        recovered = self._queue.recover(self._options.name, self._options.tenant)
        self._recovered = time.monotonic()
        for late in recovered:
            self._log.say(
                "recovered",
                id=late.document,
                version=late.version,
                status=late.status,
                stage=late.stage,
                attempt=late.attempt,
            )
        return bool(recovered)

    def _take(self, claim: Claim) -> None:
        """One attempt, to whichever end; its document is let go of then, unless it is still to be finished."""
        done = self._attempts.make(claim)
        if done:
            self._done.append(done)
        else:
            self._heartbeat.release(claim)

    def _give_back(self, claims: Sequence[Claim]) -> None:
        """What was not begun before the worker was asked to stop is for others, at once."""
        for claim in claims:
            try:
                self._attempts.written(claim, "given_back", self._queue.give_back(claim))
            except Unreachable:
                raise
            except psycopg.Error as error:
                self._log.failure("unwritten", error, claim)
            self._heartbeat.release(claim)

    def _finish_all(self) -> None:
        """Finish what is done, without a claim: together, and if that is refused each alone, so that one keeps back no other."""
        if not self._done:
            return
        try:
            self._finished(self._queue.finish_all(self._done))
        except psycopg.Error:
            for claim, reference in self._done:
                try:
                    self._attempts.written(claim, "finished", self._queue.finish(claim, reference))
                except psycopg.Error as error:
                    self._attempts.give_up(claim, error, of_protocol(error))
            self._let_go()

    def _finished(self, versions: list[int | None]) -> None:
        outcomes = zip(self._done, versions, strict=True)
        self._attempts.each_written("finished", [(claim, version, {}) for (claim, _), version in outcomes])
        self._let_go()

    def _let_go(self) -> None:
        self._heartbeat.release(*(claim for claim, _ in self._done))
        self._done = []

    def _pause(self, here: StopAt) -> None:
        """For drills: say that this point is reached, and wait there to be killed, stopped, or told to go on."""
        if here != self._stop_at:
            return
        self._stop_at = None
        self._log.say("at", point=here)
        self._log.flush()
        sys.stdin.readline()


def _refusal(error: psycopg.Error) -> LabError:
    state = error.sqlstate or "?"
    return LabError(
        say(
            f"The queue cannot be claimed from (SQLSTATE {state}): a worker needs the schema in state 09 (psql -X -f"
            " sql/01_queue.sql, then 05 to 09) and EXECUTE on its functions, and a lease that the protocol allows.",
            f"Não dá para reservar da fila (SQLSTATE {state}): um worker precisa do esquema no estado 09 (psql -X -f"
            " sql/01_queue.sql, depois 05 a 09), de EXECUTE nas funções dele e de um prazo de reserva que o protocolo aceite.",
        )
    )


def run_until_signal(worker: Worker) -> None:
    """Run the worker; the first SIGTERM or SIGINT asks it to stop, the second ends the process at once.

    It runs in a thread of its own, so that the handler never meets a lock that the interrupted thread holds.
    Raises what the worker raised.
    """
    signals = (signal.SIGTERM, signal.SIGINT)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)

    def asked_to_stop(number: int, frame: FrameType | None) -> None:
        for sign in signals:
            signal.signal(sign, signal.SIG_DFL)
        worker.stop()

    for sign in signals:
        signal.signal(sign, asked_to_stop)
    thread = threading.Thread(target=run, name="worker")
    thread.start()
    while thread.is_alive():
        thread.join(LOOKS_FOR_SIGNALS)  # one that comes just as the wait begins would not end it
    if errors:
        raise errors[0]


def make(conninfo: str, work: Work, options: Options, schema: str = SCHEMA) -> Worker:
    """A worker on the queue in `schema`, with its connections: one for its statements, one for the heartbeat."""
    log = EventLog(options.name)
    beat = options.seconds_between_beats
    queue = Queue(conninfo, f"lab/{options.name}", schema, log.failure, pooled=options.pooled, told=log.say)
    beats = Queue(
        conninfo,
        f"lab/{options.name}/heartbeat",
        schema,
        log.failure,
        # One that is not answered leaves the next beats their time.
        deadline=min(DEADLINE, max(beat, SHORTEST_DEADLINE)),
        pooled=options.pooled,
    )
    heartbeat = Heartbeat(beats, beat, options.lease, log)
    return Worker(queue, heartbeat, work, options, log)
