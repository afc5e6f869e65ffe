"""sql/without.sql takes one defence out of the lab's protocol with psql alone, and puts it back."""

from __future__ import annotations

import subprocess

import pytest

from lab.base import config, paths
from lab.protocol import source
from lab.server import schema
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment
from lab.server.session import SessionPins
from tests.helpers import fetch

SCRIPT = paths.SQL / "without.sql"
FUNCTIONS = "SELECT oid::REGPROCEDURE::TEXT, prosrc, proacl FROM pg_proc WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE ORDER BY 1"


def without(conninfo: str, *options: str) -> str:
    done = subprocess.run(
        [str(find_psql()), "-X", "-q", *options, "-f", str(SCRIPT)],
        env=config.for_process(**libpq_environment(conninfo)),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", source.defences())
def test_the_second_call_puts_back_what_the_first_took_away(database: str, name: str) -> None:
    schema.build(database, schema.latest())
    before = fetch(database, FUNCTIONS)
    assert f"{name} is off." in without(database, "-v", f"without={name}")
    off = fetch(database, FUNCTIONS)
    assert off != before
    assert f"{name} is on again." in without(database, "-v", f"without={name}")
    assert fetch(database, FUNCTIONS) == before


def test_without_the_token_a_late_finish_passes(database: str) -> None:
    schema.build(database, schema.latest())
    assert _late_finish(database) == 0
    schema.build(database, schema.latest())
    without(database, "-v", "without=token")
    assert _late_finish(database) == 1


def test_a_name_that_is_none_is_answered_with_those_there_are(database: str) -> None:
    schema.build(database, schema.latest())
    assert "with one of: etapa linhas reserva token" in without(database)


def _late_finish(conninfo: str) -> int:
    """How many rows a finish under a token changes that another worker's claim has replaced."""
    with SessionPins().psycopg_connection(conninfo, "lab/test") as connection:
        first = connection.execute("SELECT documento_id, token_reserva FROM reservar('worker-a')").fetchone()
        connection.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 hour'")
        connection.execute("SELECT recuperar('vigia', 'sem sinal')")
        # Put off by its failure, it is due again an hour later.
        connection.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 hour'")
        connection.execute("SELECT documento_id FROM reservar('worker-b', 4)")
        return len(connection.execute("SELECT concluir(%s, %s)", first).fetchall())


def test_it_speaks_the_language_of_the_session(database: str) -> None:
    schema.build(database, schema.latest())
    with config.changed(PGOPTIONS="-c lab.lang=pt"):
        assert "Qual delas?" in without(database)
        assert "token está desligada." in without(database, "-v", "without=token")
        assert "token está ligada de novo." in without(database, "-v", "without=token")
