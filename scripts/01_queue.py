"""Lesson 01: what the queue looks like, and what guards its entrance."""

from __future__ import annotations

from datetime import datetime

import psycopg

from lab.base import paths
from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons.lesson import Lesson, Observed
from lab.protocol import loader
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage
from lab.server import psql

lesson = Lesson(
    __file__,
    minutes=8,
    question=Text(
        "What is in the queue, and what keeps a wrong document out?",
        "O que há na fila, e o que impede a entrada de um documento errado?",
    ),
    answer=Text(
        "four pending documents; a second NFE-0001 is refused with 23505",
        "quatro documentos pendentes; um segundo NFE-0001 é recusado com 23505",
    ),
    psql_only=Text("partly (loading files needs ./lab load)", "em parte (carregar arquivos pede ./lab load)"),
)


# Name, type, not null, identity, default: as the episode has them.
COLUMNS = [
    ("documento_id", "bigint", True, "a", None),
    ("chave", "text", True, "", None),
    ("nome_arquivo", "text", True, "", None),
    ("conteudo_xml", "xml", True, "", None),
    ("status", "text", True, "", "'pendente'::text"),
    ("tentativas", "integer", True, "", "0"),
    ("worker_id", "text", False, "", None),
    ("criado_em", "timestamp with time zone", True, "", "clock_timestamp()"),
    ("iniciado_em", "timestamp with time zone", False, "", None),
    ("concluido_em", "timestamp with time zone", False, "", None),
    ("ultimo_erro", "text", False, "", None),
]


# Key, file, the attribute id, value, time at UTC-3, state, attempts.
DOCUMENTS = [
    (f"NFE-000{n}", f"nfe-000{n}.xml", f"NFE-000{n}", f"{n}0{n}.{n}0", datetime(2026, 10, 16, 9, 0, n), "pendente", 0)
    for n in range(1, 5)
]


@lesson.experiment(
    "built",
    "The script builds the episode's table, its partial index over the pending rows, and four pending documents.",
    "O script cria a tabela do episódio, o índice parcial sobre as linhas pendentes e quatro documentos pendentes.",
)
def built(stage: Stage) -> Observed:
    stage.build(1)
    with stage.connection() as connection:
        columns = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity,"
            " pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)"
            " WHERE attrelid = 'fila_documentos'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        index = connection.execute("SELECT pg_get_indexdef('fila_documentos_pendentes_idx'::regclass)").fetchone()
        rules = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'fila_documentos'::regclass"
            " AND contype IN ('p', 'u') ORDER BY contype"
        ).fetchall()
        documents = connection.execute(
            "SELECT chave, nome_arquivo, (xpath('/nfe/@id', conteudo_xml))[1]::text,"
            " (xpath('/nfe/valor/text()', conteudo_xml))[1]::text, criado_em AT TIME ZONE 'America/Sao_Paulo', status, tentativas"
            " FROM fila_documentos ORDER BY criado_em, documento_id"
        ).fetchall()
    assert index
    covers = index[0].split("btree ")[-1]
    pending = sum(status == "pendente" for *_, status, _ in documents)
    total = sum(float(value) for _, _, _, value, *_ in documents)
    return Observed(
        columns == COLUMNS
        and covers == "(criado_em, documento_id) WHERE (status = 'pendente'::text)"
        and rules == [("PRIMARY KEY (documento_id)",), ("UNIQUE (chave)",)]
        and documents == DOCUMENTS,
        "{columns} columns; {pending} pending, {total:2} in all; index {index}",
        "{columns} colunas; {pending} pendentes, {total:2} no total; índice {index}",
        facts={
            "columns": Fact(len(columns), "columns"),
            "pending": Fact(pending, "documents"),
            "total": Fact(total, "reais"),
            "index": Fact(covers),
        },
    )


