"""The protocol with one defence taken away: a copy made for a drill, in a marked schema of its own, and dropped after it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from lab.base import paths
from lab.protocol import source
from lab.server import psql, schema
from lab.server.session import SCHEMA

STATE = 9  # the last one without roles, which belong to the whole server


@contextmanager
def without(conninfo: str, defence: str) -> Iterator[str]:
    """The protocol without this defence, for as long as the block; returns the name of its schema.

    Raises LabError if nothing in sql/protocol/ is marked as a part of it.
    """
    name = f"{SCHEMA}_sem_{defence}"
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder:
        # All of them: those that are run include others.
        copies = {script.name: script.read_text(encoding="utf-8") for script in paths.SQL.glob("*.sql")}
        copies["ablated.sql"] = "".join(f"{statement};\n" for statement in source.without(f"defence {defence}", STATE))
        for file, text in copies.items():
            (Path(folder) / file).write_text(text.replace(SCHEMA, name), encoding="utf-8")
        run = [*(script.name for script in schema.scripts_for(STATE)), "ablated.sql"]
        try:
            psql.run_scripts(conninfo, *(Path(folder) / file for file in run))
            yield name
        finally:
            _drop(conninfo, name)


def _drop(conninfo: str, name: str) -> None:
    """Drop the copy; a schema of that name without the lab's mark is a stranger's, and stays."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        mark = connection.execute("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", [name]).fetchone()
        if mark and str(mark[0]).startswith("queue lab, state "):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
