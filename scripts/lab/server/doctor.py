"""What the lab finds on this machine, for `lab doctor`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass

from lab.base import paths
from lab.base.errors import LabError, NotRunning
from lab.base.language import say
from lab.server.binaries import find_program, find_psql, find_server_binaries
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
        _optional("pgbench"),
        _optional("isolationtester"),
    ]


def _binaries() -> str:
    binaries = find_server_binaries()
    sources = {"wheel": say("installed by the lab", "instalado pelo laboratório"), "found": say("found", "encontrado")}
    source = sources.get(binaries.source, binaries.source)
    return f"PostgreSQL {binaries.version} ({source}) {binaries.bin}"


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
