"""Lesson 08: a failure ends the document or brings it back later, and what is kept of it can be shown to any reader."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from lab.base.errors import ServerError
from lab.base.paths import DOCUMENTS
from lab.protocol import loader
from lab.scenario import grammar
from lab.scenario.library import find_scenario
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server.psql import run_scripts
from lab.server.schema import build, numbered_scripts, scripts_for
from lab.server.session import SessionPins
from tests.conftest import QueueInState
from tests.helpers import check_lesson, execute, fetch, mutated

CANARY = "CANARIO-4711"
EPISODE = [DOCUMENTS / f"nfe-000{number}.xml" for number in (1, 2, 3, 4)]
TABLE = "sql_semana_12.fila_documentos"
RETRYABLE = ("sistemico", "conexao", "impasse")


@pytest.fixture
def database(queue_in_state: QueueInState) -> Iterator[str]:
    """The conninfo of a database of the test's own, with the queue in state 08."""
    with queue_in_state(8) as conninfo:
        yield conninfo


@pytest.fixture
def queue(database: str) -> Iterator[psycopg.Connection]:
    """A connection to that queue of four documents."""
    with SessionPins().psycopg_connection(database, "lab/test") as connection:
        yield connection


def clock(queue: psycopg.Connection, ahead: str) -> None:
    queue.execute("UPDATE relogio_do_laboratorio SET adiantado = %s::INTERVAL", [ahead])


def claim(queue: psycopg.Connection, batch: int = 1, tenant: str | None = None) -> list[tuple[int, int]]:
    """Claim documents; returns their numbers and tokens."""
    return queue.execute(
        "SELECT documento_id, token_reserva FROM reservar('worker-a', %s, '30 seconds', %s)", [batch, tenant]
    ).fetchall()


def fail(
    queue: psycopg.Connection, token: int | None, category: str | None, reason: str | None = "motivo"
) -> list[str]:
    """Fail document 1; returns its state, or nothing if no row was changed."""
    rows = queue.execute("SELECT status FROM falhar(1, %s, %s, %s)", [token, category, reason]).fetchall()
    return [status for (status,) in rows]


def document(queue: psycopg.Connection, columns: str, number: int = 1) -> tuple[object, ...]:
    row = queue.execute(f"SELECT {columns} FROM fila_documentos WHERE documento_id = {number}".encode()).fetchone()
    assert row
    return row


# By category


def test_a_content_failure_ends_the_document_at_the_first_attempt(queue: psycopg.Connection) -> None:
    ((_, token),) = claim(queue)
    due = document(queue, "disponivel_em")
    assert fail(queue, token, "conteudo", "valor ausente") == ["falhou"]
    assert document(queue, "tentativas, categoria_erro, ultimo_erro, token_reserva") == (
        (1, "conteudo", "valor ausente", None)
    )
    assert document(queue, "disponivel_em") == due


@pytest.mark.parametrize("category", RETRYABLE)
def test_any_other_failure_comes_back_when_its_delay_is_over(queue: psycopg.Connection, category: str) -> None:
    ((_, token),) = claim(queue)
    clock(queue, "1 hour")
    assert fail(queue, token, category) == ["pendente"]
    assert document(queue, "categoria_erro, worker_id, reservado_ate") == (category, None, None)
    within = "disponivel_em - relogio() BETWEEN INTERVAL '0' AND INTERVAL '1 second'"
    assert document(queue, within) == (True,)
    assert [number for number, _ in claim(queue, 4)] == [2, 3, 4]
    clock(queue, "2 hours")
    assert [number for number, _ in claim(queue, 4)] == [1]
    assert document(queue, "categoria_erro, ultimo_erro, tentativas") == (None, None, 2)


@pytest.mark.parametrize("category", RETRYABLE)
def test_the_last_attempt_ends_in_falhou_with_its_category(queue: psycopg.Connection, category: str) -> None:
    queue.execute("UPDATE fila_documentos SET max_tentativas = 1 WHERE documento_id = 1")
    ((_, token),) = claim(queue)
    assert fail(queue, token, category) == ["falhou"]
    assert document(queue, "categoria_erro, concluido_em IS NOT NULL") == (category, True)


