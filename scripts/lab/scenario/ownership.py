"""Who owned each document, from step to step: read from what the queue held while a scenario was played.

Positions are steps: 0 is before the first one, 1 when the first one had ended, and so on; a step that waited counts twice, when it
began to wait and when it ended. What comes due between two steps, as a lease's end, lies between them. Times are seconds of the
queue's clock since the play began. Only what was committed counts: inside an open transaction a claim owns nothing yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from lab.base.errors import LabError
from lab.base.language import say
from lab.scenario import step_words
from lab.scenario.queue_state import Document, QueueState
from lab.scenario.result import Event, Play, StepRun
from lab.scenario.step_words import Told

Kind = Literal["pending", "put_off", "owned", "late", "finished", "failed", "people", "paused", "gone"]

# What a session is in a play: it owned a document, only renewed, gave an operator's commands, or none of these.
Role = Literal["worker", "heartbeat", "operator", "other"]

KINDS: dict[str, Kind] = {
    "pendente": "pending",
    "processando": "owned",
    "concluido": "finished",
    "falhou": "failed",
    "conciliacao": "people",
    "pausado": "paused",
}


@dataclass(frozen=True)
class Band:
    """A stretch of a document's lane in which nothing about it changed but the end of its lease.

    `owner` is the session whose claim made it the document's owner; `until` is when its lease ends, `due` when a document that
    was put off may be claimed, `version` only where the lesson goes by versions (10), `tries` only where a document had more
    than one or a failure ended one.
    """

    documento_id: int
    kind: Kind
    start: float
    end: float
    owner: str = ""
    token: int | None = None
    until: float | None = None
    due: float | None = None
    category: str | None = None
    stage: str | None = None
    reference: str | None = None
    version: int | None = None
    tries: int | None = None


@dataclass(frozen=True)
class LeaseEnd:
    """Where a lease ended while its owner still had the document; `maximum`: where no renewal could move it any further."""

    documento_id: int
    at: float
    time: float
    maximum: bool = False


@dataclass(frozen=True)
class Renewal:
    """A lease whose end was moved: at which step, from when to when; `was` and `now` are where those times lie, None if later.

    `asked` is for when it was asked, where the maximum run time cut that.
    """

    documento_id: int
    at: int
    old: float
    new: float
    was: float | None
    now: float | None
    asked: float | None = None


@dataclass(frozen=True)
class Taken:
    """A document that a step of another session took from its owner while the lease held."""

    documento_id: int
    at: int
    owner: str


@dataclass(frozen=True)
class Mark:
    """What a session did at a step, in words; `waits` names whom it waits for."""

    at: int
    session: str
    told: Told
    waits: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether it changed nothing though it named what to change, or failed as a write."""
        return self.told.kind == "refused"

    @property
    def failed(self) -> bool:
        """Whether it failed though it wrote nothing to the queue, as the work itself."""
        return self.told.kind == "failed"


@dataclass(frozen=True)
class Call:
    """An arrow between a session and the outside world.

    `may`: from then on the call may have been made, of which the queue knows no more. `note`: the session notes a reference that
    it has from there; what passed between them is not recorded. `effect` was seen in the outside world.
    """

    at: int
    session: str
    kind: Literal["may", "note", "effect"]
    words: str


@dataclass(frozen=True)
class Ownership:
    """A play as the picture shows it. `clock` is what the queue's clock told at each position where a step moved it, and at 0."""

    play: Play
    steps: int
    bands: tuple[Band, ...]
    lease_ends: tuple[LeaseEnd, ...]
    renewals: tuple[Renewal, ...]
    taken: tuple[Taken, ...]
    marks: tuple[Mark, ...]
    calls: tuple[Call, ...]
    clock: dict[int, float]
    killed: dict[str, int]
    idle: tuple[int, ...]  # documents that stayed pending
    unknown: tuple[int, ...]  # steps after which the queue could not be read

    @property
    def documents(self) -> tuple[int, ...]:
        """The documents that have a lane."""
        return tuple(dict.fromkeys(band.documento_id for band in self.bands))

    def role(self, session: str) -> Role:
        """What a session is in this play, by what it did there.

        `operator`: it gave a command by version, or is the scenarios' O and changed documents. `heartbeat`: it did nothing but
        renew, and did. `other`: the rest, as those that only read, recover or move the clock.
        """
        if any(band.owner == session for band in self.bands):
            return "worker"
        writes = [run for run in self.play.runs.values() if run.step.session == session and step_words.alters(run)]
        if any(map(step_words.by_version, writes)) or (writes and session == "O"):
            return "operator"
        beats = all(map(step_words.renews, writes)) and any(run.rows for run in writes)
        return "heartbeat" if beats else "other"

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that have a lane: those that did more than move the clock."""
        seen = {mark.session for mark in self.marks}
        return tuple(name for name in self.play.scenario.sessions if name in seen)


def ownership(play: Play) -> Ownership:
    """Read from a play who owned what, when, and what was refused.

    Raises LabError if the play was not observed, or if its queue has no leases yet (before lesson 05).
    """
    return _Reader(play).read()


def span(seconds: float) -> str:
    """A time of the queue's clock as h:mm:ss: `0:00:30`, `1:00:30`, and with days before it."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    told = f"{hours}:{minutes:02}:{rest:02}"
    return f"{days} d {told}" if days else told


