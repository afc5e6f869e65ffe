"""The defence matrix of lesson 09: each defence taken away once, the others left, and the damage counted.

For every defence there is a situation that it is made for, held with it and without it on the same harness: real processes, real
signals. What is taken away from the protocol is taken from a copy of it (lab.drills.ablated_schema).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import psycopg
from psycopg import sql

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.drills import invariants
from lab.drills.ablated_schema import STATE, without
from lab.drills.catalogue import judge, killed, zombie
from lab.drills.harness import LEASE, PAST_DELAY, PAST_LEASE, open_harness
from lab.drills.invariants import Damage
from lab.drills.process import Child
from lab.server import schema
from lab.server.session import SCHEMA
from lab.worker.client import Claim, Queue
from lab.worker.transactional import finish_together

RECORDED = paths.EXPECTED / "09_effects" / "defence_matrix.json"
TENANT = "prova"


@dataclass(frozen=True)
class Defence:
    """A defence, the situation that it is made for, and how that is held: with the defence, and without it."""

    name: str
    shown: Text
    situation: Text
    run: Callable[[str, bool], Damage]


@dataclass(frozen=True)
class Row:
    """A defence's damage in its situation, in documents."""

    defence: str
    with_it: Damage
    without_it: Damage


@dataclass(frozen=True)
class Matrix:
    """What was seen, by defence."""

    rows: tuple[Row, ...]

    def row(self, defence: str) -> Row:
        """The row of that defence; KeyError if it was not tried."""
        for row in self.rows:
            if row.defence == defence:
                return row
        raise KeyError(defence)

    def as_json(self) -> str:
        """The matrix as `recorded` reads it."""
        return f"{json.dumps(asdict(self), indent=1)}\n"


