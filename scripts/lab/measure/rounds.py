"""Measuring: ways of doing the same in interleaved rounds, and what the server counted meanwhile.

Ways are compared with each other within one run, since bare times mean little on a shared machine. A run with a duplicate effect is
void: it gives no figure at all. What is kept is tidy: one row a figure of a run, under the environment that it hangs on.
"""

from __future__ import annotations

import csv
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg

from lab.base import wait
from lab.base.errors import CannotRunHere, LabError, ServerError
from lab.base.language import say
from lab.measure.counters import Waits, commit, counters, environment, sampled
from lab.server.session import SessionPins

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("way", "round", "figure", "value", "unit")
AT_MOST = 180.0  # seconds for all rounds of a comparison: on a busy machine there are fewer
ENDED_SECONDS = 20.0  # for the sessions of a run to end: only then has the server counted all they did
STATISTICS_AT_ONCE = (
    150000  # before it a process of its own collects what sessions counted, and writes it a moment later
)
Seen = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Spread:
    """Figures of the rounds: their median, smallest and largest."""

    median: float
    smallest: float
    largest: float

    def __str__(self) -> str:
        to = say("to", "a")
        return f"{self.median:.2f} ({self.smallest:.2f} {to} {self.largest:.2f})"


def spread(figures: Sequence[float]) -> Spread:
    """Median, smallest and largest of at least one figure."""
    return Spread(statistics.median(figures), min(figures), max(figures))


def turns(rounds: int, seen: Seen, at_most: float = AT_MOST) -> Iterator[int]:
    """The numbers of the rounds, at most `rounds` of them: none is begun that would not end within `at_most` seconds, but the first."""
    started = time.monotonic()
    for turn in range(rounds):
        yield turn
        lasted = time.monotonic() - started
        seen(
            say(
                f"  round {turn + 1} of {rounds} done, {lasted:.0f} s",
                f"  rodada {turn + 1} de {rounds} pronta, {lasted:.0f} s",
            )
        )
        if lasted / (turn + 1) * (turn + 2) > at_most:
            break


@dataclass(frozen=True)
class Way:
    """One of the ways that are compared.

    `run` does the work that is measured and returns how much it was (documents, changes, claims); `prepare` comes before each
    run, unmeasured; `duplicates` says after each run how many effects were made twice, `figures` what the way itself has
    measured, by name with its unit.
    """

    name: str
    run: Callable[[], int]
    prepare: Callable[[], None] = lambda: None
    duplicates: Callable[[], int] = lambda: 0
    figures: Callable[[], Mapping[str, tuple[float, str]]] = dict


@dataclass(frozen=True)
class Figure:
    """A figure of one run."""

    way: str
    round: int
    figure: str
    value: float
    unit: str


@dataclass(frozen=True)
class Measured:
    """What a comparison gave: figures, and the environment that they hang on (server, settings, machine, commit, seed)."""

    figures: tuple[Figure, ...]
    environment: Mapping[str, object] = field(default_factory=dict)

    def of(self, way: str, figure: str) -> Spread:
        """A figure of a way over the rounds. Raises KeyError if there is none, as of what this server does not count."""
        values = [each.value for each in self.figures if (each.way, each.figure) == (way, figure)]
        if not values:
            raise KeyError(f"{way}, {figure}")
        return spread(values)

    def frame(self) -> pd.DataFrame:
        """The figures as a tidy table, its columns COLUMNS; it needs the parts for notebooks."""
        import pandas as pd

        return pd.DataFrame([vars(each) for each in self.figures], columns=list(COLUMNS))

    def write(self, path: Path) -> None:
        """Write the figures as CSV; the environment stands above them, one line each, after a #. Raises OSError."""
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"# {name}: {value}\n" for name, value in self.environment.items())
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(vars(each) for each in self.figures)


class Void(LabError):
    """A run in which an effect was made twice: no figure of it counts. `duplicates` is how many."""

    def __init__(self, way: str, duplicates: int) -> None:
        self.duplicates = duplicates
        super().__init__(
            say(
                f"The run is void, and no figure of it counts: {duplicates} effects were made twice ({way}).",
                f"A execução é nula, e nenhum número dela vale: {duplicates} efeitos saíram em dobro ({way}).",
            )
        )


def compare(
    conninfo: str,
    ways: Sequence[Way],
    rounds: int,
    *,
    tables: Sequence[str] = (),
    warm_up: int = 1,
    seed: int = 0,
    seen: Seen = lambda line: None,
) -> Measured:
    """Run each way in every round, in turns (A B A B …); the first `warm_up` rounds are not kept.

    Parameters: tables, those whose updates, dead rows and size are counted; seed, what the ways draw by, for the record; seen is
    told of each round. Figures are a unit of the work done, but for those of the whole run.
    Raises Void if a way makes an effect twice, and what a way raises.
    """
    kept: list[Figure] = []
    with SessionPins().psycopg_connection(conninfo, "lab/measure") as watch:
        for _ in range(warm_up):
            for way in ways:
                _measure(way, conninfo, watch, tables)
        for turn in turns(rounds, seen):
            for way in ways:
                kept += [Figure(way.name, turn + 1, *each) for each in _measure(way, conninfo, watch, tables)]
        return Measured(tuple(kept), {**environment(watch), "commit": commit(), "seed": seed})


