"""The plans of the protocol's statements on a large table, as auto_explain sees them inside the functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from lab.server import schema
from lab.server.psql import run_scripts
from lab.server.schema import numbered_scripts
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.helpers import execute, fetch

CALLS = 20  # from the sixth on the server may use one plan for all parameters
BATCHES = (1, 100)
COLD = 500  # buffers of the catalogs, which a new session reads once
COMMON, RARE = "t0", "raro"
TENANTS = (None, COMMON, RARE)

# A mix as in production: most documents have ended; of those in work most are late, so that recovery finds its batches.
DOCUMENTS = """
INSERT INTO fila_documentos (
    chave, chave_operacao, nome_arquivo, conteudo_xml, inquilino, status, tentativas, versao,
    criado_em, disponivel_em, reservado_ate, iniciado_em, concluido_em, token_reserva, worker_id, categoria_erro
)
SELECT
    'K' || n, 'K' || n, n || '.xml', '<nfe>100.00</nfe>',
    CASE WHEN n % 10000 IN (7, 40) THEN 'raro' WHEN n % 10 < 6 THEN 't0' ELSE 't' || n % 20 END,
    estado, CASE WHEN estado = 'pendente' THEN 0 ELSE 1 END, CASE WHEN estado = 'pendente' THEN 0 ELSE 1 END,
    chegada, CASE WHEN n % 97 = 0 THEN chegada + INTERVAL '1 year' ELSE chegada END,
    CASE WHEN estado = 'processando' THEN relogio() + INTERVAL '1 minute' * (n % 10 - 8) END,
    CASE WHEN estado <> 'pendente' THEN relogio() END,
    CASE WHEN estado IN ('concluido', 'falhou') THEN chegada END,
    CASE WHEN estado = 'processando' THEN n END,
    CASE WHEN estado <> 'pendente' THEN 'w' END,
    CASE WHEN estado = 'falhou' THEN 'conteudo' END
FROM (
    SELECT
        n,
        relogio() - INTERVAL '1 second' * (100000 - n) AS chegada,
        CASE
            WHEN n % 10000 = 7 OR n > 90000 THEN 'pendente'
            WHEN n % 40 = 0 THEN 'processando'
            WHEN n % 31 = 0 THEN 'falhou'
            WHEN n % 331 = 0 THEN 'conciliacao'
            ELSE 'concluido'
        END AS estado
    FROM generate_series(1, 100000) AS n
) AS mistura
"""


@dataclass
class Plans:
    """A session whose every statement, also inside a function, sends its plan as a notice."""

    connection: psycopg.Connection
    seen: list[dict[str, Any]] = field(default_factory=list)

    def call(self, function: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Call a function of the protocol; its statements' plans are then in `seen`."""
        self.seen.clear()
        query = f"SELECT * FROM {function}({', '.join(['%s'] * len(arguments))})"
        return self.connection.execute(query.encode(), arguments).fetchall()

    def keep(self, notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:" in text:
            self.seen.append(json.loads(text.partition("plan:")[2]))

    def sequential_scans(self) -> list[str]:
        """The tables of the queue that were read from end to end."""
        tables = ("fila_documentos", "auditoria")
        return [
            node["Relation Name"]
            for plan in self.seen
            for node in nodes(plan["Plan"])
            if node["Node Type"].endswith("Seq Scan") and node["Relation Name"] in tables
        ]

    def removed(self) -> int:
        """The rows that were joined for nothing."""
        return sum(node.get("Rows Removed by Join Filter", 0) for plan in self.seen for node in nodes(plan["Plan"]))

    def buffers(self) -> int:
        """The buffers that the statements inside the function touched."""
        inner = [plan["Plan"] for plan in self.seen if plan["Plan"]["Node Type"] != "Function Scan"]
        return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in inner)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.fixture(scope="module")
