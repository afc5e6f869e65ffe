"""What a worker does while the receiver is away or silent: nothing, so that an outage costs no document its attempts."""

from __future__ import annotations

import random
import sys
import threading

from lab.worker.event_log import WorkLog
from lab.worker.failures import NotSent, Unanswered
from lab.worker.handler import Work

FIRST_REST = 0.5  # seconds


class Rest:
    """Pauses after a call or a question that was not answered, each twice as long as the one before, `longest` seconds at most.

    After a pause one question is asked. While nobody is at the receiver's address, it rests on, and no document is claimed. If
    somebody is, only a call can tell more: the worker tries it with one document. A call that is answered ends it all.
    """

    def __init__(self, work: Work, longest: float, log: WorkLog) -> None:
        self._work = work
        self._longest = longest
        self._log = log
        self._pause = 0.0  # the last one, 0 if the last call was answered
        self._unanswered: str | None = None  # the key of what was not answered just now
        self._advised = False

    @property
    def wanted(self) -> bool:
        """Whether what was sent last was not answered."""
        return self._unanswered is not None

    @property
    def probing(self) -> bool:
        """Whether no call was answered since the last pause: one document is enough to try it."""
        return self._pause > 0

    def answered(self) -> None:
        """A call was answered."""
        self._pause = 0.0
        self._unanswered = None
        self._advised = False

    def silence(self, key: str, silence: Unanswered) -> None:
        """What was sent under this key was not answered; to say that the document is the matter is to answer."""
        if silence.failure.category == "conteudo":
            self.answered()
            return
        self._unanswered = key
        if isinstance(silence, NotSent) and silence.advice and not self._advised:
            self._advised = True
            sys.stderr.write(silence.advice + "\n")
            sys.stderr.flush()

    def take(self, stopping: threading.Event) -> None:
        """Rest until it is worth another try, or `stopping` is set."""
        while self._unanswered is not None:
            self._pause = min(2 * self._pause or FIRST_REST, self._longest)
            seconds = self._pause * random.uniform(0.5, 1)  # so that many workers do not come back all at once
            self._log.say("resting", seconds=round(seconds, 3))
            if stopping.wait(seconds) or self._somebody_is_there(self._unanswered):
                self._unanswered = None

    def _somebody_is_there(self, key: str) -> bool:
        try:
            self._work.ask(key)
        except NotSent:
            return False
        except Exception:
            return True  # it cannot be asked, which says nothing of a call
        return True
