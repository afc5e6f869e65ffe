"""The tour: the episode's story in under ten seconds, every figure of it observed as it is told; ✓ stands at each check."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.text import Text as Line

from lab.base.facts import decimal
from lab.base.language import say
from lab.lessons.screen import folded, session_style
from lab.scenario.library import find_scenario
from lab.scenario.result import Event, Play, StepRun, whole
from lab.scenario.stage import Stage
from lab.scenario.transcript import condition
from lab.server import schema

BAR = 16  # characters of the bar that grows while B waits
TEXT = 8  # characters before what is told of a session: a mark and its name
WAIT_SECONDS = 2.0  # the lock_timeout of the story

_Seen = Callable[[Play, Event], None]


@dataclass
class Tour:
    """Tells the story on `console`, playing it on `stage`."""

    stage: Stage
    console: Console
    held: list[bool] = field(default_factory=list)

    def tell(self) -> bool:
        """Tell all of it; returns whether every check passed."""
        self.opening()
        self.for_update_waits()
        self.skip_locked_passes()
        self.zero_rows()
        self.dead_worker()
        self.closing()
        return all(self.held)

    def opening(self) -> None:
        schema.build(self.stage.conninfo, 1)
        with self.stage.connection() as connection:
            row = connection.execute(
                "SELECT count(*), min(chave), max(chave) FROM fila_documentos WHERE status = 'pendente'"
            ).fetchone()
        assert row
        count, first, last = row
        self.line(
            say(
                f"{count} documents (the jobs) pending: {first} … {last}. Two workers, A and B.",
                f"{count} documentos pendentes na fila: {first} … {last}. Dois workers, A e B.",
            )
        )

    def for_update_waits(self) -> None:
        self.heading(1, "SELECT … FOR UPDATE LIMIT 1")
        with self.growing_bar() as seen:
            play = self.play("02_lock_timeout", seen)
        asks, pending = play["b_asks"], whole(play["b_counts"].one("pendentes")) or 0
        others = pending - len(play["a_takes"].rows)
        self.check(_timed_out(asks))  # its line has been told as the wait ended
        self.session(
            "B",
            say(
                f"{_got(asks)}: {_error(asks)}    {others} others were pending",
                f"{_got(asks)}: {_error(asks)}    outros {others} estavam pendentes",
            ),
            self.check(others == 3),
        )

    def skip_locked_passes(self) -> None:
        self.heading(2, "SELECT … FOR UPDATE SKIP LOCKED LIMIT 1")
        play = self.play("03_passes")
        asks = play["b_asks"]
        self.session("A", _got(play["a_takes"]))
        self.session(
            "B",
            f"{_got(asks)}    {decimal(asks.seconds * 1000, 1)} ms",
            self.check(asks.column("documento_id") == ("2",) and asks.seconds < 1),
        )

    def zero_rows(self) -> None:
        self.heading(3, say("A locks all four", "O worker A bloqueia os quatro"))
        play = self.play("03_all_locked")
        rows, pending = len(play["b_asks"].rows), play["b_counts"].one("pendentes")
        self.session(
            "B",
            say(
                f"SKIP LOCKED: {rows} rows    count(*): {pending} pending    not empty: locked",
                f"SKIP LOCKED: {rows} linhas    count(*): {pending} pendentes    não está vazia: está bloqueada",
            ),
            self.check(rows == 0 and pending == "4"),
        )

    def dead_worker(self) -> None:
        self.heading(4, say("A commits its claim, then is killed", "O worker A faz COMMIT da reserva e depois é morto"))
        play = self.play("04_dead_worker")
        locks, status, worker = (play["c_looks"].one(name) for name in ("bloqueios_de_a", "status", "worker_id"))
        again = play["a_claims"].one("documento_id") in play["b_asks"].column("documento_id")
        self.session(
            "A",
            say(
                f"locks held by A: {locks}    offered again: {_yes(again)}",
                f"bloqueios de A: {locks}    oferecido de novo: {_yes(again)}",
            ),
            self.check(locks == "0" and not again),
        )
        self.session(
            "A",
            say(
                f"status: '{status}' (in work), by {worker}, which is dead",
                f"status: '{status}', por {worker}, que está morto",
            ),
            self.check(status == "processando"),
        )
        self.line(
            "     "
            + say(
                "SKIP LOCKED cannot help here: no lock is left to skip. Lessons 05–10 show what can.",
                "Aqui o SKIP LOCKED não ajuda: não sobrou bloqueio para pular. Quem resolve são as lições 05 a 10.",
            )
        )

    def closing(self) -> None:
        held = say(f"{sum(self.held)} of {len(self.held)}", f"{sum(self.held)} de {len(self.held)}")
        self.line("")
        passed = say(f"Checks passed: {held}.", f"Verificações: {held}.")
        self.line(passed, style="bold" if all(self.held) else "bold red")
        self.line(
            say(
                "Next: ./lab step 02 · by hand in psql: ./lab walk 02 · em português: LEIAME.md",
                "A seguir: ./lab step 02 · à mão, no psql: ./lab walk 02",
            )
        )

    # -- telling

    def play(self, name: str, seen: _Seen | None = None) -> Play:
        result = self.stage.play(find_scenario(name), seen=seen)
        if not result.as_expected:
            self.line(f"{_mark(self.check(False))}  {result.why}", style="red")
        return result.play

    def check(self, holds: bool) -> bool:
        self.held.append(holds)
        return holds

    def heading(self, number: int, text: str) -> None:
        self.line(f"{number}  {text}", style="bold")

    def session(self, name: str, text: str, holds: bool | None = None) -> None:
        """A line about one worker; with `holds` it is a check and is marked as one."""
        _tell(self.console, Line.assemble(_mark(holds), " ", (name, session_style(name)), f"  {text}"))

    def line(self, text: str, style: str = "") -> None:
        _print(self.console, Line(text, style=style))

    @contextmanager
    def growing_bar(self) -> Iterator[_Seen]:
        """What to do as each event of the first story is seen: tell it, and let a bar grow while B waits."""
        bar = _Bar(self.console)

        def seen(play: Play, event: Event) -> None:
            run = event.run
            if run is None:
                return
            if run.step.name == "a_takes":
                self.session("A", _got(run) + say(", transaction left open", " e deixou a transação aberta"))
                self.line(f"     {play.scenario.step('b_asks').prose}")
            elif run.step.name == "b_asks" and event.kind == "waiting":
                bar.start(run)
            elif run.step.name == "b_asks":
                bar.stop(run)

        try:
            yield seen
        finally:
            bar.stop(None)


class _Bar:
    """A line that grows while a session waits; without a terminal it is printed once, when the wait is over."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self, run: StepRun) -> None:
        if self.console.is_terminal:
            self.thread = threading.Thread(target=self.grow, args=[run], daemon=True)
            self.thread.start()

    def grow(self, run: StepRun) -> None:
        with Live(console=self.console, transient=True, refresh_per_second=20) as live:
            tick = WAIT_SECONDS / BAR
            for length in range(1, BAR + 1):
                live.update(self.line(length, run))
                if self.over.wait(tick):
                    return
            self.over.wait()

    def stop(self, run: StepRun | None) -> None:
        self.over.set()
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if run is not None:
            length = min(BAR, max(1, round(BAR * run.seconds / WAIT_SECONDS)))
            _tell(self.console, self.line(length, run, over=True))

    def line(self, length: int, run: StepRun, over: bool = False) -> Line:
        """The wait as it stands; when it is over, marked as a check and with its seconds."""
        bar = ("#" * length).ljust(BAR)
        whom, limit = " ".join(run.waited_for), f"{WAIT_SECONDS:.0f} s"
        waits = say(f"waits for {whom}", f"espera por {whom}")
        until = say(f", until its lock_timeout of {limit}", f", até o seu lock_timeout de {limit}")
        name = ("B", session_style("B"))
        if not over:
            return Line.assemble(_mark(None), " ", name, f"  {bar}  {waits}")
        told = f"  {bar}  {waits}{until if _timed_out(run) else ''}    {decimal(run.seconds, 2)} s"
        return Line.assemble(_mark(_timed_out(run)), " ", name, told)


