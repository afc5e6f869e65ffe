"""The worker beside its peers in one run: pgbench on the same functions, a bare claim and finish, and pgmq's read and delete.

The peers are driven by pgbench, a client in C with prepared statements: nothing of theirs is slowed by a driver. Every figure is
of rounds that were interleaved; a run in which a document was done twice or left out gives none.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lab.base.language import say
from lab.measure.drain import CLAIM, FINISH, PAYLOAD, Field, Load, by_pgbench, by_workers, to_disk
from lab.measure.rounds import Seen, Spread, spread, turns
from lab.measure.worker_vs_pgbench import BATCHES, STATE
from lab.server.target import Target

CLIENTS = 2
WORKER, PGBENCH, BARE, PGMQ, PIPELINED = "worker", "pgbench", "bare", "pgmq", "pgmq, pipelined"
# Times pgmq's read and delete, in two round trips as its clients send them; the worker writes an audit row for each change.
AIMS = {1: 1.3, 10: 1.2, 100: 0.55}

# No lease, no token, no audit; ids and payloads come back as a worker needs them.
BARE_CLAIM = """\
WITH feito AS (
    UPDATE fila_documentos SET status = 'concluido', concluido_em = clock_timestamp()
    WHERE documento_id = ANY(:documents::BIGINT[])
), escolhido AS (
    SELECT documento_id FROM fila_documentos WHERE status = 'pendente'
    ORDER BY criado_em, documento_id LIMIT :batch FOR UPDATE SKIP LOCKED
), reservado AS (
    UPDATE fila_documentos AS fila
    SET status = 'processando', worker_id = 'pgbench', iniciado_em = clock_timestamp(), tentativas = fila.tentativas + 1
    FROM escolhido WHERE fila.documento_id = escolhido.documento_id
    RETURNING fila.documento_id, fila.conteudo_xml
)
SELECT coalesce(array_agg(documento_id), '{}') AS documents, sum(length(conteudo_xml::TEXT)) AS payload FROM reservado
\\gset
"""
BARE_FINISH = (
    "UPDATE fila_documentos SET status = 'concluido', concluido_em = clock_timestamp()"
    " WHERE documento_id = ANY(:documents::BIGINT[]);\n"
)

# The division fails the run where a message was not there any more to be deleted.
READ = """\
SELECT coalesce(array_agg(msg_id), '{}') AS documents, sum(length(message::TEXT)) AS payload
FROM pgmq.read('bench', 30, :batch)
\\gset
"""
DELETE = "SELECT 1 / (count(*) = :batch)::INTEGER FROM pgmq.delete('bench', :documents::BIGINT[]);\n"
# The batch of the read hangs on the delete, which keeps their order.
DELETE_AND_READ = """\
SELECT coalesce(array_agg(lido.msg_id), '{}') AS documents, sum(length(lido.message::TEXT)) AS payload
FROM (SELECT count(*)::INTEGER AS deleted FROM pgmq.delete('bench', :documents::BIGINT[])) AS feito
CROSS JOIN LATERAL pgmq.read('bench', 30, :batch + 0 * feito.deleted) AS lido
\\gset
"""


class PgmqField(Field):
    """A queue of pgmq in a database of its own, filled with the same documents; emptied, it holds nothing."""

    def __init__(self, conninfo: str, installation: Path) -> None:
        super().__init__(conninfo, 0)
        with self.connection() as connection:
            connection.execute(installation.read_bytes())
            connection.execute("SELECT pgmq.create('bench')")

    def fill(self, documents: int, tenants: str = "") -> None:
        """Fill it anew; pgmq knows no tenants."""
        with self.connection() as connection:
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pgmq.purge_queue('bench')")
            connection.execute(
                f"SELECT pgmq.send_batch('bench', array_agg(jsonb_build_object('xml', {PAYLOAD}::TEXT)))"
                f" FROM generate_series(1, {documents}) AS n".encode()
            )
            connection.execute("VACUUM (ANALYZE) pgmq.q_bench")

    def check(self, documents: int) -> None:
        """Raise LabError, and so void the run, if a message is left."""
        self._compare("pgmq", "SELECT json_build_object('left', count(*)) FROM pgmq.q_bench", {"left": 0})


@dataclass(frozen=True)
class Peer:
    """One of those compared: its queue, and how it is emptied; `empty` returns documents a second by the client's clock, or None."""

    name: str
    field: Field
    empty: Callable[[Field, Load], float | None]