def test_categories_are_counted_apart_in_the_audit_even_after_success(queue: psycopg.Connection) -> None:
    for hours, category in enumerate(RETRYABLE, start=1):
        ((_, token),) = [taken for taken in claim(queue, 4) if taken[0] == 1]
        fail(queue, token, category)
        clock(queue, f"{hours} hours")
    ((_, token),) = claim(queue, 4)
    queue.execute("SELECT concluir(1, %s)", [token])
    counted = queue.execute("SELECT por_que, count(*) FROM auditoria WHERE por_que LIKE 'falha%' GROUP BY 1").fetchall()
    assert dict(counted) == {f"falha {category}": 1 for category in RETRYABLE}
    assert document(queue, "status, categoria_erro") == ("concluido", None)


def test_a_failure_with_a_foreign_token_changes_nothing(queue: psycopg.Connection) -> None:
    claim(queue, 2)
    before = document(queue, "status, versao, tentativas, disponivel_em, token_reserva")
    assert fail(queue, 2, "conteudo") == fail(queue, None, "sistemico") == []
    assert document(queue, "status, versao, tentativas, disponivel_em, token_reserva") == before


@pytest.mark.parametrize(
    ("category", "reason"),
    [("queda", "x"), ("outra", "x"), ("", "x"), (None, "x"), ("conteudo", None), ("conteudo", "  "), ("conexao", "")],
)
def test_an_unknown_category_and_a_missing_reason_are_refused(
    queue: psycopg.Connection, category: str | None, reason: str | None
) -> None:
    ((_, token),) = claim(queue)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        fail(queue, token, category, reason)
    assert document(queue, "status") == ("processando",)


# The delay


def test_the_delay_doubles_to_five_minutes_and_its_upper_half_is_random(queue: psycopg.Connection) -> None:
    rows = queue.execute(
        "SELECT n, extract(EPOCH FROM recuo(n))::float8 FROM generate_series(1, 40) AS n CROSS JOIN generate_series(1, 50)"
    ).fetchall()
    for attempt, delay in rows:
        full = min(2.0 ** (attempt - 1), 300.0)
        assert full / 2 <= delay <= full
    assert len({delay for _, delay in rows}) > 1900


# Crashes


def test_a_crash_counts_and_puts_the_document_off(queue: psycopg.Connection) -> None:
    claim(queue)
    clock(queue, "1 hour")
    recovered = queue.execute("SELECT status, tentativas FROM recuperar('vigia', 'worker sem sinal')").fetchall()
    assert recovered == [("pendente", 1)]
    assert document(queue, "categoria_erro, ultimo_erro, disponivel_em > relogio()") == (
        "queda",
        "worker sem sinal",
        True,
    )


def test_a_crash_of_the_last_attempt_ends_in_falhou(queue: psycopg.Connection) -> None:
    queue.execute("UPDATE fila_documentos SET max_tentativas = 1")
    claim(queue)
    due = document(queue, "disponivel_em")
    clock(queue, "1 hour")
    assert queue.execute("SELECT status FROM recuperar('vigia')").fetchall() == [("falhou",)]
    assert document(queue, "categoria_erro, disponivel_em") == ("queda", *due)
    assert 1 not in [number for number, _ in claim(queue, 4)]


def test_what_is_in_work_without_a_deadline_is_late(queue: psycopg.Connection) -> None:
    claim(queue)
    queue.execute("UPDATE fila_documentos SET reservado_ate = NULL WHERE documento_id = 1")
    assert queue.execute("SELECT orfaos, executando FROM situacao").fetchone() == (1, 0)
    assert queue.execute("SELECT documento_id FROM recuperar('vigia')").fetchall() == [(1,)]


def test_three_attempts_allowed_are_three(module_database: str) -> None:
    told = mutated("08_crash", ("SET max_tentativas = 2", "SET max_tentativas = 3"))
    build(module_database, told.state)
    played = play(told, module_database)
    assert [played[step].rows[0][1] for step in ("c_recovers", "c_recovers_again")] == ["pendente", "pendente"]


