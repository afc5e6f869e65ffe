"""The protocol with one defence taken away: a copy made for a drill, in a marked schema of its own, and dropped after it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from lab.base import paths
from lab.base.errors import LabError
from lab.server import psql, schema
from lab.server.session import SCHEMA

STATE = 9

# What is taken away: in the newest script that has the text, so that the copy changes with the protocol.
EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    # Nobody looks at the deadline.
    "reserva": (("AND coalesce(fila.reservado_ate, '-infinity') < v_agora", "AND FALSE"),),
    # The guard is id and state, as in many a queue: for one document, and for a batch.
    "token": (
        ("\n        AND fila.token_reserva = p_token\n", "\n"),
        ("\n            AND fila.token_reserva = p_token\n", "\n"),
    ),
    # The worker is not told that its stage was not written.
    "linhas": (
        (
            "v_agora TIMESTAMPTZ;\nBEGIN\n    IF v_posse.documento_id IS NULL THEN\n        RETURN;",
            "v_agora TIMESTAMPTZ;\nBEGIN\n    IF v_posse.documento_id IS NULL THEN\n"
            "        RETURN QUERY SELECT p_documento, p_etapa, 0::BIGINT;\n        RETURN;",
        ),
    ),
    # Whoever takes over is not told that somebody may have called.
    "etapa": (("etapa = p_posse.etapa,", "etapa = CASE WHEN p_para = 'pendente' THEN 'nao_chamado' ELSE p_posse.etapa END,"),),
}  # fmt: skip


@contextmanager
def without(conninfo: str, defence: str) -> Iterator[str]:
    """The protocol without this defence, for as long as the block; returns the name of its schema.

    Raises LabError if the protocol no longer has the text that is taken away.
    """
    name = f"{SCHEMA}_sem_{defence}"
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder:
        scripts = [Path(folder) / script.name for script in schema.scripts_for(STATE)]
        for script in [*scripts, Path(folder) / "require_state.sql"]:
            text = (paths.SQL / script.name).read_text(encoding="utf-8")
            if script == scripts[-2]:
                text = _edited(text, defence, script.name)
            script.write_text(text.replace(SCHEMA, name), encoding="utf-8")
        try:
            psql.run_scripts(conninfo, *scripts)
            yield name
        finally:
            _drop(conninfo, name)


def _drop(conninfo: str, name: str) -> None:
    """Drop the copy; a schema of that name without the lab's mark is somebody's, and stays."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        mark = connection.execute("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", [name]).fetchone()
        if mark and str(mark[0]).startswith("queue lab, state "):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _edited(text: str, defence: str, script: str) -> str:
    for old, new in EDITS[defence]:
        if text.count(old) != 1:
            raise LabError(
                f"{script} no longer holds {old.strip()!r} once: mend lab.drills.ablated_schema for the defence {defence}."
            )
        text = text.replace(old, new)
    return text
