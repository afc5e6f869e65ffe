"""`lab top`: the queue as the view situacao tells it, and the failures by class, again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from lab.base.errors import LabError
from lab.base.facts import decimal
from lab.base.language import Text, say
from lab.server import schema
from lab.server.session import SessionPins

# The columns of situacao in the order in which they are shown: first where documents stand, then for how long, then what happened.
STANDS = {
    "aguardando": Text("waiting, due", "aguardando"),
    "adiados": Text("waiting, put off", "adiados"),
    "executando": Text("running", "executando"),
    "orfaos": Text("orphaned", "órfãos"),
    "pausados": Text("paused", "pausados"),
    "em_conciliacao": Text("for people (reconciliation)", "em conciliação"),
    "falhos": Text("dead (failed)", "mortos (falhou)"),
}
LASTS = {
    "maior_espera": Text("oldest due one waits", "espera do mais antigo"),
    "maior_atraso": Text("latest orphan is late by", "atraso do pior órfão"),
    "maior_demora_para_iniciar": Text("longest from claim to start", "maior demora da reserva ao início"),
}
HAPPENED = {
    "repetindo": Text("of those that wait: retrying", "dos que esperam: repetindo"),
    "recuperacoes": Text("take-overs", "recuperações de órfãos"),
}
# What is over: counting it reads the whole queue, so it is asked for only now and then.
HISTORY = {
    "concluidos": Text("finished", "concluídos"),
    "cancelados": Text("cancelled", "cancelados"),
    "renovacoes": Text("renewals", "renovações"),
}
HISTORY_SECONDS = 60.0


@dataclass(frozen=True)
class Reading:
    """The queue at a moment: the row of situacao by column, and (class, attempts that failed so, of them for good).

    history is of the moment `counted`.
    """

    situation: dict[str, Any]
    failures: tuple[tuple[str, int, int], ...]
    history: dict[str, Any]
    counted: float


def read(connection: psycopg.Connection, before: Reading | None = None) -> Reading:
    """Read the queue once; its history only if that of the reading `before` is older than HISTORY_SECONDS.

    Raises LabError if there is no queue, or one that has not grown to the latest state.
    """
    try:
        with connection.transaction():
            live = connection.cursor(row_factory=dict_row)
            situation = live.execute(_select(*STANDS, *LASTS, *HAPPENED)).fetchone()
            failures = connection.execute(
                "SELECT categoria_erro, falhas, definitivas FROM falhas_por_categoria ORDER BY falhas DESC, categoria_erro"
            ).fetchall()
            history, counted = (before.history, before.counted) if before else ({}, 0.0)
            if not history or time.monotonic() - counted >= HISTORY_SECONDS:
                history = live.execute(_select(*HISTORY)).fetchone() or {}
                counted = time.monotonic()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        raise LabError(
            say(
                f"Here is no queue in state {schema.latest()} to look at: psql -X -f sql/all.sql",
                f"Não existe fila no estado {schema.latest()} neste banco: psql -X -f sql/all.sql",
            )
        ) from None
    assert situation is not None
    failed = tuple((category, count, ended) for category, count, ended in failures)
    return Reading(situation, failed, history, counted)


def _select(*columns: str) -> sql.Composed:
    return sql.SQL("SELECT {} FROM situacao").format(sql.SQL(", ").join(map(sql.Identifier, columns)))


def show(reading: Reading) -> Group:
    """The reading as it is shown: where documents stand, for how long, what happened, and the failures by class."""
    queue = Table(box=None, show_header=False, pad_edge=False)
    queue.add_column()
    queue.add_column(justify="right")
    queue.add_column(style="dim")
    seen = reading.situation | reading.history
    for group in (STANDS, LASTS, HAPPENED, HISTORY):
        for column, label in group.items():
            queue.add_row(str(label), _shown(seen[column]), column)
        queue.add_section()
    failures = Table(box=None, pad_edge=False)
    failures.add_column(say("failures by class", "falhas por classe"))
    failures.add_column(say("attempts", "tentativas"), justify="right")
    failures.add_column(say("for good", "definitivas"), justify="right")
    for category, failed, ended in reading.failures:
        failures.add_row(category, str(failed), str(ended))
    return Group(queue, failures if reading.failures else say("no failures", "nenhuma falha"))


def watch(conninfo: str, console: Console, every: float, times: int | None = None) -> None:
    """Show the queue every so many seconds, until ^C or so many times; away from a terminal each reading is printed.

    Raises LabError as `read` does.
    """
    with SessionPins().psycopg_connection(conninfo, "lab/top") as connection, suppress(KeyboardInterrupt):
        reading = None
        if not console.is_terminal:
            for _ in _paced(every, times or 1):
                reading = read(connection, reading)
                console.print(show(reading), highlight=False)
            return
        with Live(console=console, auto_refresh=False) as live:
            for _ in _paced(every, times):
                reading = read(connection, reading)
                live.update(show(reading), refresh=True)


def _paced(every: float, times: int | None) -> Iterator[int]:
    for number in count() if times is None else range(times):
        if number:
            time.sleep(every)
        yield number


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, timedelta):
        return str(value)
    seconds = value.total_seconds()
    if seconds < 120:
        return f"{decimal(seconds, 1)} s"
    for unit, length in ((say("days", "dias"), 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{decimal(seconds / length, 1)} {unit}"
    return f"{decimal(seconds / 60, 1)} min"
