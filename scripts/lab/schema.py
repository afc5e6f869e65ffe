"""Build the queue in the state that a lesson starts from, by running the numbered scripts with psql."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from psycopg import OperationalError, pq

from lab import paths
from lab.binaries import find_psql
from lab.errors import LabError
from lab.language import say
from lab.session import SCHEMA, SessionPins

FIRST_UPGRADE = 5  # scripts 02 to 04 are steps to watch; from 05 on each one changes the schema


def numbered_scripts() -> list[Path]:
    """The numbered scripts of sql/, in order."""
    return sorted(path for path in paths.SQL.glob("[0-9][0-9]_*.sql") if path.is_file())


def scripts_for(state: int) -> list[Path]:
    """The scripts that make the state of that number: script 01, every upgrade up to it, and then the lab's own clock."""
    upgrades = [script for script in numbered_scripts() if FIRST_UPGRADE <= int(script.name[:2]) <= state]
    return [numbered_scripts()[0], *upgrades, *([paths.SQL / "lab_clock.sql"] if upgrades else [])]


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


def run_scripts(conninfo: str, *scripts: Path) -> str:
    """Run scripts with `psql -X -f`, in one process; returns what it printed.

    Raises LabError with psql's own message if one fails.
    """
    files = [argument for script in scripts for argument in ("-f", str(script))]
    done = subprocess.run(
        [str(find_psql()), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "SHOW_CONTEXT=never", *files],
        env=os.environ | libpq_environment(conninfo) | {"PGAPPNAME": "lab/psql", "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise LabError(_readable(done.stderr))
    return done.stdout


def libpq_environment(conninfo: str) -> dict[str, str]:
    """The connection string as libpq's environment variables, so that no password stands in a process list.

    Raises LabError for a keyword that libpq reads from no variable.
    """
    try:
        options = pq.Conninfo.parse(conninfo.encode())
    except OperationalError as error:
        raise LabError(
            say(f"This connection string cannot be read: {error}", f"Não dá para ler esta string de conexão: {error}")
        ) from error
    environment = {}
    for option in options:
        if option.val is None:
            continue
        if option.envvar is None:
            keyword = option.keyword.decode()
            raise LabError(
                say(
                    f"The connection keyword {keyword} cannot be handed to psql; leave it out.",
                    f"Não dá para passar o parâmetro de conexão {keyword} ao psql; retire-o.",
                )
            )
        environment[option.envvar.decode()] = option.val.decode()
    return environment


def _readable(stderr: str) -> str:
    """psql's message without its file and line prefix, which speaks of our script rather than of the reader's problem."""
    return "\n".join(re.sub(r"^psql:.*?:\d+: ", "", line) for line in stderr.strip().splitlines())
