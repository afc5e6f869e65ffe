"""What a worker does while the receiver is away or silent: nothing, so that an outage costs no document its attempts."""

from __future__ import annotations

import random
import threading

from lab.worker.event_log import EventLog
from lab.worker.failures import NotSent, Unanswered
from lab.worker.handler import Work

FIRST_PAUSE = 0.5  # seconds


class CircuitBreaker:
    """Opens when a call or a question is not answered: the worker then waits, and claims no document.

    Each pause is twice as long as the one before, `longest` seconds at most; after it one question is asked. While nothing
    listens at the receiver's address, the next pause follows. Once something does, the breaker is half open, since only a call
    can tell more: the worker tries it with one document. A call that is answered closes it.
    """

    def __init__(self, work: Work, longest: float, log: EventLog) -> None:
        self._work = work
        self._longest = longest
        self._log = log
        self._pause = 0.0  # the last one, 0 if the last call was answered
        self._unanswered: str | None = None  # the key of what was not answered just now
        self._advised = False

    @property
    def is_open(self) -> bool:
        """Whether what was sent last was not answered."""
        return self._unanswered is not None

    @property
    def is_half_open(self) -> bool:
        """Whether no call was answered since the last pause: one document is enough to try it."""
        return self._pause > 0

    def answered(self) -> None:
        """A call was answered."""
        self._pause = 0.0
        self._unanswered = None
        self._advised = False

    def unanswered(self, key: str, error: Unanswered) -> None:
        """What was sent under this key was not answered; an error that blames the document is an answer."""
        if error.failure.category == "conteudo":
            self.answered()
            return
        self._unanswered = key
        if isinstance(error, NotSent) and error.advice and not self._advised:
            self._advised = True
            self._log.advise(error.advice)

    def wait(self, stopping: threading.Event) -> None:
        """Wait until it is worth another try, or `stopping` is set."""
        while self._unanswered is not None:
            self._pause = min(2 * self._pause or FIRST_PAUSE, self._longest)
            seconds = self._pause * random.uniform(0.5, 1)  # so that many workers do not come back all at once
            self._log.say("resting", seconds=round(seconds, 3))
            if stopping.wait(seconds) or self._something_listens(self._unanswered):
                self._unanswered = None

    def _something_listens(self, key: str) -> bool:
        try:
            self._work.ask(key)
        except NotSent:
            return False
        except Exception:
            return True  # it cannot be asked, which says nothing of a call
        return True
