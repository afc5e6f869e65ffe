"""The heartbeat: renews what its worker holds, on a connection of its own, so that it beats while the worker is at work."""

from __future__ import annotations

import threading

from lab.worker.client import Claim, Queue, Unreachable
from lab.worker.event_log import EventLog


class Heartbeat(threading.Thread):
    """Renews every document held, each `every` seconds (0: never), for `lease` seconds, in one statement.

    A renewal that is refused says that the document is another worker's, or that its time is up: it is renewed no more, and `lost`
    says so. What another session has locked, and all of a beat that fails, is tried again at the next. `queue` is this thread's alone.
    """

    def __init__(self, queue: Queue, every: float, lease: float, log: EventLog) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._queue = queue
        self._every = every
        self._lease = lease
        self._log = log
        self._turn = threading.Lock()
        self._held: dict[int, Claim] = {}
        self._lost: set[int] = set()
        self._stopping = threading.Event()

    def hold(self, *claims: Claim) -> None:
        """Renew these from now on."""
        with self._turn:
            self._held.update((claim.token, claim) for claim in claims)

    def release(self, *claims: Claim) -> None:
        """Renew these no more: their attempts are over."""
        with self._turn:
            for claim in claims:
                self._held.pop(claim.token, None)
                self._lost.discard(claim.token)

    def lost(self, claim: Claim) -> bool:
        """Whether a renewal of this one was refused, or the thread has ended."""
        with self._turn:
            return claim.token in self._lost or (self._every > 0 and self.ident is not None and not self.is_alive())

    def held(self) -> list[Claim]:
        """What is held now."""
        with self._turn:
            return list(self._held.values())

    def stop(self) -> None:
        """End the thread, and its connection."""
        self._stopping.set()
        self._queue.give_up_waiting()
        if self.is_alive():
            self.join()
        self._queue.close()

    def run(self) -> None:
        """Beat until `stop`."""
        if not self._every:
            return
        while not self._stopping.wait(self._every):
            if claims := [claim for claim in self.held() if not self.lost(claim)]:
                self._beat(claims)

    def _beat(self, claims: list[Claim]) -> None:
        try:
            renewals = list(zip(claims, self._queue.renew(claims, self._lease), strict=True))
        except Unreachable:
            return
        except Exception as error:
            # The next beat tries again; if none succeeds, the leases end, as they should.
            self._log.failure("not_renewed", error)
            return
        with self._turn:
            self._lost.update(
                claim.token for claim, renewal in renewals if renewal == "recusada" and claim.token in self._held
            )
        self._log.each("renewed", [(claim, {}) for claim, renewal in renewals if renewal == "renovada"])
        self._log.each("busy", [(claim, {}) for claim, renewal in renewals if renewal == "ocupada"])
