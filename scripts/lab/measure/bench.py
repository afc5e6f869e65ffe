"""`lab bench`: ratios measured in one run, interleaved, since bare times mean little on a shared machine.

What the queue does is measured by worker_vs_pgbench and guarantee_cost; here is how it is told, and the lab's own running times.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.lessons.tour import Tour
from lab.measure import guarantee_cost, worker_vs_pgbench
from lab.measure.drain import Field
from lab.measure.guarantee_cost import Among, Price
from lab.measure.worker_vs_pgbench import Cell, Spread
from lab.scenario import isolationtester, library
from lab.scenario.grammar import Scenario
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.binaries import find_program
from lab.server.embedded import EmbeddedServer
from lab.server.target import Target

QUEUE = ("workers", "guarantees", "pending")
LAB = "lab"
PARTS = (*QUEUE, LAB)
RECORDED = paths.OBSERVED / "throughput.json"


@dataclass(frozen=True)
class Bench:
    """What was measured, on what; `busy` is how many processes wanted a core just before (the load average of a minute)."""

    server: str
    cores: int
    busy: float
    cells: tuple[Cell, ...]
    prices: tuple[Price, ...]
    among: tuple[Among, ...]

    def as_json(self) -> str:
        """The figures as `recorded` reads them."""
        return f"{json.dumps(asdict(self), indent=1)}\n"


def recorded() -> Bench:
    """The figures as `lab bench --record` has written them."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    cells = [Cell(**{**each, "ratio": Spread(**each["ratio"])}) for each in kept["cells"]]
    spreads = ("time", "in_memory")
    priced = [Price(**{**each, **{name: Spread(**each[name]) for name in spreads}}) for each in kept["prices"]]
    among = [Among(**each) for each in kept["among"]]
    return Bench(kept["server"], kept["cores"], kept["busy"], tuple(cells), tuple(priced), tuple(among))


def queue(target: Target, console: Console, rounds: int, parts: tuple[str, ...] = QUEUE) -> Bench:
    """Measure what the queue does and print it as it comes; `rounds` is how often each is measured.

    parts: workers (against pgbench), guarantees (what each costs), pending (a claim among few and among many).
    Raises LabError if a run is void, or on a server that does not wait for its disk.
    """
    worker_vs_pgbench.insist_on_disk(target)

    def seen(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    cores = os.cpu_count() or 1
    cells: list[Cell] = []
    priced: list[Price] = []
    among: list[Among] = []
    busy = os.getloadavg()[0]
    started = time.monotonic()
    with ExitStack() as stack:
        if "workers" in parts:
            field = Field(stack.enter_context(target.database("bench")), worker_vs_pgbench.STATE)
            seen(
                f"documents a second, worker / pgbench, {rounds} rounds interleaved, on {cores} cores: median (smallest to largest);"
                " both rates; processor time of the workers' own processes a document"
            )
            cells = worker_vs_pgbench.compare(field, rounds, seen)
            worker_vs_pgbench.why(field, seen)
        if "guarantees" in parts:
            seen("claim and finish of one document, as a ratio to the episode's; WAL bytes and fsyncs a document")
            seen(f"  {'':34} {'time':22} {'not waiting for disk':22} {'WAL':>7} {'fsyncs':>6}")
            things = list(guarantee_cost.priced(target, stack))
            priced = guarantee_cost.price(things, rounds, seen)
            for thing in things:
                if thing.name in guarantee_cost.WAL_PROFILES:
                    guarantee_cost.where_the_wal_goes(thing, seen)
        if "pending" in parts:
            few, many = guarantee_cost.PENDING
            seen(
                f"time of a claim, {many:,} pending / {few:,} pending, {guarantee_cost.LOOKS} claims each interleaved: medians"
            )
            fields = [Field(stack.enter_context(target.database("bench")), worker_vs_pgbench.STATE) for _ in range(2)]
            among = guarantee_cost.among_many(fields[0], fields[1], seen)
    seen(f"measured in {time.monotonic() - started:.0f} s; every document of every run finished once")
    return Bench(target.version, cores, busy, tuple(cells), tuple(priced), tuple(among))


def bench(stage: Stage, console: Console, rounds: int) -> None:
    """Measure and print; `rounds` is how often each is measured.

    Printed are the player's time on each scenario as a ratio to isolationtester's, the server's first and warm start, and
    where the tour spends its time. Raises LabError if isolationtester is not there to compare with.
    """
    tester = find_program("isolationtester")
    if tester is None:
        raise LabError(
            "isolationtester, which the player is compared with, was not found: `./lab doctor` says where it looks."
        )
    _players(stage, console, rounds, tester)
    _starts(console, min(rounds, 3))
    _tour(stage, console)


def _players(stage: Stage, console: Console, rounds: int, tester: Path) -> None:
    console.print(
        f"player / isolationtester, whole plays interleaved, {rounds} rounds: median (smallest to largest)",
        highlight=False,
    )
    medians = []
    for scenario in library.scenarios():
        ratios = [_ratio(stage, scenario, tester) for _ in range(rounds)]
        medians.append(statistics.median(ratios))
        console.print(
            f"  {scenario.name:32} {medians[-1]:5.2f}  ({min(ratios):.2f} to {max(ratios):.2f})", highlight=False
        )
    console.print(
        f"  {'median of all':32} {statistics.median(medians):5.2f}, largest {max(medians):.2f}", highlight=False
    )


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
        f"server: first start {one:.2f} s, warm start {other:.2f} s, first / warm {one / other:.1f}", highlight=False
    )


def _tour(stage: Stage, console: Console) -> None:
    stage.played.clear()
    started = time.monotonic()
    Tour(stage, Console(quiet=True)).tell()
    total = time.monotonic() - started
    console.print(f"tour: {total:.2f} s, of which", highlight=False)
    for result in stage.played:
        console.print(f"  {result.play.scenario.name:32} {result.play.seconds / total:4.0%}", highlight=False)
    rest = total - sum(result.play.seconds for result in stage.played)
    console.print(f"  {'rebuilding the queue, connecting':32} {rest / total:4.0%}", highlight=False)
