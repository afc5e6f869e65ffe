"""Scenarios made in memory, so that a notebook can change what a file fixes: how many sessions, which SQL."""

from __future__ import annotations

import re
import string
import time
from collections import Counter
from collections.abc import Mapping

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.base.sql_text import statements
from lab.scenario import grammar
from lab.scenario.grammar import Scenario, Step
from lab.scenario.library import find_scenario
from lab.scenario.player import play
from lab.scenario.queue_state import observing
from lab.scenario.result import Event, Play, StepRun
from lab.server import schema

PASSES = "03_passes"
MOST = 12
ANYBODY = ""


def queue_of(sessions: int, skip_locked: bool) -> Scenario:
    """A scenario in which so many sessions ask for the oldest pending document, one after the other, before any of them ends.

    With SKIP LOCKED each takes the next free document (the fifth and later ones none). Without it they wait in a chain: B for A,
    C for B. No session marks its document, so each gets document 1 in turn: if they marked it, more than one waiter on a row that
    changes would be a free race, and who gets what would be chance.
    Raises LabError for fewer than 2 or more than 12 sessions.
    """
    if not 2 <= sessions <= MOST:
        raise LabError(
            say(
                f"The picture holds 2 to {MOST} sessions, not {sessions}.",
                f"Na figura cabem de 2 a {MOST} sessões, não {sessions}.",
            )
        )
    asks = find_scenario(PASSES).step("a_takes").sql
    if not skip_locked:
        asks = asks.replace(" SKIP LOCKED", "")
    names = string.ascii_uppercase[:sessions]
    lines = [
        "-- Several sessions ask for the oldest pending document.",
        "-- @pt Várias sessões pedem o documento pendente mais antigo.",
    ]
    for name, before in zip(names, [None, *names], strict=False):
        blocks = f" blocks {before}" if before and not skip_locked else ""
        lines += [
            f"-- @step {name.lower()}_begin {name}",
            "BEGIN;",
            f"-- @step {name.lower()}_asks {name}{blocks}",
            asks,
        ]
    for name, after in zip(names, [*names[1:], None], strict=True):
        lines += [f"-- @step {name.lower()}_commits {name}", "COMMIT;"]
        if after and not skip_locked:
            lines.append(f"-- @ends {after.lower()}_asks")
    path = paths.SQL / find_scenario(PASSES).lesson / f"{PASSES[:2]}_queue_of_{sessions}.sql"
    return grammar.parse("\n".join(lines), path)


def own_sql(sessions: Mapping[str, str], order: str = "", state: int = 1) -> Scenario:
    """A scenario of the reader's own statements, by the session's name; its steps are called `a_1`, `a_2`, `b_1` and so on.

    `order` names the session of each statement in turn, as `aabab`; without it the sessions take turns, in the order in which they
    are given. `state` is the state of the queue to start from.
    Raises LabError if there is no statement, or the order does not name each one.
    """
    said = {name: [each.text for each in statements(text)] for name, text in sessions.items()}
    for name, texts in said.items():
        if not re.fullmatch("[a-z]", name):
            raise LabError(
                say(
                    f'A session is named by one letter, as in nb.play_sql(a="…", b="…"), not {name}.',
                    f'Uma sessão se chama por uma letra, como em nb.play_sql(a="…", b="…"), não {name}.',
                )
            )
        if not texts:
            raise LabError(say(f"Session {name} has no statement.", f"A sessão {name} não tem nenhum comando."))
    if not said:
        raise LabError(
            say(
                'Give each session its SQL: nb.play_sql(a="…", b="…").',
                'Dê a cada sessão o seu SQL: nb.play_sql(a="…", b="…").',
            )
        )
    longest = max(map(len, said.values()))
    in_turns = "".join(name for turn in range(longest) for name, texts in said.items() if turn < len(texts))
    turns = order or in_turns
    if Counter(turns) != Counter({name: len(texts) for name, texts in said.items()}):
        counts = ", ".join(f"{name} {len(texts)}" for name, texts in said.items())
        raise LabError(
            say(
                f"order names the session of every statement once, as {in_turns}; the statements: {counts}.",
                f"order traz uma letra por comando, como {in_turns}; os comandos: {counts}.",
            )
        )
    taken: Counter[str] = Counter()
    steps = []
    for name in turns:
        taken[name] += 1
        steps.append(Step(f"{name}_{taken[name]}", name.upper(), said[name][taken[name] - 1], line=0))
    lesson = next(path for path in sorted(paths.SQL.glob(f"{state:02}_*.sql")))
    claim = Text("The reader's own SQL.", "O SQL de quem lê.")
    return Scenario(paths.SQL / lesson.stem / "own.sql", claim, lesson.stem, (), (), tuple(steps))


class Work:
    """Makes sessions work between two of their statements: `before` and `seen` are for lab.scenario.player.play.

    `seconds` says for how long, by the name of the step that comes after the work. The time counts from the end of the session's
    statement before it, so that sessions work side by side (before a session's first statement, from the end of anybody's); one
    that was given no row has nothing to work on. Work is not a stand-in for a lock: others wait only for locks.
    `pause` are seconds from the end of anybody's statement to the next one, so that a picture can tell them apart.
    """

    def __init__(self, seconds: Mapping[str, float], pause: float = 0.0) -> None:
        self.seconds = seconds
        self.pause = pause
        self.free: dict[str, tuple[float, StepRun]] = {}

    def before(self, played: Play, step: Step) -> None:
        """Let the pause, and the work that comes before this step, come to their end."""
        if ANYBODY in self.free:
            time.sleep(max(0.0, self.free[ANYBODY][0] + self.pause - time.monotonic()))
        last = self.free.get(step.session) or self.free.get(ANYBODY)
        if last is not None and (last[1].rows or last[1].columns is None):
            time.sleep(max(0.0, last[0] + self.seconds.get(step.name, 0.0) - time.monotonic()))

    def seen(self, played: Play, event: Event) -> None:
        """Note when a session's statement ended."""
        if event.run is not None and event.run.ended is not None:
            self.free[event.run.step.session] = self.free[ANYBODY] = (time.monotonic(), event.run)


def play_working(
    which: Scenario, conninfo: str, work: Mapping[str, float], pause: float = 0.0, announced: bool = True
) -> Play:
    """Rebuild the scenario's state in the database, play it and note what the queue held.

    `work` and `pause` are as in Work, `announced` as in the player.

    Raises LabError, saying why, if it does not go as the scenario announces, or names a step in `work` that it has not.
    """
    for name in work:
        which.step(name)
    schema.build(conninfo, which.state)
    pace = Work(work, pause)
    with observing(conninfo) as observer:

        def before(played: Play, step: Step) -> None:
            pace.before(played, step)
            if not played.states:
                played.states.append(observer.read())

        def seen(played: Play, event: Event) -> None:
            pace.seen(played, event)
            if event.run is not None:
                played.states.append(observer.read())

        played = play(which, conninfo, before=before, seen=seen, announced=announced)
    if played.failure:
        raise LabError(played.failure)
    played.paced = bool(work or pause)
    return played
