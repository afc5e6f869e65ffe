"""The drill of the random kills: many workers, released at once, are killed at random and replaced until every document has ended."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from lab.base import wait
from lab.base.errors import LabError
from lab.base.facts import Fact
from lab.base.language import say
from lab.drills import invariants, process
from lab.drills.harness import WATCH, Harness
from lab.drills.invariants import OPEN, Order, Tables
from lab.drills.process import Child, Event

BATCH = 5  # documents a claim, so that a kill leaves several behind
LEASE = 2  # seconds, in real time: what the dead leave behind is found while the others work on
STILL = 60.0  # seconds without a claim: a drill that waits longer has failed
LOOK = 0.02  # seconds between two looks at what the workers say
WATCH_EVERY = 0.2  # seconds between two looks at the queue
DOCUMENTS_A_KILL = 100


@dataclass(frozen=True)
class Size:
    """How large the drill is: documents, workers at a time, and the seed of its choices (None: another one each time)."""

    documents: int = 300
    workers: int = 5
    seed: int | None = None

    @property
    def kills(self) -> int:
        """How many workers are killed."""
        return max(self.workers, self.documents // DOCUMENTS_A_KILL)


@dataclass(frozen=True)
class RandomKillsOutcome:
    """What the workers came to.

    kills: workers killed; hits: those of them that had documents in hand, `orphaned` in all. claims: as the audit has them;
    attempts: as the queue has them; tokens: different ones; uncommitted: minted in claims that a kill rolled back. order: see
    invariants.Order.
    """

    workers: int
    seed: int
    kills: int
    hits: int
    orphaned: int
    claims: int
    tokens: int
    attempts: int
    uncommitted: int
    order: Order

    @property
    def good(self) -> bool:
        """Whether each claim has its own token and no free document was passed over, while the kills did hit.

        A document in a claim that was rolled back was not free, and no table tells which it was: so many are not held against it.
        """
        once = self.claims == self.tokens == self.attempts
        return once and self.order.passed_over <= self.uncommitted and 0 < self.hits <= self.kills

    @property
    def facts(self) -> Mapping[str, Fact]:
        """What was counted, by name."""
        return {
            "workers": Fact(self.workers, "workers"),
            "kills": Fact(self.kills, "workers"),
            "seed": Fact(self.seed),
            "hits": Fact(self.hits, "workers"),
            "orphaned": Fact(self.orphaned, "documents"),
            "claims": Fact(self.claims, "claims"),
            "tokens": Fact(self.tokens, "tokens"),
            "attempts": Fact(self.attempts, "attempts"),
            "overtaking": Fact(self.order.overtaking, "claims"),
            "passed_over": Fact(self.order.passed_over, "documents"),
            "uncommitted": Fact(self.uncommitted, "tokens"),
        }


@dataclass
class RandomKills:
    """Many workers on one harness: `run` lets them work, `outcome` says what they came to."""

    size: Size
    seed: int = 0
    killed: list[str] = field(default_factory=list)
    locked: int = 0  # the document that another session had locked

    def run(self, harness: Harness) -> float:
        """Bring in the documents, release the workers and kill until all have ended; returns when they were released.

        Raises LabError if a worker ends by itself, or if none claims anything for STILL seconds.
        """
        self.seed = random.randrange(1_000_000) if self.size.seed is None else self.size.seed
        self.killed = []
        rng = random.Random(self.seed)
        _enqueue(harness, self.size.documents, rng)
        pool = _Pool(harness)
        with harness.connection() as other:
            # The oldest document is locked until the first kill: a worker that skips it goes on, one that waits for it stands still.
            with other.transaction():
                self.locked = _lock_the_oldest(other)
                with _barrier(other, harness) as waiting:
                    pool.start(self.size.workers)
                    waiting(self.size.workers)
                released = time.monotonic()
                moments = sorted(rng.sample(range(1, self.size.documents), self.size.kills))
                pool.work(until=moments[0])
            for moment in moments:
                pool.work(until=moment)
                self.killed.append(pool.kill_one(rng))
                pool.start(1)
            pool.work()
        pool.stop()
        return released

    def outcome(self, before: Tables, after: Tables) -> RandomKillsOutcome:
        """What it came to, from the tables alone."""
        claims = [change for change in after.audit if invariants.is_claim(change)]
        owners = {change.token: change.who for change in claims}
        orphaned = [
            owner
            for change in after.audit
            if change.before == "processando" != change.after
            and (owner := owners.get(change.token)) in self.killed
            and change.who != owner
        ]
        return RandomKillsOutcome(
            workers=self.size.workers,
            seed=self.seed,
            kills=len(self.killed),
            hits=len(set(orphaned)),
            orphaned=len(orphaned),
            claims=len(claims),
            tokens=len(owners),
            attempts=sum(document.attempts for document in after.documents.values()),
            uncommitted=invariants.uncommitted(after),
            order=invariants.order(before, after, locked={self.locked}),
        )


class _Pool:
    """The workers at work, and the watch over the queue."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._at_work: dict[str, Child] = {}
        self._started = 0
        self._finished = 0
        self._killed = 0

    def start(self, count: int) -> None:
        """Start so many workers, under new names."""
        for _ in range(count):
            self._started += 1
            name = f"worker-{self._started:03}"
            self._at_work[name] = self._harness.worker(name, "--batch", str(BATCH), "--lease", str(LEASE))

    def kill_one(self, rng: random.Random) -> str:
        """Kill one of the workers that have begun; returns its name."""
        begun = [name for name, worker in self._at_work.items() if worker.events]
        name = rng.choice(begun or list(self._at_work))
        victim = self._at_work.pop(name)
        known = len(victim.events)
        victim.kill()
        self._count(victim.events[known:])
        self._killed += 1
        return name

    def work(self, until: int | None = None) -> None:
        """Let them work until so many documents are finished, as they say, or until every document has ended.

        Meanwhile what is late is taken from the dead, as an operator would.
        """
        with self._harness.watch() as watch, self._harness.connection() as connection:
            documents = len(self._harness.before.documents)
            heard_of, looked = time.monotonic(), 0.0
            while until is None or self._finished < until:
                if self._listen():
                    heard_of = time.monotonic()
                if (now := time.monotonic()) - looked > WATCH_EVERY:
                    looked = now
                    watch.recover(WATCH, None)
                    self._harness.tell(_progress(self._finished, documents, self._killed))
                    if not _left(connection):
                        return
                if now - heard_of > STILL:
                    raise _stood_still(connection)
                time.sleep(LOOK)

    def stop(self) -> None:
        """Ask the workers to end, which they do well."""
        for worker in self._at_work.values():
            if not worker.events:
                worker.wait_for("started")
            worker.terminate()
        for worker in self._at_work.values():
            worker.drain()

    def _listen(self) -> bool:
        """Hear every worker; returns whether one has claimed anything."""
        return any([self._count(worker.heard()) for worker in self._at_work.values()])

    def _count(self, events: list[Event]) -> bool:
        names = [event["event"] for event in events]
        self._finished += names.count("finished")
        return "claimed" in names


