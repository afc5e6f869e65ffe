"""A terminal for a room: a head that stays at the top while the text below it scrolls. A pipe gets plain text, without a control code."""

from __future__ import annotations

import select
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text as Line

LEAST_HEIGHT = 16  # rows; with fewer a fixed head would leave no room for a statement
TICK_SECONDS = 0.25

# By name, so that A is cyan in every scenario and in the tour; the name always stands beside its colour.
COLOURS = {"A": "cyan", "B": "magenta", "C": "yellow", "D": "green", "O": "bright_blue"}


def session_style(name: str) -> str:
    """The style in which a session's name and its blocks' edge are written."""
    return f"bold {COLOURS.get(name, 'bright_blue')}"


def folded(line: Line, width: int, console: Console, hanging: int) -> list[Line]:
    """A line, broken between words where it is wider; what is broken off is indented by `hanging` more than its beginning."""
    if line.cell_len <= width:
        return [line]
    indent = len(line.plain) - len(line.plain.lstrip())
    body = line[indent:]
    first = body.wrap(console, width - indent)[0]
    rest = body[len(first) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    further = " " * (indent + hanging)
    return [
        Line.assemble(" " * indent, first),
        *(Line.assemble(further, part) for part in rest.wrap(console, width - indent - hanging)),
    ]


class Screen:
    """The head, and reading what is typed. Text below the head is printed on `console` as anywhere else.

    The head's rows are kept out of the terminal's scrolling region: nothing printed can push them away.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.fixed = console.is_terminal and not console.is_dumb_terminal and console.height >= LEAST_HEIGHT
        self.drawn: tuple[int, int] | None = None  # rows of the head, and of the terminal
        self.ticker: threading.Thread | None = None
        self.over = threading.Event()

    def clear(self) -> None:
        """An empty screen; what stood there is scrolled up, not lost."""
        if self.fixed:
            self.drawn = None
            rows = self.console.height
            self.write(f"\x1b[r\x1b[{rows};1H" + "\n" * rows + "\x1b[1;1H")

    def head(self, lines: Sequence[Line]) -> None:
        """Draw the head, or draw it anew: each line takes one row. Nothing is drawn into a pipe."""
        if not self.fixed:
            return
        rows = self.console.height
        before, _ = self.drawn or (0, rows)
        text = "\x1b7"
        for number in range(max(len(lines), before)):
            text += f"\x1b[{number + 1};1H\x1b[2K" + (self.rendered(lines[number]) if number < len(lines) else "")
        if self.drawn != (len(lines), rows):
            text += f"\x1b[{len(lines) + 1};{rows}r"  # the scrolling region; setting it moves the cursor
        text += "\x1b8" if self.drawn else f"\x1b[{len(lines) + 1};1H"
        self.drawn = (len(lines), rows)
        self.write(text)

    def tick(self, draw: Callable[[], None]) -> None:
        """Call `draw` again and again until `hold`: while a session waits, and nothing else is written."""
        if self.fixed and self.ticker is None:
            self.over.clear()

            def ticking() -> None:
                while not self.over.wait(TICK_SECONDS):
                    draw()

            self.ticker = threading.Thread(target=ticking, daemon=True)
            self.ticker.start()

    def hold(self) -> None:
        """No longer call what `tick` was given."""
        self.over.set()
        if self.ticker is not None:
            self.ticker.join()
            self.ticker = None

    def ask(self, prompt: Line) -> str:
        """What is typed up to Enter, without the blanks around it. Raises EOFError at the end of input."""
        self.prompt(prompt)
        return self.read()

    def pause(self, prompt: Line, seconds: float) -> str | None:
        """Wait so long; what was typed on a terminal before that, else None. Raises EOFError if its input ends."""
        self.prompt(prompt)
        if not sys.stdin.isatty():
            time.sleep(seconds)  # what comes through a pipe came before it was asked for
        elif select.select([sys.stdin], [], [], seconds)[0]:
            return self.read()
        self.write("\r\x1b[2K" if self.fixed else "\n")
        return None

    def prompt(self, prompt: Line) -> None:
        if sys.stdin.isatty():
            # An Enter that was typed while a step ran did not mean the next one.
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self.console.print(prompt, end=" ", highlight=False)
        self.console.file.flush()

    def read(self) -> str:
        typed = sys.stdin.readline()
        if not sys.stdin.isatty() or not self.console.is_terminal:
            self.console.print()  # a pipe does not echo the Enter
        elif self.fixed and typed:
            self.write("\x1b[1A\x1b[2K")  # a prompt that is answered would only take room
        if not typed:
            raise EOFError
        return typed.strip()

    def close(self) -> None:
        """Give the whole terminal back."""
        self.hold()
        if self.fixed and self.drawn:
            self.drawn = None
            self.write(f"\x1b[r\x1b[{self.console.height};1H\n")

    def rendered(self, line: Line) -> str:
        with self.console.capture() as capture:
            self.console.print(line, end="", highlight=False, no_wrap=True, overflow="ellipsis", crop=True)
        return capture.get()

    def write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()