def large(server: Target, module_database: str) -> str:
    """The conninfo of a database whose queue holds 100,000 documents."""
    if not server.superuser:
        pytest.skip("only a superuser sees the plans inside the functions")
    schema.build(module_database, 10)
    with SessionPins().psycopg_connection(module_database, "lab/load") as connection:
        connection.execute(DOCUMENTS.encode())
        connection.execute("ANALYZE fila_documentos, auditoria")
    return module_database


@pytest.fixture
def plans(large: str) -> Iterator[Plans]:
    """A new session, which has planned nothing yet."""
    with explained(large) as plans:
        # What an earlier test left dead is not the plan's fault.
        plans.connection.execute("VACUUM fila_documentos, auditoria")
        yield plans


@contextmanager
def explained(database: str) -> Iterator[Plans]:
    """A session that keeps the plans of its statements."""
    with SessionPins().psycopg_connection(database, "lab/plans") as connection:
        try:
            connection.execute("LOAD 'auto_explain'")
        except psycopg.errors.UndefinedFile:
            pytest.skip("this server comes without auto_explain")
        for name, value in {
            "log_min_duration": "0",
            "log_nested_statements": "on",
            "log_analyze": "on",
            "log_buffers": "on",
            "log_timing": "off",
            "log_format": "json",
            "log_level": "notice",  # to this client, and not into the server's log
        }.items():
            connection.execute("SELECT set_config(%s, %s, false)", [f"auto_explain.{name}", value])
        plans = Plans(connection)
        connection.add_notice_handler(plans.keep)
        yield plans


def test_what_looked_at_the_empty_queue_reads_no_more_once_it_is_full(server: Target, database: str) -> None:
    """A plan made while the queue was empty is kept, and no statistics tell of the 50,000 documents that have come since."""
    if not server.superuser:
        pytest.skip("only a superuser sees the plans inside the functions")
    schema.build(database, 10)
    with SessionPins().psycopg_connection(database, "lab/load") as loader, explained(database) as plans:
        loader.execute("ALTER TABLE fila_documentos SET (autovacuum_enabled = off)")
        loader.execute("DELETE FROM fila_documentos")
        for _ in range(CALLS):
            assert plans.call("reservar", "w") == [] == plans.call("recuperar", "vigia")
            assert plans.call("concluir", 1, 1) == [] == plans.call("concluir_lote", [1], [1])
        loader.execute(
            "INSERT INTO fila_documentos (chave, chave_operacao, nome_arquivo, conteudo_xml, disponivel_em)"
            " SELECT 'K' || n, 'K' || n, 'k.xml', '<nfe/>', relogio() FROM generate_series(1, 50000) AS n"
        )
        for _ in range(2):  # the first one that finds a document plans the rest of the function
            (one,) = plans.call("reservar", "w")
        assert (plans.sequential_scans(), plans.buffers() < 60) == ([], True)
        # What the settings refuse is planned at a cost above jit_above_cost: where the server compiles, a claim would take 0.2 s.
        assert not any("JIT" in plan for plan in plans.seen)
        many = plans.call("reservar", "w", 100)
        assert (plans.sequential_scans(), plans.buffers() < 40 * len(many)) == ([], True)
        assert len(plans.call("concluir", one[0], one[3])) == 1
        assert (plans.sequential_scans(), plans.buffers() < COLD) == ([], True)
        assert len(plans.call("concluir_lote", [row[0] for row in many], [row[3] for row in many])) == 100
        assert (plans.sequential_scans(), plans.buffers() < 40 * len(many)) == ([], True)
        assert plans.removed() == 0, "each document of a batch is looked up, not compared with every other"


def test_the_plans_are_fixed_again_at_every_installation(database: str) -> None:
    """CREATE OR REPLACE takes a function's settings away; the settings row says what they are to be."""
    found = (
        "SELECT array_agg(DISTINCT array_length(proconfig, 1)) FROM pg_proc WHERE proname IN ('reservar', 'concluir')"
    )
    for fixed, settings in ((True, [4, 5]), (True, [4, 5]), (False, [1])):
        schema.build(database, 10)
        execute(database, f"UPDATE sql_semana_12.configuracao SET planos_fixos = {fixed}, duracao_maxima = '2 hours'")
        run_scripts(database, *(path for path in numbered_scripts() if path.name.startswith("10")))
        assert fetch(database, found) == [(settings,)]
        assert fetch(database, "SELECT planos_fixos, duracao_maxima::TEXT FROM sql_semana_12.configuracao") == [
            (fixed, "02:00:00")
        ]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("tenant", TENANTS)
