"""`lab bench`: ratios measured in one run, interleaved, since bare times mean little on a shared machine.

What the queue does is measured by worker_vs_pgbench, peers and guarantee_cost; here is how it is told.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from rich.console import Console

from lab.base import paths
from lab.base.language import say
from lab.measure import guarantee_cost, worker_vs_pgbench
from lab.measure import peers as other_queues
from lab.measure.drain import Field
from lab.measure.guarantee_cost import Among, Price
from lab.measure.peers import Figures
from lab.measure.rounds import Spread
from lab.measure.worker_vs_pgbench import Cell
from lab.server.target import Target

PARTS = ("workers", "peers", "guarantees", "pending")
RECORDED = paths.OBSERVED / "throughput.json"


@dataclass(frozen=True)
class Bench:
    """What was measured, on what; `busy` is how many processes wanted a core just before (the load average of a minute)."""

    server: str
    cores: int
    busy: float
    cells: tuple[Cell, ...]
    peers: tuple[Figures, ...]
    prices: tuple[Price, ...]
    among: tuple[Among, ...]

    def as_json(self) -> str:
        """The figures as `recorded` reads them."""
        return f"{json.dumps(asdict(self), indent=1)}\n"


def recorded() -> Bench:
    """The figures as `lab bench --record` has written them."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    cells = [Cell(**{**each, "ratio": Spread(**each["ratio"])}) for each in kept["cells"]]
    peers = [Figures(**{**each, "ratio": each["ratio"] and Spread(**each["ratio"])}) for each in kept["peers"]]
    spreads = ("time", "in_memory")
    priced = [Price(**{**each, **{name: Spread(**each[name]) for name in spreads}}) for each in kept["prices"]]
    among = [Among(**each) for each in kept["among"]]
    return Bench(kept["server"], kept["cores"], kept["busy"], tuple(cells), tuple(peers), tuple(priced), tuple(among))


def queue(target: Target, console: Console, rounds: int, parts: tuple[str, ...] = PARTS) -> Bench:
    """Measure what the queue does and print it as it comes; `rounds` is how often each is measured.

    parts: workers (against pgbench), peers (the worker beside pgmq and a bare queue), guarantees (what each costs), pending (a claim
    among few and among many).
    Raises LabError if a run is void, or on a server that does not wait for its disk.
    """
    worker_vs_pgbench.insist_on_disk(target)

    def seen(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    cores = os.cpu_count() or 1
    cells: list[Cell] = []
    compared: list[Figures] = []
    priced: list[Price] = []
    among: list[Among] = []
    busy = os.getloadavg()[0]
    started = time.monotonic()
    with ExitStack() as stack:
        if "workers" in parts:
            field = Field(stack.enter_context(target.database("bench")), worker_vs_pgbench.STATE)
            seen(
                say(
                    f"documents a second, worker / pgbench, {rounds} rounds interleaved, on {cores} cores: median (smallest to"
                    " largest); both rates; processor time of the workers' own processes a document",
                    f"documentos por segundo, worker / pgbench, {rounds} rodadas alternadas, em {cores} núcleos: mediana (menor a"
                    " maior); as duas taxas; tempo de processador dos processos dos workers por documento",
                )
            )
            cells = worker_vs_pgbench.compare(field, rounds, seen)
            worker_vs_pgbench.why(field, seen)
        if "peers" in parts:
            seen(
                say(
                    f"documents a second, {other_queues.CLIENTS} clients; WAL bytes and fsyncs a document; times pgmq's read and"
                    " delete",
                    f"documentos por segundo, {other_queues.CLIENTS} clientes; bytes de WAL e fsyncs por documento; vezes a"
                    " leitura e a exclusão do pgmq",
                )
            )
            compared = other_queues.compare(other_queues.peers(target, stack, seen), rounds, seen)
        if "guarantees" in parts:
            seen(
                say(
                    "claim and finish of one document, as a ratio to the episode's; WAL bytes and fsyncs a document",
                    "reserva e conclusão de um documento, em relação às do episódio; bytes de WAL e fsyncs por documento",
                )
            )
            lasts, in_memory = say("time", "tempo"), say("not waiting for disk", "sem esperar o disco")
            seen(f"  {'':34} {lasts:22} {in_memory:22} {'WAL':>7} {'fsyncs':>6}")
            things = list(guarantee_cost.priced(target, stack))
            priced = guarantee_cost.price(things, rounds, seen)
            for thing in things:
                if thing.name in guarantee_cost.WAL_PROFILES:
                    guarantee_cost.where_the_wal_goes(thing, seen)
        if "pending" in parts:
            few, many = guarantee_cost.PENDING
            looks = guarantee_cost.LOOKS
            seen(
                say(
                    f"time of a claim, {many:,} pending / {few:,} pending, {looks} claims each interleaved: medians",
                    f"tempo de uma reserva, {many:,} pendentes / {few:,} pendentes, {looks} reservas de cada, alternadas: medianas",
                )
            )
            fields = [Field(stack.enter_context(target.database("bench")), worker_vs_pgbench.STATE) for _ in range(2)]
            among = guarantee_cost.among_many(fields[0], fields[1], seen)
    seconds = time.monotonic() - started
    seen(
        say(
            f"measured in {seconds:.0f} s; every document of every run finished once",
            f"medido em {seconds:.0f} s; cada documento de cada execução concluído uma vez",
        )
    )
    return Bench(target.version, cores, busy, tuple(cells), tuple(compared), tuple(priced), tuple(among))
