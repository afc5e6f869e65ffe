"""Lesson 04: claim in one statement, work outside, end in a short transaction."""

from __future__ import annotations

import psycopg

from lab.base import wait
from lab.base.errors import CannotRunHere
from lab.base.facts import Fact
from lab.base.language import Text, say
from lab.experiments.concurrent_claims import race
from lab.lessons.lesson import Lesson, Observed
from lab.measure.buffers import touched
from lab.scenario.library import find_scenario
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "How does a worker take exactly one document, and keep it while no lock is held?",
        "Como um worker pega exatamente um documento e o mantém sem segurar nenhum bloqueio?",
    ),
    answer=Text(
        "one statement claims one row; ten connections empty the queue with no document taken twice",
        "um comando reserva uma linha; dez conexões esvaziam a fila sem pegar nenhum documento duas vezes",
    ),
    psql_only=Text("partly (ten connections need ./lab run 04)", "em parte (dez conexões pedem ./lab run 04)"),
)


# What both sessions of the episode find once they have committed.
CLAIMED_BY_TWO = (
    ("1", "NFE-0001", "processando", "worker-a", "1"),
    ("2", "NFE-0002", "processando", "worker-b", "1"),
    ("3", "NFE-0003", "pendente", None, "0"),
    ("4", "NFE-0004", "pendente", None, "0"),
)


@lesson.scenario("claim")
def claim(play: Play) -> Observed:
    a, b = (tuple(map(whole, play[step].column("documento_id"))) for step in ("a_claims", "b_claims"))
    claims, shown = play["b_claims"], play["b_shows_limit"].one("lock_timeout") or ""
    limit = whole(shown.removesuffix("s"))
    return Observed(
        len(a) == len(b) == 1
        and (limit, claims.waited_for) == (2, ())
        and claims.seconds < 1
        and play["a_reads"].rows == CLAIMED_BY_TWO,
        "rows a call {rows:/ and }; A got {documents_a}, B got {documents_b} after {took:1} ms; waited for: {waited_for}"
        " (lock_timeout {lock_timeout} s)",
        "linhas por chamada: {rows:/ e }; A recebeu o documento {documents_a}; B, o {documents_b}, depois de {took:1} ms;"
        " esperou por: {waited_for} (lock_timeout de {lock_timeout} s)",
        facts={
            "rows": Fact((len(a), len(b)), "rows"),
            "documents_a": Fact(a),
            "documents_b": Fact(b),
            "took": Fact(claims.seconds * 1000, "ms"),
            "waited_for": Fact(claims.waited_for),
            "lock_timeout": Fact(limit, "s"),
        },
    )


@lesson.scenario("batch")
def batch(play: Play) -> Observed:
    a, b = (len(play[step].rows) for step in ("a_claims", "b_claims"))
    marks = {mark: set(play["a_reads"].column(mark)) for mark in ("status", "worker_id", "tentativas")}
    waited_for = play["b_claims"].waited_for
    return Observed(
        (a, b, waited_for) == (4, 0, ())
        and marks == {"status": {"processando"}, "worker_id": {"worker-a"}, "tentativas": {"1"}},
        "one call: A took {taken_a}, B {taken_b} (waited for: {waited_for}); all of them, {status}, now wait for {worker}",
        "uma chamada: A pegou {taken_a}, B {taken_b} (esperou por: {waited_for}); todos, {status}, agora esperam por {worker}",
        facts={
            "taken_a": Fact(a, "documents"),
            "taken_b": Fact(b, "documents"),
            "waited_for": Fact(waited_for),
            "status": Fact(tuple(sorted(filter(None, marks["status"])))),
            "worker": Fact(tuple(sorted(filter(None, marks["worker_id"])))),
        },
    )


@lesson.scenario("outcome")
def outcome(play: Play) -> Observed:
    steps = ("a_finishes", "b_fails", "b_finishes_foreign", "a_finishes_again")
    finish, fail, foreign, again = (len(play[step].rows) for step in steps)
    status_a, status_b, *_ = play["c_reads"].column("status")
    attempts_a, attempts_b, *_ = map(whole, play["c_reads"].column("tentativas"))
    return Observed(
        (finish, fail, foreign, again) == (1, 1, 0, 0)
        and (status_a, attempts_a, status_b, attempts_b) == ("concluido", 1, "falhou", 1),
        "rows: finish {rows_finish}, fail {rows_fail}, by a stranger {rows_foreign}, a second time {rows_again}"
        "; {status_a} after {attempts_a} attempt; {status_b} after {attempts_b} attempt",
        "linhas: concluir {rows_finish}, falhar {rows_fail}, por um estranho {rows_foreign}, pela segunda vez {rows_again}"
        "; {status_a} depois de {attempts_a} tentativa; {status_b} depois de {attempts_b} tentativa",
        facts={
            "rows_finish": Fact(finish, "rows"),
            "rows_fail": Fact(fail, "rows"),
            "rows_foreign": Fact(foreign, "rows"),
            "rows_again": Fact(again, "rows"),
            "status_a": Fact(status_a),
            "attempts_a": Fact(attempts_a, "attempts"),
            "status_b": Fact(status_b),
            "attempts_b": Fact(attempts_b, "attempts"),
        },
    )


