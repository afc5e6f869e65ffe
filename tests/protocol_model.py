"""A small model of the protocol: what each function should answer, and how the queue should stand after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

MAXIMUM = timedelta(minutes=15)  # of one attempt, as tempo_maximo() says
LONGEST_DELAY = timedelta(minutes=5)
NEXT_STAGES = {
    "nao_chamado": ["desconhecido"],
    "desconhecido": ["desconhecido", "nao_chamado", "obtido"],
    "obtido": ["obtido", "confirmando"],
    "confirmando": ["confirmando"],
}
LOCKED, BAD_INPUT, BAD_STATE = "55P03", "22023", "55000"

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Span:
    """A moment that is known to lie between two others."""

    first: datetime
    last: datetime

    def __add__(self, more: timedelta) -> Span:
        return Span(self.first + more, self.last + more)

    def holds(self, moment: object) -> bool:
        return isinstance(moment, datetime) and self.first <= moment <= self.last


@dataclass(frozen=True)
class Document:
    """What the table should say of a document; a time that the database chose is a span until it is read back."""

    documento_id: int
    inquilino: str
    chave: str
    max_tentativas: int
    disponivel_em: Span
    status: str = "pendente"
    versao: int = 0
    token_reserva: int | None = None
    worker_id: str | None = None
    tentativas: int = 0
    reservado_ate: Span | None = None
    iniciado_em: Span | None = None
    etapa: str = "nao_chamado"
    referencia_externa: str | None = None
    categoria_erro: str | None = None

    @property
    def exhausted(self) -> bool:
        return self.tentativas >= self.max_tentativas


@dataclass
class Kept:
    """A document as it is committed, as the transaction that holds its lock left it, and whose that is."""

    committed: Document | None = None
    pending: Document | None = None
    holder: str | None = None
    written: bool = False  # and not only locked


class Refused(Exception):
    """The function should raise an error with this SQLSTATE."""


@dataclass
class Call:
    """A call as it was answered: by whom, between which readings of the protocol's clock, and with which rows."""

    who: str
    clock: Span
    rows: list[Row]

    def ids(self) -> set[Any]:
        return {row[0] for row in self.rows}

    def passed(self, moment: Span | None, identity: int) -> bool:
        """Whether the moment has passed; one that passed during the call itself, if the answer says so."""
        assert moment is not None
        return moment.last < self.clock.first or (moment.first < self.clock.last and identity in self.ids())


