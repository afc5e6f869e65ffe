"""What can be said when all is over: from the queue's tables, the receiver's ledger and what the workers said."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

import psycopg
from psycopg import sql

from lab.base.language import say
from lab.server.session import SCHEMA

OPEN = ("pendente", "processando")
ENDED = ("concluido", "conciliacao", "falhou")
WRITES = ("stage", "finished", "failed", "reconciliation")


@dataclass(frozen=True)
class Document:
    """A document as the queue's table has it; `key` is that of its operation, `due` from when on it may be claimed."""

    key: str
    status: str
    version: int
    attempts: int
    limit: int
    due: datetime


@dataclass(frozen=True)
class Change:
    """A row of the audit; `number` is its place in the order in which they were written, `when` is the same for one statement."""

    number: int
    document: int
    version: int
    before: str
    after: str
    token: int | None
    who: str
    why: str
    when: datetime


@dataclass(frozen=True)
class Tables:
    """The queue's documents by id, and its audit in order."""

    documents: dict[int, Document]
    audit: list[Change]


@dataclass(frozen=True)
class Damage:
    """What went wrong, in documents.

    duplicates: effects executed once too often. lost: gone from the queue, or finished without an effect, or failed though nothing
    was wrong with it. stuck: not ended, and no worker on it. overwritten: writes of a worker whose document was another's.
    over_limit: given up although the effect is there: failed, or handed to people for lack of attempts.
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
        "SELECT documento_id, chave_operacao, status, versao, tentativas, max_tentativas, disponivel_em"
        " FROM {}.fila_documentos"
    )
    audit = sql.SQL(
        "SELECT row_number() OVER (ORDER BY quando, documento_id, versao),"
        " documento_id, versao, de, para, token_reserva, quem, por_que, quando FROM {}.auditoria"
        " ORDER BY documento_id, versao"
    )
    with connection.transaction():
        rows = connection.execute(documents.format(sql.Identifier(schema))).fetchall()
        changes = connection.execute(audit.format(sql.Identifier(schema))).fetchall()
    return Tables({row[0]: Document(*row[1:]) for row in rows}, [Change(*row) for row in changes])


def is_claim(change: Change) -> bool:
    """Whether a worker claimed the document."""
    return (change.before, change.after) == ("pendente", "processando")


def faults(before: Tables, after: Tables) -> list[str]:
    """What does not fit together in the audit since the first snapshot; nothing, if all does.

    Versions follow each other without a gap, each change begins where the one before it ended, the last one is what the table
    says, no token was handed out twice, and no attempt was one too many.
    """
    found = []
    chains = _chains(after)
    for number, was in before.documents.items():
        chain = [change for change in chains[number] if change.version > was.version]
        now = after.documents.get(number)
        if now is None:
            found.append(say(f"document {number} is gone", f"o documento {number} sumiu"))
            continue
        if [change.version for change in chain] != list(range(was.version + 1, now.version + 1)):
            found.append(say(f"document {number}: versions with a gap", f"documento {number}: versões com uma lacuna"))
        states = [was.status, *(state for change in chain for state in (change.before, change.after)), now.status]
        if any(left != right for left, right in zip(states[::2], states[1::2], strict=True)):
            found.append(
                say(
                    f"document {number}: a change that does not begin where the one before it ended",
                    f"documento {number}: uma mudança que não começa onde a anterior terminou",
                )
            )
        if now.attempts > now.limit:
            found.append(
                say(
                    f"document {number}: {now.attempts} attempts of {now.limit}",
                    f"documento {number}: {now.attempts} tentativas de {now.limit}",
                )
            )
    tokens = sorted(change.token for change in after.audit if is_claim(change) and change.token is not None)
    twice = [token for token, other in pairwise(tokens) if token == other]
    found += [say(f"token {token} was handed out twice", f"o token {token} foi dado duas vezes") for token in twice]
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
        if now is None:
            lost += 1
        elif now.status not in ENDED:
            stuck += 1
        elif not effects.get(was.key):
            lost += now.status == "concluido" or (now.status == "falhou" and was.key not in hopeless)
        elif now.status != "concluido":
            over_limit += now.status == "falhou" or now.attempts >= now.limit
    duplicates = sum(times - 1 for times in effects.values())
    return Damage(duplicates, lost, stuck, _overwritten(after, events), over_limit)


def late_writes_refused(events: Iterable[dict[str, Any]]) -> int:
    """How many writes changed no row, since their worker had lost its document."""
    return sum(event["event"] == "refused" for event in events)


@dataclass(frozen=True)
class Order:
    """How a free race kept to the order of the queue.

    overtaking: claims that took a document while one due before it, never claimed yet, was left. passed_over: documents that a claim
    passed over although, as far as the tables tell, they were free all the while it ran.
    """

    overtaking: int
    passed_over: int


def order(before: Tables, after: Tables, locked: Collection[int] = ()) -> Order:
    """Whether claims kept to the order of the queue, in a race whose documents were all due before it began.

    A document is a worker's from some moment within the statement of the claim that takes it, and that statement began
    after whatever its worker had written before. So up to that row of the audit it was free, and a claim written earlier had to
    see it, unless a third one's claim had locked it that was never committed: see `uncommitted`. locked: documents that a
    session locked without claiming them; they are not looked for.
    """
    places = {number: place for place, number in enumerate(_in_order(before))}
    claims: dict[tuple[str, datetime], _Claim] = {}
    written: dict[str, int] = {}  # by each one so far
    taken: set[int] = set()
    begun: list[tuple[int, int]] = []  # of each document's first claim: after which row, and the document's place
    ended: list[tuple[int, int]] = []
    for change in sorted(after.audit, key=lambda change: change.number):
        if is_claim(change):
            claim = claims.setdefault(
                (change.who, change.when), _Claim(change.number, written.get(change.who, 0), place=-1)
            )
            again = change.document in taken
            # Put back it is due later than all that was there from the beginning.
            claim.place = max(claim.place, len(places) if again else places[change.document])
            if not again and change.document not in locked:
                begun.append((claim.after, places[change.document]))
            if not again:
                ended.append((claim.number, places[change.document]))
            taken.add(change.document)
        written[change.who] = change.number
    by_number = sorted(claims.values(), key=lambda claim: claim.number)
    return Order(_passing(by_number, ended), _passed_over(by_number, begun))


def uncommitted(tables: Tables) -> int:
    """How many tokens were minted and are in no row of the audit: a claim that a kill rolled back had so many documents locked."""
    minted = {change.token for change in tables.audit if is_claim(change) and change.token is not None}
    return max(minted, default=0) - len(minted)


@dataclass
class _Claim:
    """A claim's statement: the row of the audit it wrote first, what its worker wrote before, and the last place it took."""

    number: int
    after: int
    place: int


