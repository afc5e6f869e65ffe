"""`lab bench lab`: the lab's own running times, the player against isolationtester, the server's starts, the tour."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons.tour import Tour
from lab.scenario import isolationtester, library
from lab.scenario.grammar import Scenario
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.binaries import find_program
from lab.server.embedded import EmbeddedServer


def measure(stage: Stage, console: Console, rounds: int) -> None:
    """Measure and print; `rounds` is how often each is measured.

    Printed are the player's time on each scenario as a ratio to isolationtester's, the server's first and warm start, and
    where the tour spends its time. Raises LabError if isolationtester is not there to compare with.
    """
    tester = find_program("isolationtester")
    if tester is None:
        raise LabError(
            say(
                "isolationtester, which the player is compared with, was not found: `./lab doctor` says where it looks.",
                "O isolationtester, com que o executor é comparado, não foi encontrado: `./lab doctor` diz onde ele procura.",
            )
        )
    _players(stage, console, rounds, tester)
    _starts(console, min(rounds, 3))
    _tour(stage, console)


def _players(stage: Stage, console: Console, rounds: int, tester: Path) -> None:
    console.print(
        say(
            f"player / isolationtester, whole plays interleaved, {rounds} rounds: median (smallest to largest)",
            f"executor / isolationtester, execuções inteiras alternadas, {rounds} rodadas: mediana (menor a maior)",
        ),
        highlight=False,
    )
    medians = []
    for scenario in library.scenarios():
        ratios = [_ratio(stage, scenario, tester) for _ in range(rounds)]
        medians.append(statistics.median(ratios))
        to = say("to", "a")
        console.print(
            f"  {scenario.name:32} {medians[-1]:5.2f}  ({min(ratios):.2f} {to} {max(ratios):.2f})", highlight=False
        )
    every, largest = say("median of all", "mediana de todos"), say("largest", "maior")
    console.print(f"  {every:32} {statistics.median(medians):5.2f}, {largest} {max(medians):.2f}", highlight=False)


def _ratio(stage: Stage, scenario: Scenario, tester: Path) -> float:
    """One play by each, on a state built anew that is not counted."""
    stage.build(scenario.state)
    started = time.monotonic()
    play(scenario, stage.conninfo)
    ours = time.monotonic() - started
    stage.build(scenario.state)
    started = time.monotonic()
    isolationtester.judge(scenario, stage.conninfo, tester)
    return ours / (time.monotonic() - started)


def _starts(console: Console, rounds: int) -> None:
    first, warm = [], []
    for _ in range(rounds):
        home = Path(tempfile.mkdtemp(prefix="bench-", dir=paths.home()))
        server = EmbeddedServer(home)
        try:
            first.append(server.up().seconds)
            server.down()
            warm.append(server.up().seconds)
        finally:
            server.down()
            shutil.rmtree(home)
    one, other = statistics.median(first), statistics.median(warm)
    console.print(
        say(
            f"server: first start {one:.2f} s, warm start {other:.2f} s, first / warm {one / other:.1f}",
            f"servidor: primeira partida {one:.2f} s, partida a quente {other:.2f} s, primeira / a quente {one / other:.1f}",
        ),
        highlight=False,
    )


def _tour(stage: Stage, console: Console) -> None:
    stage.played.clear()
    started = time.monotonic()
    Tour(stage, Console(quiet=True)).tell()
    total = time.monotonic() - started
    console.print(say(f"tour: {total:.2f} s, of which", f"demonstração: {total:.2f} s, dos quais"), highlight=False)
    for result in stage.played:
        console.print(f"  {result.play.scenario.name:32} {result.play.seconds / total:4.0%}", highlight=False)
    rest = total - sum(result.play.seconds for result in stage.played)
    other = say("rebuilding the queue, connecting", "recriar a fila, conectar")
    console.print(f"  {other:32} {rest / total:4.0%}", highlight=False)
