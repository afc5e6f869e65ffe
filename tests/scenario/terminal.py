"""A pseudo-terminal of 80x24 in which psql runs the script of one terminal, and a finger on Enter and ^C."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

from lab.base import wait
from lab.server import psql
from lab.server.binaries import find_psql

PROMPT = "Enter: "
SECONDS = 20.0
COLUMNS, LINES = 80, 24
PAGER = "echo A PAGER CAME; cat"


class Terminal:
    """psql -X -f PATH in a terminal of its own. `shown` is what came since the last key, `all_shown` what came since it was opened."""

    def __init__(self, path: Path, conninfo: str) -> None:
        self.master, self._slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        # The leader of a new session that opens a terminal gets it as its own: so ^C reaches it.
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" < "$TTY" > "$TTY" 2>&1', "sh", str(find_psql()), "-X", "-f", str(path)],
            env=os.environ | psql.libpq_environment(conninfo) | {"TTY": os.ttyname(self._slave), "PAGER": PAGER},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.shown = ""
        self.all_shown = ""
        self.longest_silence = 0.0  # seconds from a key to the first word
        self._pressed: float | None = time.monotonic()

    def press(self, keys: str = "\n") -> None:
        self.shown = ""
        self._pressed = time.monotonic()
        os.write(self.master, keys.encode())

    def await_prompt(self) -> str:
        """Wait until it asks for Enter; returns what came since the last key."""
        return self._await(lambda: self.shown.endswith(PROMPT))

    def await_text(self, text: str) -> str:
        return self._await(lambda: text in self.shown)

    def await_end(self) -> str:
        """Wait until psql has ended; returns what came since the last key."""
        self._await(lambda: self.process.poll() is not None)
        while select.select([self.master], [], [], 0)[0]:
            self._read()
        return self.shown

    def interrupt(self) -> str:
        """^C until psql has ended: one that comes while psql writes its prompt only marks it as cancelled."""
        deadline = time.monotonic() + SECONDS
        self.press("\x03")
        while not wait.until(lambda: self.process.poll() is not None, 0.5):
            assert time.monotonic() < deadline, f"^C does not end it: {self.shown}"
            os.write(self.master, b"\x03")
        return self.await_end()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._slave)
        os.close(self.master)

    def _await(self, there: Callable[[], bool]) -> str:
        began = time.monotonic()
        while not there():
            assert time.monotonic() < began + SECONDS, f"it did not come within {SECONDS} s: {self.shown}"
            if select.select([self.master], [], [], 0.01)[0]:
                if self._read().strip() and self._pressed is not None:  # the echo of Enter is no word
                    self.longest_silence = max(self.longest_silence, time.monotonic() - self._pressed)
                    self._pressed = None
            elif self.process.poll() is not None and not there():
                raise AssertionError(f"psql ended: {self.shown}")
        return self.shown

    def _read(self) -> str:
        text = os.read(self.master, 65536).decode().replace("\r\n", "\n")
        self.shown += text
        self.all_shown += text
        return text
