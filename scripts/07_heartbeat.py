"""Lesson 07: long work renews its lease, only while it owns it, and never past a maximum."""

from __future__ import annotations

import psycopg

from lab.base import wait
from lab.base.errors import LabError
from lab.base.language import Text, brazilian
from lab.experiments import lease_budget
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play
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
    effects, finished = play["c_counts"].rows[0][1], [len(play[step].rows) for step in ("a_finishes", "b_finishes")]
    return Observed(
        effects == "2" and finished == [0, 1],
        f"effects of document 1: {effects}; finishes granted: A {finished[0]}, B {finished[1]}",
        f"efeitos do documento 1: {effects}; conclusões aceitas: A {finished[0]}, B {finished[1]}",
    )


@lesson.scenario("renewed")
def renewed(play: Play) -> Observed:
    effects, late, got = play["c_counts"].rows[0][1], len(play["c_recovers"].rows), play["b_claims"].value
    holds = (effects, late, got) == ("1", 0, "2") and len(play["a_finishes"].rows) == 1
    return Observed(
        holds,
        f"recovered {late}; B got document {got}; effects of document 1: {effects}",
        f"recuperados: {late}; B recebeu o documento {got}; efeitos do documento 1: {effects}",
    )


@lesson.scenario("only_owner")
def only_owner(play: Play) -> Observed:
    granted = len(play["a_renews"].rows)
    refused = [
        len(play[step].rows) for step in ("b_renews_foreign", "a_renews_late", "a_renews_taken", "d_renews_finished")
    ]
    return Observed(
        granted == 1 and refused == [0, 0, 0, 0],
        f"rows renewed: by the owner {granted}; with another token {refused[0]}, once recovered {refused[1]},"
        f" once taken over {refused[2]}, once finished {refused[3]}",
        f"linhas renovadas: pelo dono {granted}; com outro token {refused[0]}, depois de recuperado {refused[1]},"
        f" depois de assumido {refused[2]}, depois de concluído {refused[3]}",
    )


@lesson.scenario("maximum")
def maximum(play: Play) -> Observed:
    beats = {minute: play[f"h_beats_at_{minute}"].rows for minute in (4, 8, 12, 15)}
    granted = [minute for minute, rows in beats.items() if rows]
    refused = [minute for minute, rows in beats.items() if not rows]
    cut = [minute for minute, rows in beats.items() if rows and rows[0][1] == "t"]
    holds = (granted, cut, refused) == ([4, 8, 12], [12], [15])
    recovered, taken_by = play["c_recovers"].rows, play["b_claims"].value
    return Observed(
        holds and len(recovered) == 1 and taken_by == "1",
        f"renewed at minute {_list(granted)} (cut short at {_list(cut)}), refused at {_list(refused)};"
        f" recovered {len(recovered)}, and B got document {taken_by}",
        f"renovada nos minutos {_list(granted)} (encurtada no {_list(cut)}), recusada no {_list(refused)};"
        f" recuperados: {len(recovered)}, e B recebeu o documento {taken_by}",
    )


@lesson.experiment(
    "budget",
    "The budget of a lease is a high percentile of the measured work plus a margin for network and scheduling; shorter, it overruns.",
    "O prazo de uma reserva é um percentil alto do trabalho medido mais uma margem para rede e escalonamento; menor que isso, estoura.",
)
def budget_of_a_lease(stage: Stage) -> Observed:
    planned, judged = lease_budget.measure(stage.conninfo, 1000 if stage.load else 400).halves
    leases = [lease_budget.percentile(planned.held, 50), lease_budget.percentile(planned.held, 95), planned.lease]
    overruns = [judged.overruns(lease) for lease in leases]
    measured, of = len(planned.held), len(judged.held)
    half, most, enough = (f"{lease * 1000:.1f} ms" for lease in leases)
    margin = f"{planned.margin * 1000:.1f} ms"
    return Observed(
        overruns[0] > overruns[1] > overruns[2],
        f"{measured} measured: half end within {half}, 95 % within {most}; 99th percentile of the work and {margin} of margin:"
        f" {enough}. Of {of} others these leases overrun {overruns[0]}, {overruns[1]} and {overruns[2]}",
        f"{measured} medidos: metade acaba em {brazilian(half)}, 95 % em {brazilian(most)}; percentil 99 do trabalho e"
        f" {brazilian(margin)} de margem: {brazilian(enough)}. Em outros {of}, esses prazos estouram {overruns[0]},"
        f" {overruns[1]} e {overruns[2]} vezes",
    )


@lesson.scenario("same_connection", core=False)
def same_connection(play: Play) -> Observed:
    work, beat, attempts = play["a_works"], len(play["a_beats"].rows), play["c_reads"].rows[0][3]
    holds = work.waited_for == ("M",) and len(play["c_recovers"].rows) == 1 and (beat, attempts) == (0, "2")
    return Observed(
        holds,
        f"recovered during the work: {len(play['c_recovers'].rows)}; rows renewed after it: {beat}; attempts {attempts}",
        f"recuperados durante o trabalho: {len(play['c_recovers'].rows)}; linhas renovadas depois: {beat};"
        f" tentativas: {attempts}",
    )


@lesson.scenario("inside_transaction", core=False)
def inside_transaction(play: Play) -> Observed:
    own, others = play["a_reads"].rows[0][1], play["c_reads"].rows[0][1]
    orphans = play["c_counts"].rows[0][1]
    recovered = [len(play[step].rows) for step in ("c_recovers", "c_recovers_again")]
    return Observed(
        (own, others, orphans, recovered) == ("t", "f", "1", [0, 1]),
        f"the lease stands for A: {own}, for others: {others}; orphans {orphans};"
        f" recovered during the transaction {recovered[0]}, after its rollback {recovered[1]}",
        f"a reserva vale para A: {_yes(own)}, para os outros: {_yes(others)}; órfãos: {orphans};"
        f" recuperados durante a transação: {recovered[0]}, depois do ROLLBACK: {recovered[1]}",
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
        f"heap-only of {renewals} renewals: {without} without the index, {indexed} with it",
        f"renovações heap-only, de {renewals}: {without} sem o índice, {indexed} com ele",
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
        raise LabError("The server's statistics did not show the updates within 10 s.")
    return row


def _list(minutes: list[int]) -> str:
    return ", ".join(map(str, minutes))


def _yes(value: str | None) -> str:
    return "sim" if value == "t" else "não"
