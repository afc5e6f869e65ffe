"""Lesson 13: an index for what is due: what it saves a claim, what it costs a change of state, and how a query loses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lab.base.facts import Fact
from lab.base.language import Text
from lab.experiments import concurrent_claims, index_forms
from lab.experiments.index_forms import BATCH, DUE, FORMS, FULL, QUICK, TABLE, filled, index
from lab.lessons.lesson import Lesson, Observed
from lab.measure.buffers import explain, tried
from lab.measure.rounds import Void, Way, compare
from lab.scenario.result import Play
from lab.scenario.stage import Stage
from lab.server.open_transactions import wait_for_older_transactions

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "The table is large, and nearly all of it is finished. What index finds the few that are due, and what does it cost?",
        "A tabela é grande, e quase tudo nela já terminou. Que índice acha os poucos que estão na hora, e quanto ele custa?",
    ),
    answer=Text(
        "a partial one: a hundredth of the size, and no more buffers than the full one; every change of state pays for it",
        "um parcial: um centésimo do tamanho, sem ler mais que o completo; toda mudança de estado paga por ele",
    ),
    psql_only=Text("partly (measuring needs ./lab run 13)", "em parte (medir pede ./lab run 13)"),
)

NEW_STATE = DUE.replace("status = 'pendente'", "status IN ('pendente', 'repetir')")
BOTH_STATES = f"ON {TABLE} (disponivel_em, documento_id) WHERE status IN ('pendente', 'repetir')"
BURST = 20_000  # documents due at once, where a backlog is what matters
RENEWED = 2_000  # leases renewed once, all at once
QUEUE_THRESHOLD = 1_000  # dead rows after which a queue table might be vacuumed


def _rows(stage: Stage) -> int:
    return FULL if stage.full else QUICK


@contextmanager
def _burst(stage: Stage) -> Iterator[psycopg.Connection]:
    """The experiment's table with a backlog of BURST documents that are due, and the partial index."""
    with filled(stage.conninfo, _rows(stage)) as connection:
        connection.execute(
            f"UPDATE {TABLE} SET status = 'pendente', concluido_em = NULL WHERE documento_id IN (SELECT documento_id FROM {TABLE}"
            f" WHERE status = 'concluido' ORDER BY documento_id DESC LIMIT {BURST} - (SELECT count(*) FROM {TABLE}"
            " WHERE status = 'pendente'))".encode()
        )
        connection.execute(f"VACUUM (ANALYZE) {TABLE}".encode())
        index(connection, "partial")
        yield connection


def _buffers(**values: int) -> dict[str, Fact]:
    return {name: Fact(value, "buffers") for name, value in values.items()}


@lesson.experiment(
    "due_query",
    "In a large, mostly finished table the query for what is due reads the whole table without an index; a partial index reads no more"
    " than a full one and is a fraction of its size; columns added to cover the query save a claim nothing, since it locks the rows.",
    "Numa tabela grande, quase toda concluída, a consulta do que está na hora lê a tabela inteira sem índice; um índice parcial não lê"
    " mais que um completo e tem uma fração do tamanho; cobrir a consulta com mais colunas não poupa nada, pois a reserva bloqueia as"
    " linhas.",
)
def due_query(stage: Stage) -> Observed:
    with filled(stage.conninfo, _rows(stage)) as connection:
        sizes = {form: index(connection, form) / 1024 for form in FORMS}
        seen = {}
        for form in FORMS:
            index(connection, form)
            tried(connection, DUE)
            seen[form] = tried(connection, DUE)
    none, full, partial, covering = (seen[form].buffers for form in FORMS)
    return Observed(
        none > 50 * full
        and partial <= full
        and covering >= partial
        and sizes["partial"] < sizes["full"] / 20
        and all(each.rows == BATCH for each in seen.values())
        and not seen["none"].index
        and all(seen[form].index for form in ("full", "partial", "covering")),
        "buffers for {batch} due of {rows}: no index {none} ({node}, {none_ms:2} ms), full {full} ({full_ms:2} ms; {full_kb} kB), partial"
        " {partial} ({partial_ms:2} ms; {partial_kb} kB), covering {covering} ({covering_ms:2} ms; {covering_kb} kB)",
        "buffers para {batch} na hora entre {rows}: sem índice {none} ({node}, {none_ms:2} ms), completo {full} ({full_ms:2} ms;"
        " {full_kb} kB), parcial {partial} ({partial_ms:2} ms; {partial_kb} kB), cobrindo {covering} ({covering_ms:2} ms;"
        " {covering_kb} kB)",
        facts={
            "batch": Fact(BATCH, "documents"),
            "rows": Fact(_rows(stage), "rows"),
            "node": Fact(seen["none"].node),
            **_buffers(none=none, full=full, partial=partial, covering=covering),
            **{f"{form}_ms": Fact(seen[form].ms, "ms") for form in FORMS},
            **{f"{form}_kb": Fact(round(sizes[form]), "kB") for form in FORMS if form != "none"},
        },
    )


