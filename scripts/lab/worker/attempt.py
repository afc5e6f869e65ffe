"""One attempt on a document: stage, call, confirm; and how it is written down that it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import psycopg

from lab.worker.circuit_breaker import CircuitBreaker
from lab.worker.client import Claim, Done, Queue, Unreachable
from lab.worker.event_log import EventLog
from lab.worker.failures import Failure, InProgress, NotSent, Rejected, Unanswered, classify, of_protocol, unfit
from lab.worker.handler import Work
from lab.worker.heartbeat import Heartbeat

# What a receiver can: execute a key once, answer what became of one.
Knows = Literal["both", "keys", "query", "neither"]
RECEIVERS: tuple[str, ...] = get_args(Knows)
StopAt = Literal["locked", "claimed", "calling", "called", "obtained"]
STOPS: tuple[str, ...] = get_args(StopAt)


class Attempts:
    """What a worker does with a claimed document.

    lease: seconds, from each stage on. irreversible: an unknown result is for people. receiver: what it can. pause: called
    at each of STOPS that an attempt comes to.
    """

    def __init__(
        self,
        queue: Queue,
        heartbeat: Heartbeat,
        work: Work,
        breaker: CircuitBreaker,
        log: EventLog,
        *,
        lease: float,
        irreversible: bool,
        receiver: Knows,
        pause: Callable[[StopAt], None],
    ) -> None:
        self._queue = queue
        self._heartbeat = heartbeat
        self._work = work
        self._breaker = breaker
        self._log = log
        self._lease = lease
        self._irreversible = irreversible
        self._receiver = receiver
        self._pause = pause

    def make(self, claim: Claim) -> Done | None:
        """One attempt: what is to be finished, None if it is over.

        Raises Unreachable, and what the queue raises of a login that is turned away; all else is a failure of this attempt.
        """
        try:
            self._pause("claimed")
            return self._attempt(claim)
        except Unreachable:
            raise
        except Exception as error:  # whatever the work raises is a failure of this attempt, not of the worker
            self.give_up(claim, error)
            return None

    def give_up(self, claim: Claim, error: Exception, failure: Failure | None = None) -> None:
        """Write down that the attempt has failed, and whether it is known that nothing was executed.

        failure: what it is, if not what the error says of itself.
        """
        if isinstance(error, (Rejected, InProgress)):
            self._breaker.answered()
        elif isinstance(error, Unanswered):
            self._breaker.unanswered(claim.key, error)
        # Only where no attempt called before does an unsent call tell that the receiver was not called.
        never_sent = isinstance(error, NotSent) and claim.stage == "nao_chamado"
        try:
            if not (isinstance(error, Rejected) or never_sent) or self._record(claim, "nao_chamado"):
                self._fail(claim, failure or classify(error))
        except psycopg.Error as silence:
            # Not even that could be written; the lease will end.
            self._log.failure("unwritten", silence, claim)

    def written(self, claim: Claim, event: str, version: int | None, **facts: Any) -> bool:
        """Whether the outcome was written; see `each_written`."""
        self.each_written(event, [(claim, version, facts)])
        return version is not None

    def each_written(self, event: str, outcomes: Sequence[tuple[Claim, int | None, dict[str, Any]]]) -> None:
        """Say of the outcomes of one statement whether they were written, each with its facts.

        No version means that the document is no longer this worker's; or, if the statement had to be sent again since its answer
        was lost, perhaps that it had been written already.
        """
        self._log.each(event, [(claim, facts | {"version": new}) for claim, new, facts in outcomes if new is not None])
        if unchanged := [(claim, {"wanted": event}) for claim, new, _ in outcomes if new is None]:
            self._log.each("perhaps_written" if self._queue.sent_again else "refused", unchanged)

    def _attempt(self, claim: Claim) -> Done | None:
        """What is to be done is decided by the stage in which an earlier attempt left the document."""
        if claim.stage in ("obtido", "confirmando"):
            return claim, claim.reference
        if not self._work.outside:
            self._work.prepare(claim.payload)
            return claim, None
        if claim.stage == "desconhecido" and self._receiver == "neither":
            self._reconcile(
                claim, Failure("sistemico", "unknown result, and the receiver knows neither keys nor questions")
            )
            return None
        # One that knows keys and no questions tells by a repeated call: it gives the first result back.
        if claim.stage == "desconhecido" and self._receiver != "keys":
            try:
                reference = self._work.ask(claim.key)
            except InProgress as wait:
                # An answer: no reason to call again, and none to give the document to people.
                self._breaker.answered()
                self._log.of(claim, "asked", in_progress=True)
                self._fail(claim, wait.failure)
                return None
            except NotSent as away:
                # The question did not leave: whether it can be answered is not known yet.
                self._breaker.unanswered(claim.key, away)
                self._fail(claim, away.failure)
                return None
            except Unanswered as silence:
                self._cannot_be_asked(claim, silence)
                return None
            self._log.of(claim, "asked", known=reference is not None)
            if reference is not None:
                return self._confirm(claim, reference)
        content = self._work.prepare(claim.payload)
        if self._lost(claim) or not self._record(claim, "desconhecido"):
            return None
        if self._lost(claim):
            # The stage says now that the receiver may have been called; it was not, unless by an earlier attempt.
            if claim.stage == "nao_chamado":
                self._record(claim, "nao_chamado")
            return None
        self._pause("calling")
        answer = self._work.call(claim.key, content)
        self._breaker.answered()
        self._log.of(claim, "called", reference=answer.reference, repeated=answer.repeated or None)
        self._pause("called")
        return self._confirm(claim, answer.reference)

    def _lost(self, claim: Claim) -> bool:
        """Whether the heartbeat has lost it: by the time a call ends it would be another worker's."""
        lost = self._heartbeat.lost(claim)
        if lost:
            self._log.of(claim, "lost")
        return lost

    def _confirm(self, claim: Claim, reference: str) -> Done | None:
        """The result is known: written down first, so that no attempt has to ask again, and then the document is finished."""
        if why := unfit(reference):
            self._reconcile(claim, Failure("sistemico", why))
            return None
        try:
            if not self._record(claim, "obtido", reference):
                return None
        except psycopg.Error as error:
            # Executed: whatever refuses to have it written down, the document is not at fault.
            self.give_up(claim, error, of_protocol(error))
            return None
        self._pause("obtained")
        return claim, reference

    def _record(self, claim: Claim, stage: str, reference: str | None = None) -> bool:
        return self.written(claim, "stage", self._queue.record(claim, stage, reference, self._lease), stage=stage)

    def _cannot_be_asked(self, claim: Claim, silence: Unanswered) -> None:
        self._breaker.unanswered(claim.key, silence)
        if not self._irreversible:
            self._fail(claim, silence.failure)
            return
        self._reconcile(claim, silence.failure)

    def _reconcile(self, claim: Claim, failure: Failure) -> None:
        version = self._queue.reconcile(claim, failure.reason)
        self.written(claim, "reconciliation", version, category=failure.category, response=failure.response)

    def _fail(self, claim: Claim, failure: Failure) -> None:
        ended = self._queue.fail(claim, failure.category, failure.reason)
        self.written(
            claim,
            "failed",
            ended.version if ended else None,
            category=failure.category,
            response=failure.response,
            status=ended.status if ended else None,
            next_attempt=ended.due if ended else None,
        )
