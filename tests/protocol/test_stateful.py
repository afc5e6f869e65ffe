"""The protocol driven at random from several connections, held against a model and against its own audit.

LAB_STATEFUL=2000 sets the number of examples; they are then new at every run, where the normal run always plays the same ones.
A failure prints the calls that lead to it, as SQL.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lab.server import schema
from lab.server.session import SessionPins
from tests.protocol.model import NEXT_STAGES, SECRET, Call, Document, Model, Refused, Row, Span

EXAMPLES = 80
STEPS = 50
SESSIONS = ("A", "B", "C")
TENANTS = ("norte", "sul")

# What the model answers, in the order in which it does.
CLAIMED = "documento_id, token_reserva, versao, tentativas, etapa, inquilino, chave, chave_operacao, referencia_externa"
COLUMNS = {
    "enfileirar": "documento_id, novo",
    "enfileirar_lote": "documento_id, novo",
    "reservar": CLAIMED,
    "concluir_e_reservar": f"resultado, {CLAIMED}",
    "renovar": "documento_id",
    "renovar_lote": "documento_id, resultado",
    "devolver": "documento_id, status, versao, tentativas",
    "registrar_etapa": "documento_id, etapa, versao",
    "examinar": "documento_id, inquilino, chave, status, versao, tentativas, max_tentativas, worker_id, reserva_viva, etapa,"
    " chave_operacao, referencia_externa, categoria_erro, ultimo_erro",
}
# The mutations that only many examples find.
long = pytest.mark.skipif("LAB_STATEFUL" not in os.environ, reason="needs many examples: set LAB_STATEFUL")
DOCUMENT = [each.name for each in fields(Document) if each.name not in ("was_called", "given_back")]
# The document beside its last row in auditoria.
SEEN = f"""
SELECT {", ".join(DOCUMENT)}, chave_operacao
FROM fila_documentos
LEFT JOIN (
    SELECT documento_id, versao, quando, ARRAY[inquilino, de, para, quem, por_que, categoria_erro] AS auditado FROM auditoria
) AS auditoria USING (documento_id, versao)
"""
OUTCOMES = (
    ("concluir",),
    ("falhar", "sistemico", "tempo esgotado"),
    ("falhar", "conexao", f"recusada, senha={SECRET}"),
    ("falhar", "conteudo", "valor ausente"),
    ("conciliar", f"sem resposta, senha={SECRET}"),
)
COMMANDS = {
    "pausar": ("pendente", "processando"),
    "retomar": ("pausado",),
    "confirmar": ("conciliacao",),
    "reenfileirar": ("falhou", "conciliacao"),
    "cancelar": ("pendente", "pausado", "falhou", "conciliacao"),
    "substituir_conteudo": ("pendente", "pausado", "falhou"),
}
TIMES = ("disponivel_em", "reservado_ate", "iniciado_em", "concluido_em", "quando")

sessions = st.sampled_from(SESSIONS)
tenants = st.sampled_from((None, None, None, None, *TENANTS))
leases = st.sampled_from((5, 60, 900)).map(lambda seconds: timedelta(seconds=seconds))
waits = st.sampled_from((0, 0, 0, 30, 600, -600))
picks = st.integers(0, 1000)
references = st.sampled_from((None, None, None, "R1"))


@dataclass(frozen=True)
class Connections:
    """The sessions of workers and operators, and one that watches and moves the clock."""

    sessions: dict[str, psycopg.Connection]
    watch: psycopg.Connection

    def clock(self) -> Any:
        row = self.watch.execute("SELECT relogio()").fetchone()
        assert row is not None
        return row[0]


class Protocol(RuleBasedStateMachine):
    """Sessions that call the protocol, alone or inside a transaction of their own, while the clock moves both ways."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self.connections = connections
        self.model = Model()
        self.open: set[str] = set()  # the sessions in a transaction of their own

    @initialize(documents=st.integers(2, 6))
    def fill(self, documents: int) -> None:
        watch = self.connections.watch
        watch.execute("TRUNCATE fila_documentos, auditoria RESTART IDENTITY")
        watch.execute("ALTER SEQUENCE token_reserva_seq RESTART")
        watch.execute("UPDATE relogio_do_laboratorio SET adiantado = '0'")
        for number in range(documents):
            self.enqueue("A", number, TENANTS[number % 2], 0, 1 + number % 3)

    def teardown(self) -> None:
        for connection in self.connections.sessions.values():
            connection.rollback()

    # The application

    @rule(
        who=sessions,
        key=st.integers(0, 9),
        content=st.sampled_from(("<nfe/>", "<nfe/>", "<nfe/>", "<nfe>2</nfe>")),
        tenant=st.sampled_from(TENANTS),
        wait=waits,
        limit=st.integers(1, 4),
    )
    def enqueue(self, who: str, key: int, tenant: str, wait: int, limit: int, content: str = "<nfe/>") -> None:
        due = self.connections.clock() + timedelta(seconds=wait) if wait else None
        self.call(who, "enfileirar", f"NFE-{key}", "nfe.xml", content, tenant, due, limit)

    @rule(who=sessions, keys=st.lists(st.integers(0, 9), max_size=3), tenant=st.sampled_from(TENANTS))
    def enqueue_a_batch(self, who: str, keys: list[int], tenant: str) -> None:
        names = [f"NFE-{key}" for key in keys]
        self.call(who, "enfileirar_lote", names, ["nfe.xml"] * len(keys), ["<nfe/>"] * len(keys), tenant, None, 3)

    # Workers

    @rule(who=sessions, worker=st.sampled_from(("w1", "w2")), batch=st.integers(1, 3), lease=leases, tenant=tenants)
    def claim(self, who: str, worker: str, batch: int, lease: timedelta, tenant: str | None) -> None:
        self.call(who, "reservar", worker, batch, lease, tenant)

    @precondition(lambda self: self.model.in_work())
    @rule(who=sessions, pick=picks, lease=leases, tenant=tenants)
    def renew(self, who: str, pick: int, lease: timedelta, tenant: str | None) -> None:
        self.call(who, "renovar", *self.some_token(who, pick), lease, tenant)

    @precondition(lambda self: self.model.in_work())
    @rule(who=sessions, batch=st.lists(picks, max_size=3), lease=leases, tenant=tenants)
    def renew_a_batch(self, who: str, batch: list[int], lease: timedelta, tenant: str | None) -> None:
        chosen = [self.some_token(who, pick) for pick in batch]
        self.call(who, "renovar_lote", [key for key, _ in chosen], [token for _, token in chosen], lease, tenant)

    @precondition(lambda self: self.model.in_work())
    @rule(who=sessions, pick=picks, tenant=tenants)
    def give_back(self, who: str, pick: int, tenant: str | None) -> None:
        self.call(who, "devolver", *self.some_token(who, pick), tenant)

    @precondition(lambda self: self.model.in_work())
    @rule(
        who=sessions,
        pick=picks,
        stage=picks,
        reference=references,
        tenant=tenants,
        lease=leases,
        suffices=st.sampled_from((None, True, False)),
    )
    def record_stage(
        self,
        who: str,
        pick: int,
        stage: int,
        reference: str | None,
        tenant: str | None,
        lease: timedelta = timedelta(seconds=30),
        suffices: bool | None = None,
    ) -> None:
        document, token = self.some_token(who, pick)
        seen = self.model.seen_by(who).get(document)
        likely = NEXT_STAGES[seen.etapa] if seen and stage % 5 else list(NEXT_STAGES)
        chosen = likely[stage // 5 % len(likely)]
        if stage % 5 > 1:
            reference = "R2" if chosen == "obtido" else None
        self.call(who, "registrar_etapa", document, token, chosen, reference, tenant, lease, suffices)

    @precondition(lambda self: self.model.tokens)
    @rule(who=sessions, pick=picks, outcome=st.sampled_from(OUTCOMES), reference=references, tenant=tenants)
    def end_the_attempt(
        self, who: str, pick: int, outcome: tuple[str, ...], reference: str | None, tenant: str | None
    ) -> None:
        function, *arguments = outcome
        self.call(who, function, *self.some_token(who, pick), *(arguments or (reference,)), tenant)

    @precondition(lambda self: self.model.tokens)
    @rule(who=sessions, batch=st.lists(picks, max_size=3), reference=references, tenant=tenants)
    def finish_a_batch(self, who: str, batch: list[int], reference: str | None, tenant: str | None) -> None:
        chosen = [self.some_token(who, pick) for pick in batch]
        keys, tokens = [key for key, _ in chosen], [token for _, token in chosen]
        self.call(who, "concluir_lote", keys, tokens, [reference] * len(batch), tenant)

    @precondition(lambda self: self.model.tokens)
    @rule(who=sessions, batch=st.lists(picks, max_size=3), reference=references, lease=leases, tenant=tenants)
    def finish_a_batch_and_claim(
        self, who: str, batch: list[int], reference: str | None, lease: timedelta, tenant: str | None
    ) -> None:
        chosen = [self.some_token(who, pick) for pick in batch]
        keys, tokens = [key for key, _ in chosen], [token for _, token in chosen]
        self.call(who, "concluir_e_reservar", keys, tokens, [reference] * len(batch), "w1", 2, lease, tenant)

    @precondition(lambda self: self.model.in_work())
    @rule(who=sessions, limit=st.integers(1, 3), tenant=tenants)
    def recover(self, who: str, limit: int, tenant: str | None) -> None:
        self.call(who, "recuperar", "vigia", f"sem sinal, senha={SECRET}", limit, tenant)

    # Operators

    @rule(who=sessions, choice=picks, pick=picks, more=st.integers(1, 2), tenant=tenants)
    def operate(self, who: str, choice: int, pick: int, more: int, tenant: str | None) -> None:
        """Command mostly what a document is in the state for and as it stands, else anything or as it stood before."""
        seen = list(self.model.seen_by(who).values())
        fit = {name: [each for each in seen if each.status in states] for name, states in COMMANDS.items()}
        possible = [name for name in COMMANDS if fit[name]] if choice % 5 else list(COMMANDS)
        if not seen or not possible:
            return
        command = possible[choice // 5 % len(possible)]
        documents = fit[command] if choice % 5 else seen
        document = documents[pick // 5 % len(documents)]
        version = document.versao - 1 if pick % 5 == 1 else document.versao
        reference = {"confirmar": ["R9"], "substituir_conteudo": ["<nfe>9</nfe>"]}.get(command, [])
        attempts = [more] if command == "reenfileirar" else []
        reason = f"conferido, senha={SECRET}"
        self.call(who, command, document.documento_id, version, *reference, "ana", reason, *attempts, tenant)

    @rule(
        who=sessions,
        category=st.sampled_from(("conteudo", "queda")),
        more=st.integers(1, 2),
        limit=st.integers(1, 3),
        tenant=tenants,
    )
    def requeue_failed(self, who: str, category: str, more: int, limit: int, tenant: str | None) -> None:
        self.call(who, "reenfileirar_falhos", category, "ana", "corrigido", more, limit, tenant)

    @rule(who=sessions, pick=st.integers(1, 8), tenant=tenants)
    def examine(self, who: str, pick: int, tenant: str | None) -> None:
        self.call(who, "examinar", pick, tenant)

    # Time, and transactions

    @rule(seconds=st.sampled_from((1, 10, 90, 1000, -90, -1000)))
    def move_the_clock(self, seconds: int) -> None:
        say(f"UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '{seconds} seconds';")
        self.connections.watch.execute(
            "UPDATE relogio_do_laboratorio SET adiantado = adiantado + %s", [timedelta(seconds=seconds)]
        )

    @precondition(lambda self: len(self.open) < len(SESSIONS))
    @rule(pick=picks)
    def begin(self, pick: int) -> None:
        idle = [who for who in SESSIONS if who not in self.open]
        who = idle[pick % len(idle)]
        self.statement(who, "BEGIN")
        self.open.add(who)

    @precondition(lambda self: self.open)
    @rule(pick=picks, commit=st.sampled_from((True, True, False)))
    def end(self, pick: int, commit: bool) -> None:
        who = sorted(self.open)[pick % len(self.open)]
        self.statement(who, "COMMIT" if commit else "ROLLBACK")
        self.over(who, commit)

    # What must hold

    @invariant()
    def the_audit_replays_to_the_table(self) -> None:
        check_audit(self.connections.watch)

    @invariant()
    def every_session_sees_what_the_model_says(self) -> None:
        self.compare(None, self.connections.watch)
        for who in self.open:
            self.compare(who, self.connections.sessions[who])

    # How it is done

    def some_token(self, who: str, pick: int) -> tuple[int, int]:
        """A document and a token: mostly the one in force, else an old one, perhaps of another document."""
        kind, pick = pick % 6, pick // 6
        live = [(key, each.token_reserva) for key, each in self.model.seen_by(who).items() if each.token_reserva]
        document, token = self.model.tokens[pick % len(self.model.tokens)]
        if live and kind < 5:
            document, in_force = live[pick % len(live)]
            token = token if kind == 4 else in_force
        return document, token

    def call(self, who: str, function: str, *arguments: object) -> None:
        """Call a function of the protocol, and compare its answer with the model's."""
        connection = self.connections.sessions[who]
        query = f"SELECT {COLUMNS.get(function, 'documento_id, status, versao')} FROM {function}"
        rows: list[Row] = []
        error = None
        first = self.connections.clock()
        try:
            rows = connection.execute(f"{query}({', '.join(['%s'] * len(arguments))})".encode(), arguments).fetchall()
            if function in ("concluir_lote", "renovar_lote"):
                rows.sort()  # it promises no order
            if function == "concluir_e_reservar":
                rows.sort(
                    key=lambda row: (row[0], row[1] if row[0] == "concluido" else 0)
                )  # nor does it, of what it finished
        except psycopg.Error as failure:
            error = failure.sqlstate
        call = Call(who, Span(first, self.connections.clock()), rows)
        given = psycopg.ClientCursor(connection).mogrify(", ".join(["%s"] * len(arguments)), arguments)
        say(f"{who}: {query}({given}); -- {error or rows}")
        expected, refused = [], None
        try:
            expected = getattr(self.model, function)(call, *arguments)
        except Refused as refusal:
            refused = str(refusal)
        assert (error, rows) == (refused, expected)
        if error is not None:
            if who in self.open:
                self.statement(who, "ROLLBACK")
            self.over(who, committed=False)
        elif who not in self.open:
            self.over(who, committed=True)

    def statement(self, who: str, statement: str) -> None:
        say(f"{who}: {statement};")
        self.connections.sessions[who].execute(statement.encode())

    def over(self, who: str, committed: bool) -> None:
        self.open.discard(who)
        self.model.end(who, committed)

    def compare(self, who: str | None, connection: psycopg.Connection) -> None:
        """Hold a session's view of the table against the model's, and learn the times the database chose."""
        expected = self.model.seen_by(who)
        seen = {row[0]: row for row in connection.execute(SEEN.encode())}
        assert set(seen) == set(expected)
        for key, (*row, operation) in seen.items():
            found = dict(zip(DOCUMENT, row, strict=True))
            found["auditado"] = tuple(found["auditado"] or Document.auditado)
            learnt = with_times(expected[key], found)
            assert found == {name: _exact(getattr(learnt, name)) for name in DOCUMENT}
            assert operation == learnt.chave_operacao
            kept = self.model.kept[key]
            if who is not None and kept.holder == who:
                kept.pending = learnt
            else:
                kept.committed = learnt


def say(line: str) -> None:
    """Keep a line for whoever reads a failure."""
    (note if currently_in_test_context() else print)(line)


def check_audit(watch: psycopg.Connection) -> None:
    """Hold the committed table against its audit alone, without the model."""
    chains = defaultdict(list)
    for key, *row in watch.execute(
        "SELECT documento_id, versao, de, para, token_reserva, por_que, inquilino, quem, categoria_erro, quando"
        " FROM auditoria ORDER BY documento_id, versao"
    ):
        chains[key].append(row)
    minted = [
        token
        for chain in chains.values()
        for _, de, para, token, *_ in chain
        if (de, para) == ("pendente", "processando")
    ]
    assert len(minted) == len(set(minted)), "a token was minted twice"
    documents = watch.execute(
        "SELECT documento_id, status, versao, token_reserva, tentativas, max_tentativas, etapa, reservado_ate, categoria_erro,"
        " concluido_em, inquilino, iniciado_em, referencia_externa FROM fila_documentos"
    ).fetchall()
    assert set(chains) <= {row[0] for row in documents}, "a row vanished"
    for (
        key,
        status,
        versao,
        token,
        attempts,
        limit,
        stage,
        until,
        category,
        ended,
        tenant,
        begun,
        reference,
    ) in documents:
        assert (status, versao, token, attempts, stage) == replay(chains[key], reference)
        assert attempts <= limit, "more attempts than allowed"
        assert (until is not None) == (status == "processando"), "a lease without work, or work without a lease"
        assert (ended is not None) == (status in ("concluido", "falhou", "cancelado"))
        assert status != "falhou" or category is not None, "failed, and nobody knows of what"
        assert status != "concluido" or category is None, "finished, and yet it has an error"
        assert status != "pendente" or attempts < limit, "waits for an attempt that it may not have"
        assert {row[5] for row in chains[key]} <= {tenant}, "the audit names another tenant"
        claimed = last = worker = None
        for _, de, para, _, why, _, who, failed, when in chains[key]:
            last = when if de != para or de == "processando" else last  # another content is no end
            if (de, para) == ("pendente", "processando"):
                claimed, worker = last, who
            assert who in (worker, "vigia", "ana"), (
                "somebody changed it who does not hold it, nor recovers, nor commands"
            )
            assert failed is None or de == "processando", "failed outside of an attempt"
            unharmed = why == "devolucao" and para == "pendente"
            assert failed or unharmed or de != "processando" or para not in ("pendente", "falhou"), (
                "failed, and the audit has no class"
            )
        assert begun == claimed, "the attempt and its audit began at two moments"
        assert ended in (None, last), "the document and its audit ended at two moments"


def replay(chain: list[list[Any]], reference: str | None) -> tuple[str, int, int | None, int, str]:
    """State, version, token, attempts and stage that follow from a document's audit rows and the reference of its result."""
    status, versao, token, attempts, stage = "pendente", 0, None, 0, "nao_chamado"
    given_back = 0
    for number, de, para, under, reason, *_ in chain:
        assert (number, de) == (versao + 1, status), "the chain of the audit has a gap"
        versao = number
        if (de, para) == ("pendente", "processando"):
            token, attempts = under, attempts + 1
            assert token is not None
        else:
            assert under == token, "written under a superseded token"
            if para == de and de == "processando":
                stage = reason.removeprefix("etapa ")
            else:
                token = None if para != de else token
            if reason == "devolucao":
                given_back += 1
                attempts -= given_back <= 3
            if para == "concluido" and stage != "confirmando" and reference is not None:
                stage = "obtido"
        status = para
    return status, versao, token, attempts, stage


def with_times(expected: Document, row: dict[str, Any]) -> Document:
    """The document with the times that the database chose, each of them within the span that the model gives it."""
    learnt: dict[str, Any] = {}
    for name in TIMES:
        span = getattr(expected, name)
        if span is not None:
            assert span.holds(row[name]), f"{name} of document {expected.documento_id}: {row[name]} is not in {span}"
            learnt[name] = Span(row[name], row[name])
    return replace(expected, **learnt)


def _exact(value: object) -> object:
    return value.first if isinstance(value, Span) else value


def play(connections: Connections, examples: int, fresh: bool = False, shrink: bool = True) -> None:
    """Play so many examples, the same ones each time unless they are to be fresh; the first failure is raised."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        derandomize=not fresh,
        database=None,
        deadline=None,
        print_blob=fresh,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    machine = cast("type[Protocol]", lambda: Protocol(connections))  # any factory will do
    run_state_machine_as_test(machine, settings=chosen)


@pytest.fixture(scope="module")
def connections(module_database: str) -> Iterator[Connections]:
    schema.build(module_database, 10)
    pins = SessionPins(lock_timeout="20ms")  # a wait for somebody else's lock would not end: there is one thread
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(pins.psycopg_connection(module_database, f"lab/{name}"))
            for name in (*SESSIONS, "watch")
        }
        for connection in opened.values():
            connection.execute("SET synchronous_commit = off")  # a crash of the server is not what is tried here
        yield Connections({name: opened[name] for name in SESSIONS}, opened["watch"])


@contextmanager
def broken(connections: Connections, function: str, old: str, new: str) -> Iterator[None]:
    """The protocol with a text of one function replaced wherever it stands in it, for as long as the block."""
    row = connections.watch.execute("SELECT pg_get_functiondef(%s::regproc)", [function]).fetchone()
    assert row is not None
    assert old in row[0], f"{function} holds no {old!r}"
    connections.watch.execute(row[0].replace(old, new).encode())
    try:
        yield
    finally:
        connections.watch.execute(row[0].encode())


def test_random_work_agrees_with_the_model_and_with_the_audit(connections: Connections) -> None:
    more = os.environ.get("LAB_STATEFUL")
    play(connections, int(more or EXAMPLES), fresh=more is not None)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("travar", "AND fila.token_reserva = p_token", ""),
        ("travar", "AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)", ""),
        pytest.param("concluir_lote", "AND fila.token_reserva = p_token", "", marks=long),
        pytest.param("concluir_lote", "AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)", "", marks=long),
        ("concluir_lote", "versao = fila.versao + 1", "versao = fila.versao"),
        (
            "concluir_e_reservar",
            "(p_documentos, p_tokens, p_referencias, p_inquilino)",
            "(p_documentos, p_tokens, NULL, p_inquilino)",
        ),
        ("concluir_e_reservar", "(p_worker, p_lote, p_prazo, p_inquilino)", "(p_worker, p_lote, p_prazo, NULL)"),
        ("mudar", "versao = v_versao", "versao = p_posse.versao"),
        ("mudar", "token_reserva = NULL", "token_reserva = token_reserva"),
        (
            "mudar",
            "INSERT INTO sql_semana_12.auditoria",
            "DELETE FROM sql_semana_12.fila_documentos WHERE status = 'concluido'; INSERT INTO sql_semana_12.auditoria",
        ),
        pytest.param("recuperar", "SKIP LOCKED", "", marks=long),
        pytest.param("concluir", "AND v_posse.referencia_externa IS NULL", "AND FALSE", marks=long),
        ("reservar", "token_reserva = escolhido.token", "token_reserva = fila.documento_id"),
        ("reservar", "SKIP LOCKED", ""),
        ("reservar", "AND inquilino = p_inquilino", ""),
        ("reservar", "AND disponivel_em <= (SELECT sql_semana_12.relogio())", ""),
        ("reservar", "ORDER BY disponivel_em, documento_id", "ORDER BY documento_id DESC"),
        ("renovar", "SET reservado_ate", "SET versao = fila.versao + 1, reservado_ate"),
        ("renovar", "least(v_agora + p_prazo, v_fim)", "v_agora + p_prazo"),
        ("renovar_lote", "AND fila.token_reserva = p_token", ""),
        ("renovar_lote", "SKIP LOCKED", ""),
        (
            "renovar_lote",
            "least(v_agora + p_prazo, fila.iniciado_em + sql_semana_12.tempo_maximo())",
            "v_agora + p_prazo",
        ),
        ("devolver", "tentativas - 1;", "tentativas;"),
        ("devolver", "SET tentativas = v_posse.tentativas - 1", "SET tentativas = v_posse.tentativas"),
        ("devolver", "IF v_comecado", "IF FALSE"),
        ("registrar_etapa", "versao = fila.versao + 1", "versao = fila.versao"),
        ("recuperar", "AND coalesce(fila.reservado_ate, '-infinity') < v_agora", ""),
        ("destino", "NOT p_esgotado", "TRUE"),
        ("travar_para_operador", "AND fila.versao = p_versao", ""),
        ("reenfileirar", "SET max_tentativas", "SET tentativas = 0, max_tentativas"),
    ],
)
def test_a_protocol_that_is_broken_on_purpose_is_found_out(
    connections: Connections, function: str, old: str, new: str
) -> None:
    with broken(connections, function, old, new), pytest.raises(AssertionError):
        play(connections, 1000, shrink=False)


# One story that is always told the same, for what is written beside the state (moments, names, reasons, keys): random work comes to
# some of it once in a thousand plays only.


def tell(connections: Connections) -> None:
    """Tell the story, held against the model and the audit after each call."""
    told = Protocol(connections)
    told.fill(0)

    def call(function: str, *arguments: object) -> None:
        told.call("A", function, *arguments)
        told.every_session_sees_what_the_model_says()
        told.the_audit_replays_to_the_table()

    def claim(documents: int = 1, lease: int = 60) -> int:
        call("reservar", "w1", documents, timedelta(seconds=lease), None)
        return told.model.tokens[-1][1]

    def command(function: str, key: int, *more: object) -> None:
        reference = ["R9"] if function == "confirmar" else []
        version = told.model.seen_by(None)[key].versao
        call(function, key, version, *reference, "ana", f"conferido, senha={SECRET}", *more, None)
        call("examinar", key, None)

    told.enqueue("A", 1, "norte", 0, 2)
    told.enqueue("A", 2, "sul", -600, 2)
    told.enqueue("A", 3, "norte", 10_000, 5)
    command("pausar", 3)
    command("retomar", 3)

    # Document 1: its first attempt gets a result and fails, the second finishes by it; there is no other result.
    token = claim(2) - 1
    call("examinar", 1, "norte")
    call("examinar", 1, "sul")
    for stage, reference in (("desconhecido", None), ("obtido", "R1"), ("obtido", "R1"), ("obtido", "R2")):
        call("registrar_etapa", 1, token, stage, reference, None)
    told.move_the_clock(10)
    call("falhar", 1, token, "sistemico", f"tempo esgotado, senha={SECRET}", None)
    told.move_the_clock(10)
    again = claim()
    call("concluir", 1, again, "R2", None)
    call("concluir_lote", [1], [again], ["R2"], None)
    told.move_the_clock(10)
    call("concluir", 1, again, None, None)

    # Document 2 goes to people.
    call("conciliar", 2, token + 1, f"sem resposta, senha={SECRET}", None)
    told.move_the_clock(10)
    command("confirmar", 2)

    # Two that are finished with a result, and nobody recorded their calls.
    told.enqueue("A", 4, "norte", 0, 1)
    call("concluir", 4, claim(), "R4", None)
    told.enqueue("A", 5, "sul", 0, 1)
    call("concluir_lote", [5], [claim()], ["R5"], None)

    # One that is late twice: once an operator sees it, once recovery.
    told.enqueue("A", 6, "sul", 0, 2)
    claim(lease=5)
    told.move_the_clock(90)
    call("examinar", 6, None)
    command("pausar", 6)
    command("retomar", 6)
    claim(lease=5)
    told.move_the_clock(90)
    call("recuperar", "vigia", f"sem sinal, senha={SECRET}", 1, None)
    command("reenfileirar", 6, 1)


def test_the_story_agrees_with_the_model_and_with_the_audit(connections: Connections) -> None:
    tell(connections)
    states = connections.watch.execute("SELECT status, count(*) FROM fila_documentos GROUP BY 1 ORDER BY 1").fetchall()
    assert states == [("concluido", 4), ("pendente", 2)]


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("enfileirar", "greatest(p_disponivel_em, v_agora)", "coalesce(p_disponivel_em, v_agora)"),
        ("enfileirar", "p_inquilino || '/' || p_chave", "p_chave"),
        ("reservar", "ultimo_erro = NULL", "ultimo_erro = fila.ultimo_erro"),
        ("reservar", "'reserva', v_agora", "'reserva', v_agora - INTERVAL '1 hour'"),
        ("reservar", "\n        chave_operacao,", "\n        chave,"),
        ("reservar", "\n        referencia_externa,", "\n        NULL::TEXT,"),
        ("mudar", "        p_agora,", "        p_posse.iniciado_em,"),
        ("mudar", "THEN p_agora END", "THEN p_posse.iniciado_em END"),
        ("mudar", "        p_posse.inquilino,", "        'padrao',"),
        ("mudar", "        p_quem,", "        coalesce(p_posse.worker_id, p_quem),"),
        ("mudar", "resumir(p_por_que)", "p_por_que"),
        ("mudar", "resumir(p_erro)", "p_erro"),
        ("mudar", "CASE WHEN p_posse.status = 'processando' THEN p_categoria END", "p_categoria"),
        ("conciliar", "'conciliacao', p_motivo", "'conciliacao', NULL"),
        ("concluir", "v_posse.etapa <> 'confirmando'", "v_posse.etapa = 'desconhecido'"),
        ("concluir_lote", "fila.etapa <> 'confirmando'", "fila.etapa = 'desconhecido'"),
        ("exigir_referencia", "p_referencia <> p_referencia_externa", "FALSE"),
        ("concluir_lote", "p_referencia <> referencia_externa", "FALSE"),
        ("mudar_por_operador", "'reserva vencida'", "NULL"),
        ("retomar", "greatest(fila.disponivel_em, sql_semana_12.relogio())", "sql_semana_12.relogio()"),
        ("examinar", "AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)", ""),
        ("examinar", "fila.reservado_ate >= v_agora", "TRUE"),
    ],
)
def test_what_is_written_beside_the_state_is_looked_at(
    connections: Connections, function: str, old: str, new: str
) -> None:
    with broken(connections, function, old, new), pytest.raises(AssertionError):
        tell(connections)
