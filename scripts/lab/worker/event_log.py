"""What a worker says: one JSON object a line. Never a payload, a reason in words, or a credential.

Lines are written by a thread of their own. Where nothing reads them, or a disk behind them is full, lines are lost, and counted; work
and heartbeat go on.
"""

from __future__ import annotations

import io
import json
import os
import queue
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from lab.worker.client import Claim
from lab.worker.failures import classify

ENCODE = json.JSONEncoder(default=str).encode
MOST_WAITING = 1_000  # writes that wait for stdout; what comes on top is lost
LAST_WORDS = 1.0  # seconds that `close` waits for stdout


class EventLog:
    """The lines of one worker, on stdout; its threads share it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._waiting: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._lost = 0  # lines
        self._over = False
        self._writer: threading.Thread | None = None
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
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="log", daemon=True)
                self._writer.start()
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._lost += len(lines)

    def close(self) -> None:
        """Write what is left, if stdout takes it in time; no line may follow."""
        if self._writer is None:
            return
        self._over = True
        with suppress(queue.Full):
            self._waiting.put(None, timeout=LAST_WORDS)
            self._writer.join(LAST_WORDS)

    def _run(self) -> None:
        while (text := self._waiting.get()) is not None:
            lost, self._lost, lines = self._lost, 0, text.count("\n")
            if lost:
                text = ENCODE({"event": "lines_lost", "worker": self._worker, "lines": lost}) + "\n" + text
            try:
                _put_out(text)
            except (OSError, ValueError):
                self._lost += lost + lines
            if self._over and self._waiting.empty():
                return


def _put_out(text: str) -> None:
    """Write to stdout, past its buffer: what is stuck there would keep the process from ending."""
    try:
        number = sys.stdout.fileno()
    except io.UnsupportedOperation:
        sys.stdout.write(text)
        return
    data = text.encode()
    while data:
        data = data[os.write(number, data) :]
