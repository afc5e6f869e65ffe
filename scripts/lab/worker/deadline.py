"""A deadline of the client's own: a server's timeouts, and the network's, say nothing where a connection is open and silent."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOOKS = 0.2  # seconds between two
WHEN_STOPPING = 5.0  # seconds


class Deadline:
    """Shuts the socket of a call that takes longer than `seconds`: who waits for its answer sees a lost connection."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = threading.Lock()
        self._number: int | None = None
        self._began = 0.0
        self._hurried = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.passed = False
        """Whether the last call was cut off."""

    @contextmanager
    def over(self, number: int) -> Iterator[None]:
        """A call on the socket of this number."""
        with self._turn:
            self._began, self._number, self.passed = time.monotonic(), number, False
            if self._thread is None:
                self._ended.clear()
                self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._turn:
                self._number = None

    def hurry(self) -> None:
        """From now on no call has longer than WHEN_STOPPING seconds; safe in a signal handler."""
        self._hurried = time.monotonic()
        self._seconds = min(self._seconds, WHEN_STOPPING)

    def close(self) -> None:
        """End the thread; a later call begins it anew."""
        with self._turn:
            thread, self._thread = self._thread, None
        self._ended.set()
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOKS):
            with self._turn:
                until = max(self._began, self._hurried) + self._seconds
                if self._number is not None and time.monotonic() > until:
                    self.passed = True
                    _shut(self._number)
                    self._number = None


def _shut(number: int) -> None:
    """Shut the connection, and leave the file of that number to its owner."""
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as ours:
        ours.shutdown(socket.SHUT_RDWR)
