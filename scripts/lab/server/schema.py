"""Build the queue in the state that a lesson starts from, by running the numbered scripts with psql."""

from __future__ import annotations

import re
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.server.psql import run_scripts
from lab.server.session import SCHEMA, SessionPins

# What a learner can move and type, in place of what a queue in production has; each since the state that has it.
LAB_OWN = ((5, paths.SQL / "lab_clock.sql"), (6, paths.SQL / "lab_tokens.sql"))


def numbered_scripts() -> list[Path]:
    """The numbered scripts of sql/, in order."""
    return sorted(path for path in paths.SQL.glob("[0-9][0-9]_*.sql") if path.is_file())


def upgrades() -> list[Path]:
    """The numbered scripts that move the schema to a state of their own, 01 included; the others are steps to watch."""
    comment = f"\nCOMMENT ON SCHEMA {SCHEMA} IS 'queue lab, state "
    moves = [(script, f"{comment}{script.name[:2]}'") for script in numbered_scripts()]
    return [script for script, mark in moves if mark in script.read_text(encoding="utf-8")]


def latest() -> int:
    """The number of the latest state: that of the last upgrade."""
    return int(upgrades()[-1].name[:2])


def scripts_for(state: int) -> list[Path]:
    """The scripts that make the state of a lesson: script 01, every upgrade up to it, then the lab's own clock and tokens."""
    upgraded = [script for script in upgrades() if int(script.name[:2]) <= state]
    return [*upgraded, *(script for since, script in LAB_OWN if since <= state)]


def build(conninfo: str, state: int) -> None:
    """Drop the lab's schema in this database and rebuild it in the given state.

    Raises LabError with what psql said if a script refuses or fails; then nothing was changed by that script.
    """
    run_scripts(conninfo, *scripts_for(state))


def state(conninfo: str) -> int | None:
    """The number of the state that the lab's schema of this database is in; None if there is no such schema.

    Raises LabError if the schema is not the lab's, ServerError if the server cannot be reached.
    """
    with SessionPins().psycopg_connection(conninfo, "lab/schema") as connection:
        row = connection.execute(
            "SELECT to_regnamespace(%(name)s) IS NOT NULL, obj_description(to_regnamespace(%(name)s), 'pg_namespace')",
            {"name": SCHEMA},
        ).fetchone()
    assert row
    there, mark = row
    if not there:
        return None
    if found := re.fullmatch(r"queue lab, state (\d\d)", mark or ""):
        return int(found[1])
    raise LabError(
        say(
            f"The schema {SCHEMA} of this database was not made by the lab; it was left untouched. Rename it, or name another database.",
            f"O esquema {SCHEMA} deste banco não foi feito pelo laboratório e ficou intacto. Renomeie-o ou indique outro banco.",
        )
    )