def _tell(console: Console, line: Line) -> None:
    """Print what is told of a session; what has to be folded goes on below its text."""
    _print(console, line, hanging=TEXT - (len(line) - len(line.plain.lstrip())))


def _print(console: Console, line: Line, hanging: int = 0) -> None:
    """Print a line, on a terminal broken between words; what goes into a pipe or a file is as long as it is."""
    for part in folded(line, console.width, console, hanging) if console.is_terminal else [line]:
        console.print(part, highlight=False, soft_wrap=True)


def _timed_out(run: StepRun) -> bool:
    """Whether it waited for A, and until its lock_timeout cancelled it."""
    return run.sqlstate == "55P03" and run.waited_for == ("A",) and WAIT_SECONDS - 0.05 <= run.seconds < 4


def _mark(holds: bool | None) -> Line:
    """What stands before a line: ✓ or ✗ before a check, nothing before any other."""
    return Line("    ") if holds is None else Line("   ✓", "green") if holds else Line("   ✗", "bold red")


def _got(run: StepRun) -> str:
    document = run.one("chave") if run.rows else None
    return say(f"got {document or 'none'}", f"pegou a {document}" if document else "não pegou nenhum")


def _error(run: StepRun) -> str:
    return f"{run.sqlstate} {condition(run.sqlstate or '')}"


def _yes(value: bool) -> str:
    return say("yes", "sim") if value else say("no", "não")