@lesson.experiment(
    "write_cost",
    "Each form has its price at every change of state: without an index on the state the update is heap-only; with one it never is, also"
    " where the index holds only the rows that wait, and the full one writes a second entry besides.",
    "Cada forma tem seu preço em toda mudança de estado: sem índice sobre o estado, a alteração é heap-only (HOT); com um, nunca é, mesmo"
    " que o índice só tenha as linhas que aguardam, e o completo grava ainda uma segunda entrada.",
)
def write_cost(stage: Stage) -> Observed:
    with filled(stage.conninfo, _rows(stage)) as connection:
        measured = index_forms.write_costs(stage.conninfo, connection, rounds=7 if stage.full else 3)
    wal = {form: measured.of(form, "own_wal") for form in ("none", "partial", "full")}
    hot = {form: measured.of(form, "hot_share").median for form in wal}
    return Observed(
        wal["none"].largest < wal["partial"].smallest
        and wal["partial"].largest < wal["full"].smallest
        and hot["none"] > 0.9
        and (hot["partial"], hot["full"]) == (0, 0),
        "WAL bytes a change: no index {wal_none}, partial {wal_partial}, full {wal_full}; heap-only {hot_none} %, {hot_partial} %,"
        " {hot_full} %",
        "bytes de WAL por mudança: sem índice {wal_none}, parcial {wal_partial}, completo {wal_full}; heap-only {hot_none} %,"
        " {hot_partial} %, {hot_full} %",
        facts={
            **{f"wal_{form}": Fact(round(each.median), "B") for form, each in wal.items()},
            **{f"hot_{form}": Fact(round(100 * share), "%") for form, share in hot.items()},
        },
    )


@lesson.experiment(
    "empty_table",
    "The plan on an empty table proves nothing: it is the same sequential scan with the index and without.",
    "O plano numa tabela vazia não prova nada: é a mesma varredura sequencial com o índice e sem ele.",
)
def empty_table(stage: Stage) -> Observed:
    seen = {}
    with filled(stage.conninfo, _rows(stage)) as connection:
        for rows in ("full", "empty"):
            if rows == "empty":
                connection.execute(f"TRUNCATE {TABLE}".encode())
                connection.execute(f"ANALYZE {TABLE}".encode())
            for form in ("none", "partial"):
                index(connection, form)
                seen[rows, form] = tried(connection, DUE)
    nodes = [seen[key].node for key in (("empty", "none"), ("empty", "partial"), ("full", "none"), ("full", "partial"))]
    without, with_it, full_without, full_with = nodes
    return Observed(
        without == with_it == "Seq Scan" and full_with != full_without and seen["empty", "none"].buffers <= 2,
        "empty: without the index {empty_without}, with it {empty_with}; of {rows}: without {full_without} ({buffers_without}), with it"
        " {full_with} ({buffers_with})",
        "vazia: sem o índice {empty_without}, com ele {empty_with}; com {rows} linhas: sem ele {full_without} ({buffers_without}), com ele"
        " {full_with} ({buffers_with})",
        facts={
            "rows": Fact(_rows(stage), "rows"),
            "empty_without": Fact(without),
            "empty_with": Fact(with_it),
            "full_without": Fact(full_without),
            "full_with": Fact(full_with),
            **_buffers(buffers_without=seen["full", "none"].buffers, buffers_with=seen["full", "partial"].buffers),
        },
    )