@dataclass
class Model:
    """The queue. Each function's method takes the call and its arguments, and gives the rows that should have been answered."""

    kept: dict[int, Kept] = field(default_factory=dict)
    tokens: list[tuple[int, int]] = field(default_factory=list)  # (document, token), in the order of minting

    def seen_by(self, who: str | None) -> dict[int, Document]:
        """The documents as a session sees them, by id; None for one that changes nothing."""
        views = {key: each.pending if who and each.holder == who else each.committed for key, each in self.kept.items()}
        return {key: view for key, view in views.items() if view is not None}

    def in_work(self) -> bool:
        """Whether any document is in work, as far as it is committed."""
        return any(each.status == "processando" for each in self.seen_by(None).values())

    def end(self, who: str, committed: bool) -> None:
        """End a session's transaction."""
        for key, each in list(self.kept.items()):
            if each.holder == who:
                each.committed = each.pending if committed else each.committed
                each.pending = each.holder = None
                each.written = False
                if each.committed is None:
                    del self.kept[key]

    def free_for(self, who: str, key: int) -> bool:
        return self.kept[key].holder in (None, who)

    def lock(self, who: str, key: int) -> None:
        each = self.kept[key]
        if not self.free_for(who, key):
            raise Refused(LOCKED)
        if each.holder is None:
            each.holder, each.pending = who, each.committed

    def write(self, who: str, document: Document) -> None:
        self.lock(who, document.documento_id)
        self.kept[document.documento_id].pending = document
        self.kept[document.documento_id].written = True

    # The application

    def enfileirar(
        self, call: Call, chave: str, _: str, __: str, inquilino: str, due: datetime | None, limit: int
    ) -> list[Row]:
        for key, each in self.kept.items():
            if chave in {known.chave for known in (each.committed, each.pending) if known}:
                if each.written and not self.free_for(call.who, key):
                    raise Refused(LOCKED)  # a row that is being written may be gone in a moment, so the server waits
                return []
        if not call.rows:
            return [("a new id",)]
        key = call.rows[0][0]
        assert isinstance(key, int) and key not in self.kept, "an id was used twice"
        available = Span(due, due) if due else call.clock
        self.kept[key] = Kept(None, Document(key, inquilino, chave, limit, available), call.who, written=True)
        return [(key,)]

    # Workers

    def reservar(self, call: Call, worker: str, batch: int, lease: timedelta, tenant: str | None) -> list[Row]:
        due = [
            each
            for key, each in self.seen_by(call.who).items()
            if each.status == "pendente"
            and tenant in (None, each.inquilino)
            and self.free_for(call.who, key)
            and call.passed(each.disponivel_em, key)
        ]
        due.sort(key=lambda each: (each.disponivel_em.first, each.documento_id))
        tokens = {row[0]: row[1] for row in call.rows}
        answer: list[Row] = []
        for each in due[:batch]:
            token = tokens.get(each.documento_id)
            assert isinstance(token, int), f"document {each.documento_id} is due and free, and was not handed out"
            assert token not in {old for _, old in self.tokens}, f"token {token} was minted before"
            self.tokens.append((each.documento_id, token))
            taken = replace(
                each,
                status="processando",
                versao=each.versao + 1,
                token_reserva=token,
                worker_id=worker,
                tentativas=each.tentativas + 1,
                reservado_ate=call.clock + lease,
                iniciado_em=call.clock,
                categoria_erro=None,
            )
            self.write(call.who, taken)
            answer.append((taken.documento_id, token, taken.versao, taken.tentativas, taken.etapa))
        return answer

    def renovar(self, call: Call, key: int, token: int, lease: timedelta, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        assert held.iniciado_em is not None
        end = held.iniciado_em + MAXIMUM
        if not call.rows and call.clock.last >= end.first:
            return []
        until = call.clock + lease
        self.write(call.who, replace(held, reservado_ate=Span(min(until.first, end.first), min(until.last, end.last))))
        return [(key,)]

    def registrar_etapa(
        self, call: Call, key: int, token: int, stage: str, reference: str | None, tenant: str | None
    ) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        if stage not in NEXT_STAGES[held.etapa] or (stage == "obtido" and reference is None):
            raise Refused(BAD_INPUT)
        if stage in ("nao_chamado", "desconhecido") and reference is not None:
            raise Refused(BAD_INPUT)
        changed = replace(
            held, etapa=stage, referencia_externa=reference or held.referencia_externa, versao=held.versao + 1
        )
        self.write(call.who, changed)
        return [(key, stage, changed.versao)]

    def concluir(self, call: Call, key: int, token: int, reference: str | None, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        held = replace(held, referencia_externa=reference or held.referencia_externa)
        if held.etapa == "desconhecido" and held.referencia_externa is None:
            raise Refused(BAD_STATE)
        if held.etapa == "desconhecido":
            held = replace(held, etapa="obtido")
        return self._leave(call, held, "concluido")

    def concluir_lote(
        self, call: Call, keys: list[int], tokens: list[int], references: list[str | None] | None, tenant: str | None
    ) -> list[Row]:
        if len(set(keys)) < len(keys) or len(tokens) != len(keys):
            raise Refused(BAD_INPUT)
        batch = sorted(zip(keys, tokens, references or [None] * len(keys), strict=True))
        held = [self._held(call, key, token, tenant) for key, token, _ in batch]
        known = [
            reference or (None if each is None else each.referencia_externa)
            for each, (*_, reference) in zip(held, batch, strict=True)
        ]
        if any(each and each.etapa == "desconhecido" and of is None for each, of in zip(held, known, strict=True)):
            raise Refused(BAD_STATE)
        answer: list[Row] = []
        for each, reference in zip(held, known, strict=True):
            if each is not None:
                stage = "obtido" if each.etapa == "desconhecido" else each.etapa
                answer += self._leave(call, replace(each, etapa=stage, referencia_externa=reference), "concluido")
        return answer

    def falhar(self, call: Call, key: int, token: int, category: str, _: str, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        to = destination(held, category == "conteudo" or held.exhausted)
        due = delay(call.clock, held.tentativas) if to == "pendente" else None
        return self._leave(call, held, to, due, category)

    def conciliar(self, call: Call, key: int, token: int, _: str, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        return [] if held is None else self._leave(call, held, "conciliacao")

    def recuperar(self, call: Call, _: str, __: str, limit: int, tenant: str | None) -> list[Row]:
        late = [
            each
            for key, each in sorted(self.seen_by(call.who).items())
            if each.status == "processando"
            and tenant in (None, each.inquilino)
            and self.free_for(call.who, key)
            and call.passed(each.reservado_ate, key)
        ]
        answer = []
        for each in late[:limit]:
            to = destination(each, each.exhausted)
            due = delay(call.clock, each.tentativas) if to == "pendente" else None
            answer += self._leave(call, each, to, due, "queda")
        return answer

    # Operators

    def pausar(self, call: Call, key: int, version: int, _: str, __: str, tenant: str | None) -> list[Row]:
        held = self._as_operator(call, key, version, ("pendente", "processando"), tenant)
        if held is None:
            return []
        return self._leave(
            call, held, "pausado", None, "queda" if held.status == "processando" else held.categoria_erro
        )

    def retomar(self, call: Call, key: int, version: int, _: str, __: str, tenant: str | None) -> list[Row]:
        held = self._as_operator(call, key, version, ("pausado",), tenant)
        if held is None:
            return []
        return self._leave(call, held, destination(held, held.exhausted), call.clock, held.categoria_erro)

    def confirmar(
        self, call: Call, key: int, version: int, reference: str, _: str, __: str, tenant: str | None
    ) -> list[Row]:
        held = self._as_operator(call, key, version, ("conciliacao",), tenant)
        if held is None:
            return []
        stage = "confirmando" if held.etapa == "confirmando" else "obtido"
        return self._leave(call, replace(held, etapa=stage, referencia_externa=reference), "concluido")

    def reenfileirar(
        self, call: Call, key: int, version: int, _: str, __: str, more: int, tenant: str | None
    ) -> list[Row]:
        held = self._as_operator(call, key, version, ("falhou", "conciliacao"), tenant)
        if held is None:
            return []
        held = replace(held, max_tentativas=max(held.max_tentativas, held.tentativas + more))
        return self._leave(call, held, "pendente", call.clock, held.categoria_erro)

    # What they share

    def _held(self, call: Call, key: int, token: int, tenant: str | None) -> Document | None:
        """The workers' guard: the document, locked, if it is in work under this token."""
        return self._locked(
            call,
            key,
            lambda seen: (
                seen.status == "processando" and seen.token_reserva == token and tenant in (None, seen.inquilino)
            ),
        )

    def _as_operator(
        self, call: Call, key: int, version: int, states: tuple[str, ...], tenant: str | None
    ) -> Document | None:
        """The operators' guard: the document, locked, if it is as they saw it and in no live worker's hands."""
        held = self._locked(
            call,
            key,
            lambda seen: seen.versao == version and seen.status in states and tenant in (None, seen.inquilino),
        )
        if held is not None and held.status == "processando" and not call.passed(held.reservado_ate, key):
            return None
        return held

    def _locked(self, call: Call, key: int, guard: Callable[[Document], bool]) -> Document | None:
        seen = self.seen_by(call.who).get(key)
        if seen is None or not guard(seen):
            return None
        self.lock(call.who, key)
        return seen

    def _leave(
        self, call: Call, held: Document, to: str, due: Span | None = None, category: str | None = None
    ) -> list[Row]:
        """The document leaves its state: its token is void, its version grows by one."""
        changed = replace(
            held,
            status=to,
            versao=held.versao + 1,
            token_reserva=None,
            worker_id=None if to == "pendente" else held.worker_id,
            reservado_ate=None,
            disponivel_em=due or held.disponivel_em,
            categoria_erro=None if to == "concluido" else category,
        )
        self.write(call.who, changed)
        return [(held.documento_id, to, changed.versao)]


def destination(document: Document, exhausted: bool) -> str:
    """Where an attempt that did not finish leaves its document."""
    if not exhausted:
        return "pendente"
    return {"nao_chamado": "falhou", "desconhecido": "conciliacao"}.get(document.etapa, "concluido")


def delay(clock: Span, attempts: int) -> Span:
    """When the next attempt is due."""
    longest = min(timedelta(seconds=2 ** (attempts - 1)), LONGEST_DELAY)
    return Span(clock.first + longest / 2, clock.last + longest)