def band_words(band: Band, before: Band | None = None, clock_reaches: bool = True) -> tuple[str, ...]:
    """What stands in a band, the most important first.

    `before` is the band on its left: what only time has changed since then, and what goes on, needs no second word.
    `clock_reaches` is whether the end of its lease lies in the picture.
    """
    if before is not None and (before.kind, band.kind) in (("owned", "late"), ("put_off", "pending")):
        band = replace(band, category=None, stage=None, reference=None, tries=None)
    if before is not None and before.kind == band.kind == "owned" and before.end == band.start:
        same = (before.owner, before.token, before.tries) == (band.owner, band.token, band.tries)
        band = (
            replace(band, tries=None, until=None if same_end(before.until, band.until) else band.until)
            if same
            else band
        )
    words = [_state(band)]
    if band.token is not None:
        words.append(f"token {band.token}")
    tried = f"{say('try', 'tentativa')} {band.tries}" if band.tries else ""
    if band.kind in ("owned", "late") and tried:
        words.append(tried)
    if band.kind == "put_off" and band.due is not None:
        words.append(say(f"due at {span(ceil(band.due))}", f"a partir de {span(ceil(band.due))}"))
    if band.category is not None:
        why = step_words.CATEGORY[band.category]
        words.append(f"{tried or say('last try', 'falha')}: {why}")
    elif band.kind == "failed" and tried:
        words.append(say(f"after {tried}", f"depois da {tried}"))
    elif band.kind == "pending" and band.tries and band.tries > 1:
        words.append(say(f"{band.tries} tries so far", f"após {band.tries} tentativas"))
    if band.stage in step_words.STAGE and band.kind != "finished":
        words.append(str(step_words.STAGE[band.stage]))
    if band.reference is not None:
        words.append(band.reference)
    if band.version is not None:
        words.append(say(f"version {band.version}", f"versão {band.version}"))
    if band.kind == "owned" and band.until is not None and not clock_reaches:
        words.append(_until_words(band.until))
    return tuple(words)


def same_end(one: float | None, other: float | None) -> bool:
    """Whether two ends of a lease are one to a reader: a renewal at the same time on the queue's clock moves it by less than a second."""
    return one is not None and other is not None and abs(one - other) < 1


def in_words(play: Play) -> str:
    """The picture's content for those who cannot see it, in the reader's language."""
    seen = ownership(play)
    parts = []
    for number in seen.documents:
        bands = [band for band in seen.bands if band.documento_id == number]
        told = "; ".join(f"{_since(band)}: {', '.join(_spoken(band))}" for band in bands)
        parts.append(f"{say('Document', 'Documento')} {number}: {told}.")
    if seen.idle:
        parts.append(idle_words(seen))
    renewed = [
        say(
            f"step {each.at}, document {each.documento_id}, from {span(each.old)} to {span(each.new)}",
            f"passo {each.at}, documento {each.documento_id}, de {span(each.old)} para {span(each.new)}",
        )
        for each in seen.renewals
    ]
    if renewed:
        parts.append(f"{say('Leases renewed', 'Prazos renovados')}: {'; '.join(renewed)}.")
    if seen.taken:
        told = "; ".join(
            say(f"step {each.at}, document {each.documento_id}", f"passo {each.at}, documento {each.documento_id}")
            for each in seen.taken
        )
        parts.append(f"{say('Taken while the lease held', 'Tirado com o prazo valendo')}: {told}.")
    refused = _listed(mark for mark in seen.marks if mark.refused)
    parts.append(f"{say('Refused', 'Recusado')}: {refused or say('nothing', 'nada')}.")
    if failed := _listed(mark for mark in seen.marks if mark.failed):
        parts.append(f"{say('Error outside the queue', 'Erro fora da fila')}: {failed}.")
    if seen.calls:
        told = "; ".join(f"{say('step', 'passo')} {call.at}, {_way(call)}: {call.words}" for call in seen.calls)
        parts.append(f"{outside_words(seen).capitalize()}: {told}.")
    return " ".join(parts)


