"""The tour: the episode's story in under ten seconds, every figure of it observed as it is told."""

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
from lab.scenario.library import find_scenario
from lab.scenario.result import Event, Play, StepRun, whole
from lab.scenario.stage import Stage
from lab.scenario.transcript import condition
from lab.server import schema

BAR = 20  # characters of the bar that grows while B waits
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
                f"{count} documents pending: {first} … {last}. Two workers, A and B.",
                f"{count} documentos pendentes: {first} … {last}. Dois workers, A e B.",
            )
        )

    def for_update_waits(self) -> None:
        self.heading(1, "SELECT … FOR UPDATE LIMIT 1")
        with self.growing_bar() as seen:
            play = self.play("02_lock_timeout", seen)
        asks, pending = play["b_asks"], whole(play["b_counts"].one("pendentes")) or 0
        others = pending - len(play["a_takes"].rows)
        self.check(asks.sqlstate == "55P03" and asks.waited_for == ("A",) and WAIT_SECONDS - 0.05 <= asks.seconds < 4)
        self.check(others == 3)
        got = asks.value or say("none", "nenhum")
        self.session(
            "B",
            f"{got}: {_error(asks)}    " + say(f"{others} others were pending", f"outros {others} estavam pendentes"),
        )

    def skip_locked_passes(self) -> None:
        self.heading(2, "SELECT … FOR UPDATE SKIP LOCKED LIMIT 1")
        play = self.play("03_passes")
        asks = play["b_asks"]
        self.check(asks.column("documento_id") == ("2",) and asks.seconds < 1)
        self.session("A", _got(play["a_takes"]))
        self.session("B", f"{_got(asks)}".ljust(38) + f"{decimal(asks.seconds * 1000, 1)} ms")

    def zero_rows(self) -> None:
        self.heading(3, say("A locks all four", "A bloqueia os quatro"))
        play = self.play("03_all_locked")
        rows, pending = len(play["b_asks"].rows), play["b_counts"].one("pendentes")
        self.check(rows == 0 and pending == "4")
        self.session(
            "B",
            say(
                f"SKIP LOCKED: {rows} rows    count(*): {pending} pending    not empty: locked",
                f"SKIP LOCKED: {rows} linhas    count(*): {pending} pendentes    não está vazia: está bloqueada",
            ),
        )

    def dead_worker(self) -> None:
        self.heading(4, say("A commits its claim, then is killed", "A faz COMMIT da reserva e depois é morto"))
        play = self.play("04_dead_worker")
        locks, status, worker = (play["c_looks"].one(name) for name in ("bloqueios_de_a", "status", "worker_id"))
        again = play["a_claims"].one("documento_id") in play["b_asks"].column("documento_id")
        self.check(locks == "0" and not again)
        self.check(status == "processando")
        self.session(
            "A",
            say(
                f"locks {locks}    status {status}, for {worker}, who is dead    offered again: {_yes(again)}",
                f"bloqueios {locks}    status {status}, de {worker}, que morreu    oferecido de novo: {_yes(again)}",
            ),
        )
        self.line(
            "     "
            + say(
                "SKIP LOCKED cannot help here: no lock is left to skip. Lessons 05 to 10 do.",
                "Aqui o SKIP LOCKED não ajuda: não resta bloqueio a pular. As lições 05 a 10, sim.",
            )
        )

    def closing(self) -> None:
        held = say(f"{sum(self.held)} of {len(self.held)}", f"{sum(self.held)} de {len(self.held)}")
        self.line("")
        self.line(
            say(
                f"Checks passed: {held}.  Next: ./lab step 02",
                f"Verificações: {held}.  A seguir: ./lab step 02",
            )
            + say(
                " · two psql windows: README · em português: LEIAME.md",
                " · duas janelas do psql: LEIAME.md · in English: README",
            ),
            style="bold" if all(self.held) else "bold red",
        )

    # -- telling

    def play(self, name: str, seen: _Seen | None = None) -> Play:
        result = self.stage.play(find_scenario(name), seen=seen)
        if not result.as_expected:
            self.check(False)
            self.line(result.why, style="red")
        return result.play

    def check(self, holds: bool) -> None:
        self.held.append(holds)

    def heading(self, number: int, text: str) -> None:
        self.line(f"{number}  {text}", style="bold")

    def session(self, name: str, text: str) -> None:
        self.line(Line.assemble("     ", (name, "bold cyan" if name == "A" else "bold magenta"), f"  {text}"))

    def line(self, text: str | Line, style: str = "") -> None:
        self.console.print(text, style=style, highlight=False, soft_wrap=True)

    @contextmanager
    def growing_bar(self) -> Iterator[_Seen]:
        """What to do as each event of the first story is seen: tell it, and let a bar grow while B waits."""
        bar = _Bar(self.console)

        def seen(play: Play, event: Event) -> None:
            run = event.run
            if run is None:
                return
            if run.step.name == "a_takes":
                self.session("A", _got(run) + say(", transaction left open", ", transação deixada aberta"))
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
                live.update(self.line(length, run, ""))
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
            self.console.print(
                self.line(length, run, f"{decimal(run.seconds, 2)} s".rjust(14)), highlight=False, soft_wrap=True
            )

    def line(self, length: int, run: StepRun, tail: str) -> Line:
        whom = " ".join(run.waited_for)
        waits = say(f"waits for {whom}", f"espera por {whom}")
        return Line.assemble("     ", ("B", "bold magenta"), "  ", ("#" * length).ljust(BAR), f"  {waits}", tail)


def _got(run: StepRun) -> str:
    return say("got ", "recebeu ") + (run.one("chave") or "" if run.rows else say("nothing", "nada"))


def _error(run: StepRun) -> str:
    return f"{run.sqlstate} {condition(run.sqlstate or '')}"


def _yes(value: bool) -> str:
    return say("yes", "sim") if value else say("no", "não")