def recorded() -> Matrix:
    """The matrix as `lab record` has written it."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    rows = [Row(row["defence"], Damage(**row["with_it"]), Damage(**row["without_it"])) for row in kept["rows"]]
    return Matrix(tuple(rows))


def examine(conninfo: str, *names: str) -> Matrix:
    """Rebuild the queue, and hold the situations of these defences (of all, if none is named), each with it and without it.

    Raises LabError for a name that is no defence's, or if a drill gets stuck.
    """
    known = {each.name: each for each in defences()}
    for name in names:
        if name not in known:
            there = ", ".join(known)
            raise LabError(say(f"There is no defence {name}; there are {there}.", f"Não há defesa {name}; há {there}."))
    chosen = [known[name] for name in names or known]
    return Matrix(tuple(Row(each.name, each.run(conninfo, True), each.run(conninfo, False)) for each in chosen))


def defences() -> tuple[Defence, ...]:
    """The defences, in the order in which a document meets them."""
    return (
        Defence(
            "lease",
            Text("lease and recovery", "prazo da reserva e recuperação"),
            Text("a worker is killed after its claim's commit", "um worker morre depois do COMMIT da reserva"),
            _lease,
        ),
        Defence(
            "token",
            Text("token", "token"),
            Text(
                "a worker comes back while another one has its document", "um worker volta enquanto outro está com o documento dele"
            ),
            _token,
        ),
        Defence(
            "zero_rows",
            Text("zero rows", "zero linhas"),
            Text(
                "a worker stands still before it writes its stage; the receiver knows no keys",
                "um worker para antes de gravar a etapa; o receptor não usa chaves",
            ),
            _zero_rows,
        ),
        Defence(
            "key",
            Text("operation key", "chave da operação"),
            Text("a worker stands still just before its call", "um worker para logo antes da chamada"),
            _key,
        ),
        Defence(
            "stage",
            Text("stage", "etapa"),
            Text(
                "a worker is killed after its call; the receiver knows no keys, but can be asked",
                "um worker morre depois da chamada; o receptor não usa chaves, mas responde a consultas",
            ),
            _stage,
        ),
        Defence(
            "heartbeat",
            Text("heartbeat", "sinal de vida"),
            Text(
                "the work outlasts the lease, at the last attempt allowed", "o trabalho dura mais que a reserva, na última tentativa"
            ),
            _heartbeat,
        ),
        Defence(
            "savepoint",
            Text("savepoint", "savepoint"),
            Text("one document of a batch of five is broken", "um documento de um lote de cinco está quebrado"),
            _savepoint,
        ),
    )  # fmt: skip


def kinds() -> tuple[tuple[str, Text], ...]:
    """What can go wrong: the field of Damage, and how it is shown."""
    return (
        ("duplicates", Text("duplicate effects", "efeitos duplicados")),
        ("lost", Text("lost", "perdidos")),
        ("stuck", Text("stuck", "presos")),
        ("overwritten", Text("overwritten", "sobrescritos")),
        ("over_limit", Text("given up, though done", "abandonados, embora feitos")),
    )


# -- with it and without it


@contextmanager
def _protocol(conninfo: str, taken_away: str | None) -> Iterator[str]:
    """The protocol, whole or without one defence; returns the name of its schema."""
    if taken_away is None:
        schema.build(conninfo, STATE)
        yield SCHEMA
    else:
        with without(conninfo, taken_away) as name:
            yield name


def _lease(conninfo: str, defended: bool) -> Damage:
    with _protocol(conninfo, None if defended else "reserva") as name, open_harness(conninfo, schema=name) as harness:
        return judge(harness, killed("claimed")(harness)).damage


def _token(conninfo: str, defended: bool) -> Damage:
    with _protocol(conninfo, None if defended else "token") as name, open_harness(conninfo, schema=name) as harness:
        late = harness.stopped_at("obtained", "worker-a")
        late.freeze()
        harness.finish("worker-c")  # the other documents, so that the next one to claim gets this one
        harness.advance(PAST_LEASE)
        harness.recover()
        harness.advance(PAST_DELAY)
        owner = harness.stopped_at("claimed", "worker-b")
        _let_go(late)
        owner.go_on()
        owner.drain()
        return judge(harness, time.monotonic()).damage


def _zero_rows(conninfo: str, defended: bool) -> Damage:
    with (
        _protocol(conninfo, None if defended else "linhas") as name,
        open_harness(conninfo, schema=name, keys=False) as harness,
    ):
        return judge(harness, zombie("claimed")(harness)).damage


def _key(conninfo: str, defended: bool) -> Damage:
    with _protocol(conninfo, None) as name, open_harness(conninfo, schema=name, keys=defended) as harness:
        return judge(harness, zombie("calling")(harness)).damage


def _stage(conninfo: str, defended: bool) -> Damage:
    with (
        _protocol(conninfo, None if defended else "etapa") as name,
        open_harness(conninfo, schema=name, keys=False) as harness,
    ):
        return judge(harness, killed("called")(harness)).damage


def _heartbeat(conninfo: str, defended: bool) -> Damage:
    with _protocol(conninfo, None) as name:
        _enqueue(conninfo, "ULTIMA", "<nfe><valor>5</valor></nfe>", attempts=1)
        with open_harness(conninfo, schema=name) as harness:
            harness.behave(hold="before")
            worker = harness.worker("worker-a", "--once", "--tenant", TENANT, "--beat", "0.05" if defended else "0")
            harness.receivers[0].wait_for("holding")
            for _ in range(2):
                harness.advance(LEASE - 10)
                if defended:
                    harness.wait_until("status = 'processando' AND reservado_ate > relogio() + INTERVAL '25 seconds'")
            harness.recover()
            harness.behave(hold="nothing")
            worker.drain()
            harness.finish()
            return judge(harness, time.monotonic()).damage


def _savepoint(conninfo: str, defended: bool) -> Damage:
    with _protocol(conninfo, None):
        _enqueue(conninfo, "QUEBRADO", "<nfe><valor>quebrado</valor></nfe>", attempts=5)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            before = invariants.read(connection)
            connection.execute(
                sql.SQL("CREATE TABLE {}.lancamentos (chave_operacao TEXT, valor NUMERIC)").format(
                    sql.Identifier(SCHEMA)
                )
            )
            queue = Queue(conninfo, "lab/worker-a")
            try:
                finish_together(queue, queue.claim("worker-a", 5, LEASE, None), _book, savepoints=defended)
            finally:
                queue.close()
            booked = sql.SQL("SELECT chave_operacao, count(*) FROM {}.lancamentos GROUP BY 1").format(
                sql.Identifier(SCHEMA)
            )
            effects: dict[str, int] = dict(connection.execute(booked).fetchall())
            after = invariants.read(connection)
        hopeless = frozenset({f"{TENANT}/QUEBRADO"})
        return invariants.damage(before, after, effects, [], hopeless)


def _book(connection: psycopg.Connection, claim: Claim) -> None:
    """Work inside the database: the document's value is booked."""
    statement = "INSERT INTO {}.lancamentos SELECT %s, (xpath('/nfe/valor/text()', %s::XML))[1]::TEXT::NUMERIC"
    connection.execute(sql.SQL(statement).format(sql.Identifier(SCHEMA)), [claim.key, claim.payload])


def _let_go(late: Child) -> None:
    late.go_on()
    late.thaw()
    late.drain()


def _enqueue(conninfo: str, key: str, payload: str, attempts: int) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        statement = sql.SQL(
            "SELECT documento_id FROM {}.enfileirar(%s, 'prova.xml', %s::XML, %s, p_max_tentativas => %s)"
        ).format(sql.Identifier(SCHEMA))
        connection.execute(statement, [key, payload, TENANT, attempts])


def worth(matrix: Matrix) -> bool:
    """Whether every defence kept all damage off, and was missed where it was gone."""
    return all(row.with_it.total == 0 < row.without_it.total for row in matrix.rows)
