"""How the queue stands during a play, in a line or two: who owns which document, and which session waits for which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import psycopg
from rich.text import Text as Line

from lab.base.facts import decimal
from lab.base.language import say
from lab.lessons.screen import session_style
from lab.scenario.queue_state import Document, Observer, QueueState

SESSIONS = """
SELECT
    substr(session.application_name, 5),
    session.state LIKE 'idle in transaction%%',
    extract(epoch FROM clock_timestamp() - session.query_start)::FLOAT,
    ARRAY(
        SELECT substr(other.application_name, 5)
        FROM pg_stat_activity AS other
        WHERE other.pid = ANY(pg_blocking_pids(session.pid))
        ORDER BY 1
    )
FROM pg_stat_activity AS session
WHERE session.datname = current_database() AND session.application_name = ANY(%s)
ORDER BY 1
"""
MOST_SECONDS_IN_MS = 10


@dataclass(frozen=True)
class SessionState:
    """What the server says of a session: whether its transaction is open and idle, and for whom it has waited how long (s)."""

    name: str
    in_transaction: bool
    seconds: float
    waits_for: tuple[str, ...]


def read_sessions(observer: Observer, names: Sequence[str]) -> list[SessionState]:
    """The sessions of a play that are there, as the server sees them; none if it cannot be asked."""
    try:
        found = observer.connection.execute(SESSIONS, [[f"lab/{name}" for name in names]]).fetchall()
    except psycopg.Error:
        return []
    return [SessionState(name, idle, seconds, tuple(whom)) for name, idle, seconds, whom in found]


def status(queue: QueueState, sessions: Sequence[SessionState]) -> list[Line]:
    """The parts of the status: one for each session that waits or keeps its transaction open, one for documents that stand alike."""
    return [*_sessions(sessions), *_queue(queue)]


def duration(seconds: float) -> str:
    """A time that was measured: milliseconds, or seconds once it is long."""
    if seconds < MOST_SECONDS_IN_MS:
        return f"{decimal(seconds * 1000, 0 if seconds >= 0.1 else 1)} ms"
    return f"{decimal(seconds, 1)} s"


def _queue(queue: QueueState) -> Iterator[Line]:
    if queue.unknown == "55P03":
        yield Line(say("the queue's table is locked", "a tabela da fila está bloqueada"))
    elif queue.unknown:
        yield Line(say(f"the queue cannot be read: {queue.unknown}", f"não dá para ler a fila: {queue.unknown}"))
    told = [(document.documento_id, _told(document, queue.clock)) for document in queue.documents]
    noun = say("document", "documento")
    for text, alike in groupby(told, key=lambda each: each[1]):
        numbers = [number for number, _ in alike]
        which = f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
        many = "s" if noun and len(numbers) > 1 else ""
        yield Line(f"{noun}{many} {which}: {text}".strip())
        noun = ""


def _told(document: Document, clock: datetime | None) -> str:
    parts = [document.status]
    if document.status == "processando":
        parts += [document.worker_id] if document.worker_id else []
        parts += [f"token {document.token}"] if document.token is not None else []
        if document.stage is not None:
            parts.append(say(f"stage {document.stage}", f"etapa {document.stage}"))
        if document.reserved_until and clock:
            left = (document.reserved_until - clock).total_seconds()
            parts.append(
                say(f"lease {_clock(left)} left", f"vence em {_clock(left)}")
                if left > 0
                else say(f"lease ended {_clock(-left)} ago", f"vencida há {_clock(-left)}")
            )
    elif document.status == "pendente" and document.due and clock and document.due > clock:
        wait = _clock((document.due - clock).total_seconds())
        parts.append(say(f"due in {wait}", f"disponível em {wait}"))
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    """A time on the queue's clock, in its two largest units."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    larger, smaller, units = (whole // 60, whole % 60, ("min", "s"))
    if larger >= 120:
        larger, smaller, units = (larger // 60, larger % 60, ("h", "min"))
    return f"{larger} {units[0]}" + (f" {smaller} {units[1]}" if smaller else "")


def _sessions(sessions: Sequence[SessionState]) -> Iterator[Line]:
    for each in sessions:
        name = (each.name, session_style(each.name))
        if each.waits_for:
            whom = say(" and ", " e ").join(each.waits_for)
            text = say(f" waits for {whom}: ", f" espera por {whom}: ")
            yield Line.assemble(name, text, duration(each.seconds))
        elif each.in_transaction:
            yield Line.assemble(name, say(": transaction open", ": transação aberta"))
