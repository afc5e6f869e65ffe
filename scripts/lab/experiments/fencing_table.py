"""The truth table of lesson 06: what a late worker destroys, by the WHERE clause that guards a write.

Every guard is tried in every situation, on a real server: a document of its own, claimed by a worker that stalls and is taken
for dead; what happens meanwhile, by the protocol's functions; the late worker's write; the write of the one whose turn it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count

import psycopg
from psycopg.rows import dict_row

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.server import schema
from lab.server.session import SessionPins

RECORDED = paths.EXPECTED / "06_token" / "truth_table.json"
STATE = 6
LATE, OTHER = "worker-a", "worker-b"

_Row = dict[str, object]  # what a claim gave back, by column


@dataclass(frozen=True)
class Guard:
    """The WHERE clause of a worker's outcome.

    `where` is SQL; the worker puts in what it knows from its own claim, as psycopg's `%(documento_id)s`, and so `worker_id`,
    `tentativas`, `versao`, `token_reserva`. `shown` is how readers know the clause from their own code.
    """

    name: str
    where: str
    shown: Text


@dataclass(frozen=True)
class Situation:
    """What happens while the late worker is away; `happens` gives back the claim of the worker on it by then, None if there is none."""

    name: str
    shown: Text
    happens: Callable[[_Trial], _Row | None]


@dataclass(frozen=True)
class Cell:
    """A guard tried in a situation.

    `destroyed` is the number of rows the late worker's write changed; `kept` whether the result of the one whose turn it was is
    what the table says in the end.
    """

    guard: str
    situation: str
    destroyed: int
    kept: bool

    @property
    def text(self) -> Text:
        """The cell in words."""
        lost = Text("", "") if self.kept else Text(", result lost", ", resultado perdido")
        return Text(f"{self.destroyed}{lost.en}", f"{self.destroyed}{lost.pt}")


@dataclass(frozen=True)
class TruthTable:
    """What was seen. `owners` are the rows that a rightful owner's finish changed after an unrelated change, by guard."""

    cells: tuple[Cell, ...]
    owners: dict[str, int]

    def cell(self, guard: str, situation: str) -> Cell:
        """The cell of that guard in that situation; KeyError if it was not tried."""
        for cell in self.cells:
            if (cell.guard, cell.situation) == (guard, situation):
                return cell
        raise KeyError((guard, situation))

    def destroyed(self, guard: str) -> int:
        """In how many situations a late write got past that guard."""
        return sum(cell.destroyed for cell in self.cells if cell.guard == guard)

    def as_json(self) -> str:
        """The table as `recorded` reads it."""
        return f"{json.dumps(asdict(self), indent=1)}\n"