def _enqueue(harness: Harness, documents: int, rng: random.Random) -> None:
    """Bring in documents, all of them due, in an order that is not that of their ids; with those already there, so many."""
    seconds = list(range(documents - len(harness.before.documents)))
    rng.shuffle(seconds)
    statement = """
        SELECT count(*)
        FROM unnest(%s::INTEGER[]) WITH ORDINALITY AS lote (segundos, numero),
            enfileirar(
                p_chave => 'LOTE-' || lote.numero,
                p_nome_arquivo => 'lote.xml',
                p_conteudo_xml => xmlelement(NAME nfe, xmlelement(NAME valor, lote.numero)),
                p_disponivel_em => relogio() + make_interval(secs => lote.segundos + 1)
            )
    """
    with harness.connection() as connection:
        connection.execute(statement, [seconds])
        connection.execute("ANALYZE fila_documentos")
    harness.advance(len(seconds) + 1)
    harness.before = harness.tables()


def _lock_the_oldest(connection: psycopg.Connection) -> int:
    statement = (
        "SELECT documento_id FROM fila_documentos WHERE status = 'pendente' ORDER BY disponivel_em, documento_id"
        " LIMIT 1 FOR UPDATE"
    )
    row = connection.execute(statement).fetchone()
    assert row
    return int(row[0])


@contextmanager
def _barrier(connection: psycopg.Connection, harness: Harness) -> Iterator[_Waiting]:
    """Keep every worker from claiming as long as the block lasts, which calls what it is given to see them all wait.

    The lock is on the table, which SKIP LOCKED does not skip; rolled back to its savepoint, it alone is given up.
    """
    with connection.transaction(force_rollback=True):
        connection.execute("LOCK TABLE fila_documentos IN EXCLUSIVE MODE")
        with harness.connection() as monitor:
            yield _Waiting(monitor, connection.info.backend_pid)


@dataclass(frozen=True)
class _Waiting:
    """Waits until so many sessions are seen waiting for one."""

    monitor: psycopg.Connection
    holder: int

    def __call__(self, sessions: int) -> None:
        seen = "SELECT count(*) FROM pg_stat_activity WHERE pg_blocking_pids(pid) @> ARRAY[%s::INTEGER]"
        if not wait.until(
            lambda: self.monitor.execute(seen, [self.holder]).fetchone() == (sessions,), process.SECONDS, LOOK
        ):
            raise LabError(
                say(
                    f"Not all of the {sessions} workers came to the barrier within {process.SECONDS:.0f} s.",
                    f"Nem todos os {sessions} workers chegaram à barreira em {process.SECONDS:.0f} s.",
                )
            )


def _left(connection: psycopg.Connection) -> int:
    """How many documents have not ended."""
    row = connection.execute("SELECT count(*) FROM fila_documentos WHERE status = ANY(%s)", [list(OPEN)]).fetchone()
    assert row
    return int(row[0])


def _progress(finished: int, documents: int, killed: int) -> str:
    return say(
        f"{finished} of {documents} documents, {killed} workers killed",
        f"{finished} de {documents} documentos, {killed} workers mortos",
    )


def _stood_still(connection: psycopg.Connection) -> LabError:
    """That no worker claimed anything, and who waits for whom: never what they run."""
    rows = connection.execute(
        "SELECT DISTINCT waiter.application_name || ' → ' || blocker.application_name"
        " FROM pg_stat_activity AS waiter"
        " JOIN pg_stat_activity AS blocker ON blocker.pid = ANY(pg_blocking_pids(waiter.pid))"
        " WHERE waiter.datname = current_database() ORDER BY 1"
    ).fetchall()
    waits = ", ".join(row[0] for row in rows) or "-"
    left = _left(connection)
    return LabError(
        say(
            f"No worker claimed anything for {STILL:.0f} s, and {left} documents have not ended. Who waits for whom: {waits}",
            f"Nenhum worker reservou nada por {STILL:.0f} s, e {left} documentos não terminaram. Quem espera por quem: {waits}",
        )
    )