@lesson.scenario("fields")
def fields(play: Play) -> Observed:
    before, between, after = play["a_before"], play["a_between"], play["a_after"]
    claimed, noted = set(between.column("ultimo_erro")), play["a_notes"].one("ultimo_erro")
    finished, failed = after.column("ultimo_erro")
    return Observed(
        all(before.column("ultimo_erro"))
        and (before.column("iniciado_agora"), before.column("terminado")) == (("f", "f"), ("t", "t"))
        and (between.column("iniciado_agora"), between.column("terminado")) == (("t", "t"), ("f", "f"))
        and (after.column("iniciado_agora"), after.column("terminado")) == (("t", "t"), ("t", "t"))
        and after.column("status") == ("concluido", "falhou")
        and (claimed, finished, failed) == ({None}, None, "Falha sintética ao enviar documento")
        and noted is not None,
        "error once claimed: {error_claimed}; noted: {error_noted}; once finished: {error_finished}; once failed: {error_failed}",
        "ultimo_erro após a reserva: {error_claimed}; anotado: {error_noted}; ao concluir: {error_finished}; ao falhar: {error_failed}",
        facts={
            "error_claimed": Fact(tuple(claimed)),
            "error_noted": Fact(noted),
            "error_finished": Fact(finished),
            "error_failed": Fact(failed),
        },
    )


@lesson.scenario("work_outside")
def work_outside(play: Play) -> Observed:
    status, locks = play["c_during_work"].one("status"), whole(play["c_during_work"].one("bloqueios_de_a"))
    document = whole(play["b_asks"].one("documento_id"))
    return Observed(
        flag(play["c_during_claim"].one("a_segura_bloqueios")) is True
        and (status, locks, document) == ("processando", 0, 2),
        "locks held while working: {locks}; status {status}; B got document {document}",
        "bloqueios durante o trabalho: {locks}; status {status}; B recebeu o documento {document}",
        facts={"locks": Fact(locks, "locks"), "status": Fact(status), "document": Fact(document)},
    )


@lesson.scenario("select_commit_update")
def select_commit_update(play: Play) -> Observed:
    documents, workers = _taken(play, "a_marks", "b_marks")
    return Observed(
        documents == [1, 1] and workers == ["worker-a", "worker-b"],
        "{claims} claims, {duplicates} duplicate: document {documents}",
        "{claims} reservas, {duplicates} duplicada: documento {documents}",
        facts={
            "claims": Fact(len(documents), "claims"),
            "duplicates": Fact(len(documents) - len(set(documents)), "claims"),
            "documents": Fact(tuple(set(documents))),
        },
    )


@lesson.experiment(
    "ten_connections",
    "Ten connections released together empty the queue: each document to exactly one worker, none missed, each worker's oldest first.",
    "Dez conexões liberadas juntas esvaziam a fila: cada documento para um único worker, nenhum esquecido, o mais antigo primeiro.",
)
def ten_connections(stage: Stage) -> Observed:
    rounds = [race(stage.conninfo, sessions=10, documents=200) for _ in range(5)]
    # A free race may happen to go well: the faulty way gets a few tries to show itself.
    for _ in range(5):
        naive = race(stage.conninfo, sessions=10, documents=200, claim="select_commit_update")
        if naive.duplicates:
            break
    total = sum(result.documents for result in rounds)
    claimed = sum(result.claimed for result in rounds)
    distinct = sum(result.distinct for result in rounds)
    inversions = sum(result.inversions for result in rounds)
    left = sum(result.left for result in rounds)
    return Observed(
        claimed == distinct == total and left == inversions == 0 and naive.duplicates > 0,
        "{rounds} rounds: claimed {claimed} = distinct {distinct} = total {total}, left {left}, out of order {out_of_order}"
        "; SELECT, COMMIT, UPDATE instead: {naive_duplicates} duplicates of {naive_total}",
        "{rounds} rodadas: reservas {claimed} = distintos {distinct} = total {total}, sobraram {left}, fora de ordem"
        " {out_of_order}; com SELECT, COMMIT, UPDATE: {naive_duplicates} reservas repetidas para {naive_total} documentos",
        facts={
            "rounds": Fact(len(rounds), "rounds"),
            "claimed": Fact(claimed, "claims"),
            "distinct": Fact(distinct, "documents"),
            "total": Fact(total, "documents"),
            "left": Fact(left, "documents"),
            "out_of_order": Fact(inversions, "claims"),
            "naive_duplicates": Fact(naive.duplicates, "claims"),
            "naive_total": Fact(naive.documents, "documents"),
        },
    )


