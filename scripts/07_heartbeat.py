"""Lesson 07: long work renews its lease, only while it owns it, and never past a maximum."""

from __future__ import annotations

import psycopg

from lab.base import wait
from lab.base.errors import LabError
from lab.base.facts import Fact
from lab.base.language import Text, say
from lab.experiments import lease_budget
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage
from lab.server.open_transactions import wait_for_older_transactions

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "The work takes longer than the lease. How does the worker keep the document, without keeping it for ever?",
        "O trabalho demora mais que a reserva. Como o worker mantém o documento sem ficar com ele para sempre?",
    ),
    answer=Text(
        "a heartbeat of its own, by token: one effect instead of two; refused from the maximum run time on",
        "um sinal de vida à parte, pelo token: um efeito em vez de dois; recusado a partir do tempo máximo",
    ),
    psql_only=Text("partly (measuring needs ./lab run 07)", "em parte (medir pede ./lab run 07)"),
)


@lesson.scenario("too_short")
def too_short(play: Play) -> Observed:
    effects = whole(play["c_counts"].one("efeitos"))
    slow, second = len(play["a_finishes"].rows), len(play["b_finishes"].rows)
    return Observed(
        (effects, slow, second) == (2, 0, 1),
        "effects of document 1: {effects}; finishes granted: A {rows_finish_a}, B {rows_finish_b}",
        "efeitos do documento 1: {effects}; conclusões aceitas: A {rows_finish_a}, B {rows_finish_b}",
        facts={
            "effects": Fact(effects, "effects"),
            "rows_finish_a": Fact(slow, "rows"),
            "rows_finish_b": Fact(second, "rows"),
        },
    )


@lesson.scenario("renewed")
def renewed(play: Play) -> Observed:
    effects, late = whole(play["c_counts"].one("efeitos")), len(play["c_recovers"].rows)
    document = whole(play["b_claims"].one("documento_id"))
    return Observed(
        (effects, late, document) == (1, 0, 2) and len(play["a_finishes"].rows) == 1,
        "recovered {recovered}; B got document {document}; effects of document 1: {effects}",
        "recuperados: {recovered}; B recebeu o documento {document}; efeitos do documento 1: {effects}",
        facts={
            "recovered": Fact(late, "documents"),
            "document": Fact(document),
            "effects": Fact(effects, "effects"),
        },
    )


@lesson.scenario("only_owner")
def only_owner(play: Play) -> Observed:
    steps = ("a_renews", "b_renews_foreign", "a_renews_late", "a_renews_taken", "d_renews_finished")
    owner, foreign, recovered, taken_over, finished = (len(play[step].rows) for step in steps)
    return Observed(
        (owner, foreign, recovered, taken_over, finished) == (1, 0, 0, 0, 0),
        "rows renewed: by the owner {rows_renew}; with another token {rows_foreign}, once recovered {rows_recovered}, once taken"
        " over {rows_taken_over}, once finished {rows_finished}",
        "linhas renovadas: pelo dono {rows_renew}; com outro token {rows_foreign}, depois de recuperado {rows_recovered}, depois de"
        " assumido {rows_taken_over}, depois de concluído {rows_finished}",
        facts={
            "rows_renew": Fact(owner, "rows"),
            "rows_foreign": Fact(foreign, "rows"),
            "rows_recovered": Fact(recovered, "rows"),
            "rows_taken_over": Fact(taken_over, "rows"),
            "rows_finished": Fact(finished, "rows"),
        },
    )