@lesson.scenario("rules", core=False)
def rules(play: Play) -> Observed:
    steps = ("a_invents_a_state", "a_counts_down", "a_chooses_a_number", "a_insists")
    state, attempts, number, again = (play[step].sqlstate for step in steps)
    after = play["a_looks"]
    return Observed(
        (state, attempts, number, again) == ("23514", "23514", "428C9", "23505")
        and (after.one("documentos"), after.one("status"), after.one("tentativas")) == ("4", "pendente", "0"),
        "a fifth state {sqlstate_state}; negative attempts {sqlstate_attempts}; a number chosen {sqlstate_chosen}, insisted on"
        " {sqlstate_insisted}",
        "um quinto estado {sqlstate_state}; tentativas negativas {sqlstate_attempts}; número escolhido {sqlstate_chosen},"
        " forçado {sqlstate_insisted}",
        facts={
            "sqlstate_state": Fact(state),
            "sqlstate_attempts": Fact(attempts),
            "sqlstate_chosen": Fact(number),
            "sqlstate_insisted": Fact(again),
        },
    )


@lesson.experiment(
    "own_schema",
    "The lab writes into its own schema only: building and using the queue leaves every other table of the database as it was.",
    "O laboratório só escreve no próprio esquema: criar e usar a fila deixa todas as outras tabelas do banco como estavam.",
    core=False,
)
def own_schema(stage: Stage) -> Observed:
    with stage.connection() as connection:
        connection.execute("DROP SCHEMA IF EXISTS lab_erp CASCADE")
        connection.execute("CREATE SCHEMA lab_erp")
        connection.execute("CREATE TABLE lab_erp.notas AS SELECT generate_series(1, 3) AS nota")
        try:
            before = _others(connection)
            stage.build(1)
            written = connection.execute("UPDATE fila_documentos SET status = 'processando', tentativas = 1").rowcount
            after = _others(connection)
        finally:
            connection.execute("DROP SCHEMA lab_erp CASCADE")
    (tables, rows), (tables_after, rows_after) = before, after
    changed = sum(rows.get(key) != rows_after.get(key) for key in rows | rows_after)
    return Observed(
        before == after and written == 4,
        "rows of the queue written: {written}; tables outside the schema: {tables}, made or dropped: {exchanged};"
        " rows changed there: {changed}",
        "linhas da fila gravadas: {written}; tabelas fora do esquema: {tables}, criadas ou removidas: {exchanged};"
        " linhas alteradas nelas: {changed}",
        facts={
            "written": Fact(written, "rows"),
            "tables": Fact(len(tables), "tables"),
            "exchanged": Fact(len(tables ^ tables_after), "tables"),
            "changed": Fact(changed, "rows"),
        },
    )


def _others(connection: psycopg.Connection) -> tuple[set[int], dict[int, str]]:
    """The tables outside the lab's schema, by their oid, and each row's version in the one made for this."""
    tables = connection.execute(
        "SELECT oid FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm') AND relnamespace NOT IN"
        " (SELECT oid FROM pg_namespace WHERE nspname IN ('sql_semana_12', 'pg_toast') OR nspname LIKE 'pg_temp%')"
    ).fetchall()
    versions = connection.execute("SELECT nota, concat(ctid, xmin, xmax) FROM lab_erp.notas").fetchall()
    return {oid for (oid,) in tables}, dict(versions)


@lesson.scenario("duplicate_key")
def duplicate_key(play: Play) -> Observed:
    refused, attempts = play["a_inserts"].sqlstate, whole(play["b_processes"].one("tentativas"))
    return Observed(
        refused == "23505" and attempts == 2,
        "second insert {sqlstate}; document 1 processed by {attempts} workers all the same",
        "segunda inserção: {sqlstate}; mesmo assim, documento 1 processado por {attempts} workers",
        facts={"sqlstate": Fact(refused), "attempts": Fact(attempts, "attempts")},
    )


