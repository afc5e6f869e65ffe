"""Lesson 04: claim in one statement, work outside, end in a short transaction."""

from __future__ import annotations

import psycopg

from lab.base import wait
from lab.base.errors import CannotRunHere
from lab.base.language import Text, brazilian, say
from lab.experiments.concurrent_claims import race
from lab.lessons.lesson import Lesson, Observed
from lab.measure.buffers import touched
from lab.scenario.library import find_scenario
from lab.scenario.result import Play
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


@lesson.scenario("claim")
def claim(play: Play) -> Observed:
    claimed = [len(play[step].rows) for step in ("a_claims", "b_claims")]
    expected = (
        ("1", "processando", "worker-a", "1"),
        ("2", "processando", "worker-b", "1"),
        ("3", "pendente", None, "0"),
        ("4", "pendente", None, "0"),
    )
    a, b = play["a_claims"].value, play["b_claims"].value
    return Observed(
        claimed == [1, 1] and play["a_reads"].rows == expected,
        f"rows a call {claimed[0]} and {claimed[1]}; A got {a}, B got {b}",
        f"linhas por chamada: {claimed[0]} e {claimed[1]}; A recebeu o documento {a}; B, o {b}",
    )


@lesson.scenario("outcome")
def outcome(play: Play) -> Observed:
    rows = [len(play[step].rows) for step in ("a_finishes", "b_fails", "b_finishes_foreign", "a_finishes_again")]
    states = [(row[1], row[3]) for row in play["a_reads"].rows[:2]]
    (one, tries), (other, retries) = states
    return Observed(
        rows == [1, 1, 0, 0] and states == [("concluido", "1"), ("falhou", "1")],
        f"rows: finish {rows[0]}, fail {rows[1]}, by a stranger {rows[2]}, a second time {rows[3]}"
        f"; {one} after {tries} attempt; {other} after {retries} attempt",
        f"linhas: concluir {rows[0]}, falhar {rows[1]}, por um estranho {rows[2]}, pela segunda vez {rows[3]}"
        f"; {one} depois de {tries} tentativa; {other} depois de {retries} tentativa",
    )


@lesson.scenario("fields")
def fields(play: Play) -> Observed:
    between, after = play["a_between"].rows, play["a_after"].rows
    before = play["a_before"].rows
    holds = all(row[1] == "f" and row[3] for row in before)
    holds &= all(row[1:4] == ("t", "f", None) for row in between) and after == (
        ("1", "concluido", "t", "t", None),
        ("2", "falhou", "t", "t", "valor ausente"),
    )
    errors = [between[0][3], *(row[-1] for row in after)]
    claimed, finished, failed = (error or "NULL" for error in errors)
    return Observed(
        holds,
        f"error while claimed: {claimed}; once finished: {finished}; once failed: {failed}",
        f"ultimo_erro durante a reserva: {claimed}; ao concluir: {finished}; ao falhar: {failed}",
    )


@lesson.scenario("work_outside")
def work_outside(play: Play) -> Observed:
    status, locks = play["c_during_work"].rows[0]
    next_one = play["b_asks"].value
    return Observed(
        play["c_during_claim"].value == "t" and (status, locks, next_one) == ("processando", "0", "2"),
        f"locks held while working: {locks}; status {status}; B got document {next_one}",
        f"bloqueios durante o trabalho: {locks}; status {status}; B recebeu o documento {next_one}",
    )


@lesson.scenario("select_commit_update")
def select_commit_update(play: Play) -> Observed:
    takers = [play[step].rows[0][:2] for step in ("a_marks", "b_marks")]
    duplicates = len(takers) - len({document for document, _ in takers})
    return Observed(
        takers == [("1", "worker-a"), ("1", "worker-b")],
        f"{len(takers)} claims, {duplicates} duplicate: document 1",
        f"{len(takers)} reservas, {duplicates} duplicada: documento 1",
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
        f"{len(rounds)} rounds: claimed {claimed} = distinct {distinct} = total {total}, left {left}, out of order {inversions}"
        f"; SELECT, COMMIT, UPDATE instead: {naive.duplicates} duplicates of {naive.documents}",
        f"{len(rounds)} rodadas: reservas {claimed} = distintos {distinct} = total {total}, sobraram {left}, fora de ordem"
        f" {inversions}; com SELECT, COMMIT, UPDATE: {naive.duplicates} reservas repetidas para {naive.documents} documentos",
    )


