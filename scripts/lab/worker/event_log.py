"""What a worker says: one JSON object a line. Never a payload, a reason in words, or a credential."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
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
        self._names: dict[str, str] = {}
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
        # What all the lines begin with is made once, and most of it once for all.
        if event not in self._names:
            self._names[event] = ENCODE({"event": event, "worker": self._worker})[1:-1]
        head = f'{{"time": "{_now()}", {self._names[event]}'
        self._out.put("".join([f"{head}{_facts(facts)}}}\n" for facts in lines]))


def _facts(facts: dict[str, Any]) -> str:
    """What follows in a line; nothing of what is None. Most are whole numbers, which need no encoder."""
    return "".join(
        [
            f', "{name}": {value}' if type(value) is int else f', "{name}": {ENCODE(value)}'
            for name, value in facts.items()
            if value is not None
        ]
    )


class _Writer:
    """Writes lines to a stream at once where that cannot wait, else in a thread of its own, the only one that it can hold up."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._backlog = 0  # characters that are not written yet
        self._lost = 0  # lines
        self._torn = False  # the last line was written in part
        self._ending = False
        self._thread: threading.Thread | None = None
        self._at_once, self._most = _at_once(stream)

    def put(self, text: str) -> None:
        """Have these lines written, soon."""
        with self._changed:
            if not self._backlog and not self._lost and not (text := self._left_of(text)):
                return
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

    def _left_of(self, text: str) -> str:
        """Write as many of the lines as go without a wait; the others."""
        while text and self._at_once is not None:
            end = len(text) if len(text) <= self._most else text.rfind("\n", 0, self._most) + 1
            try:
                done = os.write(self._at_once, text[:end].encode())
            except BlockingIOError:
                break
            except OSError:  # its reader is gone, its disk is full
                self._lost += text.count("\n")
                return ""
            if done < end:
                self._torn = text[done - 1] != "\n"
                self._lost += text.count("\n", done)
                return ""
            text = text[end:]
        return text

    def wait(self, until: float) -> None:
        """Wait until all is written, or for the time (of time.monotonic)."""
        with self._changed:
            self._changed.wait_for(lambda: not self._backlog, until - time.monotonic())

    def end(self) -> None:
        """End the thread, if the stream lets it, once all is written."""
        with self._changed:
            self._ending = True
            if self._at_once is not None and self._most == select.PIPE_BUF:
                os.close(self._at_once)
            self._at_once = None
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


def _at_once(stream: TextIO | None) -> tuple[int | None, int]:
    """The number of a file that can be written to without a wait, None if there is none, and how many bytes of it at once."""
    with suppress(
        AttributeError, OSError, ValueError
    ):  # a stream within this process; a system that lists no open files
        number = stream.fileno()  # type: ignore[union-attr]
        kind = os.fstat(number).st_mode
        if stat.S_ISREG(kind):
            return number, sys.maxsize
        if stat.S_ISFIFO(kind):
            # Opened anew it is this process's alone to set, and takes up to PIPE_BUF bytes whole or not at all.
            return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), select.PIPE_BUF
    return None, 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
