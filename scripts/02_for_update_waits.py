"""Lesson 02: plain FOR UPDATE makes workers wait, and when that is right."""

from __future__ import annotations

from decimal import Decimal

from lab.base.language import Text, brazilian
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play

lesson = Lesson(
    __file__,
    minutes=10,
    question=Text(
        "A holds document 1. Three others are pending. Which one does B get?",
        "A segura o documento 1. Outros três estão pendentes. Qual deles B recebe?",
    ),
    answer=Text(
        "none: 55P03 after 2 s, or document 1 once A gives it up",
        "nenhum: 55P03 depois de 2 s, ou o documento 1 quando A desistir dele",
    ),
    psql_only=Text("yes", "sim"),
)


@lesson.scenario("lock_timeout")
def lock_timeout(play: Play) -> Observed:
    asks, pending = play["b_asks"], play["b_counts"].value
    holds = asks.sqlstate == "55P03" and 1.95 <= asks.seconds < 4 and pending == "4"
    took = f"{asks.seconds:.2f} s"
    return Observed(
        holds,
        f"{asks.sqlstate} after {took}; pending all the while: {pending}",
        f"{asks.sqlstate} depois de {brazilian(took)}; pendentes o tempo todo: {pending}",
    )


@lesson.scenario("rollback")
def rollback(play: Play) -> Observed:
    asks = play["b_asks"]
    return Observed(
        asks.value == "1",
        f"B waited for {asks.waited_for[0]}, then got document {asks.value}",
        f"B esperou por {asks.waited_for[0]} e então recebeu o documento {asks.value}",
    )


@lesson.scenario("commit")
def commit(play: Play) -> Observed:
    asks = play["b_asks"]
    return Observed(
        asks.value == "2",
        f"B waited for {asks.waited_for[0]}, then got document {asks.value}",
        f"B esperou por {asks.waited_for[0]} e então recebeu o documento {asks.value}",
    )


@lesson.scenario("third_session")
def third_session(play: Play) -> Observed:
    seen = play["c_looks"].rows
    expected = (("lab/B", "lab/A", "transactionid", "ShareLock", "f"),)
    return Observed(
        seen == expected,
        "; ".join(f"{who} waits for {whom}: {kind} {mode}" for who, whom, kind, mode, _ in seen),
        "; ".join(f"{who} espera por {whom}: {kind} {mode}" for who, whom, kind, mode, _ in seen),
    )


READS, WRITES = ("a_reads", "b_reads"), ("a_spends", "b_spends")


@lesson.scenario("balance_unlocked")
def balance_unlocked(play: Play) -> Observed:
    read, written = ([Decimal(play[step].value or "NaN") for step in pair] for pair in (READS, WRITES))
    spent, had, left = sum(read) - sum(written), read[0], written[1]
    return Observed(
        read[0] == read[1] and spent > had and left > 0,
        f"{spent} spent of {had}; balance said to be {left}",
        f"gastos {brazilian(str(spent))} de {brazilian(str(had))}; o saldo registrado é {brazilian(str(left))}",
    )


@lesson.scenario("balance_waits")
def balance_waits(play: Play) -> Observed:
    balance, skipped = play["b_reads"].value or "", play["c_skips"].rows
    return Observed(
        balance == "30.00" and not skipped,
        f"B waited and read {balance}; SKIP LOCKED saw {len(skipped)} accounts",
        f"B esperou e leu {brazilian(balance)}; contas que o SKIP LOCKED viu: {len(skipped)}",
    )


@lesson.scenario("old_order", core=False)
def old_order(play: Play) -> Observed:
    rows = play["b_asks"].rows
    ids, times = [row[0] for row in rows], [row[1] or "" for row in rows]
    order = ", ".join(f"{document} ({time[11:19]})" for document, time in zip(ids, times, strict=True))
    return Observed(
        ids[0] == "1" and times[0] == max(times),
        f"order: {order}",
        f"ordem: {order}",
    )


@lesson.scenario("finished_meanwhile", core=False)
def finished_meanwhile(play: Play) -> Observed:
    ids = [row[0] for row in play["b_asks"].rows]
    listed = " ".join(map(str, ids))
    return Observed(ids == ["1", "3", "4"], f"{len(ids)} rows: {listed}", f"{len(ids)} linhas: {listed}")


@lesson.scenario("table_lock", core=False)
def table_lock(play: Play) -> Observed:
    skip, nowait = (" ".join(play[step].waited_for) for step in ("b_skips", "b_nowait"))
    return Observed(
        skip == nowait == "A",
        f"SKIP LOCKED waited for {skip}; NOWAIT waited for {nowait}",
        f"o SKIP LOCKED esperou por {skip}; o NOWAIT, por {nowait}",
    )
