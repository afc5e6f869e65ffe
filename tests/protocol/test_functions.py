"""The protocol's functions: what bad input does (nothing), and the rules of the house that every one of them keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import psycopg
import pytest

from lab.scenario.player import play
from lab.server import schema
from lab.server.session import SessionPins
from tests.conftest import nothing_left
from tests.helpers import fetch, parsed

FIRST_STATE, STATE = 5, 10
MEGABYTE = "x" * 1_000_000
CANARY = "canary-7f3a"
PAYLOAD = f"<nfe>{CANARY}</nfe>"

# Everything in the queue but the clocks of the sequences.
EVERYTHING = (
    "SELECT coalesce(jsonb_agg(to_jsonb(linha) - 'conteudo_xml' ORDER BY documento_id), '[]') FROM fila_documentos AS linha",
    "SELECT coalesce(jsonb_agg(to_jsonb(linha) ORDER BY quando, documento_id, versao), '[]') FROM auditoria AS linha",
)

# A document in each state, by id; 1 and 2 are in work under the tokens 1 and 2, and 2 is at an unknown stage.
PREPARED = """
SELECT reservar('worker-a', 2);
SELECT registrar_etapa(2, 2, 'desconhecido');
SELECT pausar(3, 0, 'ana', 'motivo');
SELECT enfileirar('A', 'a.xml', '<a/>'), enfileirar('B', 'b.xml', '<b/>'), enfileirar('C', 'c.xml', '<c/>');
SELECT reservar('worker-b', 3);
SELECT concluir(4, 3);
SELECT falhar(5, 4, 'conteudo', 'motivo');
SELECT conciliar(6, 5, 'motivo');
"""
IN_WORK, UNKNOWN, PAUSED, FINISHED, FAILED, UNRECONCILED, WAITING = range(1, 8)


@pytest.fixture(scope="module")
def prepared(module_database: str) -> Iterator[psycopg.Connection]:
    """A connection to a queue with a document in each state, in autocommit."""
    schema.build(module_database, STATE)
    with SessionPins().psycopg_connection(module_database, "lab/protocol") as connection:
        for statement in PREPARED.strip().split(";\n"):
            connection.execute(statement.encode())
        yield connection


@pytest.fixture
def queue(prepared: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """The same queue for each test: what it does is rolled back."""
    prepared.execute("BEGIN")
    yield prepared
    prepared.execute("ROLLBACK")


def everything(queue: psycopg.Connection) -> list[object]:
    return [queue.execute(query.encode()).fetchone() for query in EVERYTHING]


def rows(queue: psycopg.Connection, call: str, **values: object) -> list[tuple[object, ...]]:
    return queue.execute(f"SELECT * FROM {call}".encode(), values).fetchall()


def version_of(queue: psycopg.Connection, document: int) -> int:
    row = queue.execute("SELECT versao FROM examinar(%s)", [document]).fetchone()
    assert row is not None
    return int(row[0])


# Bad input

WORKER_FUNCTIONS = {
    "renovar": "renovar({}, {}, '30 seconds', {})",
    "registrar_etapa": "registrar_etapa({}, {}, 'desconhecido', NULL, {})",
    "concluir": "concluir({}, {}, NULL, {})",
    "falhar": "falhar({}, {}, 'sistemico', 'motivo', {})",
    "conciliar": "conciliar({}, {}, 'motivo', {})",
}
OPERATOR_FUNCTIONS = {
    "pausar": (WAITING, "pausar({}, {}, 'ana', 'motivo', {})"),
    "retomar": (PAUSED, "retomar({}, {}, 'ana', 'motivo', {})"),
    "confirmar": (UNRECONCILED, "confirmar({}, {}, 'R1', 'ana', 'motivo', {})"),
    "reenfileirar": (FAILED, "reenfileirar({}, {}, 'ana', 'motivo', 1, {})"),
}


def test_the_prepared_queue_holds_a_document_in_each_state(queue: psycopg.Connection) -> None:
    states = queue.execute("SELECT documento_id, status FROM fila_documentos ORDER BY documento_id").fetchall()
    assert dict(states) == {
        IN_WORK: "processando",
        UNKNOWN: "processando",
        PAUSED: "pausado",
        FINISHED: "concluido",
        FAILED: "falhou",
        UNRECONCILED: "conciliacao",
        WAITING: "pendente",
    }


@pytest.mark.parametrize("call", WORKER_FUNCTIONS.values(), ids=WORKER_FUNCTIONS)
@pytest.mark.parametrize(
    ("document", "token", "tenant"),
    [
        (IN_WORK, 2, "NULL"),  # the token of another row
        (IN_WORK, 99, "NULL"),
        (IN_WORK, "NULL", "NULL"),
        ("NULL", 1, "NULL"),
        (99, 1, "NULL"),
        (-1, -1, "NULL"),
        (FINISHED, 3, "NULL"),  # its own, but of an attempt that has ended
        (IN_WORK, 1, "'another'"),
        (IN_WORK, 1, "''"),
    ],
)
def test_without_the_token_in_force_a_worker_gets_zero_rows_and_changes_nothing(
    queue: psycopg.Connection, call: str, document: object, token: object, tenant: str
) -> None:
    before = everything(queue)
    assert rows(queue, call.format(document, token, tenant)) == []
    assert everything(queue) == before


@pytest.mark.parametrize(("document", "call"), OPERATOR_FUNCTIONS.values(), ids=OPERATOR_FUNCTIONS)
def test_without_the_version_an_operator_saw_he_gets_zero_rows_and_changes_nothing(
    queue: psycopg.Connection, document: int, call: str
) -> None:
    before = everything(queue)
    version = version_of(queue, document)
    for key, number, tenant in [
        (document, version - 1, "NULL"),
        (document, version + 1, "NULL"),
        (document, "NULL", "NULL"),
        (document, version, "'another'"),
        ("NULL", version, "NULL"),
        (99, version, "NULL"),
        (FINISHED, version_of(queue, FINISHED), "NULL"),  # no command is for that state
    ]:
        assert rows(queue, call.format(key, number, tenant)) == [], (key, number, tenant)
    assert everything(queue) == before
    assert len(rows(queue, call.format(document, version, "'padrao'"))) == 1


def test_a_live_lease_keeps_an_operator_out(queue: psycopg.Connection) -> None:
    before = everything(queue)
    assert rows(queue, f"pausar({IN_WORK}, {version_of(queue, IN_WORK)}, 'ana', 'motivo')") == []
    assert everything(queue) == before


BLANK = ["NULL", "''", "'  '", "E'\\t\\n'"]
COUNTS = ["NULL", "0", "-1", "1000000"]
BIG = "repeat('x', 1000000)"
# The last three compare as one second, but that is not what they add.
LEASES = [
    *("NULL", "'-1 second'", "'0'", "'15 minutes 1 second'", "'1 day'", "'1000 years'"),
    *("'1 month -30 days 1 second'", "'100 years -36000 days 1 second'", "'-1 day 24 hours 1 second'"),
]
NO_DOCUMENT = [
    *("", CANARY, PAYLOAD + PAYLOAD, f"<!DOCTYPE nfe>{PAYLOAD}"),
    f'<?xml version="1.0"?>\n<!-- a-b --><?a ??><!DOCTYPE nfe [<!ENTITY e "x">]>{PAYLOAD}',
]
DOCUMENTS = [
    *("<a/>", '<?xml version="1.0"?>\n<!-- a --><a/>', "<!-- <!DOCTYPE a> --><a/>", "<?a <!DOCTYPE a> ?><a/>"),
    '<a><![CDATA[<?xml version="1.0"?><!DOCTYPE html>]]></a>',
]
CONTROL = [r"E'a\nb'", r"E'a\rb'", r"E'a\tb'", r"E'a\x1bb'"]
REFUSED = [
    *(("p_worker", f"reservar({name})") for name in [*BLANK, "repeat('x', 201)"]),
    *(("p_lote", f"reservar('worker-a', {count})") for count in COUNTS),
    *(("p_prazo", f"reservar('worker-a', 1, {lease})") for lease in LEASES),
    *(("p_prazo", f"renovar(1, 1, {lease})") for lease in LEASES),
    *(("p_prazo", f"renovar_lote('{{1}}', '{{1}}', {lease})") for lease in LEASES),
    *(("p_documentos", f"renovar_lote({batch}, '{{1,2}}')") for batch in ("NULL", "'{1,NULL}'", "'{1,1}'", "'{{1,2}}'")),
    *(("p_tokens", f"renovar_lote('{{1,2}}', {tokens})") for tokens in ("NULL", "'{1}'", "'{1,NULL}'", "'{{1,2}}'")),
    *(("stage", f"registrar_etapa(1, 1, {stage})") for stage in ("NULL", "''", "'confirmando'", "'chamado'", BIG)),
    *(("p_prazo", f"registrar_etapa(1, 1, 'desconhecido', p_prazo => {lease})") for lease in LEASES),
    *(("p_referencia", f"registrar_etapa(2, 2, 'obtido', {reference})") for reference in [*BLANK, "repeat('x', 201)"]),
    *(("p_referencia", f"concluir(2, 2, {reference})") for reference in [*BLANK[1:], "repeat('x', 201)"]),
    *(("p_documentos", f"concluir_lote({batch}, '{{1,2}}')") for batch in ("NULL", "'{1,NULL}'", "'{1,1}'")),
    ("p_documentos", "concluir_lote((SELECT array_agg(n) FROM generate_series(1, 1001) AS n), '{1}')"),
    ("p_documentos", "concluir_lote('{{1,2}}', '{1,2}')"),
    ("p_tokens", "concluir_lote('{1,2}', '{{1,2}}')"),
    ("p_referencias", "concluir_lote('{1,2}', '{1,2}', '{{R1,R2}}')"),
    *(("p_tokens", f"concluir_lote('{{1,2}}', {tokens})") for tokens in ("NULL", "'{1}'", "'{1,2,3}'", "'{1,NULL}'")),
    *(("p_referencias", f"concluir_lote('{{1,2}}', '{{1,2}}', '{these}')") for these in ("{}", "{R1}", "{R1,R2,R3}")),
    *(
        ("p_referencia", f"concluir_lote('{{1,2}}', '{{1,2}}', ARRAY[NULL, {reference}])")
        for reference in [*BLANK[1:], "repeat('x', 201)"]
    ),
    *(("p_categoria", f"falhar(1, 1, {category}, 'motivo')") for category in ("NULL", "''", "'queda'", "'CONTEUDO'", BIG)),
    *(("p_motivo", f"falhar(1, 1, 'sistemico', {reason})") for reason in BLANK),
    *(("p_motivo", f"conciliar(1, 1, {reason})") for reason in BLANK),
    *(("p_quem", f"recuperar({name})") for name in [*BLANK, "repeat('x', 201)"]),
    *(("p_motivo", f"recuperar('vigia', {reason})") for reason in BLANK),
    *(("p_limite", f"recuperar('vigia', 'motivo', {count})") for count in COUNTS),
    *(("p_quem", f"{command}(7, 0, {name}, 'motivo')") for command in ("pausar", "retomar") for name in BLANK),
    *(("p_quem", f"confirmar(6, 2, 'R1', {name}, 'motivo')") for name in [*BLANK, "repeat('x', 201)"]),
    *(("p_quem", f"reenfileirar(5, 2, {name}, 'motivo')") for name in BLANK),
    *(("p_motivo", f"{command}(7, 0, 'ana', {reason})") for command in ("pausar", "retomar") for reason in BLANK),
    *(("p_motivo", f"confirmar(6, 2, 'R1', 'ana', {reason})") for reason in BLANK),
    *(("p_motivo", f"reenfileirar(5, 2, 'ana', {reason})") for reason in BLANK),
    *(("p_referencia", f"confirmar(6, 2, {reference}, 'ana', 'motivo')") for reference in [*BLANK, "repeat('x', 201)"]),
    *(("p_mais_tentativas", f"reenfileirar(5, 2, 'ana', 'motivo', {count})") for count in COUNTS),
    *(("p_chave", f"enfileirar({key}, 'a.xml', '{PAYLOAD}')") for key in [*BLANK, *CONTROL, BIG]),
    *(("p_nome_arquivo", f"enfileirar('D', {name}, '{PAYLOAD}')") for name in [*BLANK, BIG]),
    ("p_conteudo_xml", "enfileirar('D', 'd.xml', NULL)"),
    *(
        ("p_chaves", f"enfileirar_lote({keys}, '{{a.xml}}', '{{<a/>}}')")
        for keys in ("NULL", "'{{D}}'", "(SELECT array_agg(n::TEXT) FROM generate_series(1, 1001) AS n)")
    ),
    *(
        ("p_nomes_arquivo", f"enfileirar_lote('{{D,E}}', {names}, '{{<a/>,<a/>}}')")
        for names in ("NULL", "'{a.xml}'", "'{{a.xml,b.xml}}'")
    ),
    *(
        ("p_conteudos", f"enfileirar_lote('{{D,E}}', '{{a.xml,b.xml}}', {contents})")
        for contents in ("NULL", "'{<a/>}'", "'{{<a/>,<a/>}}'")
    ),
    *(("p_conteudo_xml", f"enfileirar('D', 'd.xml', '{content}')") for content in NO_DOCUMENT),
    *(
        ("p_inquilino", f"enfileirar('D', 'd.xml', '{PAYLOAD}', {tenant})")
        for tenant in [*BLANK, *CONTROL, "repeat('x', 201)", "'a/b'"]
    ),
    *(
        ("p_disponivel_em", f"enfileirar('D', 'd.xml', '{PAYLOAD}', 'padrao', {moment})")
        for moment in ("'infinity'", "'-infinity'")
    ),
    *(
        ("p_max_tentativas", f"enfileirar('D', 'd.xml', '{PAYLOAD}', 'padrao', NULL, {count})")
        for count in COUNTS[1:]
    ),
]  # fmt: skip


def test_a_batch_of_documents_comes_in_whole_or_not_at_all(queue: psycopg.Connection) -> None:
    batch = "enfileirar_lote('{F,NFE-0001,E}', '{f.xml,a.xml,e.xml}', %(contents)s::TEXT[]::XML[])"
    known = rows(queue, "(SELECT conteudo_xml::TEXT FROM fila_documentos WHERE chave = 'NFE-0001') AS known")[0][0]
    given = rows(queue, batch, contents=["<f/>", known, "<e/>"])
    assert [(key, new) for key, _, new in given] == [("E", True), ("F", True), ("NFE-0001", False)]
    assert rows(queue, batch, contents=["<f/>", known, "<e/>"]) == [(key, number, False) for key, number, _ in given]
    before = everything(queue)
    queue.execute("SAVEPOINT before")
    with pytest.raises(psycopg.Error, match="under the key E another content came before") as refused:
        rows(queue, "enfileirar_lote('{A1,E}', '{a.xml,b.xml}', '{<a/>,<other/>}')")
    assert refused.value.sqlstate == "QL001"
    queue.execute("ROLLBACK TO before")
    assert everything(queue) == before


@pytest.mark.parametrize(("named", "call"), REFUSED, ids=[call.replace(CANARY, "…") for _, call in REFUSED])
def test_bad_input_is_refused_by_name_and_changes_nothing(queue: psycopg.Connection, named: str, call: str) -> None:
    before = everything(queue)
    queue.execute("SAVEPOINT before")
    with pytest.raises(psycopg.errors.DataError) as refused:
        rows(queue, call)
    queue.execute("ROLLBACK TO before")
    assert refused.value.sqlstate == "22023"
    assert named in str(refused.value.diag.message_primary)
    assert len(str(refused.value)) < 1000
    assert CANARY not in str(refused.value), "the payload is told to whoever reads the error"
    assert everything(queue) == before


@pytest.mark.parametrize(
    "call",
    [
        "falhar(1, 1, 'sistemico', %(reason)s)",
        "conciliar(1, 1, %(reason)s)",
        f"pausar({WAITING}, 0, 'ana', %(reason)s)",
        f"reenfileirar({FAILED}, 2, 'ana', %(reason)s)",
    ],
)
def test_a_reason_of_a_megabyte_is_kept_as_a_line(queue: psycopg.Connection, call: str) -> None:
    assert len(rows(queue, call, reason=MEGABYTE)) == 1
    kept = queue.execute(
        "SELECT max(length(ultimo_erro)), (SELECT max(length(por_que)) FROM auditoria) FROM fila_documentos"
    ).fetchone()
    assert kept is not None
    assert max(length or 0 for length in kept) <= 200


def test_a_recovery_for_a_reason_of_a_megabyte_keeps_a_line(queue: psycopg.Connection) -> None:
    move(queue, "1 hour")
    assert len(rows(queue, "recuperar('vigia', %(reason)s)", reason=MEGABYTE)) == 2
    assert queue.execute("SELECT max(length(ultimo_erro)) FROM fila_documentos").fetchone() == (200,)


@pytest.mark.parametrize("attempts", [1, 40, 2_000_000_000])
def test_the_delay_is_bounded_however_many_attempts_there_were(queue: psycopg.Connection, attempts: int) -> None:
    held = queue.execute("SELECT recuo(%s) BETWEEN '0.5 seconds' AND '5 minutes'", [attempts]).fetchone()
    assert held == (True,)


def test_a_key_that_is_there_already_changes_nothing(queue: psycopg.Connection) -> None:
    before = everything(queue)
    assert rows(queue, "enfileirar('NFE-0001', 'other.xml', '<other/>', 'padrao', NULL, 2)") == [(1, False)]
    assert everything(queue) == before


@pytest.mark.parametrize("content", DOCUMENTS)
def test_one_root_without_a_doctype_is_a_document(queue: psycopg.Connection, content: str) -> None:
    assert len(rows(queue, "enfileirar('D', 'd.xml', %(content)s)", content=content)) == 1


@pytest.mark.parametrize("moment", ["4713-01-01 BC", "2026-01-01", None])
def test_a_document_is_due_at_once_and_never_before(queue: psycopg.Connection, moment: str | None) -> None:
    """One that could be due long ago would be claimed before all others for ever."""
    ((document, _),) = rows(queue, "enfileirar('D', 'd.xml', '<a/>', 'padrao', %(moment)s)", moment=moment)
    assert rows(
        queue, "fila_documentos WHERE documento_id = %(document)s AND disponivel_em = criado_em", document=document
    )


def test_a_result_is_recorded_once_under_one_reference(queue: psycopg.Connection) -> None:
    for _ in range(2):
        assert len(rows(queue, "registrar_etapa(2, 2, 'obtido', 'R1')")) == 1
    before = everything(queue)
    for call in (
        "registrar_etapa(2, 2, 'obtido', 'R2')",
        "concluir(2, 2, 'R2')",
        "concluir_lote('{2}', '{2}', '{R2}')",
    ):
        queue.execute("SAVEPOINT before")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="known already"):
            rows(queue, call)
        queue.execute("ROLLBACK TO before")
    assert everything(queue) == before
    assert len(rows(queue, "concluir(2, 2, 'R1')")) == 1


def test_a_confirmation_never_replaces_a_reference(queue: psycopg.Connection) -> None:
    rows(queue, f"registrar_etapa({UNKNOWN}, 2, 'obtido', 'R1')")
    rows(queue, f"conciliar({UNKNOWN}, 2, 'the sums differ')")
    version = version_of(queue, UNKNOWN)
    queue.execute("SAVEPOINT before")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="known already"):
        rows(queue, f"confirmar({UNKNOWN}, {version}, 'R2', 'ana', 'motivo')")
    queue.execute("ROLLBACK TO before")
    assert rows(queue, f"confirmar({UNKNOWN}, {version}, 'R1', 'ana', 'motivo')")
    assert queue.execute("SELECT referencia_externa FROM examinar(%s)", [UNKNOWN]).fetchone() == ("R1",)


def test_a_renewal_never_shortens(queue: psycopg.Connection) -> None:
    deadline = "SELECT reservado_ate FROM fila_documentos WHERE documento_id = 1"
    ((longest,),) = rows(queue, "(SELECT reservado_ate FROM renovar(1, 1, '10 minutes')) AS renewed")
    for shorter in ("30 seconds", "1 microsecond"):
        assert rows(queue, f"renovar(1, 1, '{shorter}')") == [(1, longest)]
    assert queue.execute(deadline.encode()).fetchone() == (longest,)
    ((longer,),) = rows(queue, "(SELECT reservado_ate FROM renovar(1, 1, '11 minutes')) AS renewed")
    assert isinstance(longest, datetime) and isinstance(longer, datetime)
    assert longer > longest


# A batch


def test_a_batch_is_renewed_a_row_for_each_and_waits_for_no_lock(grown: str) -> None:
    call = "SELECT documento_id, resultado FROM sql_semana_12.renovar_lote(%s, %s, %s, %s)"
    with psycopg.connect(grown, autocommit=True) as worker, psycopg.connect(grown) as stranger:
        claims = worker.execute("SELECT documento_id, token_reserva FROM sql_semana_12.reservar('w', 3)").fetchall()
        documents, tokens = [each[0] for each in claims], [each[1] for each in claims]

        def renewed(lease: str = "5 minutes", tenant: str | None = None) -> dict[int, str]:
            return dict(worker.execute(call, [[*documents, 99], [*tokens, 1], lease, tenant]).fetchall())

        assert renewed() == {1: "renovada", 2: "renovada", 3: "renovada", 99: "recusada"}
        deadline = (
            "SELECT min(reservado_ate), max(renovacoes) FROM sql_semana_12.fila_documentos WHERE documento_id <= 3"
        )
        ((longest, times),) = worker.execute(deadline.encode()).fetchall()
        renewed("1 second")
        assert worker.execute(deadline.encode()).fetchone() == (longest, times + 1)
        assert renewed(tenant="outro") == dict.fromkeys([1, 2, 3, 99], "recusada")
        stranger.execute("SELECT FROM sql_semana_12.fila_documentos WHERE documento_id = 2 FOR UPDATE")
        worker.execute("SET lock_timeout = '5s'")
        assert renewed() == {1: "renovada", 2: "ocupada", 3: "renovada", 99: "recusada"}
        stranger.rollback()
        worker.execute("SELECT FROM sql_semana_12.concluir(1, %s)", [tokens[0]])
        assert renewed() == {1: "recusada", 2: "renovada", 3: "renovada", 99: "recusada"}
        worker.execute("UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = INTERVAL '15 minutes'")
        assert renewed() == dict.fromkeys([1, 2, 3, 99], "recusada")
        assert worker.execute(call, [[], [], "1 second", None]).fetchall() == []


def test_what_was_not_begun_is_given_back_three_times_for_nothing(grown: str) -> None:
    claim = "SELECT token_reserva, tentativas FROM sql_semana_12.reservar('w')"
    with psycopg.connect(grown, autocommit=True) as worker:
        worker.execute("DELETE FROM sql_semana_12.fila_documentos WHERE documento_id > 1")
        before = worker.execute("SELECT disponivel_em FROM sql_semana_12.fila_documentos").fetchone()
        for charged in (0, 0, 0, 1, 2, 3, 4):
            ((token, attempts),) = worker.execute(claim.encode()).fetchall()
            ((status, left),) = worker.execute(
                "SELECT status, tentativas FROM sql_semana_12.devolver(1, %s)", [token]
            ).fetchall()
            assert (attempts, status, left) == (max(charged, 1), "pendente", charged)
            assert worker.execute("SELECT disponivel_em FROM sql_semana_12.fila_documentos").fetchone() == before
            assert worker.execute("SELECT FROM sql_semana_12.devolver(1, %s)", [token]).fetchall() == []
        ((token, _),) = worker.execute(claim.encode()).fetchall()
        assert worker.execute("SELECT status FROM sql_semana_12.devolver(1, %s)", [token]).fetchall() == [("falhou",)]


def test_what_was_begun_is_not_given_back(queue: psycopg.Connection) -> None:
    rows(queue, f"registrar_etapa({IN_WORK}, 1, 'desconhecido')")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has begun"):
        rows(queue, f"devolver({IN_WORK}, 1)")


def test_a_batch_finishes_what_is_its_own_and_leaves_the_rest_as_it_is(queue: psycopg.Connection) -> None:
    before = everything(queue)
    assert rows(queue, "concluir_lote('{}', '{}')") == []
    assert rows(queue, f"concluir_lote('{{99,{IN_WORK},{FINISHED}}}', '{{5,2,3}}')") == []
    assert rows(queue, f"concluir_lote('{{{IN_WORK}}}', '{{1}}', NULL, 'another')") == []
    assert everything(queue) == before
    batch = f"concluir_lote('{{99,{WAITING},{UNKNOWN},{FINISHED},{IN_WORK}}}', '{{5,1,2,3,1}}', '{{A,B,R1,D,NULL}}', 'padrao')"
    assert sorted(rows(queue, batch)) == [(IN_WORK, "concluido", 2), (UNKNOWN, "concluido", 3)]
    assert rows(queue, batch) == []
    left = "SELECT etapa, referencia_externa FROM fila_documentos WHERE documento_id <= 2 ORDER BY documento_id"
    assert queue.execute(left.encode()).fetchall() == [("nao_chamado", None), ("obtido", "R1")]


@pytest.mark.parametrize(
    ("documents", "tokens", "references"),
    [
        ("{1,2}", "{1,2}", "{R1,R2}"),
        ("{2,1}", "{2,1}", "{R2,R1}"),
        ("[0:1]={1,2}", "{1,2}", "{R1,R2}"),
        ("{1,2}", "[-5:-4]={1,2}", "[7:8]={R1,R2}"),
    ],
)
def test_a_batch_takes_arrays_by_order_and_never_by_subscript(
    queue: psycopg.Connection, documents: str, tokens: str, references: str
) -> None:
    assert len(rows(queue, f"concluir_lote('{documents}', '{tokens}', '{references}')")) == 2
    kept = "SELECT documento_id, etapa, referencia_externa FROM fila_documentos WHERE documento_id <= 2 ORDER BY documento_id"
    assert queue.execute(kept.encode()).fetchall() == [(1, "obtido", "R1"), (2, "obtido", "R2")]


def test_a_batch_with_one_of_unknown_result_changes_nothing(queue: psycopg.Connection) -> None:
    before = everything(queue)
    queue.execute("SAVEPOINT before")
    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match=f"document {UNKNOWN}: the result of the call"
    ):
        rows(queue, "concluir_lote('{2,1}', '{2,1}', '{NULL,R1}')")
    queue.execute("ROLLBACK TO before")
    assert everything(queue) == before


@pytest.mark.parametrize("reference", ["NULL", "'R1'"])
def test_a_batch_leaves_what_the_finish_of_one_leaves(queue: psycopg.Connection, reference: str) -> None:
    queue.execute(
        "UPDATE fila_documentos SET ultimo_erro = 'antigo', categoria_erro = 'sistemico' WHERE documento_id = 1"
    )
    left = []
    for call in (f"concluir(1, 1, {reference})", f"concluir_lote('{{1}}', '{{1}}', ARRAY[{reference}])"):
        queue.execute("SAVEPOINT before")
        answer = rows(queue, call)
        row = "SELECT to_jsonb(f) - ARRAY['conteudo_xml', 'concluido_em'] FROM fila_documentos AS f WHERE documento_id = 1"
        audit = "SELECT to_jsonb(a) - 'quando' FROM auditoria AS a ORDER BY a.quando, documento_id, versao"
        times = "SELECT f.concluido_em = a.quando FROM fila_documentos AS f INNER JOIN auditoria AS a USING (documento_id, versao)"
        left.append(
            [
                answer,
                *(
                    queue.execute(query.encode()).fetchall()
                    for query in (row, audit, f"{times} WHERE documento_id = 1")
                ),
            ]
        )
        queue.execute("ROLLBACK TO before")
    assert left[0] == left[1]
    assert left[0][-1] == [(True,)]


# A clock that is moved backwards


def move(queue: psycopg.Connection, by: str) -> None:
    queue.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + %s::INTERVAL", [by])


@pytest.mark.parametrize("by", ["-1 second", "-1 hour", "-1000 years"])
def test_a_clock_moved_backwards_takes_no_document_from_its_owner(queue: psycopg.Connection, by: str) -> None:
    deadline = "SELECT reservado_ate FROM fila_documentos WHERE documento_id = 1"
    ((granted,),) = rows(queue, f"({deadline}) AS granted")
    move(queue, by)
    assert rows(queue, "recuperar('vigia')") == []
    ((renewed,),) = rows(queue, "(SELECT reservado_ate FROM renovar(1, 1)) AS renewed")
    assert rows(queue, "situacao")[0][2:4] == (2, 0), "two in work, none an orphan"
    assert isinstance(granted, datetime) and isinstance(renewed, datetime)
    assert renewed >= granted, "a renewal never shortens"
    assert rows(queue, "concluir(1, 1)") != []


def test_a_clock_moved_backwards_lets_no_attempt_run_longer_than_it_was_moved(queue: psycopg.Connection) -> None:
    move(queue, "-1 hour")
    move(queue, "1 hour 14 minutes")
    assert rows(queue, "renovar(1, 1, '10 minutes')") != []
    move(queue, "1 minute")
    assert rows(queue, "renovar(1, 1, '10 minutes')") == []
    assert len(rows(queue, "recuperar('vigia')")) == 2


# A clock that is read after the wait

FAILED_ONCE = "SELECT status FROM falhar(1, 1, 'sistemico', 'motivo')"
FOR_PEOPLE = "SELECT status FROM conciliar(1, 1, 'motivo')"
LATE = "UPDATE relogio_do_laboratorio SET adiantado = INTERVAL '1 hour'"
WAITERS = {  # what goes before, and the call that then waits for document 1
    "renovar": ("SELECT", "renovar(1, 1)"),
    "registrar_etapa": ("SELECT", "registrar_etapa(1, 1, 'desconhecido')"),
    "concluir": ("SELECT", "concluir(1, 1)"),
    "concluir_lote": ("SELECT", "concluir_lote(ARRAY[1], ARRAY[1])"),
    "concluir_e_reservar": ("SELECT", "concluir_e_reservar(ARRAY[1], ARRAY[1], NULL, 'worker-b')"),
    "devolver": ("SELECT", "devolver(1, 1)"),
    "falhar": ("SELECT", "falhar(1, 1, 'sistemico', 'motivo')"),
    "conciliar": ("SELECT", "conciliar(1, 1, 'motivo')"),
    "pausar": (FAILED_ONCE, "pausar(1, 2, 'ana', 'motivo')"),
    "confirmar": (FOR_PEOPLE, "confirmar(1, 2, 'R1', 'ana', 'motivo')"),
    "reenfileirar": (FOR_PEOPLE, "reenfileirar(1, 2, 'ana', 'motivo')"),
}
WAIT = """\
-- @builds_on {state}
-- @step a_claims A
SELECT documento_id FROM reservar('worker-a');
-- @step a_prepares A
{before};
-- @step b_begin B
BEGIN;
-- @step b_locks B
{lock};
-- @step a_waits A blocks B
SELECT documento_id FROM {call};
-- @step c_moves C
UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '10 minutes';
-- @step b_commits B
COMMIT;
-- @ends a_waits
-- @step c_looks C
{look};
"""
ROW_LOCK = "SELECT documento_id FROM fila_documentos WHERE documento_id = 1 FOR UPDATE"
TABLE_LOCK = "LOCK TABLE fila_documentos IN ACCESS EXCLUSIVE MODE"
RENEWED = "SELECT reservado_ate - iniciado_em > '10 minutes' FROM fila_documentos WHERE documento_id = 1"
AUDITED = "SELECT max(quando) - min(quando) >= '{}' FROM auditoria WHERE documento_id = 1"


def waited(conninfo: str, **parts: str) -> str | None:
    """What the look answers after a call that had to wait, while the clock moved ten minutes."""
    told = parsed(WAIT.format(**parts))
    schema.build(conninfo, told.state)
    with nothing_left(conninfo):
        played = play(told, conninfo)
    assert played.failure is None
    assert (played["a_waits"].value, played["a_waits"].waited_for) == ("1", ("B",))
    return played["c_looks"].value


@pytest.mark.parametrize(("before", "call"), WAITERS.values(), ids=WAITERS)
def test_what_had_to_wait_for_a_row_is_of_after_the_wait(module_database: str, before: str, call: str) -> None:
    look = RENEWED if call.startswith("renovar") else AUDITED.format("10 minutes")
    parts = {"before": before, "lock": ROW_LOCK, "call": call, "look": look}
    assert waited(module_database, state="10_operators", **parts) == "t"


@pytest.mark.parametrize("state", ["06_token", "08_failures", "09_effects", "10_operators"])
def test_a_recovery_that_had_to_wait_for_the_table_is_of_after_the_wait(module_database: str, state: str) -> None:
    parts = {"before": LATE, "lock": TABLE_LOCK, "call": "recuperar('vigia')", "look": AUDITED.format("70 minutes")}
    assert waited(module_database, state=state, **parts) == "t"


# The rules of the house

FUNCTIONS = """
SELECT
    p.proname, l.lanname, p.proretset, coalesce(p.proconfig, '{}'), p.prosrc,
    coalesce(obj_description(p.oid, 'pg_proc'), ''), p.prokind::TEXT
