"""What a worker says: one JSON object a line. Never a payload, a reason in words, or a credential."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from io import UnsupportedOperation
from typing import Any, TextIO

from lab.worker.client import Claim
from lab.worker.failures import classify

ENCODE = json.JSONEncoder(default=str).encode
LONGEST_BACKLOG = 1_000_000  # characters
LONGEST_FLUSH = 1.0  # seconds


class EventLog:
    """The lines of one worker, on stdout; its threads share it.

    No call waits for who reads stdout, nor fails with it: a line that cannot be written is lost, and `log_lost` counts it once one
    can be written again.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._out = _Writer(sys.stdout)
        self._advice = _Writer(sys.stderr)

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

    def advise(self, text: str) -> None:
        """A sentence for the operator, on stderr."""
        self._advice.put(text + "\n")

    def flush(self) -> None:
        """Wait until all is written, LONGEST_FLUSH seconds at most."""
        until = time.monotonic() + LONGEST_FLUSH
        self._out.wait(until)
        self._advice.wait(until)

    def close(self) -> None:
        """As `flush`; what is said later is written all the same."""
        self.flush()
        self._out.end()
        self._advice.end()

    def _write(self, event: str, lines: list[dict[str, Any]]) -> None:
        if not lines:
            return
        head = {"time": _now(), "event": event, "worker": self._worker}
        self._out.put(
            "".join(
                ENCODE(head | {name: value for name, value in facts.items() if value is not None}) + "\n"
                for facts in lines
            )
        )


class _Writer:
    """Writes lines to a stream in a thread of its own, the only one that a stream which takes nothing can hold up."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._backlog = 0  # characters that are not written yet
        self._lost = 0  # lines
        self._torn = False  # the last line was written in part
        self._ending = False
        self._thread: threading.Thread | None = None

    def put(self, text: str) -> None:
        """Have these lines written, soon."""
        with self._changed:
            if self._backlog + len(text) > LONGEST_BACKLOG:
                self._lost += text.count("\n")
                return
            self._waiting.append(text)
            self._backlog += len(text)
            self._ending = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait until all is written, or for the time (of time.monotonic)."""
        with self._changed:
            self._changed.wait_for(lambda: not self._backlog, until - time.monotonic())

    def end(self) -> None:
        """End the thread, if the stream lets it, once all is written."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            if not self._backlog:
                self._changed.wait_for(lambda: self._thread is None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                text, self._waiting = "".join(self._waiting), []
                lost = self._lost
            written = self._try(text, lost)
            with self._changed:
                self._backlog -= len(text)
                self._lost = self._lost - lost if written else self._lost + text.count("\n")
                self._changed.notify_all()

    def _try(self, text: str, lost: int) -> bool:
        if lost:
            text = ENCODE({"time": _now(), "event": "log_lost", "lines": lost}) + "\n" + text
        try:
            self._put_out(("\n" if self._torn else "") + text)
        except (OSError, ValueError):  # its reader is gone, its disk is full; it is closed
            return False
        return True

    def _put_out(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            number = self._stream.fileno()
        except UnsupportedOperation:  # a stream within this process
            self._stream.write(text)
            return
        # Past the stream's buffer: what is left in it would be waited for when the process ends.
        data = text.encode()
        while data:
            try:
                done = os.write(number, data)
            except BlockingIOError:
                select.select([], [number], [])
                continue
            self._torn = not data[:done].endswith(b"\n")
            data = data[done:]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
