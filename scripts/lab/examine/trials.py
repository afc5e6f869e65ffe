"""The trials: each plays one race on the reader's statements and judges what was seen."""

from __future__ import annotations

from dataclasses import replace

import psycopg

from lab.base import sql_text
from lab.base.errors import QueueError
from lab.base.language import Text, say
from lab.examine.queue_file import Block, QueueFile, Statement
from lab.examine.verdict import Verdict
from lab.scenario.explore import Explored, Order, explore
from lab.scenario.grammar import Scenario, Step
from lab.scenario.result import Play, StepRun
from lab.server.session import SessionPins

LIMIT = "5s"  # for each statement of the reader's
PINS = SessionPins(statement_timeout=LIMIT, search_path="public")
MOST = 300  # orders
NOTHING = "SELECT 'nothing was claimed' AS skipped WHERE FALSE"
GIVEN = {"limit": "1", "lease": "30 seconds", "key": "lab-key-1", "payload": "{}", "error": "lab error"}

Values = dict[str, str | None]


def build(queue: QueueFile, conninfo: str) -> None:
    """Run the queue's @schema in the empty scratch database.

    Raises QueueError, naming file and line, for a statement that fails or does not end.
    """
    with PINS.psycopg_connection(conninfo, "lab/schema") as connection:
        for statement in queue.blocks["schema"].statements:
            try:
                connection.execute(statement.sql.encode())
            except psycopg.Error as error:
                raise failed(queue, statement, error.sqlstate, error.diag.message_primary) from error


def two_claims(queue: QueueFile, conninfo: str) -> tuple[Verdict, Explored]:
    """Two workers claim one after the other and at once, in every order of their statements.

    Raises QueueError if a claim fails when nothing else runs, or returns no row that could be told from another.
    """
    claim = queue.blocks["claim"]
    steps = [*_steps(claim, "A"), *_steps(claim, "B")]
    title = Text("two claims at once", "duas reservas ao mesmo tempo")
    scenario = Scenario(queue.path, title, "01_queue", (), (), tuple(steps))
    explored = explore(
        scenario,
        conninfo,
        most=MOST,
        pins=PINS,
        build=lambda conninfo, _: None,
        bind=lambda played, step: _bound(queue, claim, played, step),
    )
    orders = explored.possible
    alone = next((order for order in orders if order.switches == 1), None)
    if explored.rebuilt or alone is None:
        raise queue.error(
            claim.line,
            say(
                "the claim changes the schema, so it cannot be tried", "a reserva muda o esquema; não dá para testá-la"
            ),
        )
    _insist_on_a_claim(queue, claim, alone)

    def verdict(word: str, seen: int, why: Text) -> Verdict:
        return Verdict("two_claims", title, word, seen, len(raced), why, "04")  # type: ignore[arg-type]

    raced = [order for order in orders if _overlaps(order, claim)]
    if _claimed(alone.play, claim, "B") is None:
        return verdict(
            "NOT TRIED",
            0,
            Text(
                "one row for two workers is no race: put two rows or more into @schema",
                "uma linha para dois workers não é disputa: ponha duas linhas ou mais no @schema",
            ),
        ), explored
    got = [(_claimed(order.play, claim, "A"), _claimed(order.play, claim, "B")) for order in raced]
    double = sum(a is not None and a == b for a, b in got)
    waited = sum(any(run.waited_for for run in order.play.runs.values()) for order in raced)
    empty = sum(None in pair for pair in got)
    if double:
        return verdict(
            "BREAKS", double, Text("both workers got the same row", "os dois workers pegaram a mesma linha")
        ), explored
    if waited:
        return verdict(
            "WAITS",
            waited,
            Text(
                "a worker waited although other rows were free",
                "um worker esperou, embora houvesse outras linhas livres",
            ),
        ), explored
    if empty:
        return verdict(
            "BREAKS",
            empty,
            Text(
                "a worker got nothing although rows were free",
                "um worker não pegou nada, embora houvesse linhas livres",
            ),
        ), explored
    if not raced:
        return verdict(
            "NOT TRIED",
            0,
            Text("no order was possible in which they overlap", "nenhuma ordem possível em que elas se sobrepõem"),
        ), explored
    return verdict(
        "HOLDS", 0, Text("each worker got a row of its own, at once", "cada worker pegou uma linha só sua, na hora")
    ), explored