def test_a_claim_reads_no_more_than_its_batch(plans: Plans, tenant: str | None, batch: int) -> None:
    for number in range(CALLS):
        claimed = plans.call("reservar", "worker-a", batch, "30 seconds", tenant)
        assert tenant == RARE or len(claimed) == batch
        assert plans.sequential_scans() == [], f"call {number}"
        assert plans.buffers() <= (COLD if number == 0 else 20) + 40 * len(claimed), f"call {number}"


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("tenant", TENANTS)
def test_a_recovery_reads_no_more_than_what_is_in_work(plans: Plans, tenant: str | None, batch: int) -> None:
    for number in range(CALLS):
        in_work = plans.connection.execute(
            "SELECT count(*) FROM fila_documentos WHERE status = 'processando'"
        ).fetchone()
        assert in_work is not None
        recovered = plans.call("recuperar", "vigia", "reserva vencida", batch, tenant)
        assert plans.sequential_scans() == [], f"call {number}"
        assert plans.buffers() <= COLD + in_work[0] + 45 * len(recovered), f"call {number}"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("renovar", ("30 seconds",)),
        ("registrar_etapa", ("desconhecido", None)),
        ("concluir", ("R1",)),
        ("falhar", ("sistemico", "motivo")),
        ("conciliar", ("motivo",)),
    ],
)
@pytest.mark.parametrize("tenant", [None, COMMON])
def test_an_outcome_reads_one_document(
    plans: Plans, function: str, arguments: tuple[object, ...], tenant: str | None
) -> None:
    claimed = plans.call("reservar", "worker-a", CALLS, "30 seconds", tenant)
    for number, (document, _, _, token, *_) in enumerate(claimed, start=1):
        assert len(plans.call(function, document, token, *arguments, tenant)) == 1
        assert plans.sequential_scans() == [], f"call {number}"
        assert plans.buffers() <= COLD, f"call {number}"
    assert len(claimed) == CALLS


@pytest.mark.parametrize("batch", BATCHES)
def test_a_batch_that_is_finished_reads_no_more_than_its_documents(plans: Plans, batch: int) -> None:
    for number in range(CALLS // 2):
        claimed = plans.call("reservar", "worker-a", batch, "30 seconds", COMMON)
        documents, tokens = [row[0] for row in claimed], [row[3] for row in claimed]
        assert len(plans.call("concluir_lote", documents, tokens, ["R1"] * batch, None)) == batch
        assert plans.sequential_scans() == [], f"call {number}"
        assert plans.buffers() <= COLD + 60 * batch, f"call {number}"


@pytest.mark.parametrize(
    ("index", "call"),
    [
        ("fila_documentos_devidos_idx", ("reservar", "worker-a", 1, "30 seconds", None)),
        ("fila_documentos_devidos_inquilino_idx", ("reservar", "worker-a", 1, "30 seconds", RARE)),
        ("fila_documentos_processando_idx", ("recuperar", "vigia", "reserva vencida", 1, None)),
    ],
)
def test_without_its_index_a_statement_is_seen_to_read_more(plans: Plans, index: str, call: tuple[Any, ...]) -> None:
    def read() -> int:
        for _ in range(2):  # the first of them reads catalogs, too
            with plans.connection.transaction(force_rollback=True):
                plans.call(*call)
        return plans.buffers()

    with plans.connection.transaction(force_rollback=True):
        with_it = read()
        plans.connection.execute(f"DROP INDEX {index}".encode())
        assert read() > 1.2 * with_it