@lesson.scenario("maximum")
def maximum(play: Play) -> Observed:
    beats = {minute: play[f"h_beats_at_{minute}"] for minute in (4, 8, 12, 15)}
    granted = tuple(minute for minute, beat in beats.items() if beat.rows)
    refused = tuple(minute for minute, beat in beats.items() if not beat.rows)
    cut = tuple(minute for minute in granted if flag(beats[minute].one("no_limite")))
    recovered, document = len(play["c_recovers"].rows), whole(play["b_claims"].one("documento_id"))
    return Observed(
        (granted, cut, refused) == ((4, 8, 12), (12,), (15,)) and (recovered, document) == (1, 1),
        "renewed at minute {renewed} (cut short at {cut_short}), refused at {refused}; recovered {recovered}, and B got document"
        " {document}",
        "renovada nos minutos {renewed} (encurtada no {cut_short}), recusada no {refused}; recuperados: {recovered}, e B recebeu o"
        " documento {document}",
        facts={
            "renewed": Fact(granted, "min"),
            "cut_short": Fact(cut, "min"),
            "refused": Fact(refused, "min"),
            "recovered": Fact(recovered, "documents"),
            "document": Fact(document),
        },
    )


@lesson.experiment(
    "budget",
    "The budget of a lease is a high percentile of the measured work plus a margin for network and scheduling; shorter, it overruns.",
    "O prazo de uma reserva é um percentil alto do trabalho medido mais uma margem para rede e escalonamento; menor que isso, estoura.",
)
def budget_of_a_lease(stage: Stage) -> Observed:
    planned, judged = lease_budget.measure(stage.conninfo, 1000 if stage.load else 400).halves
    most = 95
    half_lease, most_lease = (lease_budget.percentile(planned.held, percent) for percent in (50, most))
    budget = planned.lease
    half_overruns, most_overruns, overruns = (judged.overruns(lease) for lease in (half_lease, most_lease, budget))
    return Observed(
        half_overruns > most_overruns > overruns,
        "{measured} measured: half end within {half_lease:1} ms, {most} % within {most_lease:1} ms; {percentile}th percentile of the"
        " work and {margin:1} ms of margin: {budget:1} ms. Of {judged} others these leases overrun {half_overruns},"
        " {most_overruns} and {budget_overruns}",
        "{measured} medidos: metade acaba em {half_lease:1} ms, {most} % em {most_lease:1} ms; percentil {percentile} do trabalho e"
        " {margin:1} ms de margem: {budget:1} ms. Em outros {judged}, esses prazos estouram {half_overruns}, {most_overruns} e"
        " {budget_overruns} vezes",
        facts={
            "measured": Fact(len(planned.held), "documents"),
            "half_lease": Fact(half_lease * 1000, "ms"),
            "most": Fact(most, "%"),
            "most_lease": Fact(most_lease * 1000, "ms"),
            "percentile": Fact(lease_budget.PERCENTILE),
            "margin": Fact(planned.margin * 1000, "ms"),
            "budget": Fact(budget * 1000, "ms"),
            "judged": Fact(len(judged.held), "documents"),
            "half_overruns": Fact(half_overruns, "documents"),
            "most_overruns": Fact(most_overruns, "documents"),
            "budget_overruns": Fact(overruns, "documents"),
        },
    )


@lesson.scenario("same_connection", core=False)
def same_connection(play: Play) -> Observed:
    recovered, renewed = len(play["c_recovers"].rows), len(play["a_beats"].rows)
    attempts = whole(play["c_reads"].one("tentativas"))
    return Observed(
        play["a_works"].waited_for == ("M",) and (recovered, renewed, attempts) == (1, 0, 2),
        "recovered during the work: {recovered}; rows renewed after it: {rows_renew}; attempts {attempts}",
        "recuperados durante o trabalho: {recovered}; linhas renovadas depois: {rows_renew}; tentativas: {attempts}",
        facts={
            "recovered": Fact(recovered, "documents"),
            "rows_renew": Fact(renewed, "rows"),
            "attempts": Fact(attempts, "attempts"),
        },
    )


