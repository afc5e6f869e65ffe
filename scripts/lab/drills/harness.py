"""The harness of a drill: a queue, a receiver, workers, and the clock in the drill's hand; everything ends with it."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from lab.base import wait
from lab.base.errors import LabError
from lab.base.language import say
from lab.drills import invariants
from lab.drills.process import SECONDS, Child, Event
from lab.receiver.ledger import Ledger, Totals
from lab.server.session import SCHEMA, SessionPins
from lab.worker.client import Late, Queue

LEASE = 30  # seconds; never waited for
PAST_LEASE = LEASE + 1
PAST_DELAY = 301  # no delay before another attempt is longer
WATCH = "vigia"  # who recovers, where it is not a worker


class Harness:
    """A queue in `schema` of the database `conninfo`, and a folder for the receiver's ledger.

    `keys` is whether its receivers execute a key only once; `tell` is called with how far a long drill has come.
    """

    def __init__(
        self, conninfo: str, schema: str, folder: Path, *, keys: bool = True, tell: Callable[[str], None] | None = None
    ) -> None:
        self.conninfo = conninfo
        self.schema = schema
        self.keys = keys
        self.tell = tell or (lambda text: None)
        self.ledger_file = folder / "receiver.sqlite3"
        self.url = ""
        self.workers: list[Child] = []
        self.receivers: list[Child] = []
        self._children: list[Child] = []
        self.before = self.tables()

    # -- the receiver

    def open_receiver(self) -> Child:
        """Start the receiver; after it was killed, again at its old address."""
        port = urlsplit(self.url).port or 0
        options = [] if self.keys else ["--without-keys"]
        receiver = self._child("receiver", "--ledger", str(self.ledger_file), "--port", str(port), *options)
        self.url = receiver.wait_for("listening")["url"]
        self.receivers.append(receiver)
        return receiver

    def behave(self, **wanted: Any) -> None:
        """Tell the receiver how to behave: see lab.receiver.service.Behaviour."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            connection.request("POST", "/behaviour", json.dumps(wanted))
            if connection.getresponse().status != 200:
                raise LabError(
                    say(
                        f"The receiver does not know the behaviour {wanted}.",
                        f"O receptor não conhece o comportamento {wanted}.",
                    )
                )
        finally:
            connection.close()

    def ledger(self) -> tuple[Totals, dict[str, int]]:
        """The receiver's ledger, read from its file: in numbers, and how often it executed each key."""
        ledger = Ledger(self.ledger_file)
        try:
            return ledger.totals(), ledger.effects()
        finally:
            ledger.close()

    # -- workers

    def worker(self, name: str, *options: str) -> Child:
        """Start a worker."""
        where = ("--receiver", self.url, "--schema", self.schema, "--lease", str(LEASE), "--poll", "0.05")
        worker = self._child("worker", "--name", name, *where, *options)
        self.workers.append(worker)
        return worker

    def stopped_at(self, point: str, name: str, *options: str) -> Child:
        """Start a worker that makes one claim, and wait until it stands at this point."""
        worker = self.worker(name, "--once", "--stop-at", point, *options)
        worker.wait_for("at")
        return worker

    def finish(self, name: str = "worker-b", *options: str) -> None:
        """Let a worker empty the queue; whenever it has to wait for a document to be due, the clock is moved there."""
        worker = self.worker(name, "--until-empty", *options)
        while (event := worker.next()) is not None:
            if event["event"] == "waiting":
                self.advance(PAST_DELAY)
        worker.drain()

    def events(self) -> list[Event]:
        """What the workers have said."""
        return [event for worker in self.workers for event in worker.events]

    # -- the queue

    def advance(self, seconds: int) -> None:
        """Move the lab's clock forward."""
        with self.connection() as connection:
            connection.execute(
                "UPDATE relogio_do_laboratorio SET adiantado = adiantado + make_interval(secs => %s)", [seconds]
            )

    @contextmanager
    def watch(self) -> Iterator[Queue]:
        """The queue as an operator sees it, on a connection that waits for no database: a drill without its own is over."""
        queue = Queue(self.conninfo, f"lab/{WATCH}", self.schema)
        queue.give_up_waiting()
        try:
            yield queue
        finally:
            queue.close()

    def recover(self) -> list[Late]:
        """Take late documents from their workers."""
        with self.watch() as queue:
            return queue.recover(WATCH, None)

    def wait_until(self, condition: LiteralString) -> None:
        """Wait until a condition on a document holds for one of them; LabError if it does not come true in time."""
        query = f"SELECT EXISTS (SELECT FROM fila_documentos WHERE {condition})"
        with self.connection() as connection:
            if not wait.until(lambda: connection.execute(query).fetchone() == (True,), SECONDS):
                raise LabError(
                    say(
                        f"The drill waited for {SECONDS:.0f} s in vain until: {condition}",
                        f"O ensaio esperou {SECONDS:.0f} s em vão por: {condition}",
                    )
                )

    def tables(self) -> invariants.Tables:
        """The queue's tables as they are now."""
        with self.connection() as connection:
            return invariants.read(connection, self.schema)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """A connection of the drill's own, on which the queue's names stand alone."""
        with SessionPins().psycopg_connection(self.conninfo, "lab/drill") as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            yield connection

    # -- the end

    def end_all(self) -> None:
        """End every process, so that what is left is what stands in the tables and the ledger."""
        for child in self._children:
            child.close()

    def _child(self, *arguments: str) -> Child:
        child = Child(*arguments, environment={"LAB_DSN": self.conninfo})
        self._children.append(child)
        return child


@contextmanager
def open_harness(
    conninfo: str, *, schema: str = SCHEMA, keys: bool = True, tell: Callable[[str], None] | None = None
) -> Iterator[Harness]:
    """A harness with its receiver open; a queue in state 09 is in the schema already. No process outlives the block."""
    with ExitStack() as last:
        folder = last.enter_context(tempfile.TemporaryDirectory(prefix="queue-lab-"))
        harness = Harness(conninfo, schema, Path(folder), keys=keys, tell=tell)
        last.callback(harness.end_all)
        harness.open_receiver()
        yield harness
