"""Lesson 02: plain FOR UPDATE makes workers wait, and when that is right."""

from __future__ import annotations

from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, amount, whole

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
    asks, pending = play["b_asks"], whole(play["b_counts"].one("pendentes"))
    return Observed(
        asks.sqlstate == "55P03" and 1.95 <= asks.seconds < 4 and pending == 4,
        "{sqlstate} after {waited:2} s; pending all the while: {pending}",
        "{sqlstate} depois de {waited:2} s; pendentes o tempo todo: {pending}",
        facts={
            "sqlstate": Fact(asks.sqlstate),
            "waited": Fact(asks.seconds, "s"),
            "pending": Fact(pending, "documents"),
        },
    )


@lesson.scenario("rollback")
def rollback(play: Play) -> Observed:
    return _got_after_waiting(play, 1)


@lesson.scenario("commit")
def commit(play: Play) -> Observed:
    return _got_after_waiting(play, 2)


@lesson.scenario("third_session")
def third_session(play: Play) -> Observed:
    names = ("quem_espera", "por_quem", "locktype", "mode", "granted")
    waiter, waited_for, locktype, mode, granted = (play["c_looks"].one(name) for name in names)
    return Observed(
        (waiter, waited_for, locktype, mode, granted) == ("lab/B", "lab/A", "transactionid", "ShareLock", "f"),
        "{waiter} waits for {waited_for}: {locktype} {mode}",
        "{waiter} espera por {waited_for}: {locktype} {mode}",
        facts={
            "waiter": Fact(waiter),
            "waited_for": Fact(waited_for),
            "locktype": Fact(locktype),
            "mode": Fact(mode),
        },
    )


@lesson.scenario("balance_unlocked")
def balance_unlocked(play: Play) -> Observed:
    steps = ("a_reads", "b_reads", "a_spends", "b_spends")
    a_read, b_read, a_left, b_left = (amount(play[step].one("valor")) or 0.0 for step in steps)
    spent = (a_read - a_left) + (b_read - b_left)
    return Observed(
        a_read == b_read and spent > a_read and b_left > 0,
        "{spent:2} spent of {had:2}; balance said to be {balance:2}",
        "gastos {spent:2} de {had:2}; o saldo registrado é {balance:2}",
        facts={"spent": Fact(spent, "reais"), "had": Fact(a_read, "reais"), "balance": Fact(b_left, "reais")},
    )


@lesson.scenario("balance_waits")
def balance_waits(play: Play) -> Observed:
    balance, seen = amount(play["b_reads"].one("valor")), len(play["c_skips"].rows)
    return Observed(
        balance == 30 and seen == 0,
        "B waited and read {balance:2}; SKIP LOCKED saw {accounts} accounts",
        "B esperou e leu {balance:2}; contas que o SKIP LOCKED viu: {accounts}",
        facts={"balance": Fact(balance, "reais"), "accounts": Fact(seen, "accounts")},
    )


@lesson.scenario("old_order", core=False)
def old_order(play: Play) -> Observed:
    documents = tuple(map(whole, play["b_asks"].column("documento_id")))
    created = tuple((moment or "")[11:19] for moment in play["b_asks"].column("criado_em"))
    return Observed(
        documents[0] == 1 and created[0] == max(created),
        "order: documents {documents}; created at {created}",
        "ordem: documentos {documents}; criados às {created}",
        facts={"documents": Fact(documents), "created": Fact(created)},
    )


@lesson.scenario("finished_meanwhile", core=False)
def finished_meanwhile(play: Play) -> Observed:
    documents, waited_for = tuple(map(whole, play["b_asks"].column("documento_id"))), play["b_asks"].waited_for
    return Observed(
        (documents, waited_for) == ((1, 3, 4), ("A",)),
        "B waited for {waited_for}, then got {rows} rows: {documents}",
        "B esperou por {waited_for} e então recebeu {rows} linhas: {documents}",
        facts={"waited_for": Fact(waited_for), "rows": Fact(len(documents), "rows"), "documents": Fact(documents)},
    )


@lesson.scenario("table_lock", core=False)
def table_lock(play: Play) -> Observed:
    skip, nowait = (play[step].waited_for for step in ("b_skips", "b_nowait"))
    return Observed(
        skip == nowait == ("A",),
        "SKIP LOCKED waited for {skip_locked_waited_for}; NOWAIT waited for {nowait_waited_for}",
        "o SKIP LOCKED esperou por {skip_locked_waited_for}; o NOWAIT, por {nowait_waited_for}",
        facts={"skip_locked_waited_for": Fact(skip), "nowait_waited_for": Fact(nowait)},
    )


def _got_after_waiting(play: Play, document: int) -> Observed:
    asks = play["b_asks"]
    got = whole(asks.one("documento_id"))
    return Observed(
        (got, asks.waited_for) == (document, ("A",)),
        "B waited for {waited_for}, then got document {document}",
        "B esperou por {waited_for} e então recebeu o documento {document}",
        facts={"waited_for": Fact(asks.waited_for), "document": Fact(got)},
    )