def idle_words(seen: Ownership) -> str:
    """The documents that have no lane, in a sentence."""
    *most, last = map(str, seen.idle)
    listed = f"{', '.join(most)} {say('and', 'e')} {last}" if most else last
    if len(seen.idle) == 1:
        return say(
            f"Document {listed} stays pending (not drawn).", f"O documento {listed} continua pendente (sem faixa)."
        )
    return say(
        f"Documents {listed} stay pending (not drawn).", f"Os documentos {listed} continuam pendentes (sem faixa)."
    )


def outside_words(seen: Ownership) -> str:
    """What a play calls the outside world."""
    receiver = any(call.kind != "effect" for call in seen.calls)
    return say("receiver", "receptor") if receiver else say("outside world", "mundo lá fora")


def _way(call: Call) -> str:
    if call.kind == "note":
        return say(f"to {call.session}", f"para {call.session}")
    return say(f"from {call.session}", f"de {call.session}")


def _listed(marks: Iterable[Mark]) -> str:
    return "; ".join(f"{say('step', 'passo')} {mark.at}, {mark.session}: {mark.told}" for mark in marks)


def _state(band: Band) -> str:
    if band.kind == "owned":
        return band.owner
    if band.kind == "late":
        return say(f"{band.owner}, late", f"{band.owner}, atrasado")
    if band.kind == "gone":
        return say("not in the queue", "fora da fila")
    if band.kind == "put_off":
        return say("put off", "adiado")
    return str(next(step_words.STATUS[status] for status, kind in KINDS.items() if kind == band.kind))


def _until_words(until: float) -> str:
    return say(f"lease until {span(until)}", f"prazo até {span(until)}")


def _since(band: Band) -> str:
    if band.start <= 0:
        return say("at first", "no início")
    if band.start != int(band.start):
        return say(f"after step {int(band.start)}", f"depois do passo {int(band.start)}")
    return say(f"from step {int(band.start)}", f"a partir do passo {int(band.start)}")


def _spoken(band: Band) -> Iterator[str]:
    first, *rest = band_words(band)
    yield say(f"owned by {first}", f"com {first}") if band.kind in ("owned", "late") else first
    yield from rest
    if band.kind == "owned" and band.until is not None:
        yield _until_words(band.until)


