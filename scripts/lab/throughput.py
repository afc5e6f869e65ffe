"""Documents a second through the Python worker's own path, as a ratio to pgbench calling the same functions; what each costs.

Every figure is a ratio between runs of the same minute, interleaved; a run in which a document was done twice gives none.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, dataclass

import psycopg

from lab import paths, worker
from lab.emptying import CLAIM, FINISH, Field, Load, Nothing, by_pgbench, by_workers
from lab.errors import LabError
from lab.language import say
from lab.target import Target
from lab.worker import Options

RECORDED = paths.OBSERVED / "throughput.json"
STATE = 10
BATCHES = {1: 400, 10: 200, 100: 80}  # claims of one worker: about half a second's work, and more
CLIENTS = (1, 2, 4)
AIMS = {1: 0.65, 10: 0.85, 100: 0.85}
PRICED = 500  # documents in a run that prices the guarantees
PENDING = (1_000, 1_000_000)
RARE = 300  # documents of the rare tenant in each
LOOKS = 120  # claims in each, of any tenant and of the rare one
IN_MEMORY = "-c synchronous_commit=off"
Seen = Callable[[str], None]


@dataclass(frozen=True)
class Spread:
    """Ratios of the rounds: their median, smallest and largest."""

    median: float
    smallest: float
    largest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.smallest:.2f} to {self.largest:.2f})"


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


@dataclass(frozen=True)
class Price:
    """A state of the protocol, claiming and finishing one by one: time as a ratio to the episode's, and what goes to the disk.

    time: with the disk waited for, in_memory: without. wal and fsyncs: bytes and calls a document.
    """

    name: str
    time: Spread
    in_memory: Spread
    wal: float
    fsyncs: float


@dataclass(frozen=True)
class Among:
    """A claim among many pending documents: its time as a ratio to that among few."""

    tenant: str
    ratio: float
    few: float
    many: float


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    server: str
    cores: int
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
    prices = [Price(**{**each, **{name: Spread(**each[name]) for name in spreads}}) for each in kept["prices"]]
    among = [Among(**each) for each in kept["among"]]
    return Bench(kept["server"], kept["cores"], tuple(cells), tuple(prices), tuple(among))


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


# -- the worker and pgbench


def compare(
    field: Field, rounds: int, seen: Seen, batches: dict[int, int] = BATCHES, clients: tuple[int, ...] = CLIENTS
) -> list[Cell]:
    """Empty the same queue by pgbench and by workers, in turns, for each batch and number of them.

    batches: claims of each worker, by the size of a batch. Raises LabError, with no figure, if a run is void.
    """
    cells = []
    for batch, claims in batches.items():
        for number in clients:
            load = Load(number, claims, batch)
            pairs = [_pair(field, load, worker_first=bool(turn % 2)) for turn in range(rounds)]
            by_worker, by_pgb, processor = (statistics.median(figures) for figures in zip(*pairs, strict=True))
            ratio = spread([ours / theirs for ours, theirs, _ in pairs])
            cells.append(Cell(batch, number, by_worker, by_pgb, processor, ratio))
            seen(
                f"  batch {batch:3}, workers {number}: {ratio}   {by_worker:7,.0f} and {by_pgb:7,.0f}; Python {processor * 1e6:4,.0f} µs"
                f"{_missed(ratio.median, AIMS.get(batch, 0))}"
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
    made = worker.make(field.conninfo, Nothing(), Options("worker-0", batch=batch, rounds=claims))
    profile = cProfile.Profile(time.process_time)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        profile.runcall(made.run)
    field.check(load.documents)
    shares = {"driver": 0.0, "log": 0.0, "worker": 0.0}
    places = {"driver": "psycopg", "log": r"json|worklog|isoformat|flush|write|datetime"}
    for (file, _, function), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        where = next((name for name, place in places.items() if re.search(place, f"{file} {function}")), "worker")
        shares[where] += own
    total = sum(shares.values())
    told = ", ".join(f"{name} {part / total:.0%}" for name, part in shares.items())
    seen(
        f"  where the aim is missed: a worker's Python needs a processor beside its server's; of its time at batch {batch}: {told}"
    )
    return {name: part / total for name, part in shares.items()}


def _missed(seen: float, aim: float) -> str:
    return "" if seen >= aim else f"   (the aim is {aim:.2f})"


# -- what each guarantee costs


def episode() -> str:
    """The episode's own claim and its owner's finish, as they stand in sql/04_claim_and_finish.sql."""
    text = (paths.SQL / "04_claim_and_finish.sql").read_text(encoding="utf-8")
    claim, finish = (
        re.search(r"^WITH .*?;", text, re.M | re.S),
        re.search(r"the owner one row\.\n(UPDATE .*?;)", text, re.S),
    )
    if claim is None or finish is None or finish[1].count("documento_id = 1 ") != 1:
        raise LabError(
            "sql/04_claim_and_finish.sql no longer holds a claim and the owner's finish of document 1: mend lab.throughput."
        )
    return f"{claim[0][:-1]}\n\\gset\n" + finish[1].replace("documento_id = 1 ", "documento_id = :documento_id ") + "\n"


LEASE = "SELECT documento_id FROM reservar('worker-a')\n\\gset\nSELECT * FROM concluir(:documento_id, 'worker-a');\n"
TOKEN = (
    "SELECT documento_id, token_reserva FROM reservar('worker-a')\n\\gset\n"
    "SELECT * FROM concluir(:documento_id, :token_reserva);\n"
)


@dataclass(frozen=True)
class Priced:
    """Something to be priced: its field, and what pgbench runs on it."""

    name: str
    field: Field
    script: str
    last: str = ""


def priced(target: Target, stack: ExitStack) -> Iterator[Priced]:
    """What is priced, the episode's first; each in a database that lasts as long as the stack."""

    def field(state: int) -> Field:
        return Field(stack.enter_context(target.database("bench")), state)

    yield Priced("the episode's claim (04)", field(1), episode())
    yield Priced("+ lease (05)", field(5), LEASE)
    yield Priced("+ token and audit (06)", field(6), TOKEN)
    whole = field(STATE)
    bare = field(STATE)
    bare.take_out_the_audit()
    yield Priced("all of it (10)", whole, TOKEN)
    yield Priced("all but the audit", bare, TOKEN)
    yield Priced("all, finished with the next claim", whole, CLAIM, FINISH)


