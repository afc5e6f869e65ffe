"""Lesson 03: SKIP LOCKED passes, and what its silence means."""

from __future__ import annotations

from lab.base.language import Text, brazilian
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play

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
    asks = play["b_asks"]
    took, limit = f"{asks.seconds * 1000:.1f} ms", play["b_shows_limit"].value
    return Observed(
        asks.value == "2" and asks.seconds < 1 and limit == "2s",
        f"document {asks.value} after {took}; lock_timeout {limit} not reached",
        f"documento {asks.value} depois de {brazilian(took)}; lock_timeout de {limit} não atingido",
    )


@lesson.scenario("all_locked")
def all_locked(play: Play) -> Observed:
    got, pending = len(play["b_asks"].rows), play["b_counts"].value
    return Observed(
        got == 0 and pending == "4",
        f"SKIP LOCKED: {got} rows; count(*): {pending}",
        f"SKIP LOCKED: {got} linhas; count(*): {pending}",
    )


@lesson.scenario("why_zero")
def why_zero(play: Play) -> Observed:
    got, row = len(play["b_asks"].rows), play["b_explains"].rows[0]
    return Observed(
        got == 0 and row == ("3", "0", "3", "1"),
        f"{got} rows: pending {row[0]}, free {row[1]}, locked {row[2]}, processando {row[3]}",
        f"{got} linhas: pendentes {row[0]}, livres {row[1]}, bloqueadas {row[2]}, processando {row[3]}",
    )


@lesson.scenario("no_limit")
def no_limit(play: Play) -> Observed:
    locked, left = play["a_takes"].value, len(play["b_asks"].rows)
    return Observed(
        locked == "4" and left == 0,
        f"A holds {locked} rows, B gets {left}",
        f"A segura {locked} linhas, B recebe {left}",
    )


@lesson.scenario("autocommit")
def autocommit(play: Play) -> Observed:
    documents = (play["a_asks"].value, play["b_asks"].value)
    return Observed(
        documents == ("1", "1"),
        f"A got document {documents[0]}, B got document {documents[1]}",
        f"A recebeu o documento {documents[0]}; B, o documento {documents[1]}",
    )


@lesson.scenario("nowait")
def nowait(play: Play) -> Observed:
    asks = play["b_asks"]
    took = f"{asks.seconds * 1000:.1f} ms"
    return Observed(
        asks.sqlstate == "55P03" and not asks.waited_for,
        f"{asks.sqlstate} after {took}, without a wait",
        f"{asks.sqlstate} depois de {brazilian(took)}, sem esperar",
    )


@lesson.scenario("report")
def report(play: Play) -> Observed:
    reported, there = play["b_reports"].value, play["b_counts"].value
    return Observed(
        (reported, there) == ("2", "4"),
        f"report: {reported}; in the table: {there}",
        f"relatório: {reported}; na tabela: {there}",
    )


@lesson.scenario("child_insert", core=False)
def child_insert(play: Play) -> Observed:
    strong, weak = play["b_update"].value, play["b_no_key_update"].value
    return Observed(
        (strong, weak) == ("2", "1"),
        f"FOR UPDATE got document {strong}, FOR NO KEY UPDATE document {weak}",
        f"FOR UPDATE pegou o documento {strong}; FOR NO KEY UPDATE, o documento {weak}",
    )


@lesson.scenario("no_order_by", core=False)
def no_order_by(play: Play) -> Observed:
    without, ordered = play["a_asks"].value, play["a_asks_in_order"].value
    return Observed(
        (without, ordered) == ("2", "1"),
        f"without ORDER BY document {without} first, with it document {ordered}",
        f"sem ORDER BY, primeiro o documento {without}; com ele, o documento {ordered}",
    )
