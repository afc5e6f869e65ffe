"""What a worker says: one JSON object a line. Never a payload, a reason in words, or a credential."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from lab.workqueue import Claim


class WorkLog:
    """The lines of one worker, on stdout; its threads share it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._turn = threading.Lock()

    def say(self, event: str, **facts: Any) -> None:
        """An event, with its facts; what is None is left out."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in facts.items() if value is not None}
        line = json.dumps({"time": now, "event": event, "worker": self._worker, **known}, default=str)
        with self._turn:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def of(self, claim: Claim, event: str, **facts: Any) -> None:
        """An event of a claimed document."""
        self.say(event, **{"id": claim.document, "version": claim.version, "token": claim.token, **facts})
