"""A scenario Enter by Enter, sessions side by side: the view for a projector."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text as Line

from lab.base.language import say
from lab.scenario import transcript
from lab.scenario.grammar import Scenario, Step
from lab.scenario.result import Event, Play, StepRun
from lab.scenario.stage import ScenarioResult, Stage
from lab.server.session import SessionPins

GAP = 2  # characters between two sessions
COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


class Stopped(Exception):
    """The reader asked to stop."""


class Stepper:
    """Plays scenarios on `stage`, asking on `console` for Enter before each step."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self.stage = stage
        self.console = console

    def play(self, scenario: Scenario) -> ScenarioResult:
        """Play one scenario; raises Stopped if the reader types q or input ends."""
        self.columns = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(scenario.sessions)}
        self.console.rule(f"[bold]{scenario.name}")
        self.console.print(str(scenario.claim), style="bold", highlight=False)
        self.row(
            {
                name: Line(f"{say('session', 'sessão')} {name}", style=f"bold {colour}")
                for name, colour in self.columns.items()
            }
        )
        # The reader may ponder for as long as they like: only the scenario's own lock_timeout may end a wait.
        result = self.stage.play(scenario, pins=SessionPins(statement_timeout="0"), before=self.before, seen=self.seen)
        if not result.as_expected:
            self.console.print(result.why, style="red", highlight=False)
        return result

    def before(self, play: Play, step: Step) -> None:
        """Show the question and the statement, and wait for Enter."""
        self.prose(step.prose)
        self.row({step.session: Syntax(step.sql, "sql", theme="ansi_dark", background_color="default", word_wrap=True)})
        waiting = [run for run in play.runs.values() if run.outcome == "waiting"]
        for run in waiting:
            self.row({run.step.session: self.wait(run)})
        number, total = len(play.runs) + 1, len(play.scenario.steps)
        self.enter(
            say(
                f"[{number}/{total}] Enter: {step.session} runs it", f"[{number}/{total}] Enter: {step.session} executa"
            )
        )

    def seen(self, play: Play, event: Event) -> None:
        """Show what was seen, in the column of its session."""
        if event.notice is not None:
            self.row({event.notice.session: Line(f"{event.notice.severity}: {event.notice.message}", style="dim")})
        elif event.run is not None:
            run = event.run
            self.row({run.step.session: self.wait(run) if event.kind == "waiting" else self.outcome(run)})
            if event.kind == "completed" and (ends := play.scenario.ends_of(run.step)):
                self.prose(ends.prose)

    def wait(self, run: StepRun) -> Line:
        whom = say(" and ", " e ").join(run.waited_for)
        return Line(say(f"… waits for {whom}", f"… espera por {whom}"), style="bold yellow")

    def outcome(self, run: StepRun) -> Line:
        took = f"   ({run.seconds:.2f} s)" if run.waited_for else ""
        if run.outcome == "error":
            return Line(f"✗ {run.sqlstate} {transcript.condition(run.sqlstate or '')}{took}", style="bold red")
        text = self.table(run) if run.columns is not None else run.command
        return Line(f"{text}{took}", style="green")

    def table(self, run: StepRun) -> str:
        """What it returned: as a table where its column has room for one, else a line for each value, as psql does expanded."""
        names = run.columns or ()
        text = transcript.table(names, run.rows).rstrip()
        room = self.console.width // len(self.columns) - GAP
        if not run.rows or max(map(len, text.splitlines())) <= room:
            return text
        longest = max(map(len, names))
        return "\n\n".join(
            "\n".join(f"{name:{longest}} {value or ''}" for name, value in zip(names, row, strict=True))
            for row in run.rows
        )

    def prose(self, text: object) -> None:
        if text is not None:
            self.console.print(Padding(Line(str(text), style="italic"), (1, 0, 0, 0)))

    def row(self, cells: dict[str, Line | Syntax]) -> None:
        """One row of the side-by-side view: each session has a column of the same width."""
        grid = Table.grid(expand=True, padding=(0, GAP))
        for _ in self.columns:
            grid.add_column(ratio=1, overflow="fold")
        grid.add_row(*(cells.get(name, "") for name in self.columns))
        self.console.print(grid)

    def enter(self, text: str) -> None:
        """Wait for Enter; Stopped on q or at the end of input."""
        try:
            typed = self.console.input(Line(f"{text}   (q: {say('stop', 'parar')}) ", style="dim"))
        except EOFError:
            raise Stopped from None
        if not self.console.is_terminal:
            self.console.print()  # a pipe does not echo the Enter
        if typed.strip().lower() == "q":
            raise Stopped
