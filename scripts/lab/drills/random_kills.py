"""The drill of the crowd: many workers, released at once, are killed at random and replaced until every document has ended."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from lab.base import wait
from lab.base.errors import LabError
from lab.base.language import say
from lab.drills import invariants, process
from lab.drills.harness import WATCH, Ground
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
    """How large the drill is: documents, workers at a time, and the seed of its dice (None: another one each time)."""

    documents: int = 300
    workers: int = 5
    seed: int | None = None

    @property
    def kills(self) -> int:
        """How many workers are killed."""
        return max(self.workers, self.documents // DOCUMENTS_A_KILL)


@dataclass(frozen=True)
class Seen:
    """What the crowd came to.

    kills: workers killed; hits: those of them that had documents in hand, `orphans` in all. claims: as the audit has them;
    attempts: as the queue has them; tokens: different ones; uncommitted: minted in claims that a kill rolled back. order: see
    evidence.Order.
    """

    workers: int
    seed: int
    kills: int
    hits: int
    orphans: int
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


@dataclass
class Crowd:
    """One crowd on a ground: `run` lets it work, `seen` says what it came to."""

    size: Size
    seed: int = 0
    killed: list[str] = field(default_factory=list)
    locked: int = 0  # the document that a stranger had locked

    def run(self, here: Ground) -> float:
        """Bring in the documents, release the workers and kill until all have ended; returns when they were released.

        Raises LabError if a worker ends by itself, or if none claims anything for STILL seconds.
        """
        self.seed = random.randrange(1_000_000) if self.size.seed is None else self.size.seed
        self.killed = []
        dice = random.Random(self.seed)
        _enqueue(here, self.size.documents, dice)
        crew = _Crew(here)
        with here.connection() as stranger:
            # The oldest document is locked until the first kill: who skips it goes on, who waits for it stands still.
            with stranger.transaction():
                self.locked = _lock_the_oldest(stranger)
                with _barrier(stranger, here) as waiting:
                    crew.hire(self.size.workers)
                    waiting(self.size.workers)
                released = time.monotonic()
                moments = sorted(dice.sample(range(1, self.size.documents), self.size.kills))
                crew.work(until=moments[0])
            for moment in moments:
                crew.work(until=moment)
                self.killed.append(crew.kill_one(dice))
                crew.hire(1)
            crew.work()
        crew.dismiss()
        return released

    def seen(self, before: Tables, after: Tables) -> Seen:
        """What it came to, from the tables alone."""
        claims = [change for change in after.audit if invariants.is_claim(change)]
        owners = {change.token: change.who for change in claims}
        orphans = [
            owner
            for change in after.audit
            if change.before == "processando" != change.after
            and (owner := owners.get(change.token)) in self.killed
            and change.who != owner
        ]
        return Seen(
            workers=self.size.workers,
            seed=self.seed,
            kills=len(self.killed),
            hits=len(set(orphans)),
            orphans=len(orphans),
            claims=len(claims),
            tokens=len(owners),
            attempts=sum(document.attempts for document in after.documents.values()),
            uncommitted=invariants.uncommitted(after),
            order=invariants.order(before, after, locked={self.locked}),
        )


class _Crew:
    """The workers at work, and whoever watches the queue."""

    def __init__(self, here: Ground) -> None:
        self._here = here
        self._at_work: dict[str, Child] = {}
        self._hired = 0
        self._finished = 0
        self._killed = 0

    def hire(self, count: int) -> None:
        """Start so many workers, under names that nobody had before."""
        for _ in range(count):
            self._hired += 1
            name = f"worker-{self._hired:03}"
            self._at_work[name] = self._here.worker(name, "--batch", str(BATCH), "--lease", str(LEASE))

    def kill_one(self, dice: random.Random) -> str:
        """Kill one of the workers that have begun; returns its name."""
        begun = [name for name, worker in self._at_work.items() if worker.events]
        name = dice.choice(begun or list(self._at_work))
        victim = self._at_work.pop(name)
        known = len(victim.events)
        victim.kill()
        self._count(victim.events[known:])
        self._killed += 1
        return name

    def work(self, until: int | None = None) -> None:
        """Let them work until so many documents are finished, as they say, or until every document has ended.

        Meanwhile what is late is taken from the dead, as whoever watches the queue does.
        """
        with self._here.watch() as watch, self._here.connection() as connection:
            documents = len(self._here.before.documents)
            heard_of, looked = time.monotonic(), 0.0
            while until is None or self._finished < until:
                if self._listen():
                    heard_of = time.monotonic()
                if (now := time.monotonic()) - looked > WATCH_EVERY:
                    looked = now
                    watch.recover(WATCH, None)
                    self._here.tell(_progress(self._finished, documents, self._killed))
                    if not _left(connection):
                        return
                if now - heard_of > STILL:
                    raise _stood_still(connection)
                time.sleep(LOOK)

    def dismiss(self) -> None:
        """Ask the workers to end, which they do well."""
        for worker in self._at_work.values():
            if not worker.events:
                worker.wait_for("started")
            worker.terminate()
        for worker in self._at_work.values():
            worker.drain()

    def _listen(self) -> bool:
        """Hear everyone; returns whether anybody has claimed anything."""
        return any([self._count(worker.heard()) for worker in self._at_work.values()])

    def _count(self, events: list[Event]) -> bool:
        names = [event["event"] for event in events]
        self._finished += names.count("finished")
        return "claimed" in names


def _enqueue(here: Ground, documents: int, dice: random.Random) -> None:
    """Bring in documents, all of them due, in an order that is not that of their ids; with those already there, so many."""
    seconds = list(range(documents - len(here.before.documents)))
    dice.shuffle(seconds)
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
    with here.connection() as connection:
        connection.execute(statement, [seconds])
        connection.execute("ANALYZE fila_documentos")
    here.advance(len(seconds) + 1)
    here.before = here.tables()


def _lock_the_oldest(connection: psycopg.Connection) -> int:
    statement = (
        "SELECT documento_id FROM fila_documentos WHERE status = 'pendente' ORDER BY disponivel_em, documento_id"
        " LIMIT 1 FOR UPDATE"
    )
    row = connection.execute(statement).fetchone()
    assert row
    return int(row[0])


@contextmanager
def _barrier(connection: psycopg.Connection, here: Ground) -> Iterator[_Waiting]:
    """Keep everybody from claiming as long as the block lasts, which calls what it is given to see them all wait.

    The lock is on the table, which SKIP LOCKED does not skip; rolled back to its savepoint, it alone is given up.
    """
    with connection.transaction(force_rollback=True):
        connection.execute("LOCK TABLE fila_documentos IN EXCLUSIVE MODE")
        with here.connection() as monitor:
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
    """That nobody claimed anything, and who waits for whom: never what they run."""
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
            f"Nobody claimed anything for {STILL:.0f} s, and {left} documents have not ended. Who waits for whom: {waits}",
            f"Ninguém reservou nada por {STILL:.0f} s, e {left} documentos não terminaram. Quem espera por quem: {waits}",
        )
    )