def price(things: list[Priced], rounds: int, seen: Seen, documents: int = PRICED) -> list[Price]:
    """Run each of them in every round, with the disk waited for and without; the first is what the others are compared with."""
    load = Load(1, documents)
    times: dict[str, list[dict[str, float]]] = {"": [], IN_MEMORY: []}
    disk: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for settings, kept in times.items():
            kept.append({})
            for each in things:
                each.field.fill(documents)
                before = _to_disk(each.field)
                by_pgbench(each.field, load, each.script, last=each.last, settings=settings)
                after = _to_disk(each.field)
                each.field.check(documents)
                kept[-1][each.name] = each.field.seconds()
                if not settings:
                    disk[each.name] = ((after[0] - before[0]) / documents, (after[1] - before[1]) / documents)
    prices = []
    for each in things:
        ratios = [
            spread([turn[each.name] / turn[things[0].name] for turn in times[settings]]) for settings in ("", IN_MEMORY)
        ]
        prices.append(Price(each.name, ratios[0], ratios[1], *disk[each.name]))
        seen(
            f"  {each.name:34} {ratios[0]!s:22} {ratios[1]!s:22} {prices[-1].wal:7,.0f} {prices[-1].fsyncs:6.2f}"
            f"{'   (the aim is 1.50)' if ratios[0].median > 1.5 else ''}"
        )
    return prices


def _to_disk(field: Field) -> tuple[float, float]:
    """WAL bytes and fsyncs of the whole server so far."""
    bytes_ = field.one("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    fsyncs = field.one(
        "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
        if int(str(field.one("SHOW server_version_num"))) >= 180000
        else "SELECT wal_sync FROM pg_stat_wal"
    )
    return float(str(bytes_)), float(str(fsyncs))


# -- a claim among many


def among_many(
    few: Field, many: Field, seen: Seen, sizes: tuple[int, int] = PENDING, looks: int = LOOKS
) -> list[Among]:
    """Claim in turns where few documents are pending and where many are, of any tenant and of one that has few in both.

    Without waiting for the disk, which would hide the difference; and warm: the same documents were claimed before, and rolled back.
    """
    for field, size in zip((few, many), sizes, strict=True):
        # Spread evenly, so that those of the rare tenant do not lie together.
        field.fill(size, f"CASE WHEN n % {size // RARE} = 0 THEN 'raro' ELSE 't' || n % 20 END")
    answers = []
    with few.connection() as one, many.connection() as other:
        for connection in (one, other):
            connection.execute(f"SET {IN_MEMORY.removeprefix('-c ')}".encode())
        for name, tenant in (("any", None), ("rare", "raro")):
            for connection in (one, other):
                with connection.transaction(force_rollback=True):
                    connection.execute("SELECT reservar('worker-a', %s, '30 seconds', %s)", [looks, tenant])
            times: dict[psycopg.Connection, list[float]] = {one: [], other: []}
            for _ in range(looks):
                for connection, kept in times.items():
                    started = time.perf_counter()
                    claimed = connection.execute(
                        "SELECT documento_id FROM reservar('worker-a', 1, '30 seconds', %s)", [tenant], prepare=True
                    ).fetchall()
                    kept.append(time.perf_counter() - started)
                    if len(claimed) != 1:
                        raise LabError("A claim among many found nothing: the run is void.")
            little, much = (statistics.median(kept) for kept in times.values())
            answers.append(Among(name, much / little, little, much))
            seen(
                f"  {name:4} tenant: {much / little:.2f}   ({little * 1e6:,.0f} µs among {sizes[0]:,}, {much * 1e6:,.0f} µs among"
                f" {sizes[1]:,}){'   (the aim is 1.50)' if much / little > 1.5 else ''}"
            )
    return answers


def spread(ratios: list[float]) -> Spread:
    """Median, smallest and largest."""
    return Spread(statistics.median(ratios), min(ratios), max(ratios))
