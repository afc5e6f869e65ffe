"""What each guarantee costs: the same claim and finish on each state of the protocol, and a claim among few and among many.

Every figure is a ratio between runs of the same minute, interleaved; a run in which a document was done twice gives none.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.base.sql_text import statements
from lab.measure.drain import CLAIM, FINISH, Field, Load, by_pgbench, to_disk
from lab.measure.rounds import Seen, Spread, spread, turns
from lab.measure.worker_vs_pgbench import STATE
from lab.server.target import Target

PRICED = 500  # documents in a run that prices the guarantees
PENDING = (1_000, 1_000_000)
RARE = 300  # documents of the rare tenant in each
LOOKS = 120  # claims in each, of any tenant and of the rare one
IN_MEMORY = "-c synchronous_commit=off"
EPISODE, ALL = "the episode's claim (04)", "all of it (10)"
WAL_PROFILES = (EPISODE, ALL)
DEAREST = 1.5  # times the episode's, or times a claim among few: the aim


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
    """A claim among many pending documents: its time as a ratio to that among few.

    ratio, few and many: with the disk waited for, the last two in seconds; in_memory: the ratio without.
    """

    tenant: str
    ratio: float
    in_memory: float
    few: float
    many: float


# -- what each guarantee costs


def episode() -> str:
    """The episode's own claim and its owner's finish, as they stand in sql/04_claim_and_finish.sql."""
    said = statements((paths.SQL / "04_claim_and_finish.sql").read_text(encoding="utf-8"))
    claims = [each.text for each in said if each.begins("WITH")]
    finishes = [each.text for each in said if each.begins("UPDATE") and each.comment.endswith("the owner one row.\n")]
    if not claims or len(finishes) != 1 or finishes[0].count("documento_id = 1 ") != 1:
        raise LabError(
            say(
                "sql/04_claim_and_finish.sql no longer holds a claim and the owner's finish of document 1: fix"
                " lab.measure.guarantee_cost.",
                "sql/04_claim_and_finish.sql não tem mais uma reserva e a conclusão do documento 1 pelo dono: corrija"
                " lab.measure.guarantee_cost.",
            )
        )
    finish = finishes[0].replace("documento_id = 1 ", "documento_id = :documento_id ")
    return f"{claims[0]}\n\\gset\n{finish};\n"


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

    yield Priced(EPISODE, field(1), episode())
    yield Priced("+ lease (05)", field(5), LEASE)
    yield Priced("+ token and audit (06)", field(6), TOKEN)
    whole = field(STATE)
    bare = field(STATE)
    bare.take_out_the_audit()
    yield Priced(ALL, whole, TOKEN)
    yield Priced("all but the audit", bare, TOKEN)
    yield Priced("all, finished with the next claim", whole, CLAIM, FINISH)


def price(things: list[Priced], rounds: int, seen: Seen, documents: int = PRICED) -> list[Price]:
    """Run each of them in every round, with the disk waited for and without; the first is what the others are compared with."""
    load = Load(1, documents)
    times: dict[str, list[dict[str, float]]] = {"": [], IN_MEMORY: []}
    disk: dict[str, list[tuple[float, float]]] = {each.name: [] for each in things}
    for _ in turns(rounds, seen):
        for settings, kept in times.items():
            kept.append({})
            for each in things:
                each.field.fill(documents)
                before = to_disk(each.field)
                by_pgbench(each.field, load, each.script, last=each.last, settings=settings)
                after = to_disk(each.field)
                each.field.check(documents)
                kept[-1][each.name] = each.field.seconds()
                if not settings:
                    disk[each.name].append(((after[0] - before[0]) / documents, (after[1] - before[1]) / documents))
    prices = []
    for each in things:
        ratios = [
            spread([turn[each.name] / turn[things[0].name] for turn in times[settings]]) for settings in ("", IN_MEMORY)
        ]
        wal, fsyncs = (statistics.median(figures) for figures in zip(*disk[each.name], strict=True))
        prices.append(Price(each.name, ratios[0], ratios[1], wal, fsyncs))
        seen(
            f"  {each.name:34} {ratios[0]!s:22} {ratios[1]!s:22} {prices[-1].wal:7,.0f} {prices[-1].fsyncs:6.2f}"
            f"{_missed(ratios[0].median)}"
        )
    return prices


def where_the_wal_goes(thing: Priced, seen: Seen, documents: int = PRICED, most: int = 6) -> dict[str, float]:
    """WAL bytes a document by kind of record, the largest first; nothing where the server cannot read its own WAL."""
    readable = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'"
    if not thing.field.one(readable):
        return {}
    thing.field.fill(documents)
    begun = thing.field.one("SELECT pg_current_wal_insert_lsn()")
    by_pgbench(thing.field, Load(1, documents), thing.script, last=thing.last)
    ended = thing.field.one("SELECT pg_current_wal_flush_lsn()")
    with thing.field.connection() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        rows = connection.execute(
            'SELECT "resource_manager/record_type", combined_size / %s FROM pg_get_wal_stats(%s, %s, true)'
            " WHERE combined_size > 0 ORDER BY combined_size DESC LIMIT %s",
            [documents, begun, ended, most],
        ).fetchall()
    told = ", ".join(f"{kind} {size:.0f}" for kind, size in rows)
    seen(
        say(
            f"  WAL bytes a document of {thing.name}, by kind of record: {told}",
            f"  bytes de WAL por documento de {thing.name}, por tipo de registro: {told}",
        )
    )
    return {str(kind): float(size) for kind, size in rows}


def _missed(ratio: float) -> str:
    return say(f"   (the aim is {DEAREST:.2f})", f"   (a meta é {DEAREST:.2f})") if ratio > DEAREST else ""


# -- a claim among many


def among_many(
    few: Field, many: Field, seen: Seen, sizes: tuple[int, int] = PENDING, looks: int = LOOKS
) -> list[Among]:
    """Claim in turns where few documents are pending and where many are, of any tenant and of one that has few in both.

    With the disk waited for, as a worker does, and without; and warm: the same documents were claimed before, and rolled back.
    """
    for field, size in zip((few, many), sizes, strict=True):
        # Spread evenly, so that those of the rare tenant do not lie together.
        field.fill(size, f"CASE WHEN n % {size // RARE} = 0 THEN 'raro' ELSE 't' || n % 20 END")
    answers = []
    with few.connection() as one, many.connection() as other:
        for name, tenant in (("any", None), ("rare", "raro")):
            for connection in (one, other):
                with connection.transaction(force_rollback=True):
                    connection.execute("SELECT reservar('worker-a', %s, '30 seconds', %s)", [2 * looks, tenant])
            little, much = _claims([one, other], tenant, looks)
            for connection in (one, other):
                connection.execute(f"SET {IN_MEMORY.removeprefix('-c ')}".encode())
            in_memory = _claims([one, other], tenant, looks)
            for connection in (one, other):
                connection.execute("RESET synchronous_commit")
            answers.append(Among(name, much / little, in_memory[1] / in_memory[0], little, much))
            whose = say("any tenant", "qualquer inquilino") if tenant is None else say("rare tenant", "inquilino raro")
            among, without = say("among", "entre"), say("not waiting for the disk", "sem esperar o disco")
            seen(
                f"  {whose}: {much / little:.2f}   ({little * 1e6:,.0f} µs {among} {sizes[0]:,}, {much * 1e6:,.0f} µs {among}"
                f" {sizes[1]:,}); {without} {answers[-1].in_memory:.2f}"
                f"{_missed(much / little)}"
            )
    return answers


def _claims(connections: list[psycopg.Connection], tenant: str | None, looks: int) -> list[float]:
    """Claim in turns; the median seconds of a claim by each connection."""
    times: list[list[float]] = [[] for _ in connections]
    for _ in range(looks):
        for connection, kept in zip(connections, times, strict=True):
            started = time.perf_counter()
            claimed = connection.execute(
                "SELECT documento_id FROM reservar('worker-a', 1, '30 seconds', %s)", [tenant], prepare=True
            ).fetchall()
            kept.append(time.perf_counter() - started)
            if len(claimed) != 1:
                raise LabError(
                    say(
                        "A claim among many found nothing: the run is void.",
                        "Uma reserva entre muitas não achou nada: a execução é nula.",
                    )
                )
    return [statistics.median(kept) for kept in times]
