"""Documents a second through the Python worker's own path, as a ratio to pgbench calling the same functions.

Every figure is a ratio between runs of the same minute, interleaved; a run in which a document was done twice gives none.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import re
import statistics
import time
from contextlib import redirect_stdout
from dataclasses import dataclass

import psycopg

from lab.base.errors import LabError
from lab.base.language import say
from lab.measure.drain import CLAIM, FINISH, Field, Load, Nothing, by_pgbench, by_workers
from lab.measure.rounds import Seen, Spread, spread, turns
from lab.server import schema
from lab.server.target import Target
from lab.worker import worker
from lab.worker.worker import Options

STATE = schema.latest()
BATCHES = {1: 400, 10: 200, 100: 80}  # claims of one worker: about half a second's work, and more
CLIENTS = (1, 2, 4)
AIM = 0.85


@dataclass(frozen=True)
class Cell:
    """A batch and a number of workers: documents a second (medians), and the ratio of worker to pgbench.

    processor: seconds of processor time a document that the workers' own processes took (median).
    """

    batch: int
    clients: int
    worker: float
    pgbench: float
    processor: float
    ratio: Spread


def insist_on_disk(target: Target) -> None:
    """Raise LabError on a server that does not wait for its disk: there the cost of a transaction would be left out."""
    with psycopg.connect(target.conninfo) as connection:
        settings = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') AND setting = 'off'"
        off = [name for (name,) in connection.execute(settings.encode())]
    if off:
        raise LabError(
            say(
                f"{', '.join(off)} is off, so nothing would be measured.",
                f"{', '.join(off)} desligado: nada seria medido.",
            )
        )


def compare(
    field: Field, rounds: int, seen: Seen, batches: dict[int, int] = BATCHES, clients: tuple[int, ...] = CLIENTS
) -> list[Cell]:
    """Empty the same queue by pgbench and by workers, in turns, for each batch and number of them.

    batches: claims of each worker, by the size of a batch. Raises LabError, with no figure, if a run is void.
    """
    loads = [Load(number, claims, batch) for batch, claims in batches.items() for number in clients]
    pairs: dict[Load, list[tuple[float, float, float]]] = {load: [] for load in loads}
    for turn in turns(rounds, seen):
        for load in loads:
            pairs[load].append(_pair(field, load, worker_first=bool(turn % 2)))
    cells = []
    for load, seen_of_it in pairs.items():
        by_worker, by_pgb, processor = (statistics.median(figures) for figures in zip(*seen_of_it, strict=True))
        ratio = spread([ours / theirs for ours, theirs, _ in seen_of_it])
        cells.append(Cell(load.batch, load.clients, by_worker, by_pgb, processor, ratio))
        batch, both = say("batch", "lote"), say("and", "e")
        seen(
            f"  {batch} {load.batch:3}, workers {load.clients}: {ratio}   {by_worker:7,.0f} {both} {by_pgb:7,.0f};"
            f" Python {processor * 1e6:4,.0f} µs{_missed(ratio.median, AIM)}"
        )
    return cells


def _pair(field: Field, load: Load, worker_first: bool) -> tuple[float, float, float]:
    """Documents a second by workers and by pgbench, one right after the other; the workers' processor time a document."""
    rates = {}
    processor = 0.0
    for name in ("worker", "pgbench") if worker_first else ("pgbench", "worker"):
        field.fill(load.documents)
        if name == "worker":
            processor = by_workers(field, load) / load.documents
        else:
            by_pgbench(field, load, CLAIM, last=FINISH)
        field.check(load.documents)
        rates[name] = load.documents / field.seconds()
    return rates["worker"], rates["pgbench"], processor


def why(field: Field, seen: Seen, batch: int = 100, claims: int = 50) -> dict[str, float]:
    """Profile a worker in this process: which share of its processor time goes where."""
    load = Load(1, claims, batch)
    field.fill(load.documents)
    profile = cProfile.Profile(time.process_time)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        made = worker.make(field.conninfo, Nothing(), Options("worker-0", batch=batch, rounds=claims))
        profile.runcall(made.run)
    field.check(load.documents)
    shares = {"driver": 0.0, "log": 0.0, "worker": 0.0}
    places = {"driver": r"psycopg|worker/client", "log": r"json|event_log|isoformat|write|datetime"}
    for (file, _, function), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        where = next((name for name, place in places.items() if re.search(place, f"{file} {function}")), "worker")
        shares[where] += own
    total = sum(shares.values())
    told = ", ".join(f"{name} {part / total:.0%}" for name, part in shares.items())
    seen(
        say(
            "  where the aim is missed: a worker's Python needs a processor beside its server's; of its time at batch"
            f" {batch}: {told}",
            "  onde a meta não é alcançada: o Python de um worker pede um processador além do do servidor; do tempo dele no lote"
            f" {batch}: {told}",
        )
    )
    return {name: part / total for name, part in shares.items()}


def _missed(seen: float, aim: float) -> str:
    return "" if seen >= aim else say(f"   (the aim is {aim:.2f})", f"   (a meta é {aim:.2f})")