def _passing(claims: list[_Claim], left: list[tuple[int, int]]) -> int:
    """How many claims took a document behind one that was left until a later row of the audit; `left` is (row, place)."""
    count = 0
    until = sorted(left)
    earliest: float = float("inf")
    for claim in reversed(claims):
        while until and until[-1][0] > claim.number:
            earliest = min(earliest, until.pop()[1])
        count += earliest < claim.place
    return count


def _passed_over(claims: list[_Claim], free: list[tuple[int, int]]) -> int:
    """How many documents a claim written earlier went past; `free` is (the row until which one was free, its place)."""
    rows = [claim.number for claim in claims]
    furthest = list(accumulate((claim.place for claim in claims), max, initial=-1))
    return sum(furthest[bisect_left(rows, row)] > place for row, place in free)


def _in_order(tables: Tables) -> list[int]:
    """The documents as the queue offers them."""
    return sorted(tables.documents, key=lambda number: (tables.documents[number].due, number))


def _overwritten(tables: Tables, events: Iterable[dict[str, Any]]) -> int:
    """Writes that were taken although the document had been claimed anew under another token."""
    count = 0
    chains = _chains(tables)
    for event in events:
        if event["event"] not in WRITES:
            continue
        owners = [
            change.token for change in chains[event["id"]] if is_claim(change) and change.version < event["version"]
        ]
        count += bool(owners) and owners[-1] != event["token"]
    return count


def _chains(tables: Tables) -> defaultdict[int, list[Change]]:
    """The audit by document."""
    chains = defaultdict(list)
    for change in tables.audit:
        chains[change.document].append(change)
    return chains
