"""The view over a queue at work, on a terminal and away from one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

import psycopg
import pytest
from rich.console import Console

from lab.protocol import monitor as lab_monitor
from lab.server.session import SessionPins
from tests.helpers import rows, run_lab


@pytest.fixture
def queue(grown: str) -> Iterator[psycopg.Connection]:
    """A connection of the owner to a queue in state 10."""
    with SessionPins().psycopg_connection(grown, "lab/test") as connection:
        yield connection


def test_top_shows_the_reading(queue: psycopg.Connection, grown: str) -> None:
    queue.execute(b"SELECT FROM reservar('worker-a', 2)")
    queue.execute(b"SELECT FROM falhar(1, 1, 'conteudo', 'valor ausente')")
    told = StringIO()
    lab_monitor.watch(grown, Console(file=told, width=120), 0.1, times=2)
    lines = told.getvalue().splitlines()
    assert len([line for line in lines if re.match(r"running +1 +executando", line)]) == 2
    assert len([line for line in lines if re.match(r"conteudo +1 +1", line)]) == 2
    shown = {*lab_monitor.STANDS, *lab_monitor.LASTS, *lab_monitor.HAPPENED, *lab_monitor.HISTORY}
    assert shown == {
        name for (name,) in rows(queue, "SELECT attname FROM pg_attribute WHERE attrelid = 'situacao'::REGCLASS")
    }


def test_the_history_is_counted_now_and_then(queue: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting what is over reads the whole queue; what is live is read by its indexes each time."""
    first = lab_monitor.read(queue)
    queue.execute(b"SELECT FROM reservar('worker-a')")
    queue.execute(b"SELECT FROM concluir(1, 1)")
    queue.execute(b"SELECT FROM reservar('worker-a')")
    second = lab_monitor.read(queue, first)
    assert (second.situation["executando"], second.history["concluidos"]) == (1, 0)
    monkeypatch.setattr(lab_monitor, "HISTORY_SECONDS", 0.0)
    assert lab_monitor.read(queue, second).history["concluidos"] == 1


def test_the_command_shows_it_once_away_from_a_terminal(queue: psycopg.Connection, grown: str) -> None:
    done = run_lab("top", LAB_DSN=grown)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "aguardando" in done.stdout
