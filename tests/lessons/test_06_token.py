"""Lesson 06: only the token (or a version never reset) fences off a worker that comes back late; the audit misses nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import psycopg
import pytest

from lab.base import paths
from lab.lessons import registry
from lab.scenario import library, transcript
from lab.scenario.library import find_scenario
from lab.scenario.player import play
from lab.scenario.stage import Stage
from lab.server import psql, schema
from lab.server.session import SessionPins
from tests.conftest import nothing_left
from tests.helpers import check_lesson, execute, fetch, mutated

BY_TOKEN = "AND fila.token_reserva = p_token"


@pytest.fixture
def queue(module_database: str) -> Iterator[str]:
    """The conninfo of a watched database with the queue in state 06."""
    schema.build(module_database, 6)
    with nothing_left(module_database):
        yield module_database


@pytest.fixture
def session(queue: str) -> Iterator[psycopg.Connection]:
    """A session of that database."""
    with SessionPins().psycopg_connection(queue, "lab/test") as connection:
        yield connection


def rows(session: psycopg.Connection, statement: str, *values: object) -> list[tuple[object, ...]]:
    return session.execute(statement.encode(), values or None).fetchall()


def pass_a_minute(session: psycopg.Connection) -> None:
    session.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 minute'")


def taken_over(session: psycopg.Connection) -> None:
    """Document 1 was claimed under token 1, recovered, and claimed again under token 2."""
    assert rows(session, "SELECT documento_id, token_reserva FROM reservar('worker-a')") == [(1, 1)]
    pass_a_minute(session)
    assert rows(session, "SELECT documento_id FROM recuperar('vigia')") == [(1,)]
    assert rows(session, "SELECT documento_id, token_reserva FROM reservar('worker-b')") == [(1, 2)]


def without_the_token(conninfo: str) -> None:
    """Take the fence away: the guard still asks for id and state, but no longer for the token."""
    ((text,),) = fetch(
        conninfo, "SELECT pg_get_functiondef('sql_semana_12.travar(bigint, bigint, text)'::regprocedure)"
    )
    assert isinstance(text, str) and text.count(BY_TOKEN) == 1
    execute(conninfo, text.replace(BY_TOKEN, ""))


# The fence


@pytest.mark.parametrize(
    "late", ["concluir(1, 1)", "falhar(1, 1, 'tarde')", "renovar(1, 1)"], ids=["finish", "failure", "renewal"]
)
def test_a_late_write_changes_nothing_at_all(late: str, session: psycopg.Connection) -> None:
    taken_over(session)
    everything = "SELECT f::text FROM fila_documentos AS f UNION ALL SELECT a::text FROM auditoria AS a ORDER BY 1"
    before = rows(session, everything)
    assert rows(session, f"SELECT documento_id FROM {late}") == []
    assert rows(session, everything) == before
    assert rows(session, "SELECT status FROM concluir(1, 2)") == [("concluido",)]


@pytest.mark.parametrize(
    "wrong",
    ["concluir(1, NULL)", "concluir(2, 2)", "concluir(1, 3)", "concluir(NULL, 2)", "concluir(1, 2, 'outro')"],
    ids=["no token", "document", "token", "no document", "tenant"],
)
def test_what_does_not_fit_the_claim_in_everything_is_refused(wrong: str, session: psycopg.Connection) -> None:
    taken_over(session)
    assert rows(session, f"SELECT documento_id FROM {wrong}") == []


def test_a_document_without_a_token_has_no_owner(session: psycopg.Connection) -> None:
    for call in ("concluir(1, NULL)", "falhar(1, NULL, 'sem token')", "renovar(1, NULL)"):
        assert rows(session, f"SELECT documento_id FROM {call}") == []


def test_with_the_token_taken_out_of_the_guard_the_late_write_gets_through(queue: str) -> None:
    without_the_token(queue)
    played = play(find_scenario("06_late_writes"), queue)
    assert len(played["a_finishes"].rows) == 1
    assert len(played["b_finishes"].rows) == 0
    told = library.golden_path(played.scenario).read_text(encoding="utf-8")
    assert transcript.difference(told, transcript.golden(played))


def test_a_finish_whose_answer_was_lost_finds_its_token_in_the_audit(session: psycopg.Connection) -> None:
    taken_over(session)
    session.execute("SELECT concluir(1, 2)")
    assert rows(session, "SELECT status FROM concluir(1, 2)") == []
    outcome = "SELECT para FROM auditoria WHERE documento_id = 1 AND token_reserva = %s ORDER BY versao DESC LIMIT 1"
    assert rows(session, outcome, 2) == [("concluido",)]
    assert rows(session, outcome, 1) == [("pendente",)]


def test_a_rolled_back_claim_gives_no_number_back(session: psycopg.Connection) -> None:
    with session.transaction(force_rollback=True):
        assert rows(session, "SELECT token_reserva FROM reservar('worker-a')") == [(1,)]
    assert rows(session, "SELECT token_reserva FROM reservar('worker-b')") == [(2,)]


@pytest.mark.parametrize(
    ("name", "waiter", "blocker"),
    [("06_same_moment", "a_finishes_second A", "C"), ("06_finish_skips", "a_finishes A", "M")],
)
def test_a_play_in_which_the_finish_need_not_wait_fails(name: str, waiter: str, blocker: str, queue: str) -> None:
    step = waiter.split()[0]
    without = mutated(name, (f"@step {waiter} blocks {blocker}\n", f"@step {waiter}\n"), (f"-- @ends {step}\n", ""))
    assert step in (play(without, queue).failure or "")


# Recovery


def test_after_too_many_attempts_the_recovery_fails_the_document(session: psycopg.Connection) -> None:
    taken_over(session)
    pass_a_minute(session)
    recovered = rows(session, "SELECT status, versao, worker_anterior FROM recuperar('vigia', p_max_tentativas => 2)")
    assert recovered == [("falhou", 4, "worker-b")]
    kept = "SELECT worker_id, token_reserva, reservado_ate, concluido_em IS NOT NULL, ultimo_erro FROM fila_documentos"
    assert rows(session, f"{kept} WHERE documento_id = 1") == [("worker-b", None, None, True, "reserva vencida")]


@pytest.mark.parametrize(
    "call",
    [
        "falhar(1, 1, ' ')",
        "falhar(1, 1, NULL)",
        "renovar(1, 1, '0')",
        "recuperar(' ')",
        "recuperar('vigia', NULL)",
        "recuperar('vigia', p_limite => 0)",
        "recuperar('vigia', p_max_tentativas => NULL)",
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_anything_is_changed(
    call: str, session: psycopg.Connection
) -> None:
    session.execute("SELECT reservar('worker-a')")
    pass_a_minute(session)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        session.execute(f"SELECT {call}".encode())
    assert rows(session, "SELECT count(*) FROM auditoria") == [(1,)]


def test_a_document_claimed_before_there_were_tokens_can_be_recovered_and_finished_by_no_worker(database: str) -> None:
    schema.build(database, 5)
    execute(database, "SELECT sql_semana_12.reservar('worker-a')")
    for _ in range(2):  # an upgrade may be run again
        psql.run_scripts(
            database, paths.SQL / "06_token.sql", paths.SQL / "lab_clock.sql", paths.SQL / "lab_tokens.sql"
        )
    with SessionPins().psycopg_connection(database, "lab/test") as session:
        assert rows(session, "SELECT documento_id FROM concluir(1, NULL)") == []
        pass_a_minute(session)
        assert rows(session, "SELECT documento_id, status, versao FROM recuperar('vigia')") == [(1, "pendente", 1)]
        assert rows(session, "SELECT documento_id, token_reserva FROM reservar('worker-b')") == [(1, 1)]


def test_every_function_has_one_form(queue: str) -> None:
    doubled = "SELECT proname FROM pg_proc WHERE pronamespace = 'sql_semana_12'::regnamespace GROUP BY proname HAVING count(*) > 1"
    assert fetch(queue, doubled) == []


# The audit


def broken(session: psycopg.Connection) -> list[tuple[object, ...]]:
    """The documents whose audit is not one unbroken chain from pendente to their present state, one version a row."""
    return rows(
        session,
        "WITH corrente AS ("
        " SELECT documento_id, versao, de, para,"
        " row_number() OVER documento AS numero, lag(para, 1, 'pendente') OVER documento AS antes"
        " FROM auditoria WINDOW documento AS (PARTITION BY documento_id ORDER BY versao)"
        ") SELECT fila.documento_id, fila.status, fila.versao FROM fila_documentos AS fila"
        " LEFT JOIN corrente ON fila.documento_id = corrente.documento_id"
        " GROUP BY fila.inquilino, fila.documento_id"
        " HAVING fila.versao <> count(corrente.versao)"
        " OR bool_or(corrente.versao <> corrente.numero OR corrente.de <> corrente.antes)"
        " OR fila.status <> coalesce((array_agg(corrente.para ORDER BY corrente.versao DESC))[1], 'pendente')"
        " OR (fila.status = 'processando') <> (fila.token_reserva IS NOT NULL)",
    )


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_called_versao_and_audit_agree_and_no_token_comes_again(
    seed: int, session: psycopg.Connection
) -> None:
    chance = random.Random(seed)
    claimed: list[tuple[int, int]] = []
    for _ in range(120):
        document, token = chance.choice(claimed) if claimed else (1, 1)
        match chance.randrange(6):
            case 0 | 1:
                new = rows(
                    session, "SELECT documento_id, token_reserva FROM reservar(%s, %s)", "worker", chance.randint(1, 2)
                )
                claimed += [(int(str(row[0])), int(str(row[1]))) for row in new]
            case 2:
                session.execute("SELECT concluir(%s, %s)", [document, token])
            case 3:
                session.execute("SELECT falhar(%s, %s, 'ao acaso')", [document, token])
            case 4:
                session.execute("SELECT renovar(%s, %s)", [document, token])
            case _:
                pass_a_minute(session)
                session.execute("SELECT recuperar('vigia', p_max_tentativas => 1000)")
        if not rows(session, "SELECT 1 FROM fila_documentos WHERE status IN ('pendente', 'processando')"):
            session.execute(
                "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)"
                " SELECT 'MAIS-' || max(documento_id), 'mais.xml', '<nfe/>' FROM fila_documentos"
            )
    tokens = [token for _, token in claimed]
    assert len(tokens) == len(set(tokens)) > 10
    assert broken(session) == []


def test_the_check_of_the_audit_sees_a_change_that_left_no_row(session: psycopg.Connection) -> None:
    taken_over(session)
    assert broken(session) == []
    session.execute("UPDATE fila_documentos SET status = 'concluido', token_reserva = NULL WHERE documento_id = 1")
    assert broken(session) == [(1, "concluido", 3)]


def test_in_a_free_race_of_workers_and_recoveries_every_document_is_finished_once(queue: str) -> None:
    documents = 40
    execute(
        queue,
        "INSERT INTO sql_semana_12.fila_documentos (chave, nome_arquivo, conteudo_xml)"
        f" SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>' FROM generate_series(5, {documents}) AS n",
    )
    finished: list[int] = []
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            with SessionPins().psycopg_connection(queue, f"lab/{number}") as session:
                chance = random.Random(number)
                while rows(
                    session, "SELECT 1 FROM fila_documentos WHERE status IN ('pendente', 'processando') LIMIT 1"
                ):
                    for document, token in rows(
                        session, "SELECT documento_id, token_reserva FROM reservar(%s, 3)", f"worker-{number}"
                    ):
                        if chance.random() < 0.4:  # everybody's leases end, this one's too
                            pass_a_minute(session)
                            session.execute("SELECT recuperar('vigia', p_max_tentativas => 1000)")
                        finished.extend(
                            int(str(row[0]))
                            for row in rows(session, "SELECT documento_id FROM concluir(%s, %s)", document, token)
                        )
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=[number]) for number in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    assert sorted(finished) == list(range(1, documents + 1))
    with SessionPins().psycopg_connection(queue, "lab/test") as session:
        assert broken(session) == []
        refused = rows(session, "SELECT count(*) FROM auditoria WHERE para = 'pendente'")[0][0]
        assert refused, "no lease was ever taken away: nothing was tried"


# The crash


def test_on_a_given_server_nothing_is_crashed_and_the_reason_is_told(module_database: str) -> None:
    told = registry.find("06")
    (claim,) = [each for each in told.checks if each.id == "06.asynchronous_commit"]
    observed = claim.observe(Stage(module_database, superuser=True, embedded=False))
    assert (observed.holds, bool(observed.why)) == (None, True)


def test_every_check_of_lesson_06_passes(stage: Stage) -> None:
    check_lesson("06_token", stage)