# What is kept of an error


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("receptor fora do ar", "receptor fora do ar"),
        ("token vencido", "token vencido"),
        ("  dois\t  espacos ", "dois espacos"),
        (f"line 1: mismatch <valor>{CANARY}</valor> and {CANARY}", "line 1: mismatch <...>"),
        (f"line 1: mismatch\n{CANARY}</nfe>\n  ^", "line 1: mismatch"),
        (f"line 1: mismatch\r{CANARY}", "line 1: mismatch"),
        (f"line 2: Entity '{CANARY}' not defined", "line 2: Entity '...' not defined"),
        (f'invalid input syntax for type numeric: "{CANARY}"', 'invalid input syntax for type numeric: "..."'),
        (f'invalid input syntax for type numeric: "a\n{CANARY}"', 'invalid input syntax for type numeric: "..."'),
        (f"Key (chave)=({CANARY}) already exists.", "Key (chave)=(...)"),
        (f"postgresql://app:{CANARY}@db/fila: refused", "postgresql://...@db/fila: refused"),
        (f"postgresql://app:p@{CANARY}/x@db/fila: refused", "postgresql://...@db/fila: refused"),
        (f"host=db password={CANARY} user=app", "host=db password=... user=app"),
        (f"host=db password='{CANARY} x' user=app", "host=db password=... user=app"),
        (f"SENHA : {CANARY}", "SENHA :..."),
        (f"client_secret={CANARY}", "client_secret=..."),
        (f'{{"password": "{CANARY}"}}', '{"...": "..."}'),
        (f"Authorization: Bearer {CANARY}", "Authorization: ..."),
        (f"HTTP 401, authorization: Basic {CANARY}", "HTTP 401, authorization: ..."),
        (f"Set-Cookie: session={CANARY}; id={CANARY}", "Set-Cookie: ..."),
        (f"Bearer {CANARY}", "Bearer ..."),
        ("CPF 123.456.789-09 recusado", "CPF ... recusado"),
        ("CPF 12345678909 recusado", "CPF ... recusado"),
        ("CNPJ 12.345.678/0001-95 e 12.ABC.678/0001-95", "CNPJ ... e ..."),
        ("192.168.100.100, porta 5432, 2026-10-15 09:00:00", "192.168.100.100, porta 5432, 2026-10-15 09:00:00"),
        ("\f\v\nreceptor fora do ar", "receptor fora do ar"),
        (" " * 3000 + "receptor fora do ar", "receptor fora do ar"),
        ("x" * 3000, "x" * 200),
        ("", ""),
        (None, None),
    ],
)
def test_a_reason_is_one_short_line_without_payload_and_credentials(
    queue: psycopg.Connection, reason: str | None, kept: str | None
) -> None:
    assert queue.execute("SELECT resumir(%s)", [reason]).fetchone() == (kept,)


# The order


def test_the_longest_due_is_claimed_first_and_the_episode_keeps_its_order(queue: psycopg.Connection) -> None:
    queue.execute("UPDATE fila_documentos SET disponivel_em = '2026-10-16 08:00-03' WHERE documento_id = 3")
    assert [claim(queue)[0][0] for _ in range(4)] == [3, 1, 2, 4]


@pytest.mark.parametrize("tenant", [None, "padrao"])
def test_nothing_is_claimed_before_it_is_due(queue: psycopg.Connection, tenant: str | None) -> None:
    queue.execute("DELETE FROM fila_documentos")
    queue.execute("SELECT enfileirar('A', 'a.xml', '<a/>', p_disponivel_em => relogio() + INTERVAL '1 hour')")
    queue.execute("SELECT enfileirar('B', 'b.xml', '<b/>')")
    assert len(claim(queue, 4, tenant)) == 1
    assert queue.execute("SELECT aguardando, adiados, executando FROM situacao").fetchone() == (0, 1, 1)
    clock(queue, "1 hour")
    assert len(claim(queue, 4, tenant)) == 1


def test_a_tenant_is_served_with_its_own_only(queue: psycopg.Connection) -> None:
    queue.execute("SELECT enfileirar('A', 'a.xml', '<a/>', 'outro')")
    assert [number for number, _ in claim(queue, 9, "outro")] == [5]
    assert [number for number, _ in claim(queue, 9, "ninguem")] == []
    assert [number for number, _ in claim(queue, 9)] == [1, 2, 3, 4]


def test_a_known_key_is_enqueued_once(queue: psycopg.Connection) -> None:
    calls = [
        queue.execute("SELECT documento_id, novo FROM enfileirar('A', 'a.xml', '<a/>')").fetchall() for _ in range(2)
    ]
    assert calls == [[(5, True)], [(5, False)]]


# The schema


def test_the_application_must_say_when_it_is_due(queue: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation):
        queue.execute("INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml) VALUES ('A', 'a.xml', '<a/>')")