def _measure(way: Way, conninfo: str, watch: psycopg.Connection, tables: Sequence[str]) -> list[tuple[str, float, str]]:
    """The figures of one run: name, value, unit. Raises Void."""
    way.prepare()
    _wait_for_the_end(watch)
    before = counters(watch, tables)
    with sampled(conninfo) as waits:
        begun = time.perf_counter()
        done = way.run()
        seconds = time.perf_counter() - begun
    _wait_for_the_end(watch)
    after = counters(watch, tables)
    if duplicates := way.duplicates():
        raise Void(way.name, duplicates)
    own = [(name, *each) for name, each in way.figures().items()]
    return [*_figures(done, seconds, before, after, waits), *own]


def _figures(
    done: int, seconds: float, before: Mapping[str, float], after: Mapping[str, float], waits: Waits
) -> Iterator[tuple[str, float, str]]:
    grew = {name: after[name] - before[name] for name in after if name in before}
    yield "seconds", seconds, "s"
    yield "done", done, ""
    yield "rate", done / seconds, "1/s"
    for name in ("wal_bytes", "wal_records", "wal_images", "statements", "statement_ms"):
        if name in grew:
            yield name, grew[name] / max(done, 1), {"wal_bytes": "B", "statement_ms": "ms"}.get(name, "")
    if "updates" in grew:
        yield "hot_share", grew["hot_updates"] / max(grew["updates"], 1), ""
        yield "updates", grew["updates"] / max(done, 1), ""
        yield "dead_rows", grew["dead_rows"], "rows"
        yield "growth", grew["size"], "B"
    yield "connections", waits.connections, ""
    yield "lock_waits", sum(seen for event, seen in waits.events.items() if event.startswith("Lock")), "samples"
    for event, seen in waits.events.items():
        yield f"wait {event}", seen / max(waits.samples, 1), "sessions"


def _wait_for_the_end(watch: psycopg.Connection) -> None:
    """Wait until the sessions of the run have ended: only then has the server counted all that they did."""
    others = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        " AND application_name = 'lab/run'"
    )
    if not wait.until(lambda: watch.execute(others.encode()).fetchone() is None, ENDED_SECONDS):
        raise LabError(say("The sessions of a run did not end.", "As sessões de uma execução não terminaram."))
    if watch.info.server_version < STATISTICS_AT_ONCE:
        now = watch.execute("SELECT clock_timestamp()").fetchone()
        written = "SELECT pg_stat_get_snapshot_timestamp() > %s"
        wait.until(lambda: watch.execute(written, now).fetchone() == (True,), ENDED_SECONDS)


# -- many at once


def together(
    conninfo: str, clients: int, work: Callable[[psycopg.Connection, int], T], name: str = "lab/run"
) -> tuple[list[T], float]:
    """Do the work on so many connections, each in a thread, released together once all are up.

    work: is given a connection and the client's number, from 0. Returns what each came to, and the seconds from the release to the
    last one's end. Afterwards, also after ^C, no connection is left.
    Raises CannotRunHere if so many connections cannot be had, and what the first client to fail raised.
    """
    barrier = threading.Barrier(clients + 1)
    came_to: dict[int, T] = {}
    errors: list[Exception] = []
    pids: list[int] = []

    def client(number: int) -> None:
        try:
            with SessionPins().psycopg_connection(conninfo, name) as connection:
                pids.append(connection.info.backend_pid)
                barrier.wait()
                came_to[number] = work(connection, number)
        except threading.BrokenBarrierError:
            pass
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=client, args=[number], daemon=True) for number in range(clients)]
    try:
        for thread in threads:
            thread.start()
        with suppress(threading.BrokenBarrierError):  # a client could not connect; its error is raised below
            barrier.wait()
        started = time.monotonic()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - started
    except BaseException:
        barrier.abort()
        with SessionPins().psycopg_connection(conninfo, "lab/measure") as watch:
            watch.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::INTEGER[]) AS pid", [pids])
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    for error in errors:
        if isinstance(error, ServerError):
            raise CannotRunHere(
                say(
                    f"{clients} connections at once could not be had: {error}",
                    f"Não deu para abrir {clients} conexões ao mesmo tempo: {error}",
                )
            ) from error
        raise error
    return [came_to[number] for number in range(clients)], seconds