class _Reader:
    def __init__(self, play: Play) -> None:
        self.play = play
        self.events = play.steps_seen
        if len(play.states) != len(self.events) + 1:
            raise LabError(
                say(
                    f"{play.scenario.name} was played unobserved: play it with nb.play(…) for a picture of ownership.",
                    f"{play.scenario.name} foi jogado sem observação: use nb.play(…) para ter a figura de posse.",
                )
            )
        if play.states[0].clock is None:
            raise LabError(
                say(
                    f"{play.scenario.name} has no leases, which lesson 05 brings: nb.timeline(…) draws it.",
                    f"{play.scenario.name} ainda não tem reservas, que chegam na lição 05: nb.timeline(…) desenha.",
                )
            )
        self.last = len(self.events)
        self.owners: dict[int, list[str]] = {}  # of each document, after each step
        self.states = self._known()
        self.start = self.states[0].clock or datetime.min
        self.clocks = [self._seconds(state.clock) or 0.0 for state in self.states]
        self.with_versions = play.scenario.state >= 10

    def read(self) -> Ownership:
        numbers = sorted({each.documento_id for state in self.states for each in state.documents})
        bands: list[Band] = []
        ends: list[LeaseEnd] = []
        renewals: list[Renewal] = []
        taken: list[Taken] = []
        idle = []
        for number in numbers:
            rows, owners = self._story(number)
            self.owners[number] = owners
            lane: list[Band] = []
            self._lane(number, rows, owners, lane, ends, renewals)
            if len(lane) == 1 and lane[0].kind == "pending":
                idle.append(number)
            else:
                bands += _with_tries(lane)
            taken += self._taken(number, rows, owners)
        marks, calls = self._sessions(renewals)
        return Ownership(
            play=self.play,
            steps=self.last,
            bands=tuple(bands),
            lease_ends=tuple(ends),
            renewals=tuple(renewals),
            taken=tuple(taken),
            marks=tuple(marks),
            calls=tuple(calls),
            clock={0: 0.0}
            | {
                at: self.clocks[at]
                for at, event in enumerate(self.events, start=1)
                if event.run and step_words.moves_clock(event.run)
            },
            killed={
                victim: at
                for at, event in enumerate(self.events, start=1)
                if event.run and (victim := step_words.killed(event.run))
            },
            idle=tuple(idle),
            unknown=tuple(at for at, state in enumerate(self.play.states) if state.unknown),
        )

    def _known(self) -> list[QueueState]:
        """The states; where the queue could not be read, what was last seen of it."""
        known: list[QueueState] = []
        for state in self.play.states:
            known.append(known[-1] if state.unknown and known else state)
        return known

    def _seconds(self, moment: datetime | None) -> float | None:
        return None if moment is None else (moment - self.start).total_seconds()

    def _run(self, at: int) -> StepRun:
        run = self.events[at - 1].run
        assert run is not None
        return run

    # -- documents

    def _story(self, number: int) -> tuple[list[Document | None], list[str]]:
        """The document after each step, and the session whose step had last given it an owner."""
        rows = [state.document(number) for state in self.states]
        # The end of a transaction frees those that waited for it: which of them had written already when the queue was read
        # right after it is chance. So a change there belongs to the step that returned the document, else to that end.
        for first, last in _groups(self.events):
            if rows[last] != rows[first - 1] and rows[first] in (rows[first - 1], rows[last]):
                mine = (at for at in range(first + 1, last + 1) if number in step_words.documents(self._run(at)))
                changed = next(mine, first)
                for at in range(first, last):
                    rows[at] = rows[first - 1] if at < changed else rows[last]
        owners = [rows[0].worker_id or "?" if rows[0] is not None else "?"]
        for at in range(1, self.last + 1):
            before, now = rows[at - 1], rows[at]
            taken = now is not None and now.status == "processando" and _hold(now) != _hold(before)
            owners.append(self._run(at).step.session if taken else owners[-1])
        return rows, owners

    def _lane(
        self,
        number: int,
        rows: Sequence[Document | None],
        owners: Sequence[str],
        bands: list[Band],
        ends: list[LeaseEnd],
        renewals: list[Renewal],
    ) -> None:
        for at, row in enumerate(rows):
            before = rows[at - 1] if at else None
            band = self._band(number, row, owners[at], at)
            if row is not None and row.status == "processando":
                until = self._seconds(row.reserved_until)
                old = self._seconds(before.reserved_until) if before is not None else None
                if before is not None and _hold(before) == _hold(row) and None not in (old, until):
                    assert old is not None and until is not None
                    if not same_end(until, old):
                        asked = self.clocks[at] + step_words.asks_for(self._run(at))
                        cut = asked if self._at_limit(row, until) and asked - until >= 1 else None
                        was, now = self._position(old), self._position(until)
                        renewals.append(Renewal(number, at, old, until, was, now, cut))
                passes = self._passes(until, at)
                if until is not None and until <= self.clocks[at]:
                    _append(bands, _changed(band, "late"))
                elif passes is not None and until is not None:
                    _append(bands, _until(band, passes))
                    _append(bands, _changed(band, "late", passes))
                    ends.append(LeaseEnd(number, passes, until, maximum=self._at_limit(row, until)))
                else:
                    _append(bands, band)
            elif band.due is not None and (passes := self._passes(band.due, at)) is not None:
                _append(bands, _until(band, passes))
                _append(bands, _changed(band, "pending", passes))
            else:
                _append(bands, band)

    def _band(self, number: int, row: Document | None, owner: str, at: int) -> Band:
        if row is None:
            return Band(number, "gone", at, at + 1)
        kind = KINDS[row.status]
        due = self._seconds(row.due)
        if kind == "pending" and due is not None and due > self.clocks[at]:
            kind = "put_off"
        owned = kind == "owned"
        return Band(
            number,
            kind,
            at,
            at + 1,
            owner=owner if owned else "",
            token=row.token if owned else None,
            until=self._seconds(row.reserved_until) if owned else None,
            due=due if kind == "put_off" else None,
            category=None if owned or kind == "finished" else row.category,
            stage=row.stage if row.stage != "nao_chamado" else None,
            reference=row.external_reference,
            version=row.version if self.with_versions else None,
            tries=row.tries,
        )

    def _taken(self, number: int, rows: Sequence[Document | None], owners: Sequence[str]) -> Iterator[Taken]:
        """Where a write of another session ended the owner's attempt while its lease held."""
        for at in range(1, self.last + 1):
            before, now = rows[at - 1], rows[at]
            if before is None or _hold(before) is None or _hold(now) == _hold(before):
                continue
            until = self._seconds(before.reserved_until)
            run = self._run(at)
            if (
                run.step.session != owners[at - 1]
                and step_words.writes(run, number)
                and until is not None
                and until > self.clocks[at]
            ):
                yield Taken(number, at, owners[at - 1])

    def _limit(self, row: Document) -> float | None:
        """When the attempt reaches the maximum run time."""
        longest: timedelta | None = self.states[0].longest
        if longest is None or row.started is None:
            return None
        return self._seconds(row.started + longest)

    def _at_limit(self, row: Document, until: float) -> bool:
        """Whether no renewal can move the lease's end any further."""
        limit = self._limit(row)
        return limit is not None and until >= limit

    def _passes(self, time: float | None, at: int) -> float | None:
        """Where the clock passes this time between that step and the next one; None if it does not."""
        if time is None or at >= self.last or not self.clocks[at] < time <= self.clocks[at + 1]:
            return None
        if (run := self.events[at].run) and step_words.moves_clock(run) and span(time) == span(self.clocks[at + 1]):
            return at + 1.0  # the same instant, to the second, lies at the same place
        share = (time - self.clocks[at]) / (self.clocks[at + 1] - self.clocks[at])
        return at + 0.2 + 0.6 * share  # apart from both steps, and what comes first on the left

    def _position(self, time: float) -> float | None:
        """Where in the play the clock passes this time."""
        return next((found for at in range(self.last) if (found := self._passes(time, at)) is not None), None)

    # -- sessions

    def _sessions(self, renewals: Sequence[Renewal]) -> tuple[list[Mark], list[Call]]:
        marks: list[Mark] = []
        calls: list[Call] = []
        claims = {(name, run.step.session) for run in self.play.runs.values() if (name := step_words.claims_as(run))}
        bearers = Counter(name for name, _ in claims)
        for at, event in enumerate(self.events, start=1):
            run = self._run(at)
            if event.kind == "waiting":
                told = step_words.tell(run)
                waits = say("waits for", "espera")
                marks.append(
                    Mark(
                        at,
                        run.step.session,
                        Told("read", told.verb, told.about, f"{waits} {', '.join(run.waited_for)}"),
                        run.waited_for,
                    )
                )
                continue
            told = step_words.tell(run)
            if told.kind == "clock":
                continue
            # A worker's name is said where it is not the session's own, or not the session's alone.
            name = step_words.claims_as(run)
            if name and (bearers[name] > 1 or name[-1:].upper() != run.step.session[0]):
                told = replace(told, about=(*told.about, say(f"as {name}", f"como {name}")))
            moved = [note for each in renewals if each.at == at for note in _moved(each)]
            told = replace(told, notes=(*told.notes, *moved, *self._reasons(at, run, told), *self._put_back(at, run)))
            marks.append(Mark(at, run.step.session, told))
            calls += self._calls(at, run)
        return marks, calls

    def _reasons(self, at: int, run: StepRun, told: Told) -> Iterator[str]:
        """Why a write changed no row, as far as the states tell."""
        named = step_words.named(run)
        # What waited met the queue as it was after the wait, all others as it was before them.
        met = at if self.events[at - 1].kind == "completed" else at - 1
        seen = self.play.states[met]
        if told.kind != "refused" or run.outcome == "error" or named is None or seen.unknown:
            return
        row = seen.document(named.document)
        if row is None:
            yield say("no such document", "documento não existe")
            return
        at_work = row.status == "processando"
        state = step_words.STATUS.get(row.status, row.status)
        until = self._seconds(row.reserved_until)
        if named.token is not None:
            if not at_work:
                yield say("token void", "token anulado")
            elif row.token is not None and row.token != named.token:
                yield (
                    say("old token", "token antigo")
                    if named.token < row.token
                    else say("not its token", "token alheio")
                )
            elif named.verb == "renovar" and (limit := self._limit(row)) is not None and limit <= self.clocks[at]:
                yield say("maximum reached", "máximo atingido")
        elif named.version is not None:
            if row.version != named.version:
                yield say("old version", "versão antiga")
            elif at_work and until is not None and until > self.clocks[at - 1]:
                yield say("lease still held", "prazo ainda vale")
            else:
                yield say(f"state: {state}", f"situação: {state}")
        elif not at_work:
            yield say(f"state: {state}", f"situação: {state}")
        elif named.worker is not None and row.worker_id is not None and row.worker_id != named.worker:
            owner = self.owners[named.document][met]
            yield say(f"{owner} has it", f"está com {owner}")

    def _put_back(self, at: int, run: StepRun) -> Iterator[str]:
        """Of the documents that a step put back by hand, which were late and whose lease still held."""
        if not re.search(r"\bUPDATE fila_documentos\b", run.step.sql):
            return
        for row in self.states[at - 1].documents:
            now = self.states[at].document(row.documento_id)
            until = self._seconds(row.reserved_until)
            if row.status == "processando" and now is not None and now.status == "pendente" and until is not None:
                held = until > self.clocks[at]
                was = say("lease still held", "ainda no prazo") if held else say("was late", "atrasado")
                yield f"{row.documento_id}: {was}"

    def _calls(self, at: int, run: StepRun) -> Iterator[Call]:
        session = run.step.session
        if affected := step_words.effects(run):
            listed = ", ".join(map(str, affected))
            yield Call(at, session, "effect", say(f"effect on {listed}", f"efeito no {listed}"))
        if run.outcome != "done" or run.columns is None or "etapa" not in run.columns or len(run.rows) != 1:
            return
        if "registrar_etapa(" not in run.step.sql:
            return
        stage = run.one("etapa")
        if stage == "desconhecido":
            yield Call(at, session, "may", say("may have been called", "pode ter sido chamado"))
        elif stage == "obtido":
            row = self.states[at].document(step_words.documents(run)[0])
            reference = row.external_reference if row is not None else None
            answer = (
                say(f"reference {reference}", f"referência {reference}") if reference else say("a result", "um retorno")
            )
            yield Call(at, session, "note", answer)