@lesson.experiment(
    "generic_plan",
    "The predicate must match the partial index when the statement is planned: with the state sent as a parameter, a generic plan cannot"
    " use the index; with the state written in the statement, it does.",
    "O predicado precisa casar com o do índice parcial na hora de planejar: com o estado enviado como parâmetro, um plano genérico não"
    " usa o índice; com o estado escrito no comando, usa.",
)
def generic_plan(stage: Stage) -> Observed:
    with filled(stage.conninfo, _rows(stage)) as connection:
        index(connection, "partial")
        by_parameter, by_word = DUE.replace("'pendente'", "$1"), DUE.replace(f"LIMIT {BATCH}", "LIMIT $1")
        connection.execute(f"PREPARE parametro (TEXT) AS {by_parameter}".encode())
        connection.execute(f"PREPARE escrito (INTEGER) AS {by_word}".encode())
        connection.execute("SET plan_cache_mode = force_custom_plan")
        custom = tried(connection, "EXECUTE parametro ('pendente')")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        generic = tried(connection, "EXECUTE parametro ('pendente')")
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_sort = off")
        written = tried(connection, f"EXECUTE escrito ({BATCH})")
    return Observed(
        generic.buffers > 50 * custom.buffers
        and written.buffers <= custom.buffers
        and not generic.index
        and bool(written.index),
        "buffers: state as a parameter, planned each time {custom}, generic plan {generic} ({node}); state in the statement, generic plan"
        " {written}",
        "buffers: estado como parâmetro, planejado a cada vez {custom}, plano genérico {generic} ({node}); estado no comando, plano"
        " genérico {written}",
        facts={
            "node": Fact(generic.node),
            **_buffers(custom=custom.buffers, generic=generic.buffers, written=written.buffers),
        },
    )


@lesson.experiment(
    "new_state",
    "When a state is added, the index whose predicate does not name it is of no use to the new query: make the new index first, change"
    " the query while both are there, and drop the old one last.",
    "Quando surge um estado novo, o índice cujo predicado não o cita não serve à consulta nova: crie antes o índice novo, troque a"
    " consulta enquanto há os dois e só então remova o velho.",
)
def new_state(stage: Stage) -> Observed:
    seen = {}
    with filled(stage.conninfo, _rows(stage)) as connection:
        index(connection, "partial")
        connection.execute(f"UPDATE {TABLE} SET status = 'repetir' WHERE status = 'cancelado'".encode())
        connection.execute(f"ANALYZE {TABLE}".encode())
        seen["old"] = tried(connection, DUE).buffers, tried(connection, NEW_STATE).buffers
        wait_for_older_transactions(connection)
        connection.execute(f"CREATE INDEX CONCURRENTLY medida_nova_idx {BOTH_STATES}".encode())
        seen["both"] = tried(connection, DUE).buffers, tried(connection, NEW_STATE).buffers
        connection.execute("DROP INDEX CONCURRENTLY medida_idx")
        seen["new"] = tried(connection, DUE).buffers, tried(connection, NEW_STATE).buffers
    before, lost = seen["old"]
    return Observed(
        lost > 50 * before and all(max(seen[which]) < lost / 50 for which in ("both", "new")),
        "buffers of the old query and the new one: old index {old_before}, {new_before}; both {old_both}, {new_both}; new index"
        " {old_after}, {new_after}",
        "buffers da consulta velha e da nova: índice velho {old_before}, {new_before}; os dois {old_both}, {new_both}; índice novo"
        " {old_after}, {new_after}",
        facts=_buffers(
            old_before=before,
            new_before=lost,
            old_both=seen["both"][0],
            new_both=seen["both"][1],
            old_after=seen["new"][0],
            new_after=seen["new"][1],
        ),
    )


