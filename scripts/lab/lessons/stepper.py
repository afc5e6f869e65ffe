"""A scenario Enter by Enter, for a room: the question first, what the sessions do step by step, and what was observed last."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text as Line

from lab.base.language import say
from lab.lessons import blocks, registry
from lab.lessons.lesson import CheckResult, Observed
from lab.lessons.registry import Told
from lab.lessons.report import verdict
from lab.lessons.screen import Screen
from lab.lessons.standing_clock import StandingClock
from lab.lessons.status import read_sessions, status
from lab.scenario.grammar import Step
from lab.scenario.queue_state import observing
from lab.scenario.result import Event, Play
from lab.scenario.stage import ScenarioResult, Stage
from lab.server.session import SessionPins

APART = "   "  # between two parts of the status
CHARACTERS_A_SECOND = 20  # the pace of a play that runs by itself: that of reading aloud
LEAST_ROOM = 3  # rows on a page of a terminal that is too low for more
LEAST_PAUSE, LONGEST_PAUSE = 2.0, 12.0  # s


class Stopped(Exception):
    """The reader asked to stop."""


class Skipped(Exception):
    """The reader asked for the next scenario."""


class Repeated(Exception):
    """The reader asked for the same scenario from its start."""


@dataclass
class _Shown:
    """What was shown of a step, and what was guessed."""

    step: Step
    lines: list[Line] = field(default_factory=list)
    guess: str = ""


class Stepper:
    """Plays scenarios on `stage`, asking on `console` for Enter before each step."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self.stage = stage
        self.console = console
        self.screen = Screen(console)
        self.by_itself = False
        self.unread = 0  # characters shown since the last pause
        self.fresh = 0  # rows printed since the last prompt
        self.to_print: list[Line] = []  # lines that are to be shown next
        self.clock: StandingClock | None = None
        self.results: dict[str, CheckResult] = {}  # by the scenario's name: one that is repeated counts once

    def tell(self, wanted: Sequence[Told]) -> bool:
        """Play the scenarios one after the other; returns whether all that were played to their end hold."""
        try:
            with (
                observing(self.stage.conninfo) as self.observer,
                self.stage.connection("lab/clock") as self.setting_clock,
            ):
                for number, told in enumerate(wanted, start=1):
                    after = wanted[number] if number < len(wanted) else None
                    self.place = f"{number}/{len(wanted)}" if len(wanted) > 1 else ""
                    while not self.once(told, after):
                        pass
        except Stopped:
            pass
        finally:
            self.screen.close()
        return all(result.observed.holds is not False for result in self.results.values())

    def once(self, told: Told, after: Told | None) -> bool:
        """Play one scenario, and say what it came to; False if it is to be repeated."""
        try:
            self.closing(self.play(told), after)
        except Skipped:
            return True
        except Repeated:
            return False
        finally:
            if self.clock is not None:
                self.clock.remove()
                self.clock = None
        return True

    # -- one scenario

    def play(self, told: Told) -> ScenarioResult:
        """Play one scenario. Raises Stopped, Skipped or Repeated as the reader asks; Stopped, too, if input ends."""
        self.told = told
        self.steps: list[_Shown] = []
        self.lefts: dict[str, int] = {}  # by session: how far from the left its block of now stands
        self.unread = self.fresh = 0
        self.to_print = []
        self.screen.clear()
        self.head()
        if not self.screen.fixed:
            self.console.rule(f"[bold]{self.title()}")
            self.console.print(str(told.lesson.question), style="bold", highlight=False)
            self.console.print(_keys(), highlight=False)
        # The room may ponder for as long as it likes: only the scenario's own lock_timeout may end a wait.
        pins = SessionPins(statement_timeout="0")
        try:
            return self.stage.play(told.scenario, pins=pins, before=self.before, seen=self.seen)
        finally:
            self.screen.hold()

    def before(self, play: Play, step: Step) -> None:
        """Show the question and the statement, and wait for Enter."""
        self.screen.hold()
        self.clock = self.clock or StandingClock(self.setting_clock, play.scenario)
        with self.clock.standing():
            self.release()
            self.steps.append(_Shown(step))
            self.prose(step.prose or "")
            self.lefts[step.session] = self.console.width // 10 * play.scenario.sessions.index(step.session)
            self.show_block(step.session, blocks.statement(step.sql))
            early = self.release(together=True)
            what = say(f"Enter: {step.session} runs it", f"Enter: {step.session} executa")
            if _asks(step.prose) and not self.by_itself:
                what += say("; a guess may be typed first", "; antes, dá para digitar um palpite")
            self.steps[-1].guess = self.decide(f"[{len(self.steps)}/{len(play.scenario.steps)}] {what}") or early

    def seen(self, play: Play, event: Event) -> None:
        """Show what was seen, beside the name of its session."""
        self.screen.hold()
        if event.notice is not None:
            self.show_block(event.notice.session, [Line(f"{event.notice.severity}: {event.notice.message}")])
        elif event.run is not None:
            run = event.run
            if event.kind == "waiting":
                self.show_block(run.step.session, [Line(blocks.waits(run), style="bold yellow")])
                self.print_what_fits()
                self.screen.tick(self.head)
                return
            self.show_block(run.step.session, blocks.outcome(play, run, self.console))
            guess = next(shown.guess for shown in self.steps if shown.step is run.step)
            if guess:
                self.show_block(run.step.session, [Line(f"{say('guess', 'palpite')}: {guess}", style="bold")])
            if event.kind == "completed" and (ends := play.scenario.ends_of(run.step)):
                self.prose(ends.prose)
        self.print_what_fits()

    def closing(self, result: ScenarioResult, after: Told | None) -> None:
        """What was claimed and observed, whether it holds, what was guessed, and what to run next."""
        self.release()
        check = self.told.check
        observed = check.judge(result.play) if check.judge else Observed(None, "", "")
        checked = CheckResult(check, observed, (self.told.scenario.name,))
        self.results[self.told.scenario.name] = checked
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        table.add_row(say("claim", "afirmação"), Line(str(check.text)))
        table.add_row(say("observed", "observado"), Line(str(observed.text)))
        table.add_row(say("holds", "confere"), verdict(checked))
        for shown in self.steps:
            if shown.guess and (run := result.play.runs.get(shown.step.name)):
                table.add_row(
                    say("guess", "palpite"), Line(f"{shown.guess}  →  {run.step.session}: {blocks.brief(run)}")
                )
        with self.console.capture() as capture:
            self.console.print()
            self.console.print(table, highlight=False)
            if observed.why:
                self.console.print(observed.why, style="red", highlight=False, markup=False)
            if after is None:
                if len(self.results) > 1:
                    self.console.print(self.tally(), style="bold", highlight=False)
                self.console.print(self.next(), style="bold", highlight=False, markup=False)
        self.to_print = [Line.from_ansi(line) for line in capture.get().splitlines()]
        self.release(together=True)
        where = after.scenario.name if after else say("the end", "fim")
        self.decide(say(f"Enter: {where}", f"Enter: {where}"))

    def tally(self) -> str:
        held, played = sum(bool(each.observed.holds) for each in self.results.values()), len(self.results)
        return say(f"Checks passed: {held} of {played}.", f"Verificações: {held} de {played}.")

    def next(self) -> str:
        """What to run after the last scenario: the lesson's next one, else the next lesson."""
        lesson, names = self.told.lesson, registry.names()
        scenarios = [each.scenario.name for each in registry.told([lesson.number])]
        here = self.told.scenario.name
        words, question = f"./lab run {lesson.number}", ""
        if here in scenarios[:-1]:
            words = f"./lab step {scenarios[scenarios.index(here) + 1]}"
        elif lesson.name != names[-1]:
            following = registry.find(names[names.index(lesson.name) + 1])
            words, question = f"./lab step {following.number}", f"   {following.question}"
        return f"{say('Next', 'A seguir')}: {words}{question}"

    # -- what the reader asks for

    def decide(self, what: str) -> str:
        """Wait for Enter, which does `what`; returns what was typed that is no key. Raises what a key asks for."""
        live = at = len(self.steps) - 1  # the step that is looked at: the last one, or an earlier one
        self.head()
        if not self.screen.fixed:
            self.console.print(*self.status(), sep="\n", highlight=False)
        while True:
            back = say(f"looking back: step {at + 1}; Enter: forward", f"revendo o passo {at + 1}; Enter: avançar")
            typed = self.pause(what) if self.by_itself else self.ask(what if at == live else back)
            if typed is None:
                return ""
            match self.keys().get(typed.lower(), typed):
                case "repeat" | "skip" | "stop" as key:
                    _leave(key)
                case "by itself":
                    self.by_itself = True
                case "look back" if at <= 0:
                    first = say("No step comes before this one.", "Não há passo antes deste.")
                    self.print([Line(first, style="italic")])
                case "look back":
                    at -= 1
                    self.show_again(at)
                case "" if self.by_itself:
                    self.by_itself = False
                case "" if at < live:
                    at += 1
                    self.show_again(at)
                case guess:
                    self.by_itself = False
                    return guess

    def keys(self) -> dict[str, str]:
        """What each key asks for. None is a session's name, or begins a yes or a no: such letters are guesses."""
        return {
            "r": "repeat",
            say("s", "p"): "skip",
            say("p", "t"): "by itself",
            say("l", "v"): "look back",
            "q": "stop",
        }

    def ask(self, what: str) -> str:
        """What is typed at the prompt; meanwhile the head goes on telling how long a session has waited."""
        self.screen.tick(self.head)
        try:
            return self.screen.ask(Line(f"{what} >", style="bold"))
        except EOFError:
            raise Stopped from None
        finally:
            self.screen.hold()
            self.unread = self.fresh = 0

    def pause(self, what: str) -> str | None:
        """Wait as long as it takes to read what was shown; what was typed meanwhile, None if nothing was."""
        seconds = min(max(self.unread / CHARACTERS_A_SECOND, LEAST_PAUSE), LONGEST_PAUSE)
        stops = say(
            f"by itself, in {seconds:.0f} s; Enter: stop here", f"sozinho, em {seconds:.0f} s; Enter: parar aqui"
        )
        self.screen.tick(self.head)
        try:
            return self.screen.pause(Line(f"{what} ({stops})"), seconds)
        except EOFError:
            raise Stopped from None
        finally:
            self.screen.hold()
            self.unread = self.fresh = 0

    def show_again(self, at: int) -> None:
        """Print what was shown of a step, once more."""
        self.console.rule(say(f"step {at + 1}", f"passo {at + 1}"))
        self.fresh += 1
        self.to_print = list(self.steps[at].lines)
        self.release()

    def more(self) -> str:
        """Wait for Enter before what would push away what is not read yet; returns what was typed that is no key."""
        self.head()
        what = say("Enter: more", "Enter: continua")
        typed = self.pause(what) if self.by_itself else self.ask(what)
        if typed is None:
            return ""
        key = self.keys().get(typed.lower())
        _leave(key)
        self.by_itself = key == "by itself"
        return "" if key else typed

    # -- the head

    def head(self) -> None:
        keys = Line(f"── {_keys()} ")
        keys.pad_right(self.console.width - keys.cell_len, "─")
        title = Line(self.title(), style="bold reverse")
        title.truncate(self.console.width, pad=True)
        self.screen.head([title, *self.question(), *self.status(), keys])

    def question(self) -> list[Line]:
        return list(Line(str(self.told.lesson.question), style="bold").wrap(self.console, self.console.width))

    def title(self) -> str:
        number, total = len(self.steps), len(self.told.scenario.steps)
        step = say(f"step {number} of {total}", f"passo {number} de {total}") if number else ""
        return "   ".join(part for part in (self.told.scenario.name, self.place, step) if part)

    def status(self) -> list[Line]:
        """How queue and sessions stand now, in as many lines as it takes, but no more than a few."""
        sessions = read_sessions(self.observer, self.told.scenario.sessions)
        lines: list[Line] = []
        for part in status(self.observer.read(), sessions):
            if lines and lines[-1].cell_len + len(APART) + part.cell_len <= self.console.width:
                lines[-1] = Line.assemble(lines[-1], APART, part)
            else:
                lines.append(part)
        most = self.most_status()
        if len(lines) > most:
            lines = [*lines[: most - 1], Line.assemble(lines[most - 1], " …")]
        return lines

    def most_status(self) -> int:
        """The most rows that the status takes."""
        return max(2, self.console.height // 10)

    # -- what is shown of a step

    def prose(self, text: object) -> None:
        """A sentence for the reader, apart from what stands above it."""
        if text is not None:
            style = "bold" if _asks(text) else "italic"
            self.show(Line(), *(Line(str(text), style=style).wrap(self.console, self.console.width) if text else ()))

    def show_block(self, session: str, lines: Sequence[Line]) -> None:
        """Print lines of a session, no further to the right than what stands above them of the same statement."""
        self.lefts[session] = blocks.left_of(lines, self.lefts[session], self.console)
        self.show(*blocks.block(session, self.lefts[session], lines, self.console))

    def show(self, *lines: Line) -> None:
        """Keep lines for looking back, and to be printed next."""
        self.steps[-1].lines += lines
        self.to_print += lines

    def print_what_fits(self) -> None:
        """Print what pushes away nothing that is not read yet. The rest waits: while a step runs, nothing is asked."""
        fit = max(0, self.room() - self.fresh)
        now, self.to_print = self.to_print[:fit], self.to_print[fit:]
        self.print(now)

    def release(self, *, together: bool = False) -> str:
        """Print the rest, page by page; `together`: on one page if it fits. Returns what was typed in between that is no key."""
        typed = ""
        if together and self.room() - self.fresh < len(self.to_print) <= self.room():
            typed = self.more()
        self.print_what_fits()
        while self.to_print:
            typed = self.more() or typed
            self.print_what_fits()
        return typed

    def room(self) -> int:
        """The rows between the largest head and the prompt; any number into a pipe."""
        if not self.screen.fixed:
            return sys.maxsize
        return max(LEAST_ROOM, self.console.height - len(self.question()) - self.most_status() - 3)

    def print(self, lines: Sequence[Line]) -> None:
        self.fresh += len(lines)
        self.unread += sum(map(len, lines))
        for line in lines:
            self.console.print(line, highlight=False, no_wrap=True)


def _leave(key: str | None) -> None:
    """Raise what a key asks for, if it ends the scenario."""
    match key:
        case "repeat":
            raise Repeated
        case "skip":
            raise Skipped
        case "stop":
            raise Stopped


def _keys() -> str:
    return say(
        "r: repeat · s: skip · p: play by itself · l: look back · q: stop",
        "r: repetir · p: pular · t: tocar sozinho · v: ver o anterior · q: parar",
    )


def _asks(prose: object) -> bool:
    return str(prose).endswith("?")
