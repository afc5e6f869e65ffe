"""Drills: real processes are killed and stopped at the worst moments, and the invariants are read when all is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.drills import invariants
from lab.drills.ablated_schema import STATE
from lab.drills.harness import PAST_DELAY, PAST_LEASE, Harness, open_harness
from lab.drills.invariants import Damage
from lab.drills.random_kills import RandomKills, RandomKillsOutcome, Size
from lab.server import schema
from lab.server.throwaway import crash, scratch_server
from lab.worker.worker import STOPS


@dataclass(frozen=True)
class DrillOutcome:
    """What a drill came to, all its processes ended.

    documents: how many there were. finished: how many are done. effects: how many the receiver executed. repeated_calls: calls that
    it did not execute again. late_writes: writes that changed no row. reconciliation: documents handed to people. faults: what does
    not fit together in the audit. seconds: from the disaster until every document had ended; leases and delays are moved over by
    the lab's clock. random_kills: what else is seen of many workers, where there were many.
    """

    documents: int
    finished: int
    effects: int
    repeated_calls: int
    late_writes: int
    reconciliation: int
    damage: Damage
    faults: tuple[str, ...]
    seconds: float
    random_kills: RandomKillsOutcome | None = None

    @property
    def clean(self) -> bool:
        """Whether every document ended without damage, with an audit that fits together."""
        return not self.damage.total and not self.faults


@dataclass(frozen=True)
class Drill:
    """A drill: what happens in it, and what it does not try. `run` does it on a harness, and returns when the disaster struck.

    random_kills: where it is many workers' drill, them. keys: whether its receiver executes a key only once.
    """

    name: str
    text: Text
    not_tried: tuple[Text, ...]
    run: Callable[[Harness], float]
    expected: Callable[[DrillOutcome], bool]
    random_kills: RandomKills | None = None
    keys: bool = True


def hold(drill: Drill, conninfo: str, tell: Callable[[str], None] | None = None) -> DrillOutcome:
    """Rebuild the queue in state 09 and hold a drill there; no process of it outlives this.

    `tell` is called with how far a long one has come. Raises LabError if it gets stuck.
    """
    if drill.name == DATABASE_CRASH:
        return _on_a_server_of_its_own(drill)
    schema.build(conninfo, STATE)
    with open_harness(conninfo, keys=drill.keys, tell=tell) as harness:
        return judge(harness, drill.run(harness), drill.random_kills)


def hold_random_kills(conninfo: str, schema_name: str, size: Size) -> DrillOutcome:
    """The drill of the random kills on a queue that is there already, as on a copy without a defence."""
    random_kills = RandomKills(size)
    with open_harness(conninfo, schema=schema_name) as harness:
        return judge(harness, random_kills.run(harness), random_kills)


def interrupted(conninfo: str, point: str, *, killed_there: bool, keys: bool) -> DrillOutcome:
    """Rebuild the queue, and kill a worker at this point of its first document, or let it stand still there past its lease.

    `keys` is whether the receiver executes a key only once.
    Raises LabError for a point that is none.
    """
    if point not in STOPS:
        stops = ", ".join(STOPS)
        raise LabError(
            say(
                f"A worker can be met at {stops}, not at {point}.",
                f"Um worker pode ser interrompido em {stops}, mas não em {point}.",
            )
        )
    schema.build(conninfo, STATE)
    with open_harness(conninfo, keys=keys) as harness:
        return judge(harness, (killed if killed_there else zombie)(point)(harness))


def judge(harness: Harness, struck: float, random_kills: RandomKills | None = None) -> DrillOutcome:
    """End every process of the drill, and say from the tables and the ledger what it came to."""
    seconds = time.monotonic() - struck
    harness.end_all()
    after, events = harness.tables(), harness.events()
    totals, effects = harness.ledger()
    statuses = [document.status for document in after.documents.values()]
    return DrillOutcome(
        documents=len(harness.before.documents),
        finished=statuses.count("concluido"),
        effects=totals.effects,
        repeated_calls=totals.refused,
        late_writes=invariants.late_writes_refused(events),
        reconciliation=statuses.count("conciliacao"),
        damage=invariants.damage(harness.before, after, effects, events),
        faults=tuple(invariants.faults(harness.before, after)),
        seconds=seconds,
        random_kills=random_kills.outcome(harness.before, after) if random_kills else None,
    )


def find(name: str, size: Size | None = None) -> Drill:
    """The drill of that name; LabError, with what there is, if there is none."""
    for drill in drills(size):
        if drill.name == name:
            return drill
    names = ", ".join(drill.name for drill in drills())
    raise LabError(
        say(f"There is no drill {name}; there are {names}.", f"Não existe o ensaio {name}; os ensaios são {names}.")
    )


# -- what happens


def killed(point: str) -> Callable[[Harness], float]:
    """A worker is killed at this point of its first document; another one takes over."""

    def run(harness: Harness) -> float:
        worker = harness.stopped_at(point, "worker-a")
        struck = time.monotonic()
        worker.kill()
        harness.advance(PAST_LEASE)
        harness.finish()
        return struck

    return run


def zombie(point: str) -> Callable[[Harness], float]:
    """A worker stands still at this point until its lease is over and another one has finished; then it goes on."""

    def run(harness: Harness) -> float:
        worker = harness.stopped_at(point, "worker-a")
        struck = time.monotonic()
        worker.freeze()
        harness.advance(PAST_LEASE)
        harness.finish()
        worker.go_on()
        worker.thaw()
        worker.drain()
        return struck

    return run


def receiver_down(harness: Harness) -> float:
    """The receiver is killed; every document is tried once meanwhile."""
    (receiver,) = harness.receivers
    struck = time.monotonic()
    receiver.kill()
    harness.worker("worker-a", "--once", "--batch", "4").drain()
    harness.open_receiver()
    harness.finish()
    return struck


def receiver_away(harness: Harness) -> float:
    """The receiver is killed, and away until the delays of all attempts that a document has would have passed."""
    (receiver,) = harness.receivers
    struck = time.monotonic()
    receiver.kill()
    worker = harness.worker("worker-a", "--until-empty", "--batch", "4", "--rest", "0.05")
    waits_left = 1 + max(document.limit for document in harness.before.documents.values())
    while (event := worker.next()) is not None:
        if event["event"] not in ("resting", "waiting"):
            continue
        harness.advance(PAST_DELAY)
        waits_left -= 1
        if waits_left == 0:
            harness.open_receiver()
    worker.drain()
    return struck


def receiver_killed(harness: Harness) -> float:
    """The receiver is killed after it executed, before it could answer."""
    harness.behave(hold="after")
    (receiver,) = harness.receivers
    worker = harness.worker("worker-a", "--once")
    receiver.wait_for("holding")
    struck = time.monotonic()
    receiver.kill()
    worker.drain()
    harness.open_receiver()
    harness.finish()
    return struck


def in_progress(harness: Harness) -> float:
    """The receiver takes longer over every call than the first worker waits; another one asks meanwhile, and after it."""
    struck = time.monotonic()
    harness.behave(hold="before")
    harness.worker("worker-a", "--once", "--irreversible", "--batch", "4", "--timeout", "0.5").drain()
    harness.advance(PAST_DELAY)
    harness.worker("worker-b", "--once", "--irreversible", "--batch", "4").drain()
    harness.behave(hold="nothing")
    harness.finish("worker-c", "--irreversible")
    return struck


def unknown_and_irreversible(harness: Harness) -> float:
    """The receiver executes the first document, drops the answer, and then refuses to tell what became of it."""
    struck = time.monotonic()
    harness.behave(answer="dropped", queries=False)
    harness.worker("worker-a", "--once", "--irreversible").drain()
    harness.behave(answer="given")
    harness.finish("worker-b", "--irreversible")
    return struck


def database_crash(server_dies: Callable[[], None]) -> Callable[[Harness], float]:
    """The database crashes while a call is out, and comes back; the worker goes on with what it holds."""

    def run(harness: Harness) -> float:
        harness.behave(hold="before")
        (receiver,) = harness.receivers
        worker = harness.worker("worker-a", "--until-empty", "--batch", "4", "--beat", "0.05")
        receiver.wait_for("holding")
        struck = time.monotonic()
        server_dies()
        harness.behave(hold="nothing")
        worker.drain()
        return struck

    return run


def _on_a_server_of_its_own(drill: Drill) -> DrillOutcome:
    with scratch_server() as server:
        conninfo = server.conninfo()
        schema.build(conninfo, STATE)

        def restart() -> None:
            crash(server)
            server.up()

        with open_harness(conninfo) as harness:
            return judge(harness, database_crash(restart)(harness))


# -- what is expected


def exactly_once(outcome: DrillOutcome) -> bool:
    """Every document is finished with its one effect, and no person was needed."""
    return outcome.clean and outcome.documents == outcome.finished == outcome.effects


def each_once(outcome: DrillOutcome) -> bool:
    """Many workers: as above, and each claim under a token of its own, none past a free document, some workers killed at work."""
    return exactly_once(outcome) and outcome.random_kills is not None and outcome.random_kills.good


DATABASE_CRASH = "database_crash"
RANDOM_KILLS = "random_kills"


def drills(size: Size | None = None) -> list[Drill]:
    """All drills, in the order in which they are told; `size` is that of the random kills."""
    random_kills = RandomKills(size or Size())
    power_cut = Text("a machine that loses power", "queda de energia")
    one_victim = (Text("several workers killed at once", "vários workers mortos de uma vez"), power_cut)
    return [
        Drill(
            "kill_before_commit",
            Text("SIGKILL after the lock, before the claim's commit", "SIGKILL depois do bloqueio, antes do COMMIT da reserva"),
            one_victim,
            killed("locked"),
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "kill_after_claim",
            Text("SIGKILL after the claim's commit, before anything else", "SIGKILL logo depois do COMMIT da reserva"),
            one_victim,
            killed("claimed"),
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "kill_before_call",
            Text("SIGKILL after the stage's commit, before the call", "SIGKILL depois do COMMIT da etapa, antes da chamada"),
            one_victim,
            killed("calling"),
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "kill_after_call",
            Text("SIGKILL after the call, before its confirmation", "SIGKILL depois da chamada, antes da confirmação"),
            one_victim,
            killed("called"),
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "zombie",
            Text(
                "SIGSTOP just before the call until another worker has finished, then SIGCONT",
                "SIGSTOP logo antes da chamada até outro worker concluir, depois SIGCONT",
            ),
            (Text("a call that takes its way through proxies for hours", "uma chamada parada por horas num proxy"),),
            zombie("calling"),
            lambda seen: exactly_once(seen) and seen.repeated_calls == 1 and seen.late_writes == 1,
        ),
        Drill(
            "zombie_after_claim",
            Text(
                "SIGSTOP before the stage is written until another worker has finished, then SIGCONT; the receiver knows no keys",
                "SIGSTOP antes de gravar a etapa até outro worker concluir, depois SIGCONT; o receptor não usa chaves",
            ),
            one_victim,
            zombie("claimed"),
            lambda seen: exactly_once(seen) and seen.late_writes == 1,
            keys=False,
        ),
        Drill(
            "zombie_after_call",
            Text(
                "SIGSTOP after the call until another worker has finished, then SIGCONT",
                "SIGSTOP depois da chamada até outro worker concluir, depois SIGCONT",
            ),
            one_victim,
            zombie("called"),
            lambda seen: exactly_once(seen) and not seen.repeated_calls and seen.late_writes == 1,
        ),
        Drill(
            "receiver_down",
            Text("the receiver is dead at every first attempt", "o receptor está fora do ar em todas as primeiras tentativas"),
            (Text("a receiver that some workers reach and others do not", "um receptor que só alguns workers alcançam"),),
            receiver_down,
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "receiver_away",
            Text("the receiver is away for longer than all attempts last", "o receptor fica fora do ar por mais que todas as tentativas"),
            (Text("many workers that find it back at once", "vários workers que o reencontram ao mesmo tempo"),),
            receiver_away,
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "receiver_killed",
            Text("the receiver is killed after executing, before answering", "o receptor morre depois de executar, antes de responder"),
            (Text("a receiver that loses its ledger", "um receptor que perde o seu registro"),),
            receiver_killed,
            lambda seen: exactly_once(seen) and not seen.repeated_calls,
        ),
        Drill(
            "in_progress",
            Text(
                "the receiver is still at it when it is asked; the effect cannot be undone",
                "o receptor ainda está executando quando lhe perguntam; o efeito não pode ser desfeito",
            ),
            (Text("a call that outlasts all attempts of its document", "uma chamada que dura mais que todas as tentativas do documento"),),
            in_progress,
            lambda seen: exactly_once(seen) and not seen.repeated_calls and not seen.late_writes,
        ),
        Drill(
            "unknown_and_irreversible",
            Text(
                "the answer is dropped, the receiver refuses queries, the effect cannot be undone",
                "a resposta se perde, o receptor recusa consultas, o efeito não pode ser desfeito",
            ),
            (Text("what people do with it (lesson 10)", "o que as pessoas fazem com isso (lição 10)"),),
            unknown_and_irreversible,
            lambda seen: seen.clean
            and seen.reconciliation == 1
            and seen.documents == seen.effects == seen.finished + seen.reconciliation,
        ),
        Drill(
            DATABASE_CRASH,
            Text("the database is killed while a call is out, and started again", "o banco é derrubado durante uma chamada e reiniciado"),
            (Text("a standby promoted in its place (lesson 06)", "uma réplica promovida no lugar dele (lição 06)"),),
            database_crash(lambda: None),
            lambda seen: exactly_once(seen) and not seen.repeated_calls and not seen.late_writes,
        ),
        Drill(
            RANDOM_KILLS,
            Text(
                "many workers from a barrier on, SIGKILL at random moments, replaced until all is done",
                "vários workers a partir de uma barreira, SIGKILL em momentos aleatórios, substituídos até o fim",
            ),
            (Text("workers on several machines", "workers em várias máquinas"), power_cut),
            random_kills.run,
            each_once,
            random_kills,
        ),
    ]  # fmt: skip
