"""A small model of the protocol: what each function should answer, and how the queue should stand after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

MAXIMUM = timedelta(minutes=15)  # of one attempt, as tempo_maximo() says
LONGEST_DELAY = timedelta(minutes=5)
NEXT_STAGES = {
    "nao_chamado": ["nao_chamado", "desconhecido", "obtido"],
    "desconhecido": ["desconhecido", "nao_chamado", "obtido"],
    "obtido": ["obtido", "confirmando"],
    "confirmando": ["confirmando"],
}
LOCKED, BAD_INPUT, BAD_STATE, OTHER_CONTENT = "55P03", "22023", "55000", "QL001"
CRASH = "reserva vencida"  # what an operator's pause says of an orphan's attempt
SECRET = "canario"

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
    chamada_basta: bool = False
    categoria_erro: str | None = None
    ultimo_erro: str | None = None
    concluido_em: Span | None = None
    was_called: bool = False  # in the audit, not in the table
    given_back: int = 0  # as well
    # Its last row in auditoria: tenant, from, to, who, why, class of failure; and when.
    auditado: Row = (None,) * 6
    quando: Span | None = None

    @property
    def chave_operacao(self) -> str:
        return f"{self.inquilino}/{self.chave}"

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
    content: str = ""


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

    def called(self, who: str) -> set[int]:
        """The documents for which an attempt may have called, as a session sees them."""
        return {key for key, each in self.seen_by(who).items() if each.was_called}

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
        self, call: Call, chave: str, _: str, content: str, inquilino: str, due: datetime | None, limit: int
    ) -> list[Row]:
        for key, each in self.kept.items():
            if (inquilino, chave) in {
                (known.inquilino, known.chave) for known in (each.committed, each.pending) if known
            }:
                if each.written and not self.free_for(call.who, key):
                    raise Refused(LOCKED)  # a row that is being written may be gone in a moment, so the server waits
                if content != each.content:
                    raise Refused(OTHER_CONTENT)
                return [(key, False)]
        if not call.rows:
            return [("a new id", True)]
        key = call.rows[0][0]
        assert isinstance(key, int) and key not in self.kept, "an id was used twice"
        available = latest(call.clock, Span(due, due)) if due else call.clock
        self.kept[key] = Kept(
            None, Document(key, inquilino, chave, limit, available), call.who, written=True, content=content
        )
        return [(key, True)]

    def enfileirar_lote(
        self,
        call: Call,
        chaves: list[str],
        names: list[str],
        contents: list[str],
        inquilino: str,
        due: datetime | None,
        limit: int,
    ) -> list[Row]:
        before = dict(self.kept)
        answer: list[Row] = []
        try:
            for number, (chave, name, content) in enumerate(sorted(zip(chaves, names, contents, strict=True))):
                one = replace(call, rows=call.rows[number : number + 1])
                answer += self.enfileirar(one, chave, name, content, inquilino, due, limit)
        except Refused:
            self.kept = before
            raise
        return answer

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
                ultimo_erro=None,
                concluido_em=None,
            )
            self.write(call.who, audited(call, each, taken, worker, "reserva"))
            answer.append(
                (
                    *(taken.documento_id, token, taken.versao, taken.tentativas, taken.etapa),
                    *(taken.inquilino, taken.chave, taken.chave_operacao, taken.referencia_externa),
                )
            )
        return answer

    def renovar(self, call: Call, key: int, token: int, lease: timedelta, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        assert held.iniciado_em is not None
        if not call.rows and call.clock.last >= (held.iniciado_em + MAXIMUM).first:
            return []
        self.write(call.who, replace(held, reservado_ate=renewed(call, held, lease)))
        return [(key,)]

    def renovar_lote(
        self, call: Call, keys: list[int], tokens: list[int], lease: timedelta, tenant: str | None
    ) -> list[Row]:
        if len(set(keys)) < len(keys) or len(tokens) != len(keys):
            raise Refused(BAD_INPUT)
        told: dict[object, object] = dict(call.rows)
        results: list[Row] = []
        for key, token in sorted(zip(keys, tokens, strict=True)):
            try:
                one = replace(call, rows=[(key,)] if told.get(key) == "renovada" else [])
                results.append((key, "renovada" if self.renovar(one, key, token, lease, tenant) else "recusada"))
            except Refused:
                results.append((key, "ocupada"))
        return results

    def devolver(self, call: Call, key: int, token: int, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        if held.auditado[4] != "reserva":
            raise Refused(BAD_STATE)
        attempts = held.tentativas - (held.given_back < 3)
        back = replace(held, tentativas=attempts, given_back=held.given_back + 1)
        to = destination(back, back.exhausted)
        error, category = (None, None) if to == "pendente" else ("devolvido sem tentativa restante", "sistemico")
        return [(*row, attempts) for row in self._leave(call, back, to, held.worker_id, "devolucao", error, category)]

    def registrar_etapa(
        self,
        call: Call,
        key: int,
        token: int,
        stage: str,
        reference: str | None,
        tenant: str | None,
        lease: timedelta = timedelta(seconds=30),
        suffices: bool | None = None,
    ) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        if stage not in NEXT_STAGES[held.etapa] or (stage == "obtido" and reference is None):
            raise Refused(BAD_INPUT)
        if stage in ("nao_chamado", "desconhecido") and reference is not None:
            raise Refused(BAD_INPUT)
        known = same(reference, held)
        assert held.iniciado_em is not None
        if (
            stage in ("desconhecido", "confirmando")
            and not call.rows
            and call.clock.last >= (held.iniciado_em + MAXIMUM).first
        ):
            return []
        changed = replace(
            held,
            etapa=stage,
            referencia_externa=known,
            versao=held.versao + 1,
            reservado_ate=renewed(call, held, lease),
            chamada_basta=held.chamada_basta if suffices is None else suffices,
            was_called=held.was_called or stage == "desconhecido",
        )
        self.write(call.who, audited(call, held, changed, held.worker_id, f"etapa {stage}"))
        return [(key, stage, changed.versao)]

    def concluir(self, call: Call, key: int, token: int, reference: str | None, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        known = same(reference, held)
        if held.etapa == "desconhecido" and known is None:
            raise Refused(BAD_STATE)
        return self._finish(call, held, known)

    def concluir_lote(
        self, call: Call, keys: list[int], tokens: list[int], references: list[str | None] | None, tenant: str | None
    ) -> list[Row]:
        if len(set(keys)) < len(keys) or len(tokens) != len(keys):
            raise Refused(BAD_INPUT)
        batch = sorted(zip(keys, tokens, references or [None] * len(keys), strict=True))
        found = [(self._held(call, key, token, tenant), reference) for key, token, reference in batch]
        held = [(each, reference) for each, reference in found if each is not None]
        if any(each.etapa == "desconhecido" and not (reference or each.referencia_externa) for each, reference in held):
            raise Refused(BAD_STATE)
        known = [(each, same(reference, each)) for each, reference in held]
        return [row for each, reference in known for row in self._finish(call, each, reference)]

    def concluir_e_reservar(
        self,
        call: Call,
        keys: list[int],
        tokens: list[int],
        references: list[str | None] | None,
        worker: str,
        batch: int,
        lease: timedelta,
        tenant: str | None,
    ) -> list[Row]:
        finished = self.concluir_lote(call, keys, tokens, references, tenant)
        claimed = replace(call, rows=[row[1:] for row in call.rows if row[0] == "reservado"])
        return [
            *(("concluido", key, None, version, *[None] * 6) for key, _, version in finished),
            *(("reservado", *row) for row in self.reservar(claimed, worker, batch, lease, tenant)),
        ]

    def falhar(self, call: Call, key: int, token: int, category: str, reason: str, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        if held is None:
            return []
        to = destination(held, category == "conteudo" or held.exhausted)
        due = delay(call.clock, held.tentativas) if to == "pendente" else None
        return self._leave(call, held, to, held.worker_id, f"falha {category}", reason, category, due)

    def conciliar(self, call: Call, key: int, token: int, reason: str, tenant: str | None) -> list[Row]:
        held = self._held(call, key, token, tenant)
        return [] if held is None else self._leave(call, held, "conciliacao", held.worker_id, "conciliacao", reason)

    def recuperar(self, call: Call, who: str, reason: str, limit: int, tenant: str | None) -> list[Row]:
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
            answer += self._leave(call, each, to, who, reason, reason, "queda", due)
        return answer

    # Operators

    def examinar(self, call: Call, key: int, tenant: str | None) -> list[Row]:
        seen = self.seen_by(call.who).get(key)
        if seen is None or tenant not in (None, seen.inquilino):
            return []
        alive = seen.status == "processando" and not call.passed(seen.reservado_ate, key)
        return [
            (
                *(key, seen.inquilino, seen.chave, seen.status, seen.versao, seen.tentativas, seen.max_tentativas),
                *(seen.worker_id, alive, seen.etapa, seen.chave_operacao, seen.referencia_externa),
                *(seen.categoria_erro, seen.ultimo_erro),
            )
        ]

    def pausar(self, call: Call, key: int, version: int, who: str, reason: str, tenant: str | None) -> list[Row]:
        held = self._as_operator(call, key, version, ("pendente", "processando"), tenant)
        return [] if held is None else self._command(call, held, "pausado", who, reason)

    def retomar(self, call: Call, key: int, version: int, who: str, reason: str, tenant: str | None) -> list[Row]:
        held = self._as_operator(call, key, version, ("pausado",), tenant)
        if held is None:
            return []
        due = latest(call.clock, held.disponivel_em)
        return self._command(call, held, destination(held, held.exhausted), who, reason, due)

    def confirmar(
        self, call: Call, key: int, version: int, reference: str, who: str, reason: str, tenant: str | None
    ) -> list[Row]:
        held = self._as_operator(call, key, version, ("conciliacao",), tenant)
        if held is None:
            return []
        if held.referencia_externa not in (None, reference):
            raise Refused(BAD_INPUT)
        return self._finish(call, held, reference, who, reason)

    def reenfileirar(
        self, call: Call, key: int, version: int, who: str, reason: str, more: int, tenant: str | None
    ) -> list[Row]:
        held = self._as_operator(call, key, version, ("falhou", "conciliacao"), tenant)
        if held is None:
            return []
        held = replace(held, max_tentativas=max(held.max_tentativas, held.tentativas + more))
        return self._command(call, held, "pendente", who, reason, call.clock)

    def cancelar(self, call: Call, key: int, version: int, who: str, reason: str, tenant: str | None) -> list[Row]:
        held = self._as_operator(call, key, version, ("pendente", "pausado", "falhou", "conciliacao"), tenant)
        return [] if held is None else self._command(call, held, "cancelado", who, reason)

    def substituir_conteudo(
        self, call: Call, key: int, version: int, content: str, who: str, reason: str, tenant: str | None
    ) -> list[Row]:
        held = self._as_operator(call, key, version, ("pendente", "pausado", "falhou"), tenant)
        if held is None:
            return []
        if held.etapa != "nao_chamado" or key in self.called(call.who):
            raise Refused(BAD_STATE)
        changed = replace(held, versao=held.versao + 1)
        self.write(call.who, audited(call, held, changed, who, redacted(f"conteudo: {reason}")))
        self.kept[key].content = content
        return [(key, held.status, changed.versao)]

    def reenfileirar_falhos(
        self, call: Call, category: str, who: str, reason: str, more: int, limit: int, tenant: str | None
    ) -> list[Row]:
        failed = [
            each
            for key, each in sorted(self.seen_by(call.who).items())
            if (each.status, each.categoria_erro) == ("falhou", category)
            and tenant in (None, each.inquilino)
            and self.free_for(call.who, key)
        ]
        answer = []
        for each in failed[:limit]:
            answer += self.reenfileirar(call, each.documento_id, each.versao, who, reason, more, each.inquilino)
        return answer

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
        """The operators' guard: the document, locked, if it is as they saw it and in no live worker's hands; else nothing is locked."""
        return self._locked(
            call,
            key,
            lambda seen: (
                seen.versao == version
                and seen.status in states
                and tenant in (None, seen.inquilino)
                and (seen.status != "processando" or call.passed(seen.reservado_ate, key))
            ),
        )

    def _locked(self, call: Call, key: int, guard: Callable[[Document], bool]) -> Document | None:
        seen = self.seen_by(call.who).get(key)
        if seen is None or not guard(seen):
            return None
        self.lock(call.who, key)
        return seen

    def _finish(
        self, call: Call, held: Document, reference: str | None, who: str | None = None, reason: str = "conclusao"
    ) -> list[Row]:
        """The document is finished; a reference says that there is a result."""
        stage = held.etapa if held.etapa == "confirmando" or reference is None else "obtido"
        finished = replace(held, etapa=stage, referencia_externa=reference)
        return self._leave(call, finished, "concluido", who or held.worker_id, reason)

    def _command(
        self, call: Call, held: Document, to: str, who: str, reason: str, due: Span | None = None
    ) -> list[Row]:
        """An operator's command is no attempt: the last one's error stays, and an orphan's attempt ends as a crash."""
        error, category = held.ultimo_erro, held.categoria_erro
        if held.status == "processando":
            error, category = CRASH, "queda"
        return self._leave(call, held, to, who, reason, error, category, due)

    def _leave(
        self,
        call: Call,
        held: Document,
        to: str,
        who: str | None,
        why: str,
        error: str | None = None,
        category: str | None = None,
        due: Span | None = None,
    ) -> list[Row]:
        """The document leaves its state: its token is void, its version grows by one."""
        changed = replace(
            held,
            status=to,
            versao=held.versao + 1,
            token_reserva=None,
            worker_id=None if to == "pendente" else held.worker_id,
            reservado_ate=None,
            concluido_em=call.clock if to in ("concluido", "falhou", "cancelado") else None,
            disponivel_em=due or held.disponivel_em,
            categoria_erro=None if to == "concluido" else category,
            ultimo_erro=None if to == "concluido" else redacted(error),
        )
        failed = category if held.status == "processando" else None
        self.write(call.who, audited(call, held, changed, who, redacted(why), failed))
        return [(held.documento_id, to, changed.versao)]


