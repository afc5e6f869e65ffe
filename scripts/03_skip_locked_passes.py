"""Lesson 03: SKIP LOCKED passes, and what its silence means."""

from __future__ import annotations

from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, whole

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "A holds document 1. What does B get with SKIP LOCKED, and what do zero rows mean?",
        "A segura o documento 1. O que B recebe com SKIP LOCKED, e o que significam zero linhas?",
    ),
    answer=Text(
        "document 2 at once; zero rows while four are pending",
        "o documento 2 na hora; zero linhas com quatro pendentes",
    ),
    psql_only=Text("yes", "sim"),
)


@lesson.scenario("passes")
def passes(play: Play) -> Observed:
    asks, shown = play["b_asks"], play["b_shows_limit"].one("lock_timeout") or ""
    document, limit = whole(asks.one("documento_id")), whole(shown.removesuffix("s"))
    return Observed(
        document == 2 and asks.seconds < 1 and limit == 2,
        "document {document} after {took:1} ms; lock_timeout of {lock_timeout} s not reached",
        "documento {document} depois de {took:1} ms; lock_timeout de {lock_timeout} s não atingido",
        facts={
            "document": Fact(document),
            "took": Fact(asks.seconds * 1000, "ms"),
            "lock_timeout": Fact(limit, "s"),
        },
    )


@lesson.scenario("all_locked")
def all_locked(play: Play) -> Observed:
    rows, pending = len(play["b_asks"].rows), whole(play["b_counts"].one("pendentes"))
    return Observed(
        (rows, pending) == (0, 4),
        "SKIP LOCKED: {rows} rows; count(*): {pending}",
        "SKIP LOCKED: {rows} linhas; count(*): {pending}",
        facts={"rows": Fact(rows, "rows"), "pending": Fact(pending, "documents")},
    )


@lesson.scenario("why_zero")
def why_zero(play: Play) -> Observed:
    rows = len(play["b_asks"].rows)
    names = ("pendentes", "livres", "bloqueados", "processando")
    pending, free, locked, in_work = (whole(play["b_explains"].one(name)) for name in names)
    return Observed(
        rows == 0 and (pending, free, locked, in_work) == (3, 0, 3, 1),
        "{rows} rows: pending {pending}, free {free}, locked {locked}, processando {in_work}",
        "{rows} linhas: pendentes {pending}, livres {free}, bloqueadas {locked}, processando {in_work}",
        facts={
            "rows": Fact(rows, "rows"),
            "pending": Fact(pending, "documents"),
            "free": Fact(free, "documents"),
            "locked": Fact(locked, "documents"),
            "in_work": Fact(in_work, "documents"),
        },
    )


@lesson.scenario("no_limit")
def no_limit(play: Play) -> Observed:
    locked, rows = whole(play["a_takes"].one("bloqueados")), len(play["b_asks"].rows)
    return Observed(
        (locked, rows) == (4, 0),
        "A holds {locked} rows, B gets {rows}",
        "A segura {locked} linhas, B recebe {rows}",
        facts={"locked": Fact(locked, "documents"), "rows": Fact(rows, "rows")},
    )


@lesson.scenario("autocommit")
def autocommit(play: Play) -> Observed:
    a, b = (whole(play[step].one("documento_id")) for step in ("a_asks", "b_asks"))
    return Observed(
        (a, b) == (1, 1),
        "A got document {document_a}, B got document {document_b}",
        "A recebeu o documento {document_a}; B, o documento {document_b}",
        facts={"document_a": Fact(a), "document_b": Fact(b)},
    )


@lesson.scenario("nowait")
def nowait(play: Play) -> Observed:
    asks = play["b_asks"]
    return Observed(
        asks.sqlstate == "55P03" and not asks.waited_for,
        "{sqlstate} after {took:1} ms; waited for: {waited_for}",
        "{sqlstate} depois de {took:1} ms; esperou por: {waited_for}",
        facts={
            "sqlstate": Fact(asks.sqlstate),
            "took": Fact(asks.seconds * 1000, "ms"),
            "waited_for": Fact(asks.waited_for),
        },
    )


@lesson.scenario("report")
def report(play: Play) -> Observed:
    reported, there = (whole(play[step].one("documentos")) for step in ("b_reports", "b_counts"))
    return Observed(
        (reported, there) == (2, 4),
        "report: {reported}; in the table: {in_table}",
        "relatório: {reported}; na tabela: {in_table}",
        facts={"reported": Fact(reported, "documents"), "in_table": Fact(there, "documents")},
    )


@lesson.scenario("without_status_and_mark", core=False)
def without_status_and_mark(play: Play) -> Observed:
    a, b = (tuple(map(whole, play[step].column("documento_id"))) for step in ("a_asks", "b_asks"))
    return Observed(
        sorted(filter(None, a)) == sorted(filter(None, b)) == [1, 2, 3, 4],
        "not pending, and handed out: {not_pending}; handed to both A and B: {to_both}",
        "não pendentes e entregues: {not_pending}; entregues a A e também a B: {to_both}",
        facts={
            "not_pending": Fact(len({1, 2} & set(a)), "documents"),
            "to_both": Fact(len(set(a) & set(b)), "documents"),
        },
    )


@lesson.scenario("child_insert", core=False)
def child_insert(play: Play) -> Observed:
    strong, weak = (whole(play[step].one("documento_id")) for step in ("b_update", "b_no_key_update"))
    return Observed(
        (strong, weak) == (2, 1),
        "FOR UPDATE got document {document_update}, FOR NO KEY UPDATE document {document_no_key_update}",
        "FOR UPDATE pegou o documento {document_update}; FOR NO KEY UPDATE, o documento {document_no_key_update}",
        facts={"document_update": Fact(strong), "document_no_key_update": Fact(weak)},
    )


@lesson.scenario("no_order_by", core=False)
def no_order_by(play: Play) -> Observed:
    unordered, ordered = (whole(play[step].one("documento_id")) for step in ("a_asks", "a_asks_in_order"))
    return Observed(
        (unordered, ordered) == (2, 1),
        "without ORDER BY document {document_unordered} first, with it document {document_ordered}",
        "sem ORDER BY, primeiro o documento {document_unordered}; com ele, o documento {document_ordered}",
        facts={"document_unordered": Fact(unordered), "document_ordered": Fact(ordered)},
    )