@lesson.scenario("restored", core=False)
def restored(play: Play) -> Observed:
    steps = ("a_claims", "b_claims", "a_claims_again", "b_claims_again")
    documents = tuple(whole(play[step].one("documento_id")) for step in steps)
    as_new = whole(play["a_looks"].one("como_novos"))
    return Observed(
        (documents, as_new) == ((1, 2, 1, 2), 4) and play["a_reads"].rows == CLAIMED_BY_TWO,
        "documents claimed: {documents}; as new after the restore: {as_new}; attempts in the end: {attempts}",
        "documentos reservados: {documents}; como novos depois da restauração: {as_new}; tentativas no fim: {attempts}",
        facts={
            "documents": Fact(documents),
            "as_new": Fact(as_new, "documents"),
            "attempts": Fact(tuple(map(whole, play["a_reads"].column("tentativas"))), "attempts"),
        },
    )


@lesson.scenario("two_session_form", core=False)
def two_session_form(play: Play) -> Observed:
    status, ended, errors = (play["c_reads"].column(name) for name in ("status", "terminado", "ultimo_erro"))
    return Observed(
        status == ("processando", "processando")
        and ended == ("t", "f")
        and errors[0] is not None
        and errors[1] is None,
        "{status:/ and }; document 1, claimed by the short form, ended: {short_ended}; document 2, by the full form: {full_ended}",
        "{status:/ e }; documento 1, reservado pela forma curta, terminado: {short_ended}; documento 2, pela completa: {full_ended}",
        facts={"status": Fact(status), "short_ended": Fact(flag(ended[0])), "full_ended": Fact(flag(ended[1]))},
    )


@lesson.scenario("read_again", core=False)
def read_again(play: Play) -> Observed:
    claimed, read = (tuple(map(whole, play[step].column("documento_id"))) for step in ("b_claims", "b_reads_again"))
    return Observed(
        (claimed, read) == ((2,), (1, 2)),
        "RETURNING: document {claimed}; read again by name and state: documents {read}",
        "RETURNING: documento {claimed}; lidos de novo por nome e estado: documentos {read}",
        facts={"claimed": Fact(claimed), "read": Fact(read)},
    )


@lesson.scenario("locked_ids", core=False)
def locked_ids(play: Play) -> Observed:
    one, steps, by_name = (
        tuple(map(whole, play[step].column("documento_id"))) for step in ("b_claims", "b_gives_back", "b_reads_by_name")
    )
    cancelled = play["c_cancels"]
    return Observed(
        (one, steps, by_name) == ((2, 3), (2, 3), (1, 2, 3))
        and (cancelled.waited_for, len(cancelled.rows)) == (("B",), 0),
        "one statement: documents {one}; in steps, by the locked ids: {steps}; by name and state: {by_name}; a cancelling between"
        " the steps waited for {waited_for}, and changed {rows} rows",
        "comando único: documentos {one}; em etapas, pelos ids bloqueados: {steps}; por nome e estado: {by_name}; um cancelamento"
        " entre as etapas esperou por {waited_for} e alterou {rows} linhas",
        facts={
            "one": Fact(one),
            "steps": Fact(steps),
            "by_name": Fact(by_name),
            "waited_for": Fact(cancelled.waited_for),
            "rows": Fact(len(cancelled.rows), "rows"),
        },
    )