@dataclass(frozen=True)
class Figures:
    """A peer at one size of batch: documents a second, the ratio to pgmq (None without it), WAL bytes and fsyncs a document."""

    name: str
    batch: int
    rate: float
    ratio: Spread | None
    wal: float
    fsyncs: float


def _by_worker(field: Field, load: Load) -> None:
    by_workers(field, load)


def _pgbench(script: str, last: str = "") -> Callable[[Field, Load], float]:
    def empty(field: Field, load: Load) -> float:
        return by_pgbench(field, load, script, last=last)

    return empty


def peers(target: Target, stack: ExitStack, seen: Seen) -> list[Peer]:
    """Those that can be compared here, each in a database that lasts as long as the stack. pgmq's SQL comes with its package."""

    def database() -> str:
        return stack.enter_context(target.database("bench"))

    ours = Field(database(), STATE)
    found = [
        Peer(WORKER, ours, _by_worker),
        Peer(PGBENCH, ours, _pgbench(CLAIM, FINISH)),
        Peer(BARE, Field(database(), 1), _pgbench(BARE_CLAIM, BARE_FINISH)),
    ]
    package = find_spec("pgmq")
    if package is None or package.origin is None:
        seen(
            say(
                "  pgmq is not compared: its package is not installed (./lab bench does it where there is a network)",
                "  o pgmq fica de fora: o pacote dele não foi instalado (./lab bench o faz onde há rede)",
            )
        )
        return found
    theirs = PgmqField(database(), Path(package.origin).parent / "sql" / "pgmq.sql")
    return [
        *found,
        Peer(PGMQ, theirs, _pgbench(READ + DELETE)),
        Peer(PIPELINED, theirs, _pgbench(DELETE_AND_READ, DELETE)),
    ]


def compare(
    all_peers: list[Peer], rounds: int, seen: Seen, batches: dict[int, int] = BATCHES, clients: int = CLIENTS
) -> list[Figures]:
    """Empty each queue in turns, for each size of batch; every second round goes the other way round.

    batches: claims of each client, by the size of a batch. Raises LabError, with no figure, if a run is void.
    """
    loads = [Load(clients, claims, batch) for batch, claims in batches.items()]
    runs: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for turn in turns(rounds, seen):
        for load in loads:
            for peer in reversed(all_peers) if turn % 2 else all_peers:
                runs.setdefault((peer.name, load.batch), []).append(_run(peer, load))
    answers = []
    for load in loads:
        theirs = [rate for rate, _, _ in runs.get((PGMQ, load.batch), [])]
        for peer in all_peers:
            rates, wal, fsyncs = zip(*runs[peer.name, load.batch], strict=True)
            ratio = spread([ours / other for ours, other in zip(rates, theirs, strict=True)]) if theirs else None
            medians = (statistics.median(each) for each in (wal, fsyncs))
            answers.append(Figures(peer.name, load.batch, statistics.median(rates), ratio, *medians))
            seen(_line(answers[-1]))
    return answers


def _run(peer: Peer, load: Load) -> tuple[float, float, float]:
    """Documents a second, and WAL bytes and fsyncs a document."""
    peer.field.fill(load.documents)
    before = to_disk(peer.field)
    rate = peer.empty(peer.field, load)
    after = to_disk(peer.field)
    peer.field.check(load.documents)
    wal, fsyncs = ((now - then) / load.documents for now, then in zip(after, before, strict=True))
    return rate or load.documents / peer.field.seconds(), wal, fsyncs


def _line(figures: Figures) -> str:
    told = f"{figures.ratio} × pgmq" if figures.ratio else ""
    aim = AIMS.get(figures.batch, 0.0)
    if figures.name == WORKER and figures.ratio and figures.ratio.median < aim:
        told += say(f"   (the aim is {aim:.2f})", f"   (a meta é {aim:.2f})")
    return (
        f"  {say('batch', 'lote')} {figures.batch:3}  {figures.name:16} {figures.rate:9,.0f}  {figures.wal:7,.0f} B"
        f"  {figures.fsyncs:5.2f} fsync  {told}"
    )