FROM pg_proc AS p
INNER JOIN pg_language AS l ON l.oid = p.prolang
WHERE p.pronamespace = 'sql_semana_12'::REGNAMESPACE
ORDER BY p.proname, p.oid
"""
CLOCKS = r"\b(now\s*\(|(clock|statement|transaction)_timestamp|current_(time|timestamp|date)|localtime|timeofday)|'now'"
FORBIDDEN = {
    "an advisory lock": r"advisory",
    "a notification": r"notify\b|\blisten\b",
    "a setting of the session": r"\bset_config\b|(^|;|\bBEGIN|\bTHEN|\bELSE|\bLOOP)\s*(SET|RESET)\b|\bSET\s+(LOCAL|SESSION)\b",
    "a transaction of its own": r"\b(COMMIT|ROLLBACK)\b",
}


@pytest.fixture(scope="module", params=range(FIRST_STATE, STATE + 1))
def state(request: pytest.FixtureRequest, module_database: str) -> str:
    """The conninfo of a database with the queue in each state that has the protocol."""
    schema.build(module_database, request.param)
    return module_database


# What sql/plans.sql gives the functions of the workers.
PLANS = {"plan_cache_mode=force_generic_plan", "enable_sort=off", "enable_seqscan=off", "jit=off"}


def broken_rules(functions: list[tuple[object, ...]]) -> list[str]:
    """What the functions do that no function of the protocol may; the rows are those of FUNCTIONS."""
    wrong = []
    for name, language, _, config, source, _, kind in functions:
        # The SET of an UPDATE is no setting.
        text = re.sub(r"(UPDATE [^;]*?)\bSET\b", r"\1", str(source))
        if (language, kind) != ("plpgsql", "f"):
            wrong.append(f"{name} is in {language}, of kind {kind}")
        if (
            not isinstance(config, list)
            or config[:1] != ["search_path=pg_catalog, pg_temp"]
            or not set(config[1:]) <= PLANS
        ):
            wrong.append(f"{name} has the settings {config}")
        if name != "relogio" and re.search(CLOCKS, text, re.IGNORECASE):
            wrong.append(f"{name} reads a clock of its own")
        if "\\" in re.sub(r"\bE'([^'\\]|''|\\.)*'", "''", str(source), flags=re.DOTALL):
            wrong.append(f"{name} has a backslash whose meaning is a setting of the session")
        wrong += [f"{name} holds {what}" for what, found in FORBIDDEN.items() if re.search(found, text, re.IGNORECASE)]
    return wrong


def test_the_functions_keep_the_rules_of_the_house(state: str) -> None:
    functions = fetch(state, FUNCTIONS)
    names = [name for name, *_ in functions]
    assert len(names) == len(set(names)), "more than one overload of a name"
    assert broken_rules(functions) == []


def guard(source: str) -> str:
    """The condition under which a document is locked, without its spaces."""
    found = re.search(r"WHERE\s+(.*?)\s+(ORDER BY|FOR NO KEY UPDATE)", source, re.DOTALL)
    assert found is not None
    return " ".join(found[1].split())


def test_the_guard_of_a_batch_is_the_one_guard(state: str) -> None:
    sources = {name: str(source) for name, _, _, _, source, *_ in fetch(state, FUNCTIONS)}
    for batch in {"concluir_lote", "renovar_lote"} & sources.keys():
        lock = sources[batch].partition("CROSS JOIN LATERAL")[2]
        assert guard(lock) == guard(sources["travar"])
        assert "p_token" in guard(lock)


@pytest.mark.parametrize(
    "body",
    [
        "BEGIN RETURN now(); END",
        "BEGIN RETURN Current_Timestamp; END",
        "BEGIN RETURN localtimestamp; END",
        "BEGIN RETURN clock_timestamp(); END",
        "BEGIN RETURN 'now'::timestamptz; END",
        "BEGIN PERFORM pg_advisory_xact_lock(1); END",
        "BEGIN NOTIFY fila; END",
        "BEGIN PERFORM pg_notify('fila', ''); END",
        "BEGIN\n    SET work_mem = '1GB'; END",
        "BEGIN UPDATE t SET a = 1; SET LOCAL work_mem = '1GB'; END",
        "BEGIN PERFORM set_config('work_mem', '1GB', true); END",
        "BEGIN COMMIT; END",
        r"BEGIN RETURN p_motivo ~ '\S'; END",
        r"BEGIN RETURN regexp_replace(p_motivo, E'\\S', '\1'); END",
    ],
)
def test_a_function_that_breaks_a_rule_is_found_out(body: str) -> None:
    settings = ["search_path=pg_catalog, pg_temp"]
    assert len(broken_rules([("reservar", "plpgsql", True, settings, body, "", "f")])) == 1


def test_every_function_and_view_says_what_it_promises_and_what_zero_rows_mean(state: str) -> None:
    functions = fetch(state, FUNCTIONS)
    assert [name for name, *_, comment, _ in functions if not comment] == []
    assert [
        name
        for name, _, many, *_, comment, _ in functions
        if many and not re.search("Zero rows|One row, always", str(comment))
    ] == []
    views = fetch(
        state,
        "SELECT relname, coalesce(obj_description(oid, 'pg_class'), '') FROM pg_class"
        " WHERE relkind = 'v' AND relnamespace = 'sql_semana_12'::REGNAMESPACE",
    )
    assert views
    assert [name for name, comment in views if not re.search(r"Zero rows|^One row:", str(comment))] == []


def test_there_are_no_triggers_and_no_rules(state: str) -> None:
    assert (
        fetch(
            state,
            "SELECT tgname::TEXT FROM pg_trigger WHERE NOT tgisinternal UNION ALL"
            " SELECT rulename FROM pg_rewrite WHERE rulename <> '_RETURN' AND ev_class IN"
            " (SELECT oid FROM pg_class WHERE relnamespace = 'sql_semana_12'::REGNAMESPACE)",
        )
        == []
    )


def test_no_default_but_that_of_criado_em_reads_a_clock(state: str) -> None:
    defaults = fetch(
        state,
        "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef AS d"
        " INNER JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum"
        " INNER JOIN pg_class AS c ON c.oid = d.adrelid WHERE c.relnamespace = 'sql_semana_12'::REGNAMESPACE",
    )
    assert [name for name, text in defaults if re.search(CLOCKS, str(text), re.IGNORECASE)] == ["criado_em"]