@lesson.scenario("overtaken", core=False)
def overtaken(play: Play) -> Observed:
    claimed = tuple(whole(play[step].one("documento_id")) for step in ("a_claims", "b_claims", "b_claims_again"))
    status = play["c_reads"].column("status")
    return Observed(
        claimed == (1, 2, 3) and status == ("processando", "concluido", "concluido", "pendente"),
        "claimed: {claimed}; from the oldest to the newest: {status}; younger ones that ended first: {younger}",
        "reservados: {claimed}; do mais antigo ao mais novo: {status}; mais novos que terminaram antes: {younger}",
        facts={
            "claimed": Fact(claimed),
            "status": Fact(status),
            "younger": Fact(status.count("concluido"), "documents"),
        },
    )


@lesson.scenario("subselect_without_lock", core=False)
def subselect_without_lock(play: Play) -> Observed:
    documents, workers = _taken(play, "a_claims", "b_claims")
    return Observed(
        documents == [1, 1],
        "document {documents} to {workers:/ and to }",
        "documento {documents} para {workers:/ e para }",
        facts={"documents": Fact(tuple(set(documents))), "workers": Fact(tuple(workers))},
    )


@lesson.scenario("status_checked_outside", core=False)
def status_checked_outside(play: Play) -> Observed:
    rows, free = len(play["b_claims"].rows), whole(play["b_counts"].one("pendentes"))
    return Observed(
        (rows, free) == (0, 3),
        "B got {rows} rows while {free} were free",
        "B recebeu {rows} linhas, com {free} livres",
        facts={"rows": Fact(rows, "rows"), "free": Fact(free, "documents")},
    )


@lesson.scenario("window_first", core=False)
def window_first(play: Play) -> Observed:
    rows, document = len(play["b_asks"].rows), whole(play["b_asks_properly"].one("documento_id"))
    return Observed(
        (rows, document) == (0, 2),
        "window first: {rows} rows; locked while choosing: document {document}",
        "janela primeiro: {rows} linhas; bloqueando ao escolher: documento {document}",
        facts={"rows": Fact(rows, "rows"), "document": Fact(document)},
    )


@lesson.scenario("offset", core=False)
def offset(play: Play) -> Observed:
    a, b = (whole(play[step].one("documento_id")) for step in ("a_takes", "b_asks"))
    refused = play["c_tries"].sqlstate
    return Observed(
        (a, b, refused) == (2, 3, "55P03"),
        "A took document {document_a}, B got document {document_b}; document 1, pending and without a worker: {sqlstate}",
        "A pegou o documento {document_a}; B recebeu o {document_b}; documento 1, pendente e de ninguém: {sqlstate}",
        facts={"document_a": Fact(a), "document_b": Fact(b), "sqlstate": Fact(refused)},
    )


@lesson.scenario("stranger_lock", core=False)
def stranger_lock(play: Play) -> Observed:
    finish, document = play["a_finishes"], whole(play["b_claims"].one("documento_id"))
    return Observed(
        document == 2 and finish.waited_for == ("B",) and len(finish.rows) == 1,
        "B claimed document {document}; A's finish waited for {waited_for}",
        "B reservou o documento {document}; a conclusão de A esperou por {waited_for}",
        facts={"document": Fact(document), "waited_for": Fact(finish.waited_for)},
    )


@lesson.scenario("long_claim", core=False)
def long_claim(play: Play) -> Observed:
    seen, correction = play["o_reads"], play["o_corrects"]
    status = seen.one("status")
    return Observed(
        (status, seen.one("worker_id")) == ("pendente", None) and correction.waited_for == ("A",),
        "operator saw {status}, then waited for {waited_for}",
        "o operador viu {status} e depois esperou por {waited_for}",
        facts={"status": Fact(status), "waited_for": Fact(correction.waited_for)},
    )


@lesson.scenario("dead_worker", core=False)
def dead_worker(play: Play) -> Observed:
    locks, status, worker = (play["c_looks"].one(name) for name in ("bloqueios_de_a", "status", "worker_id"))
    offered = tuple(map(whole, play["b_asks"].column("documento_id")))
    return Observed(
        (locks, status) == ("0", "processando") and 1 not in offered,
        "locks left {locks}; status {status}, for {worker}; offered to B: {documents}",
        "bloqueios que restaram: {locks}; status {status}, de {worker}; oferecidos a B: {documents}",
        facts={
            "locks": Fact(whole(locks), "locks"),
            "status": Fact(status),
            "worker": Fact(worker),
            "documents": Fact(offered),
        },
    )