@lesson.scenario("subselect_without_lock", core=False)
def subselect_without_lock(play: Play) -> Observed:
    takers = [play[step].rows[0] for step in ("a_claims", "b_claims")]
    return Observed(
        [row[0] for row in takers] == ["1", "1"],
        f"document 1 to {takers[0][1]} and to {takers[1][1]}",
        f"documento 1 para {takers[0][1]} e para {takers[1][1]}",
    )


@lesson.scenario("status_checked_outside", core=False)
def status_checked_outside(play: Play) -> Observed:
    got, free = len(play["b_claims"].rows), play["b_counts"].value
    return Observed(
        got == 0 and free == "3",
        f"B got {got} rows while {free} were free",
        f"B recebeu {got} linhas, com {free} livres",
    )


@lesson.scenario("window_first", core=False)
def window_first(play: Play) -> Observed:
    got, proper = len(play["b_asks"].rows), play["b_asks_properly"].value
    return Observed(
        got == 0 and proper == "2",
        f"window first: {got} rows; locked while choosing: document {proper}",
        f"janela primeiro: {got} linhas; bloqueando ao escolher: documento {proper}",
    )


@lesson.scenario("offset", core=False)
def offset(play: Play) -> Observed:
    a, b, refused = play["a_takes"].value, play["b_asks"].value, play["c_tries"].sqlstate
    return Observed(
        (a, b, refused) == ("2", "3", "55P03"),
        f"A took document {a}, B got document {b}; document 1, pending and nobody's: {refused}",
        f"A pegou o documento {a}; B recebeu o {b}; documento 1, pendente e de ninguém: {refused}",
    )


@lesson.scenario("stranger_lock", core=False)
def stranger_lock(play: Play) -> Observed:
    finish = play["a_finishes"]
    got = play["b_claims"].value
    return Observed(
        got == "2" and finish.waited_for == ("B",) and len(finish.rows) == 1,
        f"B claimed document {got}; A's finish waited for {' '.join(finish.waited_for)}",
        f"B reservou o documento {got}; a conclusão de A esperou por {' '.join(finish.waited_for)}",
    )


@lesson.scenario("long_claim", core=False)
def long_claim(play: Play) -> Observed:
    seen, correction = play["o_reads"].rows[0], play["o_corrects"]
    return Observed(
        seen[1:] == ("pendente", None) and correction.waited_for == ("A",),
        f"operator saw {seen[1]}, then waited for {correction.waited_for[0]}",
        f"o operador viu {seen[1]} e depois esperou por {correction.waited_for[0]}",
    )


@lesson.scenario("dead_worker", core=False)
def dead_worker(play: Play) -> Observed:
    locks, status, worker = play["c_looks"].rows[0]
    offered = [row[0] for row in play["b_asks"].rows]
    listed = " ".join(map(str, offered))
    return Observed(
        (locks, status) == ("0", "processando") and "1" not in offered,
        f"locks left {locks}; status {status}, for {worker}; offered to B: {listed}",
        f"bloqueios que restaram: {locks}; status {status}, de {worker}; oferecidos a B: {listed}",
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
        f"dead rows left by VACUUM: {during} during the claim, {after} after its commit",
        f"linhas mortas que o VACUUM deixou: {during} durante a reserva, {after} depois do COMMIT dela",
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
    pending = f"{documents:,}"
    return Observed(
        generic > 10 * literal,
        f"buffers a claim with {pending} pending: LIMIT 1 {literal}, LIMIT $1 in a generic plan {generic}",
        f"buffers por reserva com {brazilian(pending)} pendentes: LIMIT 1, {literal}; LIMIT $1 em plano genérico, {generic}",
    )


def _claim_statement() -> str:
    """The claim as the scenario has it."""
    return find_scenario("04_claim").step("a_claims").sql.rstrip(";")


def _insist_on_no_old_transaction(connection: psycopg.Connection) -> None:
    """Raise CannotRunHere if somebody else's open transaction would keep dead rows, whatever ours does."""
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
        raise CannotRunHere("The server's statistics did not show a VACUUM within 10 s.")
    return int(after[1])