@lesson.experiment(
    "files",
    "Files load each on its own: malformed, with a DOCTYPE, empty or with a known key they are refused, and the good ones go in.",
    "Os arquivos são carregados um a um: os malformados, vazios, com DOCTYPE ou de chave repetida são recusados; os bons entram.",
)
def files(stage: Stage) -> Observed:
    stage.build(1)
    with stage.connection() as connection:
        connection.execute("TRUNCATE fila_documentos")
        outcomes = loader.load(stage.conninfo, sorted(paths.DOCUMENTS.glob("*.xml")))
        row = connection.execute("SELECT count(*) FROM fila_documentos").fetchone()
    assert row
    loaded = {outcome.path.name for outcome in outcomes if outcome.loaded}
    refused = {outcome.path.name for outcome in outcomes if not outcome.loaded}
    bad = {"nfe-0002-duplicada.xml", "nfe-com-doctype.xml", "nfe-malformada.xml", "nfe-vazia.xml"}
    # The two files of one key: whichever comes first goes in, the other is refused.
    one_of_two = len(refused & {"nfe-0002.xml", "nfe-0002-duplicada.xml"}) == 1
    holds = one_of_two and refused - {"nfe-0002.xml"} | {"nfe-0002-duplicada.xml"} == bad and row[0] == len(loaded) == 8
    reasons = {outcome.reason.en for outcome in outcomes if outcome.reason}
    return Observed(
        holds and len(reasons) == len(refused),
        "{loaded} loaded and {in_table} in the table; {refused} refused for {reasons} different reasons",
        "{loaded} carregados e {in_table} na tabela; {refused} recusados por {reasons} motivos diferentes",
        facts={
            "loaded": Fact(len(loaded), "files"),
            "in_table": Fact(row[0], "documents"),
            "refused": Fact(len(refused), "files"),
            "reasons": Fact(len(reasons), "reasons"),
        },
    )


@lesson.experiment(
    "byte_order_mark",
    "A text that begins with a byte-order mark is refused by the server (2200M); the loader drops the mark and it goes in.",
    "Um texto que começa com marca de ordem de bytes (BOM) é recusado pelo servidor (2200M); o carregador a remove e ele entra.",
)
def byte_order_mark(stage: Stage) -> Observed:
    stage.build(1)
    path = paths.DOCUMENTS / "nfe-com-marca-de-ordem.xml"
    with stage.connection() as connection:
        raw = path.read_bytes().decode("utf-8")
        sqlstate = _refusal(connection, "SELECT xmlparse(DOCUMENT %s)", raw)
    (outcome,) = loader.load(stage.conninfo, [path])
    return Observed(
        raw.startswith("\ufeff") and sqlstate == "2200M" and outcome.loaded,
        "as it is: {sqlstate}; loaded by the loader: {loaded}",
        "como está: {sqlstate}; entra pelo carregador: {loaded}",
        facts={"sqlstate": Fact(sqlstate), "loaded": Fact(outcome.loaded)},
    )


@lesson.experiment(
    "reset",
    "reset.sql puts every document back to pendente, with no attempt, worker or error left.",
    "reset.sql volta todos os documentos para pendente, sem tentativa, worker nem erro.",
)
def reset(stage: Stage) -> Observed:
    stage.build(1)
    untouched = (
        "SELECT count(*) FROM fila_documentos WHERE status = 'pendente' AND tentativas = 0"
        " AND coalesce(worker_id, ultimo_erro, iniciado_em::text, concluido_em::text) IS NULL"
    )
    with stage.connection() as connection:
        connection.execute(
            "UPDATE fila_documentos SET status = 'falhou', tentativas = 3, worker_id = 'worker-a',"
            " iniciado_em = clock_timestamp(), concluido_em = clock_timestamp(), ultimo_erro = 'valor ausente'"
        )
        before = connection.execute(untouched).fetchone()
        psql.run_scripts(stage.conninfo, paths.SQL / "reset.sql")
        after = connection.execute(untouched).fetchone()
    assert before and after
    return Observed(
        before[0] == 0 and after[0] == 4,
        "as new before: {new_before}, after: {new_after}",
        "como novos antes: {new_before}; depois: {new_after}",
        facts={"new_before": Fact(before[0], "documents"), "new_after": Fact(after[0], "documents")},
    )


@lesson.scenario("xml_has_no_equality", core=False)
def xml_has_no_equality(play: Play) -> Observed:
    states = [play[step].sqlstate for step in ("a_compares", "a_distinct", "a_unique")]
    refused = "= {sqlstate_equals}, DISTINCT {sqlstate_distinct}, UNIQUE {sqlstate_unique}"
    names = ("sqlstate_equals", "sqlstate_distinct", "sqlstate_unique")
    return Observed(
        states == ["42883", "42883", "42704"],
        refused,
        refused,
        facts={name: Fact(state) for name, state in zip(names, states, strict=True)},
    )


