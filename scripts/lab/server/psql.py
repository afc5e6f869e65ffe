"""psql as the lab runs it: numbered scripts in one process, the connection in its environment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from psycopg import OperationalError, pq

from lab.base import config
from lab.base.errors import LabError
from lab.base.language import portuguese, say
from lab.server.binaries import find_psql

SPEAKS_PT = "-c lab.lang=pt"


def run_scripts(conninfo: str, *scripts: Path) -> str:
    """Run scripts with `psql -X -f`, in one process; returns what it printed.

    Raises LabError with psql's own message if one fails.
    """
    files = [argument for script in scripts for argument in ("-f", str(script))]
    done = subprocess.run(
        [str(find_psql()), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "SHOW_CONTEXT=never", *files],
        env=config.for_process(
            **in_the_readers_language(libpq_environment(conninfo)), PGAPPNAME="lab/psql", PGCLIENTENCODING="UTF8"
        ),
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


def in_the_readers_language(environment: dict[str, str]) -> dict[str, str]:
    """The environment with the setting by which the scripts of sql/ choose the language of their messages.

    In English without it, where it was left by `lab env` in Portuguese: PGOPTIONS is empty if it held nothing else.
    """
    options = environment.get("PGOPTIONS") or config.value("PGOPTIONS") or ""
    if portuguese():
        return environment if "lab.lang=" in options else environment | {"PGOPTIONS": f"{options} {SPEAKS_PT}".strip()}
    if SPEAKS_PT in options:
        return environment | {"PGOPTIONS": " ".join(options.replace(SPEAKS_PT, "").split())}
    return environment


def _readable(stderr: str) -> str:
    """psql's message without its file and line prefix, which speaks of our script rather than of the reader's problem."""
    # Its labels, as PostgreSQL's own translation has them.
    labels = {"ERROR": say("ERROR", "ERRO"), "HINT": say("HINT", "DICA"), "DETAIL": say("DETAIL", "DETALHE")}
    lines = (re.sub(r"^psql:.*?:\d+: ", "", line) for line in stderr.strip().splitlines())
    return "\n".join(re.sub(r"^[A-Z]+(?=: )", lambda label: labels.get(label[0], label[0]), line) for line in lines)
