"""PostgreSQL's own isolationtester as an independent referee: it plays the same scenario, and must print the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.base import config
from lab.base.errors import LabError
from lab.base.language import say
from lab.scenario import transcript
from lab.scenario.grammar import Scenario, Step
from lab.server.psql import libpq_environment
from lab.server.session import SessionPins

ENDS = "ends_"  # the empty step by which isolationtester is made to wait for a step to end


def specification(scenario: Scenario) -> str:
    """The steps of the scenario as isolationtester's input; setup and teardown are not in it.

    An `@ends` becomes an empty query in the waiter's own session: isolationtester launches it only when the step before it
    in that session has ended.
    """
    parts: list[str] = []
    for session in scenario.sessions:
        parts.append(f"session {session}\n")
        for step in scenario.steps:
            if step.session == session:
                parts.append(f"step {step.name}\n{{ {step.sql} }}\n")
                if scenario.ends_of(step):
                    parts.append(f"step {ENDS}{step.name}\n{{ }}\n")
    order = " ".join(action.name if isinstance(action, Step) else ENDS + action.step for action in scenario.actions)
    return "\n".join(parts) + f"\npermutation {order}\n"


def judge(scenario: Scenario, conninfo: str, isolationtester: Path, limit_seconds: int = 20) -> str:
    """Let isolationtester play the scenario, whose state must have been built; returns what it printed.

    `limit_seconds` is how long it lets a step go on before it cancels it. The lines of the empty `ends` steps are dropped,
    from the header and from the body, and moments of the clock are written as <clock>. Raises LabError if it cannot be run.
    """
    library = next((folder for folder in isolationtester.parents if folder.name == "lib"), None)
    pins = SessionPins(english=True)
    environment = config.for_process(
        **libpq_environment(conninfo),
        PGOPTIONS=pins.options(),
        PGAPPNAME="lab",
        PG_TEST_TIMEOUT_DEFAULT=str(limit_seconds),
    )
    if library is not None:
        # The wheel's own libpq, for this process alone.
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(library), environment.get("LD_LIBRARY_PATH")])
        )
    # It would print what a setup returns, and send all statements of a teardown as one transaction.
    with pins.psycopg_connection(conninfo, "lab/referee") as connection:
        for statement in scenario.setup:
            connection.execute(statement.encode())
        try:
            done = subprocess.run(
                [
                    str(isolationtester),
                    "",
                ],  # where to is in the environment: a command line shows passwords to everyone
                input=specification(scenario),
                env=environment,
                capture_output=True,
                encoding="utf-8",
                timeout=10 * limit_seconds,
                check=False,
            )
        finally:
            for statement in scenario.teardown:
                connection.execute(statement.encode())
    if done.returncode != 0:
        name, said = scenario.name, done.stderr.strip() or done.stdout.strip()
        raise LabError(
            say(
                f"isolationtester could not play {name}: {said}",
                f"O isolationtester não conseguiu rodar {name}: {said}",
            )
        )
    return transcript.without_clock(_without_ends(done.stdout))


def _without_ends(output: str) -> str:
    lines = []
    for line in output.splitlines(keepends=True):
        if line.startswith("starting permutation: "):
            words = [word for word in line.split() if not word.startswith(ENDS)]
            line = " ".join(words) + "\n"
        if not line.startswith(f"step {ENDS}"):
            lines.append(line)
    return "".join(lines)