def _overlaps(order: Order, block: Block) -> bool:
    """Whether each session's first statement of the block came before the other's block had ended: else nothing was raced."""
    steps = order.play.scenario.steps
    first = {
        session: min(place for place, step in enumerate(steps) if step.name == f"{session.lower()}_{block.name}_1")
        for session in "AB"
    }
    last = {session: max(place for place, step in enumerate(steps) if step.session == session) for session in "AB"}
    return first["A"] < last["B"] and first["B"] < last["A"]


def _steps(block: Block, session: str) -> list[Step]:
    """The block as the steps of a session.

    A single statement in autocommit is held open between BEGIN and COMMIT, which is how it looks to others until its commit
    has ended. Several in autocommit are one transaction each.
    """
    name = f"{session.lower()}_{block.name}"
    steps = [Step(f"{name}_{place}", session, each.sql, each.line) for place, each in enumerate(block.statements, 1)]
    if block.one_transaction or len(steps) == 1:
        begin = Step(f"{session.lower()}_begin", session, "BEGIN", block.line)
        return [begin, *steps, Step(f"{session.lower()}_commit", session, "COMMIT", block.line)]
    return steps


def _runs(played: Play, block: Block, session: str) -> list[StepRun]:
    names = [f"{session.lower()}_{block.name}_{place}" for place in range(1, len(block.statements) + 1)]
    return [played.runs[name] for name in names if name in played.runs]


def _bound(queue: QueueFile, block: Block, played: Play, step: Step) -> Step:
    """The step with the values of its parameters; nothing is sent in its place once the claim has found no row."""
    before = _runs(played, block, step.session)
    values: Values = {**GIVEN, "worker": f"worker-{step.session.lower()}"}
    empty = False
    for run in before:
        empty = empty or (run.columns is not None and not run.rows)
        if run.columns and run.rows:
            values |= dict(zip(run.columns, run.rows[0], strict=True))
    if empty and any(token.text[1:] not in values for token in sql_text.parameters(step.sql)):
        return replace(step, sql=NOTHING)
    return replace(step, sql=bound(queue, Statement(step.sql, step.line), values))


def bound(queue: QueueFile, statement: Statement, values: Values) -> str:
    """The statement with the values of its parameters. Raises QueueError, naming file and line, for one without a value."""
    text = statement.sql
    for token in reversed(sql_text.parameters(text)):
        name = token.text[1:]
        if name not in values:
            there = ", ".join(f":{known}" for known in values)
            line = statement.line + statement.sql.count("\n", 0, token.start)
            raise queue.error(
                line, say(f"no value for :{name}; there are {there}", f"sem valor para :{name}; os que há: {there}")
            )
        text = text[: token.start] + _literal(values[name]) + text[token.end :]
    return text


def _literal(value: str | None) -> str:
    if value is None:
        return "NULL"
    return sql_text.literal(value)


def _claimed(played: Play, block: Block, session: str) -> str | None:
    """The row that a session claimed, by its `id`, else by its first column; None if it has none, or its claim failed."""
    runs = _runs(played, block, session)
    commit = played.runs.get(f"{session.lower()}_commit")
    if any(run.outcome != "done" for run in [*runs, *([commit] if commit else [])]) or runs[-1].command in (
        "UPDATE 0",
        "DELETE 0",
    ):
        return None
    for run in reversed(runs):
        if run.columns and run.columns[0] != "skipped":
            return (run.rows[0][run.columns.index("id") if "id" in run.columns else 0]) if run.rows else None
    return None


def _insist_on_a_claim(queue: QueueFile, claim: Block, alone: Order) -> None:
    for run in alone.play.runs.values():
        if run.outcome == "error":
            statement = next((each for each in claim.statements if each.line == run.step.line), claim.statements[0])
            raise failed(queue, statement, run.sqlstate, run.message)
    first = alone.play.scenario.steps[0].session
    if _claimed(alone.play, claim, first) is None:
        raise queue.error(
            claim.line,
            say(
                "the claim returned no row; let it return the id of what it claims, and put rows into @schema",
                "a reserva não devolveu linha; faça-a devolver o id do que reserva e ponha linhas no @schema",
            ),
        )


def failed(queue: QueueFile, statement: Statement, sqlstate: str | None, message: str | None) -> QueueError:
    """The error for a statement of the reader's that failed when nothing else ran."""
    if sqlstate == "57014":
        return queue.error(statement.line, say(f"did not end within {LIMIT}", f"não terminou em {LIMIT}"))
    return queue.error(statement.line, say(f"failed with {sqlstate} ({message})", f"falhou com {sqlstate} ({message})"))
