"""What can be said when all is over: from the queue's tables, the receiver's books and what the workers said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import sql

from lab.session import SCHEMA

OPEN = ("pendente", "processando")
WRITES = ("stage", "finished", "failed", "reconciliation")


@dataclass(frozen=True)
class Document:
    """A document as the queue's table has it; `key` is that of its operation."""

    key: str
    status: str
    version: int
    attempts: int
    limit: int


@dataclass(frozen=True)
class Change:
    """A row of the audit."""

    document: int
    version: int
    before: str
    after: str
    token: int | None
    why: str


@dataclass(frozen=True)
class Tables:
    """The queue's documents by id, and its audit in order."""

    documents: dict[int, Document]
    audit: list[Change]


@dataclass(frozen=True)
class Damage:
    """What went wrong, in documents.

    duplicates: effects executed once too often. lost: gone from the queue, or finished without an effect, or failed though nothing
    was wrong with it. stuck: still open, and nobody at work on it. overwritten: writes of a worker whose document was another's.
    over_limit: given up for lack of attempts although the effect is there.
    """

    duplicates: int = 0
    lost: int = 0
    stuck: int = 0
    overwritten: int = 0
    over_limit: int = 0

    @property
    def total(self) -> int:
        return self.duplicates + self.lost + self.stuck + self.overwritten + self.over_limit


def read(connection: psycopg.Connection, schema: str = SCHEMA) -> Tables:
    """The queue's tables as they are now."""
    documents = sql.SQL(
        "SELECT documento_id, chave_operacao, status, versao, tentativas, max_tentativas FROM {}.fila_documentos"
    )
    audit = sql.SQL(
        "SELECT documento_id, versao, de, para, token_reserva, por_que FROM {}.auditoria ORDER BY documento_id, versao"
    )
    with connection.transaction():
        rows = connection.execute(documents.format(sql.Identifier(schema))).fetchall()
        changes = connection.execute(audit.format(sql.Identifier(schema))).fetchall()
    return Tables({row[0]: Document(*row[1:]) for row in rows}, [Change(*row) for row in changes])


def faults(before: Tables, after: Tables) -> list[str]:
    """What does not fit together in the audit since the first snapshot; nothing, if all does.

    Versions follow each other without a gap, each change begins where the one before it ended, the last one is what the table
    says, no token was handed out twice, and no attempt was one too many.
    """
    found = []
    for number, was in before.documents.items():
        chain = [change for change in after.audit if change.document == number and change.version > was.version]
        now = after.documents.get(number)
        if now is None:
            found.append(f"document {number} is gone")
            continue
        if [change.version for change in chain] != list(range(was.version + 1, now.version + 1)):
            found.append(f"document {number}: versions with a gap")
        states = [was.status, *(state for change in chain for state in (change.before, change.after)), now.status]
        if any(left != right for left, right in zip(states[::2], states[1::2], strict=True)):
            found.append(f"document {number}: a change that does not begin where the one before it ended")
        if now.attempts > now.limit:
            found.append(f"document {number}: {now.attempts} attempts of {now.limit}")
    tokens = sorted(change.token for change in after.audit if _is_claim(change) and change.token is not None)
    found += [f"token {token} was handed out twice" for token, other in pairwise(tokens) if token == other]
    return found


def damage(
    before: Tables,
    after: Tables,
    effects: dict[str, int],
    events: Iterable[dict[str, Any]],
    hopeless: frozenset[str] = frozenset(),
) -> Damage:
    """What went wrong since the first snapshot.

    effects: how often each key was executed. events: what the workers said. hopeless: the keys of documents that are broken, and
    rightly fail.
    """
    lost = stuck = over_limit = 0
    for number, was in before.documents.items():
        now = after.documents.get(number)
        executed = effects.get(was.key, 0)
        if now is None or (now.status in ("concluido", "falhou") and not executed and was.key not in hopeless):
            lost += 1
        elif now.status in OPEN:
            stuck += 1
        elif now.status != "concluido" and executed and now.attempts >= now.limit:
            over_limit += 1
    duplicates = sum(times - 1 for times in effects.values())
    return Damage(duplicates, lost, stuck, _overwritten(after, events), over_limit)


def late_writes_refused(events: Iterable[dict[str, Any]]) -> int:
    """How many writes changed no row, since their worker had lost its document."""
    return sum(event["event"] == "refused" for event in events)


def _overwritten(tables: Tables, events: Iterable[dict[str, Any]]) -> int:
    """Writes that were taken although the document had been claimed anew under another token."""
    count = 0
    for event in events:
        if event["event"] not in WRITES:
            continue
        owners = [
            change.token
            for change in tables.audit
            if _is_claim(change) and change.document == event["id"] and change.version < event["version"]
        ]
        count += bool(owners) and owners[-1] != event["token"]
    return count


def _is_claim(change: Change) -> bool:
    return (change.before, change.after) == ("pendente", "processando")