@lesson.scenario("external_entity", core=False)
def external_entity(play: Play) -> Observed:
    value, stored = play["a_reads"].one("valor"), flag(play["a_reads"].one("doctype_gravado"))
    return Observed(
        value == "" and stored is True,
        "value '{value}', DOCTYPE stored: {doctype_stored}",
        "valor '{value}', DOCTYPE gravado: {doctype_stored}",
        facts={"value": Fact(value), "doctype_stored": Fact(stored)},
    )


@lesson.experiment(
    "doctype_refused",
    "The loader refuses a DOCTYPE although the server would take the document.",
    "O carregador recusa um DOCTYPE, embora o servidor aceitasse o documento.",
    core=False,
)
def doctype_refused(stage: Stage) -> Observed:
    stage.build(1)
    path = paths.DOCUMENTS / "nfe-com-doctype.xml"
    with stage.connection() as connection:
        by_server = _refusal(connection, "SELECT xmlparse(DOCUMENT %s)", path.read_text(encoding="utf-8"))
    (outcome,) = loader.load(stage.conninfo, [path])
    return Observed(
        by_server is None and not outcome.loaded,
        "taken by the server: {server_takes}; by the loader: {loader_takes} ({reason})",
        "aceito pelo servidor: {server_takes}; pelo carregador: {loader_takes} ({reason})",
        facts={
            "server_takes": Fact(by_server is None),
            "loader_takes": Fact(outcome.loaded),
            "reason": Fact(outcome.reason),
        },
    )


@lesson.scenario("content_and_document", core=False)
def content_and_document(play: Play) -> Observed:
    content = [flag(play[step].one("aceito")) for step in ("a_empty_content", "a_two_roots_content")]
    document = [play[step].sqlstate for step in ("a_empty_document", "a_two_roots_document")]
    accepted, refused = content.count(True), document.count("2200M")
    return Observed(
        accepted == refused == 2,
        "CONTENT accepted {accepted} of {given}; DOCUMENT refused {refused} of {given}",
        "CONTENT aceitou {accepted} de {given}; DOCUMENT recusou {refused} de {given}",
        facts={
            "given": Fact(len(content), "texts"),
            "accepted": Fact(accepted, "texts"),
            "refused": Fact(refused, "texts"),
        },
    )


@lesson.scenario("namespace", core=False)
def namespace(play: Play) -> Observed:
    without, found = (whole(play[step].one("encontrados")) for step in ("a_without", "a_with"))
    return Observed(
        (without, found) == (0, 1),
        "found without mapping {found_without}, with mapping {found_with}",
        "encontrados sem o mapeamento: {found_without}; com ele: {found_with}",
        facts={"found_without": Fact(without, "elements"), "found_with": Fact(found, "elements")},
    )


@lesson.scenario("malformed", core=False)
def malformed(play: Play) -> Observed:
    document, content = play["a_document"].sqlstate, play["a_content"].sqlstate
    return Observed(
        (document, content) == ("2200M", "2200N"),
        "document {sqlstate_document}, content {sqlstate_content}",
        "documento: {sqlstate_document}; conteúdo: {sqlstate_content}",
        facts={"sqlstate_document": Fact(document), "sqlstate_content": Fact(content)},
    )


@lesson.experiment(
    "detail_shows_document",
    "The server's error DETAIL for malformed XML carries text of the document: mind what is logged.",
    "O DETAIL do erro do servidor para XML malformado traz texto do documento: cuidado com o que vai para o log.",
    core=False,
)
def detail_shows_document(stage: Stage) -> Observed:
    sqlstate, detail = None, ""
    with stage.connection() as connection:
        try:
            connection.execute("SELECT xmlparse(DOCUMENT %s)", ["<nfe><emitente>canary-4711</nfe>"])
        except psycopg.errors.InvalidXmlDocument as error:
            sqlstate, detail = error.sqlstate, error.diag.message_detail or ""
    leaked = "canary-4711" in detail
    return Observed(
        leaked,
        "{sqlstate}; text of the document in the DETAIL: {leaked}",
        "{sqlstate}; texto do documento no DETAIL: {leaked}",
        facts={"sqlstate": Fact(sqlstate), "leaked": Fact(leaked)},
    )


def _refusal(connection: psycopg.Connection, query: str, text: str) -> str | None:
    """The SQLSTATE with which the server refuses the text, None if it takes it."""
    try:
        connection.execute(query.encode(), [text])
    except psycopg.DataError as error:
        return error.sqlstate
    return None
