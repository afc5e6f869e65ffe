"""The protocol at its edges: what is refused locks nothing, and a session's settings change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from lab.base import wait
from lab.server import schema
from lab.server.psql import run_scripts
from lab.server.session import SessionPins
from tests.helpers import execute, fetch, rows

STATE = 10


@pytest.fixture
def two(queue_database: str) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A worker's connection and an operator's, to a queue of four documents; the worker's waits for no lock."""
    schema.build(queue_database, STATE)
    with ExitStack() as stack:
        worker, operator = (
            stack.enter_context(SessionPins().psycopg_connection(queue_database, name))
            for name in ("worker", "operator")
        )
        worker.execute("SET lock_timeout = '100ms'")
        yield worker, operator


COMMANDS = {
    "pausar": "pausar(1, 1, 'ana', 'motivo')",
    "retomar": "retomar(1, 1, 'ana', 'motivo')",
    "confirmar": "confirmar(1, 1, 'R1', 'ana', 'motivo')",
    "reenfileirar": "reenfileirar(1, 1, 'ana', 'motivo')",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_refused_command_locks_nothing(two: tuple[psycopg.Connection, psycopg.Connection], command: str) -> None:
    worker, operator = two
    worker.execute("SELECT reservar('worker-a')")
    with operator.transaction():
        assert rows(operator, f"SELECT * FROM {command}") == []
        assert len(rows(worker, "SELECT * FROM renovar(1, 1)")) == 1
        assert len(rows(worker, "SELECT * FROM concluir(1, 1)")) == 1


def test_a_command_refused_after_a_wait_locks_nothing(two: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    """It looked while the orphan was an orphan, waited for its lock, and found it renewed."""
    worker, operator = two
    worker.execute("SELECT reservar('worker-a', 1, '1 microsecond')")
    with operator.transaction():
        with worker.transaction():
            assert len(rows(worker, "SELECT * FROM renovar(1, 1, '1 minute')")) == 1
            operator.pgconn.send_query(b"SELECT * FROM pausar(1, 1, 'ana', 'motivo')")
            waiting = "SELECT %s = ANY(pg_blocking_pids(%s))"
            wait.until(
                lambda: rows(worker, waiting, worker.info.backend_pid, operator.info.backend_pid) == [(True,)], 10
            )
        result = operator.pgconn.get_result()
        assert result is not None
        assert (result.error_message, result.ntuples) == (b"", 0)
        assert operator.pgconn.get_result() is None
        assert len(rows(worker, "SELECT * FROM concluir(1, 1)")) == 1


def test_standard_conforming_strings_off_changes_nothing(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    worker, _ = two
    worker.execute("SET standard_conforming_strings = off; SET escape_string_warning = off")
    reason = "CPF 123.456.789-01, conta 12345678901, token: abc, at https://me:pw@host refused  twice"
    kept = [rows(connection, "SELECT resumir(%s)", reason) for connection in two]
    assert kept[0] == kept[1]
    assert "12345678901" not in str(kept)
    assert len(rows(worker, "SELECT * FROM reservar('workerS')")) == 1
    assert len(rows(worker, "SELECT * FROM enfileirar('Snake', 'S.xml', '<s/>', 'S')")) == 1
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="p_conteudo_xml"):
        worker.execute("SELECT enfileirar('D', 'd.xml', %s, 'S')", ['<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>'])


def test_shipped_tokens_are_random_and_fence_as_counted_ones_do(queue_database: str) -> None:
    run_scripts(queue_database, *schema.upgrades())  # without the lab's own
    with SessionPins().psycopg_connection(queue_database, "worker") as worker:
        ((tokens,),) = rows(worker, "SELECT novos_tokens(10000)")
        assert isinstance(tokens, list)
        assert len(set(tokens)) == 10000
        assert 0 < min(tokens) < 2**53 < 2**62 < max(tokens) < 2**63
        bits = [sum(token >> bit & 1 for token in tokens) for bit in range(63)]
        assert 4700 < min(bits) <= max(bits) < 5300, "one of 63 bits is not drawn"
        claimed = rows(worker, "SELECT documento_id, token_reserva FROM reservar('worker-a', 4)")
        assert len({token for _, token in claimed}) == 4
        held = rows(worker, "SELECT documento_id, token_reserva FROM fila_documentos WHERE status = 'processando'")
        assert sorted(held) == sorted(claimed)
        for document, token in claimed:
            assert rows(worker, "SELECT * FROM concluir(%s, %s)", document, int(str(token)) ^ 1) == []
            assert len(rows(worker, "SELECT * FROM concluir(%s, %s)", document, token)) == 1


def test_a_number_that_is_taken_is_an_error_and_loses_no_document(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    """Rows that came with their numbers, by replication or COPY, do not move the identity's sequence on."""
    application, _ = two
    application.execute(
        "INSERT INTO fila_documentos (documento_id, chave, chave_operacao, nome_arquivo, conteudo_xml, disponivel_em)"
        " OVERRIDING SYSTEM VALUE VALUES (5, 'OLD-5', 'padrao/OLD-5', 'x.xml', '<a/>', relogio())"
    )
    with pytest.raises(psycopg.errors.UniqueViolation, match="fila_documentos_pkey"):
        application.execute("SELECT enfileirar('NEW-1', 'x.xml', '<a/>')")
    assert len(rows(application, "SELECT * FROM enfileirar('NEW-1', 'x.xml', '<a/>')")) == 1
    assert rows(application, "SELECT * FROM enfileirar('NEW-1', 'x.xml', '<a/>')") == [(6, False)]


def test_a_key_is_a_tenants_own(two: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    application, _ = two
    enqueue = "SELECT novo FROM enfileirar('K', 'x.xml', %s, %s)"
    assert [rows(application, enqueue, f"<{tenant}/>", tenant) for tenant in ("a", "b", "a")] == [
        [(True,)],
        [(True,)],
        [(False,)],
    ]
    assert rows(application, "SELECT chave_operacao FROM fila_documentos WHERE chave = 'K' ORDER BY 1") == [
        ("a/K",),
        ("b/K",),
    ]


def test_another_content_under_the_same_key_is_an_error_of_its_own(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    application, _ = two
    assert len(rows(application, "SELECT * FROM enfileirar('K', 'x.xml', '<a>1</a>')")) == 1
    with pytest.raises(psycopg.Error, match="another content") as refused:
        application.execute("SELECT enfileirar('K', 'x.xml', '<a>2</a>')")
    assert refused.value.sqlstate == "QL001"
    # What came by COPY has no SHA-256 beside its key: it is known, and not compared.
    application.execute("UPDATE fila_documentos SET conteudo_sha256 = NULL WHERE chave = 'K'")
    assert rows(application, "SELECT novo FROM enfileirar('K', 'x.xml', '<a>2</a>')") == [(False,)]


def test_a_number_that_two_tenants_have_needs_the_tenants_name(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    """The identity gives each number once; rows that came with their numbers may not."""
    worker, _ = two
    worker.execute("UPDATE fila_documentos SET status = 'pausado' WHERE documento_id <= 4")
    worker.execute(
        "INSERT INTO fila_documentos (inquilino, documento_id, chave, chave_operacao, nome_arquivo, conteudo_xml, disponivel_em)"
        " OVERRIDING SYSTEM VALUE SELECT tenant, 7, 'K', tenant || '/K', 'x.xml', '<a/>', relogio() FROM unnest('{a,b}'::TEXT[]) AS tenant"
    )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="more than one tenant"):
        worker.execute("SELECT pausar(7, 0, 'ana', 'motivo')")
    assert len(rows(worker, "SELECT * FROM pausar(7, 0, 'ana', 'motivo', 'a')")) == 1
    assert len(rows(worker, "SELECT * FROM retomar(7, 1, 'ana', 'motivo')")) == 1  # only one of them is paused
    claimed = rows(worker, "SELECT documento_id, token_reserva FROM reservar('w', 2)")
    assert [document for document, _ in claimed] == [7, 7]
    outcome = "SELECT documento_id, versao FROM {}"
    # The token tells them apart; that of b is the longest due.
    assert rows(worker, outcome.format("falhar(7, %s, 'sistemico', 'motivo')"), claimed[0][1]) == [(7, 2)]
    assert rows(worker, outcome.format("concluir_lote('{7}', ARRAY[%s::BIGINT])"), claimed[1][1]) == [(7, 4)]
    assert rows(worker, "SELECT inquilino, status FROM fila_documentos WHERE documento_id = 7 ORDER BY 1") == [
        ("a", "concluido"),
        ("b", "pendente"),
    ]


def test_a_result_ends_a_document_only_where_the_call_was_all(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    """Work that also writes inside the database is not done when its call is: at the last attempt people decide."""
    worker, _ = two
    worker.execute("UPDATE fila_documentos SET max_tentativas = 1")
    claimed = rows(worker, "SELECT documento_id, token_reserva, documento_id % 2 = 0 FROM reservar('w', 4)")
    for document, token, suffices in claimed:
        call = "SELECT * FROM registrar_etapa(%s, %s, 'desconhecido', p_chamada_basta => %s)"
        assert len(rows(worker, call, document, token, suffices)) == 1
        assert len(rows(worker, "SELECT * FROM registrar_etapa(%s, %s, 'obtido', 'R')", document, token)) == 1
    for document, token, _ in claimed[:2]:
        rows(worker, "SELECT * FROM falhar(%s, %s, 'conteudo', 'no account for this entry')", document, token)
    put_forward(worker, "1 minute")
    rows(worker, "SELECT * FROM recuperar('vigia')")
    kept = "SELECT documento_id, status, ultimo_erro FROM fila_documentos WHERE documento_id <= 4 ORDER BY 1"
    assert rows(worker, kept) == [
        (1, "conciliacao", "no account for this entry"),
        (2, "concluido", None),
        (3, "conciliacao", "reserva vencida"),
        (4, "concluido", None),
    ]


def test_a_call_never_begins_under_an_ended_lease(two: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    """Recorded under a lease that has ended, the stage renews it, and says until when; past the maximum run time it is refused."""
    worker, other = two
    ((document, token),) = rows(worker, "SELECT documento_id, token_reserva FROM reservar('w', 1, '1 second')")
    put_forward(worker, "1 minute")
    stage = "SELECT reservado_ate - relogio() > '19 seconds' FROM registrar_etapa(%s, %s, %s, p_prazo => '20 seconds')"
    assert rows(worker, stage, document, token, "desconhecido") == [(True,)]
    assert rows(other, "SELECT * FROM recuperar('vigia')") == []
    put_forward(worker, "1 hour")
    assert rows(worker, stage, document, token, "desconhecido") == []
    # A result that is known is kept, however late it comes.
    known = "SELECT etapa FROM registrar_etapa(%s, %s, 'obtido', 'R-1')"
    assert rows(worker, known, document, token) == [("obtido",)]
    assert rows(worker, stage, document, token, "confirmando") == []


def test_a_result_is_kept_though_the_commit_before_its_call_was_lost(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    worker, _ = two
    ((document, token),) = rows(worker, "SELECT documento_id, token_reserva FROM reservar('w')")
    stage = "SELECT etapa, versao FROM registrar_etapa(%s, %s, 'obtido', 'R-1')"
    assert rows(worker, stage, document, token) == [("obtido", 2)]
    assert len(rows(worker, "SELECT * FROM concluir(%s, %s, 'R-1')", document, token)) == 1


def test_the_audit_names_the_account_beside_the_name_that_was_claimed(
    two: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    operator, _ = two
    ((account,),) = rows(operator, "SELECT session_user::TEXT")
    rows(operator, "SELECT * FROM pausar(1, 0, 'somebody else', 'motivo')")
    assert rows(operator, "SELECT quem, conectado_como FROM auditoria WHERE documento_id = 1") == [
        ("somebody else", account)
    ]


def put_forward(session: psycopg.Connection, interval: str) -> None:
    """Move the lab's clock."""
    session.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + %s::INTERVAL", [interval])


# One bad row


def test_a_document_whose_audit_is_ahead_of_it_holds_back_no_other(grown: str) -> None:
    """As after a restore of the queue alone: the audit tells of an attempt that the queue has forgotten."""
    execute(
        grown,
        "INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, quem, por_que, quando)"
        " VALUES ('padrao', 2, 1, 'pendente', 'processando', 'w', 'reserva', now())",
    )
    with SessionPins().psycopg_connection(grown, "lab/test") as worker:
        said: list[str] = []
        worker.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        claimed = worker.execute("SELECT documento_id FROM reservar('w', 2)").fetchall()
        assert claimed == [(1,), (3,)]
        assert said == ["document 2: auditoria was ahead of it; its next version is 2, not 1"]
        assert worker.execute("SELECT documento_id FROM reservar('w', 9)").fetchall() == [(4,)]
        assert worker.execute("SELECT documento_id FROM para_pessoas").fetchall() == [(2,)]
    state = "SELECT status, versao, token_reserva FROM sql_semana_12.fila_documentos WHERE documento_id = 2"
    assert fetch(grown, state) == [("conciliacao", 2, None)]
    last = "SELECT de, para, por_que FROM sql_semana_12.auditoria WHERE documento_id = 2 AND versao = 2"
    assert fetch(grown, last) == [("pendente", "conciliacao", "auditoria adiantada")]


def test_an_orphan_whose_audit_is_ahead_of_it_is_recovered_with_the_others(grown: str) -> None:
    with SessionPins().psycopg_connection(grown, "lab/test") as worker:
        worker.execute("SELECT FROM reservar('w', 3)")
        worker.execute(
            "INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, quem, por_que, quando)"
            " VALUES ('padrao', 2, 2, 'processando', 'pendente', 'w', 'falha', now())"
        )
        execute(grown, "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = INTERVAL '1 hour'")
        assert worker.execute("SELECT documento_id, versao FROM recuperar('v') ORDER BY 1").fetchall() == [
            (1, 2),
            (2, 3),
            (3, 2),
        ]


def test_an_audit_that_refuses_a_row_for_another_reason_refuses_the_claim(grown: str) -> None:
    execute(grown, "CREATE UNIQUE INDEX sole ON sql_semana_12.auditoria (quem)")
    with SessionPins().psycopg_connection(grown, "lab/test") as worker:
        with pytest.raises(psycopg.errors.UniqueViolation, match="is ahead of none"):
            worker.execute("SELECT FROM reservar('w', 2)")
        assert worker.execute("SELECT count(*) FROM fila_documentos WHERE status = 'pendente'").fetchone() == (4,)