def recorded() -> TruthTable:
    """The table as `lab record` has written it."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    return TruthTable(tuple(Cell(**cell) for cell in kept["cells"]), kept["owners"])


def guards() -> tuple[Guard, ...]:
    """The guards that people write: each of the first four adds a condition to the one before it."""
    by_id = "documento_id = %(documento_id)s"
    by_status = f"{by_id} AND status = 'processando'"
    by_worker = f"{by_status} AND worker_id = %(worker_id)s"
    by_attempt = f"{by_worker} AND tentativas = %(tentativas)s"
    return (
        Guard("id", by_id, Text("WHERE id = …", "WHERE id = …")),
        Guard("status", by_status, Text("… AND status = 'processing'", "… AND status = 'processando'")),
        Guard("worker", by_worker, Text("… AND worker = …", "… AND worker = …")),
        Guard("attempt", by_attempt, Text("… AND attempt = …", "… AND tentativas = …")),
        Guard(
            "version",
            f"{by_id} AND versao = %(versao)s",
            Text("WHERE id = … AND version = …", "WHERE id = … AND versao = …"),
        ),
        Guard(
            "combined",
            f"{by_worker} AND versao = %(versao)s",
            Text(
                "WHERE id = … AND version = … AND worker = … AND status = 'processing'",
                "WHERE id = … AND versao = … AND worker = … AND status = 'processando'",
            ),
        ),
        Guard(
            "token",
            f"{by_id} AND token_reserva = %(token_reserva)s",
            Text("WHERE id = … AND token = …", "WHERE id = … AND token = …"),
        ),
    )


def situations() -> tuple[Situation, ...]:
    """What may have happened when a late worker writes."""
    return (
        Situation("other_worker", Text("another worker took over", "outro worker assumiu"), _other_worker),
        Situation(
            "same_name", Text("restarted under the same name", "reiniciado com o mesmo nome"), _restarted_under_its_name
        ),
        Situation(
            "attempts_reset",
            Text("same name, and attempts set back to 0", "mesmo nome, e tentativas zeradas"),
            _attempts_set_back,
        ),
        Situation("pending", Text("back in the queue, not taken yet", "de volta à fila, ainda sem dono"), _recovered),
        Situation("finished", Text("finished by the next worker", "concluído pelo worker seguinte"), _finished),
    )


def examine(conninfo: str, chosen: Sequence[Guard] | None = None) -> TruthTable:
    """Rebuild the queue in this database, and try these guards (without any: those of `guards()`) in every situation.

    Raises LabError if the queue cannot be built, or if a guard is no SQL.
    """
    schema.build(conninfo, STATE)
    chosen = guards() if chosen is None else chosen
    pins = SessionPins()
    with pins.psycopg_connection(conninfo, "lab/late") as late, pins.psycopg_connection(conninfo, "lab/owner") as owner:
        numbers = count(1)
        cells = [
            _cell(_Trial(late, owner, guard, f"caso-{next(numbers)}"), situation)
            for guard in chosen
            for situation in situations()
        ]
        owners = {
            guard.name: _owner_after_a_change(_Trial(late, owner, guard, f"caso-{next(numbers)}")) for guard in chosen
        }
    return TruthTable(tuple(cells), owners)


@dataclass(frozen=True)
class _Trial:
    """One guard with one document, which has a tenant of its own, so that no claim meets another trial's document."""

    late: psycopg.Connection
    owner: psycopg.Connection
    guard: Guard
    tenant: str

    def enqueue(self) -> None:
        self.owner.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, inquilino)"
            " VALUES (%(tenant)s, 'caso.xml', '<nfe/>', %(tenant)s)",
            {"tenant": self.tenant},
        )

    def claim(self, connection: psycopg.Connection, worker: str) -> _Row | None:
        """The next claim of this worker: what it knows of it, by column; None if there is nothing to claim."""
        with connection.cursor(row_factory=dict_row) as cursor:
            claimed = cursor.execute(
                "SELECT documento_id, tentativas, versao, token_reserva FROM reservar(%s, p_inquilino => %s)",
                [worker, self.tenant],
            ).fetchone()
        return None if claimed is None else {**claimed, "worker_id": worker}

    def recover(self) -> None:
        """Let the lease of the one who has the document end, and put it back into the queue."""
        self.owner.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 minute'")
        self.owner.execute("SELECT documento_id FROM recuperar('vigia', p_inquilino => %s)", [self.tenant])

    def write(self, connection: psycopg.Connection, claim: _Row, status: str) -> int:
        """Write an outcome as this guard's user would; returns the number of rows changed.

        Raises LabError if the guard is no SQL.
        """
        # One more version with every change of state, or the version could not fence at all.
        statement = (
            "UPDATE fila_documentos SET status = %(status)s, versao = versao + 1, concluido_em = relogio()"
            f" WHERE {self.guard.where}"
        )
        try:
            return connection.execute(statement.encode(), {**claim, "status": status}).rowcount
        except (psycopg.ProgrammingError, psycopg.DataError) as error:
            where = self.guard.where
            raise LabError(
                say(
                    f"This guard cannot be tried: {where}. {error}",
                    f"Não dá para testar esta condição: {where}. {error}",
                )
            ) from error

    def status(self) -> object:
        row = self.owner.execute("SELECT status FROM fila_documentos WHERE inquilino = %s", [self.tenant]).fetchone()
        assert row
        return row[0]


def _cell(trial: _Trial, situation: Situation) -> Cell:
    trial.enqueue()
    claim = trial.claim(trial.late, LATE)
    assert claim
    owner = situation.happens(trial)
    # The late worker has given up: what it writes would end the document for good.
    destroyed = trial.write(trial.late, claim, "falhou")
    owner = owner or trial.claim(trial.owner, OTHER)  # which finds nothing if the document has ended
    if owner:
        trial.write(trial.owner, owner, "concluido")
    return Cell(trial.guard.name, situation.name, destroyed, kept=trial.status() == "concluido")


def _other_worker(trial: _Trial) -> _Row | None:
    trial.recover()
    return trial.claim(trial.owner, OTHER)


def _restarted_under_its_name(trial: _Trial) -> _Row | None:
    trial.recover()
    return trial.claim(trial.owner, LATE)


def _attempts_set_back(trial: _Trial) -> _Row | None:
    trial.recover()
    trial.owner.execute("UPDATE fila_documentos SET tentativas = 0 WHERE inquilino = %s", [trial.tenant])
    return trial.claim(trial.owner, LATE)


def _recovered(trial: _Trial) -> _Row | None:
    trial.recover()
    return None


def _finished(trial: _Trial) -> _Row | None:
    owner = _other_worker(trial)
    assert owner
    trial.write(trial.owner, owner, "concluido")
    return None


def _owner_after_a_change(trial: _Trial) -> int:
    """No worker is late here: the rows that an owner's finish changes after a change that leaves the claim alone, as a stage would."""
    trial.enqueue()
    owner = trial.claim(trial.owner, OTHER)
    assert owner
    trial.late.execute("UPDATE fila_documentos SET versao = versao + 1 WHERE inquilino = %s", [trial.tenant])
    return trial.write(trial.owner, owner, "concluido")