@lesson.experiment(
    "long_claim_keeps_dead_rows",
    "While a claim transaction is open, VACUUM cannot remove the dead rows of anybody's updates; after its commit it can.",
    "Enquanto uma transação de reserva está aberta, o VACUUM não remove as linhas mortas de ninguém; depois do COMMIT, remove.",
    core=False,
)
def long_claim_keeps_dead_rows(stage: Stage) -> Observed:
    stage.build(4)
    with stage.connection("lab/A") as a, stage.connection("lab/B") as b:
        _insist_on_no_old_transaction(b)
        b.execute("ALTER TABLE fila_documentos SET (autovacuum_enabled = off)")
        a.execute("BEGIN")
        a.execute(_claim_statement())
        # Each update gives documents 2 to 4 a new version; the old ones are dead once B's statement has committed.
        for _ in range(100):
            b.execute("UPDATE fila_documentos SET tentativas = tentativas + 1 WHERE documento_id > 1")
        during = _dead_rows_after_vacuum(b)
        a.execute("COMMIT")
        after = _dead_rows_after_vacuum(b)
    return Observed(
        during >= 300 and after == 0,
        "dead rows left by VACUUM: {dead_during} during the claim, {dead_after} after its commit",
        "linhas mortas que o VACUUM deixou: {dead_during} durante a reserva, {dead_after} depois do COMMIT dela",
        facts={"dead_during": Fact(during, "rows"), "dead_after": Fact(after, "rows")},
    )


@lesson.experiment(
    "limit_parameter",
    "A LIMIT given as a parameter with a forced generic plan reads the table instead of the head of the index.",
    "Um LIMIT passado como parâmetro, com plano genérico forçado, lê a tabela em vez do início do índice.",
    core=False,
)
def limit_parameter(stage: Stage) -> Observed:
    documents = 100_000 if stage.load else 20_000
    stage.build(4)
    with stage.connection() as connection:
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(1, %s) AS n",
            [documents],
        )
        connection.execute("ANALYZE fila_documentos")
        claim = _claim_statement()
        literal = touched(connection, claim)
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE reserva (BIGINT) AS {claim.replace('LIMIT 1', 'LIMIT $1')}".encode())
        generic = touched(connection, "EXECUTE reserva (1)")
    return Observed(
        generic > 10 * literal,
        "buffers a claim with {pending} pending: LIMIT 1 {literal}, LIMIT $1 in a generic plan {generic}",
        "buffers por reserva com {pending} pendentes: LIMIT 1, {literal}; LIMIT $1 em plano genérico, {generic}",
        facts={
            "pending": Fact(documents, "documents"),
            "literal": Fact(literal, "buffers"),
            "generic": Fact(generic, "buffers"),
        },
    )


def _taken(play: Play, *steps: str) -> tuple[list[int | None], list[str | None]]:
    """The documents that these steps marked, and the workers for whom."""
    return (
        [whole(play[step].one("documento_id")) for step in steps],
        [play[step].one("worker_id") for step in steps],
    )


def _claim_statement() -> str:
    """The claim as the scenario has it."""
    return find_scenario("04_claim").step("a_claims").sql.rstrip(";")


def _insist_on_no_old_transaction(connection: psycopg.Connection) -> None:
    """Raise CannotRunHere if another session's open transaction would keep dead rows, whatever ours does."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND backend_type = 'client backend'"
    ).fetchone()
    if row != (0,):
        raise CannotRunHere(
            say(
                "Another session of this database has a transaction open, which keeps dead rows as well.",
                "Outra sessão deste banco está com uma transação aberta, que também segura linhas mortas.",
            )
        )


def _dead_rows_after_vacuum(connection: psycopg.Connection) -> int:
    counted = (
        "SELECT pg_stat_get_vacuum_count('fila_documentos'::regclass), pg_stat_get_dead_tuples('fila_documentos'::regclass)"
        " FROM pg_stat_clear_snapshot()"
    )
    if connection.info.server_version >= 150000:
        # A session hands its counts over at most once a second; those of the updates must be in before VACUUM's.
        connection.execute("SELECT pg_stat_force_next_flush()")
    before = after = connection.execute(counted).fetchone() or (0, 0)
    connection.execute("VACUUM fila_documentos")

    def there() -> bool:
        nonlocal after
        after = connection.execute(counted).fetchone() or before
        return bool(after[0] > before[0])

    # Up to PostgreSQL 14 a process of its own gathers the statistics: look until this VACUUM is in them.
    if not wait.until(there, 10):
        raise CannotRunHere(
            say(
                "The server's statistics did not show a VACUUM within 10 s.",
                "As estatísticas do servidor não mostraram um VACUUM em 10 s.",
            )
        )
    return int(after[1])