@lesson.scenario("inside_transaction", core=False)
def inside_transaction(play: Play) -> Observed:
    own, others = (flag(play[step].one("vale")) for step in ("a_reads", "c_reads"))
    orphaned = whole(play["c_counts"].one("orfaos"))
    during, after = len(play["c_recovers"].rows), len(play["c_recovers_again"].rows)
    return Observed(
        (own, others, orphaned, during, after) == (True, False, 1, 0, 1),
        "the lease stands for A: {valid_for_a}, for others: {valid_for_others}; orphans {orphaned}; recovered during the"
        " transaction {recovered}, after its rollback {recovered_again}",
        "a reserva vale para A: {valid_for_a}, para os outros: {valid_for_others}; órfãos: {orphaned}; recuperados durante a"
        " transação: {recovered}, depois do ROLLBACK: {recovered_again}",
        facts={
            "valid_for_a": Fact(own),
            "valid_for_others": Fact(others),
            "orphaned": Fact(orphaned, "documents"),
            "recovered": Fact(during, "documents"),
            "recovered_again": Fact(after, "documents"),
        },
    )


@lesson.experiment(
    "indexed_deadline",
    "With an index on reservado_ate no renewal is a heap-only update any more: each one writes into every index of the table.",
    "Com um índice em reservado_ate, nenhuma renovação é mais heap-only (HOT): cada uma grava em todos os índices da tabela.",
    core=False,
)
def indexed_deadline(stage: Stage) -> Observed:
    without, renewals = _heap_only(stage, None)
    indexed, _ = _heap_only(stage, "CREATE INDEX ON fila_documentos (reservado_ate)")
    return Observed(
        without > renewals / 2 and indexed == 0,
        "heap-only of {renewals} renewals: {heap_only} without the index, {heap_only_indexed} with it",
        "renovações heap-only, de {renewals}: {heap_only} sem o índice, {heap_only_indexed} com ele",
        facts={
            "renewals": Fact(renewals, "renewals"),
            "heap_only": Fact(without, "renewals"),
            "heap_only_indexed": Fact(indexed, "renewals"),
        },
    )


def _heap_only(stage: Stage, index: str | None, documents: int = 200, beats: int = 10) -> tuple[int, int]:
    """How many renewals of so many documents in work, so many times each, are heap-only updates; and how many there were."""
    stage.build(7)
    with stage.connection() as watch:
        watch.execute("ALTER TABLE fila_documentos SET (autovacuum_enabled = off)")
        watch.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(5, %s) AS n",
            [documents],
        )
        if index:
            watch.execute(index.encode())
        with stage.connection("lab/worker") as worker:
            claimed = worker.execute(
                "SELECT documento_id, token_reserva FROM reservar('worker-a', %s)", [documents]
            ).fetchall()
        before = _updates(watch, at_least=documents)
        # A session sends its statistics at its end at the latest.
        with stage.connection("lab/heartbeat") as heartbeat:
            for _ in range(beats):
                wait_for_older_transactions(watch)  # else the pages of the last beat cannot be tidied up for this one
                for document, token in claimed:
                    heartbeat.execute("SELECT renovar(%s, %s)", [document, token])
        after = _updates(watch, at_least=before[0] + documents * beats)
    return after[1] - before[1], after[0] - before[0]


def _updates(connection: psycopg.Connection, at_least: int) -> tuple[int, int]:
    """How many rows of the queue were updated, and how many of them heap-only, once there are so many."""
    row = (0, 0)

    def there() -> bool:
        nonlocal row
        row = connection.execute(
            "SELECT pg_stat_get_tuples_updated('fila_documentos'::regclass),"
            " pg_stat_get_tuples_hot_updated('fila_documentos'::regclass) FROM pg_stat_clear_snapshot()"
        ).fetchone() or (0, 0)
        return row[0] >= at_least

    # A session that has ended, and up to PostgreSQL 14 a process of its own, brings them a moment later.
    if not wait.until(there, 10):
        raise LabError(
            say(
                "The server's statistics did not show the updates within 10 s.",
                "As estatísticas do servidor não mostraram as alterações em 10 s.",
            )
        )
    return row