@lesson.experiment(
    "own_table",
    "The protocol's own queue pays this price: the state stands in the predicates of its partial indexes, so no claim and no finish is a"
    " heap-only update; without these indexes most are.",
    "A fila do próprio protocolo paga esse preço: o estado aparece nos predicados dos índices parciais, e nenhuma reserva nem conclusão"
    " é heap-only; sem esses índices, a maioria é.",
)
def own_table(stage: Stage) -> Observed:
    indexes = written = 0

    def prepare(without: bool) -> None:
        nonlocal indexes
        stage.build(index_forms.STATE)
        with stage.connection() as connection:
            connection.execute("ALTER TABLE fila_documentos SET (autovacuum_enabled = off, fillfactor = 40)")
            connection.execute("TRUNCATE fila_documentos, auditoria RESTART IDENTITY")
            connection.execute(
                "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, disponivel_em, chave_operacao)"
                " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', relogio() - INTERVAL '1 hour', 'padrao/LOTE-' || n"
                " FROM generate_series(1, 500) AS n"
            )
            named = connection.execute(
                "SELECT indexrelid::REGCLASS::TEXT FROM pg_index WHERE indrelid = 'fila_documentos'::REGCLASS"
                " AND pg_get_expr(indpred, indrelid) LIKE '%status%'"
            ).fetchall()
            indexes = len(named)
            for (name,) in named if without else ():
                connection.execute(f"DROP INDEX {name}".encode())
            connection.execute("VACUUM (ANALYZE) fila_documentos")
            wait_for_older_transactions(connection)

    def run() -> int:
        nonlocal written
        done = written = 0
        claim = "SELECT FROM reservar('worker-a', 50)"
        held = "SELECT documento_id, token_reserva FROM fila_documentos WHERE status = 'processando'"
        with stage.connection("lab/run") as worker:
            while (claimed := explain(worker, claim)).rows:
                ids, tokens = (list(each) for each in zip(*worker.execute(held).fetchall(), strict=True))
                finished = explain(worker, "SELECT FROM concluir_lote(%s::BIGINT[], %s::BIGINT[])", [ids, tokens])
                done += finished.rows
                written += claimed.wal_bytes + finished.wal_bytes
        return done

    def way(name: str) -> Way:
        return Way(name, run, lambda: prepare(name == "without"), figures=lambda: {"own_wal": (written / 500, "B")})

    measured = compare(
        stage.conninfo, [way("with"), way("without")], 1, warm_up=0, tables=["sql_semana_12.fila_documentos"]
    )
    told = {
        name: {way: measured.of(way, name).median for way in ("with", "without")}
        for name in ("hot_share", "own_wal", "updates")
    }
    documents = [int(measured.of(way, "done").median) for way in ("with", "without")]
    return Observed(
        documents == [500, 500]
        and told["hot_share"]["with"] == 0
        and told["hot_share"]["without"] > 0.5
        and told["own_wal"]["with"] > told["own_wal"]["without"],
        "heap-only of {updates} updates: {hot} % with the {indexes} indexes whose predicate names the state, {hot_without} % without"
        " them; WAL bytes a document {wal}, {wal_without}",
        "heap-only, de {updates} alterações: {hot} % com os {indexes} índices cujo predicado cita o estado, {hot_without} % sem eles;"
        " bytes de WAL por documento {wal}, {wal_without}",
        facts={
            "updates": Fact(round(told["updates"]["with"] * documents[0]), "updates"),
            "indexes": Fact(indexes, "indexes"),
            "hot": Fact(round(100 * told["hot_share"]["with"]), "%"),
            "hot_without": Fact(round(100 * told["hot_share"]["without"]), "%"),
            "wal": Fact(round(told["own_wal"]["with"]), "B"),
            "wal_without": Fact(round(told["own_wal"]["without"]), "B"),
        },
    )


@lesson.experiment(
    "or_arms",
    "One condition with OR for what is due and what has expired reads the whole backlog; two queries, one for each, read only what they"
    " return.",
    "Uma só condição com OR para o que está na hora e o que venceu lê toda a fila acumulada; duas consultas, uma para cada, leem só o que"
    " devolvem.",
    core=False,
)
def or_arms(stage: Stage) -> Observed:
    due = "status = 'pendente' AND disponivel_em <= (SELECT relogio())"
    late = "status = 'processando' AND reservado_ate <= (SELECT relogio())"
    order = f"ORDER BY disponivel_em, documento_id LIMIT {BATCH}"
    select = f"SELECT documento_id, disponivel_em FROM {TABLE} WHERE"
    with _burst(stage) as connection:
        connection.execute(
            f"CREATE INDEX medida_processando_idx ON {TABLE} (documento_id) WHERE status = 'processando'".encode()
        )
        connection.execute(f"ANALYZE {TABLE}".encode())
        one = tried(connection, f"{select} ({due}) OR ({late}) {order}")
        two = tried(connection, f"({select} {due} {order}) UNION ALL ({select} {late} {order})")
    return Observed(
        one.buffers > 10 * two.buffers and one.rows == BATCH and two.rows == 2 * BATCH,
        "buffers with {backlog} due: one OR {one}, two arms {two}",
        "buffers com {backlog} na hora: um OR {one}, dois braços {two}",
        facts={"backlog": Fact(BURST, "documents"), **_buffers(one=one.buffers, two=two.buffers)},
    )


