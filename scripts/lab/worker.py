"""The worker: claim, work outside, write the outcome; and what it does when it, the database or the receiver fails."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, get_args

import psycopg

from lab.effect import Work
from lab.errors import LabError
from lab.failure import Failure, NotSent, Rejected, Unanswered, classify
from lab.heartbeat import Heartbeat
from lab.language import say
from lab.session import SCHEMA
from lab.worklog import WorkLog
from lab.workqueue import Claim, Done, Queue, Unreachable

StopAt = Literal["locked", "claimed", "calling", "called", "obtained"]
STOPS: tuple[str, ...] = get_args(StopAt)


# SQLSTATE classes of what passes by itself: collisions, no resources, a lock or a statement that took too long, the system.
PASSING = ("40", "53", "55", "57", "58")


class Found(Enum):
    """What a look at the queue found."""

    DOCUMENTS = auto()
    NOTHING_NOW = auto()
    NOTHING_MORE = auto()


@dataclass(frozen=True)
class Options:
    """How a worker works.

    batch: documents a claim. lease: seconds. tenant: None for any. poll: seconds between two looks at an empty queue. beat:
    seconds between renewals (None: a third of the lease; 0: none). irreversible: an effect that cannot be undone, so that a
    result which nobody can tell is for people. rounds: how many claims at most (None: no end). until_empty: end when nothing is
    left that this worker could ever get. stop_at: for drills, the point at which to say so and wait for a line on stdin, once.
    """

    name: str
    batch: int = 1
    lease: float = 30.0
    tenant: str | None = None
    poll: float = 1.0
    beat: float | None = None
    irreversible: bool = False
    rounds: int | None = None
    until_empty: bool = False
    stop_at: StopAt | None = None

    @property
    def seconds_between_beats(self) -> float:
        """Seconds between two renewals; 0 for none."""
        return self.lease / 3 if self.beat is None else self.beat


class Worker:
    """One worker on a queue; `work` is what it does with a document. It runs in the thread that calls `run`.

    What it holds when it is asked to stop it brings to an end, and claims nothing more.
    """

    def __init__(self, queue: Queue, heartbeat: Heartbeat, work: Work, options: Options, log: WorkLog) -> None:
        self._queue = queue
        self._heartbeat = heartbeat
        self._work = work
        self._options = options
        self._log = log
        self._stopping = threading.Event()
        self._stop_at = options.stop_at
        # Worked on, and not yet written: they are finished together, with the next claim. If this process dies before, a result
        # from outside is known all the same (its stage is committed), so that nobody calls again; pure work is done again.
        self._done: list[Done] = []

    def stop(self) -> None:
        """Ask it to stop; safe in a signal handler."""
        self._stopping.set()
        self._queue.give_up_waiting()

    def run(self) -> None:
        """Work until the options' end or `stop`. A database that is away is waited for.

        Raises LabError if the queue refuses to be claimed from, as it will the next time.
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
                if found is Found.NOTHING_NOW:
                    self._stopping.wait(self._options.poll)
            self._finish_all()
        except Unreachable:
            # Asked to stop while the database was away: what is held is found by its lease.
            self._log.say("left_behind", documents=len(self._heartbeat.held()))
        finally:
            self._heartbeat.stop()
            self._queue.close()
            self._log.say("stopped")

    def _round(self) -> Found:
        """Claim and work, or look for what others left behind."""
        try:
            claims = self._claim()
            if not claims:
                return Found.NOTHING_MORE if self._nothing_left() else Found.NOTHING_NOW
        except psycopg.Error as error:
            self._finish_all()
            self._log.say("error", category=classify(error).category, sqlstate=error.sqlstate)
            if not (error.sqlstate or "").startswith(PASSING):
                raise _refusal(error) from None
            return Found.NOTHING_NOW
        for claim in claims:
            self._take(claim)
        return Found.DOCUMENTS

    def _claim(self) -> list[Claim]:
        """Claim, and finish with it what is done. If it raises, that is still to be finished."""
        wanted = (self._options.name, self._options.batch, self._options.lease, self._options.tenant)
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
        self._log.each("claimed", [(claim, {"attempt": claim.attempt, "stage": claim.stage}) for claim in claims])
        return claims

    def _nothing_left(self) -> bool:
        """Nothing was there to claim: look for what others left behind, and whether there is anything to wait for."""
        recovered = self._queue.recover(self._options.name, self._options.tenant)
        for late in recovered:
            self._log.say(
                "recovered",
                id=late.document,
                version=late.version,
                status=late.status,
                stage=late.stage,
                attempt=late.attempt,
            )
        if recovered or not self._options.until_empty:
            return False
        deferred = self._queue.deferred()
        if deferred:
            self._log.say("waiting", deferred=deferred)
        return not deferred

    def _take(self, claim: Claim) -> None:
        """One attempt, to whichever end; its document is let go of then, unless it is still to be finished."""
        try:
            self._pause("claimed")
            self._attempt(claim)
        except Unreachable:
            raise
        except Exception as error:  # whatever the work raises is a failure of this attempt, not of the worker
            self._give_up(claim, error)
        finally:
            if not self._done or self._done[-1][0] is not claim:
                self._heartbeat.release(claim)

    def _attempt(self, claim: Claim) -> None:
        """What is to be done is decided by the stage in which an earlier attempt left the document."""
        if claim.stage in ("obtido", "confirmando"):
            self._done.append((claim, claim.reference))
            return
        if not self._work.outside:
            self._work.prepare(claim.payload)
            self._done.append((claim, None))
            return
        if claim.stage == "desconhecido":
            try:
                reference = self._work.ask(claim.key)
            except Unanswered as silence:
                self._cannot_be_asked(claim, silence)
                return
            self._log.of(claim, "asked", known=reference is not None)
            if reference is not None:
                self._confirm(claim, reference)
                return
        content = self._work.prepare(claim.payload)
        if not self._record(claim, "desconhecido"):
            return
        if self._heartbeat.lost(claim):
            self._log.of(claim, "lost")
            return
        self._pause("calling")
        reference = self._work.call(claim.key, content)
        self._log.of(claim, "called", reference=reference)
        self._pause("called")
        self._confirm(claim, reference)

    def _confirm(self, claim: Claim, reference: str) -> None:
        """The result is known: written down first, so that nobody has to ask again, and then the document is finished."""
        if self._record(claim, "obtido", reference):
            self._pause("obtained")
            self._done.append((claim, reference))

    def _record(self, claim: Claim, stage: str, reference: str | None = None) -> bool:
        version = self._queue.record(claim, stage, reference)
        return self._written(claim, "stage", version, stage=stage)

    def _finish_all(self) -> None:
        """Finish what is done, without a claim: together, and if that is refused each alone, so that one keeps back no other."""
        if not self._done:
            return
        try:
            self._finished(self._queue.finish_all(self._done))
        except psycopg.Error:
            for claim, reference in self._done:
                try:
                    self._written(claim, "finished", self._queue.finish(claim, reference))
                except psycopg.Error as error:
                    self._give_up(claim, error)
            self._let_go()

    def _finished(self, versions: list[int | None]) -> None:
        written = [(claim, version) for (claim, _), version in zip(self._done, versions, strict=True)]
        self._log.each("finished", [(claim, {"version": version}) for claim, version in written if version is not None])
        self._log.each("refused", [(claim, {"wanted": "finished"}) for claim, version in written if version is None])
        self._let_go()

    def _let_go(self) -> None:
        self._heartbeat.release(*(claim for claim, _ in self._done))
        self._done = []

    def _cannot_be_asked(self, claim: Claim, silence: Unanswered) -> None:
        if not self._options.irreversible:
            self._fail(claim, silence.failure)
            return
        version = self._queue.reconcile(claim, silence.failure.reason)
        self._written(claim, "reconciliation", version, category=silence.failure.category)

    def _give_up(self, claim: Claim, error: Exception) -> None:
        """Write down that the attempt has failed, and whether it is known that nothing was executed."""
        # Only an attempt that nobody called before knows from its own unsent call that nobody did.
        never_sent = isinstance(error, NotSent) and claim.stage == "nao_chamado"
        try:
            if not (isinstance(error, Rejected) or never_sent) or self._record(claim, "nao_chamado"):
                self._fail(claim, classify(error))
        except psycopg.Error as silence:
            # Not even that could be written; the lease will end.
            self._log.of(claim, "unwritten", category=classify(silence).category, sqlstate=silence.sqlstate)

    def _fail(self, claim: Claim, failure: Failure) -> None:
        ended = self._queue.fail(claim, failure.category, failure.reason)
        self._written(
            claim,
            "failed",
            ended.version if ended else None,
            category=failure.category,
            status=ended.status if ended else None,
            next_attempt=ended.due if ended else None,
        )

    def _written(self, claim: Claim, event: str, version: int | None, **facts: object) -> bool:
        """Whether the outcome was written; zero rows mean that the document is no longer this worker's."""
        if version is None:
            self._log.of(claim, "refused", wanted=event)
            return False
        self._log.of(claim, event, **facts | {"version": version})
        return True

    def _pause(self, here: StopAt) -> None:
        """For drills: say that this point is reached, and wait there to be killed, stopped, or told to go on."""
        if here != self._stop_at:
            return
        self._stop_at = None
        self._log.say("at", point=here)
        sys.stdin.readline()


