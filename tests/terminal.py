"""A command of the lab in a pseudo-terminal, and what stands on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from lab.base import paths

CONTROL = re.compile(r"\x1b(?:([78])|\[([?0-9;]*)([A-Za-z]))")
SECONDS = 30.0


class Grid:
    """A screen of so many rows and columns, which knows the few control codes that the lab uses, and fails on any other.

    `overflowed` counts the lines that were too long for it, and went on in the next row by themselves; `pushed_out` holds
    the lines that left a scrolling region, where no scrollback keeps them, without a key being pressed since they came.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.saved = (0, 0)
        self.top, self.bottom = 0, rows - 1
        self.overflowed = 0
        self.pushed_out: list[str] = []
        self.keys = 0
        self.since = [0] * rows  # by row: how many keys had been pressed when it was written
        self.rest = ""

    def write(self, text: str) -> None:
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                found = CONTROL.match(text, at)
                if found is None:
                    assert len(text) - at < 16, f"unknown control code: {text[at : at + 16]!r}"
                    self.rest = text[at:]
                    return
                self.control(*found.groups())
                at = found.end()
                continue
            at += 1
            if character == "\n":
                self.feed()
            elif character == "\r":
                self.column = 0
            elif character == "\b":
                self.column = max(0, self.column - 1)
            elif character != "\x07":
                assert unicodedata.category(character) != "Cc", repr(character)
                if self.column == self.columns:
                    self.column = 0
                    self.feed()
                    self.overflowed += 1
                self.cells[self.row][self.column] = character
                self.since[self.row] = self.keys
                self.column += 1

    def feed(self) -> None:
        if self.row == self.bottom:
            line = "".join(self.cells[self.top]).rstrip()
            if self.top and line and self.since[self.top] == self.keys:
                self.pushed_out.append(line)
            del self.cells[self.top], self.since[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)
            self.since.insert(self.bottom, self.keys)
        elif self.row < self.rows - 1:
            self.row += 1

    def control(self, short: str | None, parameters: str, final: str) -> None:
        numbers = [int(each) for each in re.findall(r"\d+", parameters or "")]
        match short or final:
            case "7":
                self.saved = (self.row, self.column)
            case "8":
                self.row, self.column = self.saved
            case "H":
                self.row, self.column = (numbers or [1, 1])[0] - 1, (numbers or [1, 1])[1] - 1
            case "A":
                self.row -= numbers[0]
            case "K":
                assert numbers == [2], parameters
                self.cells[self.row] = [" "] * self.columns
            case "r":
                self.top, self.bottom = (numbers[0] - 1, numbers[1] - 1) if numbers else (0, self.rows - 1)
                self.row = self.column = 0
            case "m":
                pass
            case "h" | "l":
                assert parameters == "?25", parameters  # the cursor, shown or not
            case _:
                raise AssertionError(f"unknown control code: {parameters}{final}")

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Terminal:
    """A command that runs in a pseudo-terminal, and the grid that shows what it wrote."""

    def __init__(self, pid: int, master: int, rows: int, columns: int) -> None:
        self.pid, self.master = pid, master
        self.grid = Grid(rows, columns)
        self.written = ""
        self.status: int | None = None

    def read(self, seconds: float = 0.0) -> bool:
        """Show what has come, after waiting so long for it; False once the command has ended."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux's way of telling that the other side is closed
            return False
        text = data.decode()
        self.written += text
        self.grid.write(text)
        return bool(data)

    def until(self, seen: str | Callable[[Grid], object], seconds: float = SECONDS) -> None:
        """Read until that text stands on the screen, or that is true of it."""
        deadline = time.monotonic() + seconds
        while not (seen in str(self.grid) if isinstance(seen, str) else seen(self.grid)):
            assert time.monotonic() < deadline, f"not seen: {seen}\n{self.grid}"
            assert self.read(0.05), f"ended before: {seen}\n{self.grid}"

    def type(self, text: str) -> None:
        self.grid.keys += 1
        os.write(self.master, text.encode())

    def attributes(self) -> list[object]:
        """The terminal's modes, as termios gives them."""
        return list(termios.tcgetattr(self.master))

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit status, once the command has ended."""
        deadline = time.monotonic() + seconds
        while self.read(0.05):
            assert time.monotonic() < deadline, f"has not ended\n{self.grid}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


@contextmanager
def lab_in_terminal(
    *arguments: str, rows: int = 24, columns: int = 80, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """The `lab` command in a pseudo-terminal of that size; ended by ^C if it has not ended by itself."""
    pid, master = pty.fork()
    if pid == 0:
        variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        variables |= {"PYTHONPATH": str(paths.ROOT / "scripts"), "TERM": "xterm-256color", **(environment or {})}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "lab", *arguments], variables)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal = Terminal(pid, master, rows, columns)
    try:
        yield terminal
    finally:
        if terminal.status is None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            terminal.wait()
        os.close(master)