def test_the_upgrade_keeps_what_is_there_and_may_be_run_again(database: str) -> None:
    build(database, 7)
    execute(database, "SET search_path = sql_semana_12; SELECT reservar('worker-a', 2)")
    script = next(path for path in numbered_scripts() if path.name.startswith("08"))
    run_scripts(database, script)
    due = f"SELECT count(*) FROM {TABLE} WHERE disponivel_em = criado_em AND max_tentativas = 5"
    assert fetch(database, due) == [(4,)]
    execute(database, f"UPDATE {TABLE} SET disponivel_em = '2027-01-01' WHERE documento_id = 4")
    run_scripts(database, script)
    assert fetch(database, due) == [(3,)]
    assert fetch(database, "SELECT documento_id FROM sql_semana_12.concluir(1, 1)") == [(1,)]


def test_one_function_a_name_and_the_index_of_the_due_in_place_of_the_old_one(
    queue: psycopg.Connection, database: str
) -> None:
    run_scripts(database, scripts_for(8)[-2])
    names = "SELECT proname FROM pg_proc WHERE pronamespace = 'sql_semana_12'::regnamespace"
    found = [name for (name,) in queue.execute(names.encode()).fetchall()]
    assert len(found) == len(set(found))
    indexes = queue.execute(
        "SELECT split_part(indexdef, 'btree ', 2) FROM pg_indexes WHERE indexdef LIKE '%pendente%' ORDER BY 1"
    ).fetchall()
    assert indexes == [
        ("(disponivel_em, documento_id) WHERE (status = 'pendente'::text)",),
        ("(inquilino, disponivel_em, documento_id) WHERE (status = 'pendente'::text)",),
    ]


# The loader


@pytest.mark.parametrize("state", [1, 5, 7, 8])
def test_the_loader_brings_documents_into_a_queue_of_any_state(database: str, state: int) -> None:
    build(database, state)
    execute(database, f"DELETE FROM {TABLE}")
    assert [outcome.loaded for outcome in loader.load(database, EPISODE)] == [True] * 4
    again = loader.load(database, EPISODE)
    assert [(outcome.loaded, outcome.sqlstate) for outcome in again] == [(False, "23505")] * 4
    assert again[0].reason is not None
    assert again[0].reason.en == "NFE-0001 is in the queue already."
    assert fetch(database, f"SELECT count(*) FROM {TABLE}") == [(4,)]


def test_what_the_loader_brings_is_due_at_once(queue: psycopg.Connection, database: str) -> None:
    queue.execute("DELETE FROM fila_documentos")
    loader.load(database, EPISODE)
    keys = [queue.execute("SELECT chave FROM reservar('worker-a')").fetchone() for _ in range(4)]
    assert keys == [(f"NFE-000{number}",) for number in (1, 2, 3, 4)]


def test_a_connection_lost_before_the_first_document_is_told(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "ENQUEUES", "SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(ServerError, match="lost after 0 of 4 files"):
        loader.load(database, EPISODE)


# The scenarios


def test_with_the_broken_document_ended_the_next_one_comes(module_database: str) -> None:
    told = mutated(
        "08_one_retry",
        (
            "SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL, ultimo_erro = 'erro'\n"
            "WHERE documento_id = 1 AND token_reserva = 1",
            "SET status = 'falhou', token_reserva = NULL, reservado_ate = NULL, ultimo_erro = 'erro'\n"
            "WHERE documento_id = 1 AND token_reserva = 1",
        ),
    )
    build(module_database, told.state)
    assert play(told, module_database)["a_claims_again"].value == "2"


def test_counting_at_the_claim_stops_the_naive_queue_too(module_database: str) -> None:
    path = find_scenario("08_counted_at_report").path
    claims = path.read_text(encoding="utf-8").replace(
        "SET status = 'processando'", "SET tentativas = tentativas + 1, status = 'processando'"
    )
    counted = grammar.parse(claims, path)
    build(module_database, counted.state)
    played = play(counted, module_database)
    assert [len(played[step].rows) for step in ("a_claims", "b_claims", "d_claims")] == [1, 1, 0]


def test_without_the_error_the_commit_saves(module_database: str) -> None:
    told = mutated(
        "08_commit_after_error", (" errors 42P01", ""), ("INSERT INTO diario (documento_id)\nVALUES (1);", "SELECT 1;")
    )
    build(module_database, told.state)
    played = play(told, module_database)
    assert played["a_commits"].command == "COMMIT"
    assert played["c_reads"].rows == (("1", "concluido"),)


def test_every_check_of_lesson_08_passes(stage: Stage) -> None:
    check_lesson("08_failures", stage)