def renewed(call: Call, held: Document, lease: timedelta) -> Span:
    """The deadline after a renewal: never an earlier one, and none behind the maximum run time."""
    assert held.iniciado_em is not None and held.reservado_ate is not None
    before, until, end = held.reservado_ate, call.clock + lease, held.iniciado_em + MAXIMUM
    return Span(max(before.first, min(until.first, end.first)), max(before.last, min(until.last, end.last)))


def audited(
    call: Call, before: Document, after: Document, who: str | None, why: str | None, failed: str | None = None
) -> Document:
    """The changed document, with its row in auditoria."""
    return replace(after, auditado=(after.inquilino, before.status, after.status, who, why, failed), quando=call.clock)


def same(reference: str | None, held: Document) -> str | None:
    """The document's reference, which may be given again, but not be another one."""
    if reference and held.referencia_externa not in (None, reference):
        raise Refused(BAD_INPUT)
    return reference or held.referencia_externa


def redacted(reason: str | None) -> str | None:
    """The reason as it is kept; of what is redacted the model knows one example."""
    return reason and reason.replace(SECRET, "...")


def latest(one: Span, other: Span) -> Span:
    return Span(max(one.first, other.first), max(one.last, other.last))


def destination(document: Document, exhausted: bool) -> str:
    """Where an attempt that did not finish leaves its document."""
    if not exhausted:
        return "pendente"
    if document.etapa == "nao_chamado":
        return "falhou"
    return "concluido" if document.etapa != "desconhecido" and document.chamada_basta else "conciliacao"


def delay(clock: Span, attempts: int) -> Span:
    """When the next attempt is due."""
    longest = min(timedelta(seconds=2 ** (attempts - 1)), LONGEST_DELAY)
    return Span(clock.first + longest / 2, clock.last + longest)