def _hold(row: Document | None) -> tuple[object, ...] | None:
    """What changes when a document gets another owner or another attempt; None while it has none."""
    if row is None or row.status != "processando":
        return None
    return row.worker_id, row.token, row.tries if row.token is None else None


def _with_tries(lane: Sequence[Band]) -> Iterator[Band]:
    """A lane's bands, which tell the try only where there was more than one or a failure ended one."""
    tell = any((band.tries or 0) > 1 or band.category is not None for band in lane)
    return (band if tell else replace(band, tries=None) for band in lane)


def _moved(renewal: Renewal) -> Iterator[str]:
    yield f"{span(renewal.old)} → {span(renewal.new)}"
    if renewal.asked is not None:
        yield say(f"cut: asked for {span(renewal.asked)}", f"cortado: pediu {span(renewal.asked)}")


def _groups(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The positions of each step after which waits were over, and of the last of those waits."""
    at = 1
    while at <= len(events):
        last = at
        while last < len(events) and events[last].kind == "completed":
            last += 1
        if last > at:
            yield at, last
        at = last + 1


def _append(bands: list[Band], band: Band) -> None:
    """Add a stretch, to the one before it if nothing has changed but the end of the lease."""
    if band.end <= band.start:
        return
    if bands:
        last = bands[-1]
        if _same(last) == _same(band) and last.end == band.start:
            bands[-1] = replace(last, end=band.end, until=band.until)
            return
    bands.append(band)


def _same(band: Band) -> tuple[object, ...]:
    return tuple(value for name, value in vars(band).items() if name not in ("start", "end", "until"))


def _changed(band: Band, kind: Kind, start: float | None = None) -> Band:
    return replace(band, kind=kind, due=None, start=band.start if start is None else start)


def _until(band: Band, end: float) -> Band:
    return replace(band, end=end)
