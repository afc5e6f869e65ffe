"""Scenarios made in memory, so that a notebook can change what a file fixes: how many sessions, with or without SKIP LOCKED."""

from __future__ import annotations

import string
import time
from collections.abc import Mapping

from lab.base import paths
from lab.base.errors import LabError
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
        raise LabError(f"The picture holds 2 to {MOST} sessions, not {sessions}.")
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


def play_working(which: Scenario, conninfo: str, work: Mapping[str, float], pause: float = 0.0) -> Play:
    """Rebuild the scenario's state in the database, play it and note what the queue held; `work` and `pause` are as in Work.

    Raises LabError, saying why, if it does not go as the scenario announces.
    """
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

        played = play(which, conninfo, before=before, seen=seen)
    if played.failure:
        raise LabError(played.failure)
    played.paced = bool(work or pause)
    return played