@lesson.experiment(
    "pinned_plan",
    "A plan that was kept while the queue was empty stays a sequential scan when the queue has filled, until statistics are gathered; a"
    " statement planned anew uses the index at once.",
    "Um plano guardado enquanto a fila estava vazia continua sendo varredura sequencial depois que ela enche, até que se coletem"
    " estatísticas; um comando planejado de novo usa o índice na hora.",
    core=False,
)
def pinned_plan(stage: Stage) -> Observed:
    with filled(stage.conninfo, _rows(stage)) as connection:
        index(connection, "partial")
        due = DUE.replace(TABLE, "fila_cheia")
        connection.execute(
            f"CREATE TABLE fila_cheia (LIKE {TABLE} INCLUDING ALL) WITH (autovacuum_enabled = off)".encode()
        )
        connection.execute("ANALYZE fila_cheia")
        connection.execute(f"PREPARE fixo AS {due}".encode())
        empty = tried(connection, "EXECUTE fixo")
        connection.execute(f"INSERT INTO fila_cheia SELECT * FROM {TABLE}".encode())
        pinned, fresh = tried(connection, "EXECUTE fixo"), tried(connection, due)
        connection.execute("ANALYZE fila_cheia")
        healed = tried(connection, "EXECUTE fixo")
        connection.execute("DROP TABLE fila_cheia")
    return Observed(
        pinned.buffers > 50 * fresh.buffers
        and healed.buffers <= 2 * fresh.buffers
        and not pinned.index
        and bool(fresh.index),
        "buffers: kept plan {empty} while empty, {pinned} with {rows} ({node}); planned anew {fresh}; kept plan after ANALYZE {healed}",
        "buffers: plano guardado {empty} com a fila vazia, {pinned} com {rows} ({node}); planejado de novo {fresh}; plano guardado depois"
        " de ANALYZE {healed}",
        facts={
            "rows": Fact(_rows(stage), "rows"),
            "node": Fact(pinned.node),
            **_buffers(empty=empty.buffers, pinned=pinned.buffers, fresh=fresh.buffers, healed=healed.buffers),
        },
    )


@lesson.experiment(
    "fillfactor",
    "A renewal changes no indexed column, yet on full pages it is not heap-only: room must be left on the page (fillfactor), else the"
    " new version goes elsewhere and every index gets an entry.",
    "Uma renovação não muda coluna indexada, mas em páginas cheias não é heap-only: é preciso deixar espaço na página (fillfactor), ou a"
    " versão nova vai para outro lugar e todo índice ganha uma entrada.",
    core=False,
)
def fillfactor(stage: Stage) -> Observed:
    with filled(stage.conninfo, QUICK) as connection:

        def prepare(factor: int) -> None:
            connection.execute("DROP TABLE IF EXISTS fila_renovada")
            connection.execute(
                f"CREATE TABLE fila_renovada (LIKE {TABLE} INCLUDING ALL) WITH (autovacuum_enabled = off, fillfactor = {factor})".encode()
            )
            connection.execute(
                f"INSERT INTO fila_renovada SELECT * FROM {TABLE} ORDER BY documento_id LIMIT {RENEWED}".encode()
            )

        written = 0

        def run() -> int:
            nonlocal written
            with stage.connection("lab/run") as worker:
                written = explain(
                    worker, "UPDATE fila_renovada SET reservado_ate = relogio() + INTERVAL '30 seconds'"
                ).wal_bytes
            return RENEWED

        def way(factor: int) -> Way:
            return Way(str(factor), run, lambda: prepare(factor), figures=lambda: {"own_wal": (written / RENEWED, "B")})

        measured = compare(stage.conninfo, [way(100), way(50)], 1, warm_up=0, tables=["sql_semana_12.fila_renovada"])
        connection.execute("DROP TABLE fila_renovada")
    hot = {way: measured.of(way, "hot_share").median for way in ("100", "50")}
    wal = {way: measured.of(way, "own_wal").median for way in hot}
    return Observed(
        hot["100"] < 0.1 and hot["50"] > 0.8 and wal["100"] > wal["50"],
        "heap-only of {updates} renewals: fillfactor {full} {hot_full} %, fillfactor {room} {hot_room} %; WAL bytes each {wal_full},"
        " {wal_room}",
        "heap-only, de {updates} renovações: fillfactor {full} {hot_full} %, fillfactor {room} {hot_room} %; bytes de WAL em cada"
        " {wal_full}, {wal_room}",
        facts={
            "updates": Fact(RENEWED, "renewals"),
            "full": Fact(100),
            "room": Fact(50),
            "hot_full": Fact(round(100 * hot["100"]), "%"),
            "hot_room": Fact(round(100 * hot["50"]), "%"),
            "wal_full": Fact(round(wal["100"]), "B"),
            "wal_room": Fact(round(wal["50"]), "B"),
        },
    )


