"""What a worker says: one JSON object a line. Never a payload, a reason in words, or a credential."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from lab.worker.client import Claim
from lab.worker.failures import classify

ENCODE = json.JSONEncoder(default=str).encode


class EventLog:
    """The lines of one worker, on stdout; its threads share it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._turn = threading.Lock()

    def say(self, event: str, **facts: Any) -> None:
        """An event, with its facts; what is None is left out."""
        self._write(event, [facts])

    def of(self, claim: Claim, event: str, **facts: Any) -> None:
        """An event of a claimed document."""
        self.each(event, [(claim, facts)])

    def each(self, event: str, claims: Iterable[tuple[Claim, dict[str, Any]]]) -> None:
        """The same event of several documents, each with its facts: a line each, written at once."""
        self._write(event, [{"id": claim.document, "token": claim.token, **facts} for claim, facts in claims])

    def failure(self, event: str, error: Exception, claim: Claim | None = None) -> None:
        """An event that an error brought about: its class and kind, never its words, which may quote a document."""
        facts = {
            "category": classify(error).category,
            "sqlstate": getattr(error, "sqlstate", None),
            "error": type(error).__name__,
        }
        if claim is None:
            self.say(event, **facts)
        else:
            self.of(claim, event, **facts)

    def _write(self, event: str, lines: list[dict[str, Any]]) -> None:
        if not lines:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"time": now, "event": event, "worker": self._worker}
        text = "".join(
            ENCODE(head | {name: value for name, value in facts.items() if value is not None}) + "\n" for facts in lines
        )
        with self._turn:
            sys.stdout.write(text)
            sys.stdout.flush()
