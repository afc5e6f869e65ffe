"""The budget of a lease: how long documents really are in work, and how many would outlive a lease of a given length."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

from lab.server import schema
from lab.server.session import SessionPins

STATE = 7
TYPICAL_SECONDS = 0.003  # of the simulated work: half of it is shorter
SPREAD = 0.7  # of its logarithm: one work in a hundred takes five times the typical one
SEED = 7
PERCENTILE = 99  # of the work, and of the margin: what the budget covers


@dataclass(frozen=True)
class Measured:
    """Documents that went through the queue, one after the other; all in seconds.

    `work` is what the worker's own clock says of the work; `held` is what the database's says from the claim to the finish, the
    way to the worker and back and the waiting for a processor included.
    """

    work: tuple[float, ...]
    held: tuple[float, ...]

    @property
    def halves(self) -> tuple[Measured, Measured]:
        """Every other document, and the rest: one half to plan by and one to judge the plan by, both of the same minutes."""
        return Measured(self.work[::2], self.held[::2]), Measured(self.work[1::2], self.held[1::2])

    @property
    def margin(self) -> float:
        """What 99 of 100 documents stay below in network and scheduling."""
        return percentile([held - work for held, work in zip(self.held, self.work, strict=True)], PERCENTILE)

    @property
    def lease(self) -> float:
        """The budget: what 99 of 100 documents stay below in work, and the margin on top of it."""
        return percentile(self.work, PERCENTILE) + self.margin

    def overruns(self, lease: float) -> int:
        """How many documents a lease of so many seconds would have given to a second worker."""
        return sum(held > lease for held in self.held)


def percentile(values: list[float] | tuple[float, ...], percent: int) -> float:
    """What so many percent of the values (two at least) do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def measure(conninfo: str, documents: int) -> Measured:
    """Rebuild the queue with so many documents, and let one worker claim, work on (it sleeps) and finish each.

    How long each work takes is drawn from a skewed distribution, the same in every run. Raises LabError if the queue cannot be
    built, psycopg.Error if the worker fails.
    """
    schema.build(conninfo, STATE)
    chance = random.Random(SEED)
    work = []
    with SessionPins().psycopg_connection(conninfo, "lab/worker") as worker:
        worker.execute("TRUNCATE fila_documentos RESTART IDENTITY")
        worker.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(1, %s) AS n",
            [documents],
        )
        for _ in range(documents):
            claimed = worker.execute("SELECT documento_id, token_reserva FROM reservar('worker-a')").fetchone()
            assert claimed
            started = time.monotonic()
            time.sleep(TYPICAL_SECONDS * chance.lognormvariate(0, SPREAD))
            work.append(time.monotonic() - started)
            worker.execute("SELECT concluir(%s, %s)", claimed)
        held = worker.execute(
            "SELECT extract(EPOCH FROM concluido_em - iniciado_em)::float8 FROM fila_documentos ORDER BY iniciado_em"
        ).fetchall()
    return Measured(tuple(work), tuple(seconds for (seconds,) in held))