@lesson.experiment(
    "autovacuum",
    "By its defaults autovacuum comes to a large table only after a fifth of it has changed, and every claim walks over the dead entries"
    " till then; with a vacuum after every thousand a claim reads about as little as at first.",
    "Com os valores padrão, o autovacuum só vem a uma tabela grande depois que um quinto dela mudou, e até lá toda reserva passa pelas"
    " entradas mortas; com um vacuum a cada mil, a reserva lê quase tão pouco quanto no começo.",
    core=False,
)
def autovacuum(stage: Stage) -> Observed:
    seen = {}
    with _burst(stage) as connection:
        row = connection.execute(
            "SELECT current_setting('autovacuum_vacuum_threshold')::INTEGER"
            " + current_setting('autovacuum_vacuum_scale_factor')::FLOAT8 * reltuples FROM pg_class WHERE oid = %s::REGCLASS",
            [TABLE],
        ).fetchone()
        assert row
        fresh = tried(connection, DUE).buffers
        finished = BURST - QUEUE_THRESHOLD
        for name in ("none", "often"):
            connection.execute(f"UPDATE {TABLE} SET status = 'pendente' WHERE status = 'repetir'".encode())
            connection.execute(f"VACUUM (ANALYZE) {TABLE}".encode())
            index(connection, "partial")
            wait_for_older_transactions(connection)
            for _ in range(finished // QUEUE_THRESHOLD):
                connection.execute(
                    f"UPDATE {TABLE} SET status = 'repetir' WHERE documento_id IN (SELECT documento_id FROM {TABLE}"
                    f" WHERE status = 'pendente' ORDER BY disponivel_em, documento_id LIMIT {QUEUE_THRESHOLD})".encode()
                )
                if name == "often":
                    connection.execute(f"VACUUM {TABLE}".encode())
            tried(connection, DUE)  # the first one marks the dead entries that it meets
            seen[name] = tried(connection, DUE).buffers
    return Observed(
        row[0] > 5 * QUEUE_THRESHOLD and seen["none"] > 2 * seen["often"] and seen["often"] <= 2 * fresh,
        "dead rows until autovacuum comes to {rows}: {default}; buffers a claim after {finished} finished: {none} without a vacuum,"
        " {often} with one every {every} (at first {fresh})",
        "linhas mortas até o autovacuum vir a {rows}: {default}; buffers por reserva depois de {finished} concluídos: {none} sem vacuum,"
        " {often} com um a cada {every} (no começo {fresh})",
        facts={
            "rows": Fact(_rows(stage), "rows"),
            "default": Fact(round(row[0]), "rows"),
            "finished": Fact(finished, "documents"),
            "every": Fact(QUEUE_THRESHOLD, "documents"),
            **_buffers(fresh=fresh, **seen),
        },
    )


@lesson.scenario("index_built", core=False)
def index_built(play: Play) -> Observed:
    document = play["c_claims"].one("documento_id")
    built = play["b_builds"].waited_for
    waited = play["c_claims"].waited_for
    return Observed(
        built == ("A",) and waited == ("B",) and document == "2",
        "CREATE INDEX waited for {builder}; the next claim waited for {claimer}, and then got document {document}",
        "o CREATE INDEX esperou por {builder}; a reserva seguinte esperou por {claimer}, e então recebeu o documento {document}",
        facts={"builder": Fact(built), "claimer": Fact(waited), "document": Fact(int(document or 0))},
    )


@lesson.experiment(
    "watched",
    "A measurement of speed watches connections, lock waits, WAL and dead rows as well: the claim that waits and the one that passes both"
    " empty the queue, and the lock waits tell them apart.",
    "Uma medição de velocidade observa também conexões, esperas por bloqueio, WAL e linhas mortas: a reserva que espera e a que passa"
    " esvaziam a fila, e as esperas por bloqueio mostram a diferença.",
    core=False,
)
def watched(stage: Stage) -> Observed:
    def run(claim: concurrent_claims.Way) -> int:
        return concurrent_claims.empty(stage.conninfo, sessions=4, claim=claim, work=0.005).claimed

    def way(claim: concurrent_claims.Way) -> Way:
        return Way(claim, lambda: run(claim), lambda: concurrent_claims.fill(stage.conninfo, 40))

    measured = compare(
        stage.conninfo, [way("for_update"), way("skip_locked")], 1, warm_up=0, tables=["sql_semana_12.fila_documentos"]
    )
    waits, rate, wal, dead = (
        {way: measured.of(way, name).median for way in ("for_update", "skip_locked")}
        for name in ("lock_waits", "rate", "wal_bytes", "dead_rows")
    )
    return Observed(
        waits["for_update"] > 3 * waits["skip_locked"]
        and all(measured.of(way, "done").median == 40 for way in waits)
        and measured.of("skip_locked", "connections").median >= 4
        and min(wal.values()) > 0
        and min(dead.values()) > 0,
        "lock waits sampled: FOR UPDATE {waits_plain}, SKIP LOCKED {waits_skip}; connections {connections}; WAL bytes a document"
        " {wal_plain}, {wal_skip}; dead rows {dead_plain}, {dead_skip}; documents a second, times that of FOR UPDATE: {ratio:1}",
        "esperas por bloqueio amostradas: FOR UPDATE {waits_plain}, SKIP LOCKED {waits_skip}; conexões {connections}; bytes de WAL por"
        " documento {wal_plain}, {wal_skip}; linhas mortas {dead_plain}, {dead_skip}; documentos por segundo, em vezes os do FOR"
        " UPDATE: {ratio:1}",
        facts={
            "waits_plain": Fact(int(waits["for_update"]), "samples"),
            "waits_skip": Fact(int(waits["skip_locked"]), "samples"),
            "connections": Fact(int(measured.of("skip_locked", "connections").median), "connections"),
            "wal_plain": Fact(round(wal["for_update"]), "B"),
            "wal_skip": Fact(round(wal["skip_locked"]), "B"),
            "dead_plain": Fact(int(dead["for_update"]), "rows"),
            "dead_skip": Fact(int(dead["skip_locked"]), "rows"),
            "ratio": Fact(rate["skip_locked"] / rate["for_update"], "times"),
        },
    )


@lesson.experiment(
    "void_run",
    "One duplicate effect voids a run, whatever its throughput: the faulty claim gives no figure, only the count of its duplicates.",
    "Um efeito duplicado anula a execução, seja qual for a vazão: a reserva errada não dá número nenhum, só a contagem das duplicatas.",
    core=False,
)
def void_run(stage: Stage) -> Observed:
    duplicates = 0

    def run(claim: concurrent_claims.Way) -> int:
        nonlocal duplicates
        ran = concurrent_claims.empty(stage.conninfo, sessions=10, claim=claim)
        duplicates = ran.duplicates
        return ran.claimed

    def way(claim: concurrent_claims.Way) -> Way:
        return Way(claim, lambda: run(claim), lambda: concurrent_claims.fill(stage.conninfo, 100), lambda: duplicates)

    right = compare(stage.conninfo, [way("skip_locked")], 1, warm_up=0)
    voided = 0
    try:
        for _ in range(5):  # in a free race it is chance whether two meet
            compare(stage.conninfo, [way("select_commit_update")], 1, warm_up=0)
    except Void as void:
        voided = void.duplicates
    return Observed(
        voided > 0 and right.of("skip_locked", "done").median == 100,
        "the faulty claim: void, {duplicates} made twice; the right one: {figures} figures, {done} of {total} once",
        "a reserva errada: nula, {duplicates} em dobro; a certa: {figures} números, {done} de {total} uma vez",
        facts={
            "duplicates": Fact(voided, "effects"),
            "figures": Fact(len(right.figures), "figures"),
            "done": Fact(int(right.of("skip_locked", "done").median), "documents"),
            "total": Fact(100, "documents"),
        },
    )
