"""Play a scenario in all orders of its sessions' steps, and say which orders break what must hold.

The order of the steps within a session is kept, that between sessions is not. Waits are observed, not announced. An order in
which a session that waits would have to go on is impossible, and so is every order that begins like it. All orders are played
in one database, whose rows and sequences are put back before each; it is built anew where a step changed the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import psycopg

from lab.base.errors import ScenarioError
from lab.base.language import Text, say
from lab.scenario import orders, transcript
from lab.scenario.grammar import Ends, Invariant, Scenario, Step
from lab.scenario.player import LIMIT_SECONDS, OrderPlayer
from lab.scenario.result import Play
from lab.scenario.snapshot import Snapshot
from lab.server import schema
from lab.server.session import SessionPins

MOST = 1000  # orders, unless asked for more
STATEMENT_TIMEOUT = "20s"

Outcome = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Order:
    """One order that was played to its end: the play, what it came to, and the rows of each invariant it breaks, by name."""

    play: Play
    outcome: Outcome
    broken: dict[str, int]

    @property
    def switches(self) -> int:
        """How often another session goes on than the one before."""
        sessions = [step.session for step in self.play.scenario.steps]
        return sum(one != other for one, other in pairwise(sessions))


@dataclass
class Explored:
    """What the orders of a scenario came to.

    `total` is how many orders there are; `impossible` counts those among the tried that no client can play; `possible` are the
    others. `sampled` is whether more orders exist than were tried; `seed` then drew them.
    """

    scenario: Scenario
    total: int
    sampled: bool
    seed: int
    possible: list[Order] = field(default_factory=list)
    impossible: list[tuple[Step, ...]] = field(default_factory=list)
    rebuilt: int = 0

    @property
    def tried(self) -> int:
        """How many orders were tried, the impossible ones among them."""
        return len(self.possible) + len(self.impossible)

    @property
    def outcomes(self) -> int:
        """How many different outcomes the possible orders have: what each step returned, whichever came first."""
        return len({order.outcome for order in self.possible})

    def breaking(self, invariant: str) -> list[Order]:
        """The orders that break the invariant of that name, the one with the fewest switches of session first."""
        return sorted((order for order in self.possible if invariant in order.broken), key=lambda order: order.switches)


def explore(
    scenario: Scenario,
    conninfo: str,
    *,
    most: int = MOST,
    seed: int = 1,
    pins: SessionPins | None = None,
    bind: Callable[[Play, Step], Step] | None = None,
    build: Callable[[str, int], None] = schema.build,
    seen: Callable[[Explored], None] | None = None,
) -> Explored:
    """Play the orders of a scenario in the database `conninfo`, whose contents are lost.

    `most` is how many orders to try at most: of more, a random sample of so many, drawn with `seed`. `pins` are the settings
    every session starts with; `bind` gives a step as it is sent, by what the order has shown so far; `build` makes the state the
    scenario starts from; `seen` is called after each order. Needs a user that may set session_replication_role.

    A statement runs as it is written in every order: an id in it that was read off one order is not read anew in another, so let
    a later step ask for what an earlier one chose.

    Returns what was seen. Raises ScenarioError if an invariant cannot be asked, PlayError if a step neither ends nor waits,
    LabError if the state cannot be built.
    """
    steps = [[step for step in scenario.steps if step.session == session] for session in scenario.sessions]
    counts = [len(each) for each in steps]
    total = orders.number(counts)
    explored = Explored(scenario, total, total > most, seed)
    pins = pins or SessionPins(statement_timeout=STATEMENT_TIMEOUT)
    build(conninfo, scenario.state)
    with (
        closing(pins.psycopg_connection(conninfo, "lab/monitor")) as monitor,
        closing(pins.psycopg_connection(conninfo, "lab/explore")) as keeper,
    ):
        player = OrderPlayer(scenario, conninfo, pins, monitor, LIMIT_SECONDS, bind)
        try:
            player.open()
            snapshot = Snapshot(keeper)
            dead: set[tuple[int, ...]] = set()  # beginnings that no client can play
            for rank in orders.sample(counts, most, seed):
                which = orders.order(counts, rank)
                tried = in_order(scenario, steps, which)
                if any(which[:length] in dead for length in range(1, len(which) + 1)):
                    explored.impossible.append(tried.steps)
                    continue
                if not snapshot.holds():
                    player.execute("teardown", scenario.teardown)
                    build(conninfo, scenario.state)
                    player.execute("setup", scenario.setup)
                    snapshot = Snapshot(keeper)
                    explored.rebuilt += 1
                snapshot.restore()
                played, launched = player.play_order(tried)
                if launched < len(which):
                    dead.add(which[: launched + 1])
                    explored.impossible.append(tried.steps)
                else:
                    explored.possible.append(Order(played, _outcome(played), _broken(keeper, scenario)))
                player.reset()
                if seen:
                    seen(explored)
            snapshot.drop()
        finally:
            player.close()
    return explored


def in_order(scenario: Scenario, steps: list[list[Step]], which: tuple[int, ...]) -> Scenario:
    """The scenario with its steps in that order, nothing announced."""
    left = [iter(each) for each in steps]
    actions = tuple(replace(next(left[session]), blocks=None, errors=None) for session in which)
    return replace(scenario, actions=actions)


def as_seen(order: Order) -> Scenario:
    """The scenario that announces what was seen in an order: the player replays it, and insists on it.

    A step that nothing ended is left out, since a scenario has no way to say so.
    """
    actions: list[Step | Ends] = []
    for event in order.play.steps_seen:
        run = event.run
        assert run is not None
        if event.kind == "completed":
            actions.append(Ends(run.step.name, run.step.line, run.sqlstate))
        elif event.kind == "waiting":
            if run.ended is not None:
                actions.append(replace(run.step, blocks=run.waited_for[0], errors=None))
        else:
            actions.append(replace(run.step, blocks=None, errors=run.sqlstate))
    return replace(order.play.scenario, actions=tuple(actions))


def written(order: Order, invariant: Invariant) -> str:
    """An order as the text of a scenario file, which ends in the query of the invariant that it breaks."""
    told = as_seen(order)
    rows = order.broken[invariant.name]
    claim = Text(
        f"An order of the steps of {told.name} that breaks {invariant.name}: its query returns {rows} row(s), not none.",
        f"Uma ordem dos passos de {told.name} que viola {invariant.name}: a consulta devolve {rows} linha(s), e não nenhuma.",
    )
    parts = [f"-- {claim.en}", f"-- @pt {claim.pt}", f"-- @builds_on {told.builds_on}"]
    for word, statements in (("setup", told.setup), ("teardown", told.teardown)):
        if statements:
            parts += [f"-- @{word}", *statements]
    for action in told.actions:
        errors = f" errors {action.errors}" if action.errors else ""
        if isinstance(action, Ends):
            parts.append(f"-- @ends {action.step}{errors}")
            continue
        blocks = f" blocks {action.blocks}" if action.blocks else ""
        parts += [f"-- @step {action.name} {action.session}{blocks}{errors}", *_prose(action.prose), action.sql]
    parts += ["-- @step invariant Check", *_prose(invariant.prose), invariant.sql]
    return "\n".join(parts) + "\n"


def write(explored: Explored, folder: Path) -> list[Path]:
    """Write the shortest breaking order of each broken invariant into the folder; returns the files."""
    files = []
    for invariant in explored.scenario.invariants:
        if breaking := explored.breaking(invariant.name):
            folder.mkdir(parents=True, exist_ok=True)
            files.append(folder / f"{explored.scenario.name}_{invariant.name}.sql")
            files[-1].write_text(written(breaking[0], invariant), encoding="utf-8")
    return files


def report(explored: Explored) -> str:
    """What was seen, for the screen: the orders, the outcomes, what each invariant came to."""
    name, tried, total = explored.scenario.name, explored.tried, explored.total
    if explored.sampled:
        lines = [
            say(
                f"{name}: {tried} of {total} orders tried, a random sample (seed {explored.seed}).",
                f"{name}: {tried} de {total} ordens tentadas, uma amostra aleatória (semente {explored.seed}).",
            )
        ]
    else:
        lines = [say(f"{name}: all {total} orders tried.", f"{name}: todas as {total} ordens tentadas.")]
    impossible, possible = len(explored.impossible), len(explored.possible)
    lines.append(
        say(
            f"{impossible} impossible (a session that waits would have to go on), {possible} possible,"
            f" {explored.outcomes} distinct outcomes.",
            f"{impossible} impossíveis (uma sessão que espera teria de continuar), {possible} possíveis,"
            f" {explored.outcomes} resultados distintos.",
        )
    )
    for invariant in explored.scenario.invariants:
        breaking = explored.breaking(invariant.name)
        if breaking:
            steps = " ".join(step.name for step in breaking[0].play.scenario.steps)
            lines.append(
                say(
                    f"{invariant.name}: broken by {len(breaking)} of {possible}. With the fewest switches: {steps}",
                    f"{invariant.name}: violado por {len(breaking)} de {possible}. Com menos trocas de sessão: {steps}",
                )
            )
        else:
            held = say(f"broken by none of {possible}", f"nenhuma de {possible} ordens viola")
            lines.append(f"{invariant.name}: {held}.")
    if not explored.scenario.invariants:
        lines.append(say("The scenario states no `-- @invariant`.", "O cenário não traz nenhum `-- @invariant`."))
    return "\n".join(lines)


def _prose(prose: Text | None) -> list[str]:
    return [f"-- {prose.en}", *([f"-- @pt {prose.pt}"] if prose.pt else [])] if prose else []


def _outcome(played: Play) -> Outcome:
    """What each step came to, by its name: its rows with moments of the clock left out, its error, or that it never ended."""
    found = []
    for name, run in sorted(played.runs.items()):
        if run.outcome == "done":
            found.append((name, run.command + "\n" + transcript.table(run.columns or (), run.rows)))
        else:
            found.append((name, run.sqlstate or run.outcome))
    return tuple(found)


def _broken(keeper: psycopg.Connection, scenario: Scenario) -> dict[str, int]:
    broken = {}
    for invariant in scenario.invariants:
        try:
            rows = keeper.execute(invariant.sql.encode()).rowcount
        except psycopg.Error as error:
            why = f"{error.sqlstate} ({error.diag.message_primary})"
            file, line = scenario.path.name, invariant.line
            raise ScenarioError(
                say(
                    f"{file}, line {line}: the query of invariant {invariant.name} failed with {why}.",
                    f"{file}, linha {line}: a consulta do invariante {invariant.name} falhou com {why}.",
                )
            ) from error
        if rows:
            broken[invariant.name] = rows
    return broken