def _refusal(error: psycopg.Error) -> LabError:
    state = error.sqlstate or "?"
    return LabError(
        say(
            f"The queue cannot be claimed from (SQLSTATE {state}): a worker needs the schema in state 09 and EXECUTE on its"
            " functions, and a lease that the protocol allows.",
            f"Não dá para reservar da fila (SQLSTATE {state}): um worker precisa do esquema no estado 09, de EXECUTE nas funções"
            " dele e de um prazo de reserva que o protocolo aceite.",
        )
    )


def run_until_signal(worker: Worker) -> None:
    """Run the worker; the first SIGTERM or SIGINT asks it to stop.

    It runs in a thread of its own, so that the handler never meets a lock that the interrupted thread holds.
    Raises what the worker raised.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: worker.stop())
    thread = threading.Thread(target=run, name="worker")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def make(conninfo: str, work: Work, options: Options, schema: str = SCHEMA) -> Worker:
    """A worker on the queue in `schema`, with its connections: one for its statements, one for the heartbeat."""
    log = WorkLog(options.name)
    queue = Queue(conninfo, f"lab/{options.name}", schema, log.say)
    beats = Queue(conninfo, f"lab/{options.name}/heartbeat", schema, log.say)
    heartbeat = Heartbeat(beats, options.seconds_between_beats, options.lease, log)
    return Worker(queue, heartbeat, work, options, log)
