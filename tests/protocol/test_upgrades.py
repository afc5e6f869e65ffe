"""An installation of the first edition becomes one of this: same catalogue, same documents, while its workers go on."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base import wait
from lab.protocol import take_home, upgrades
from lab.server.target import Target
from tests.helpers import execute, fetch
from tests.protocol.test_take_home import KINDS, Home, catalog, described, made, moved, role
from tests.protocol.test_take_home import plain as plain

FIRST_EDITION = Path(__file__).with_name("first_edition.sql").read_text(encoding="utf-8")
OTHER_TENANT = "another tenant"


def first_edition(names: str, chosen: str) -> str:
    """The file of the first edition, which was made for the schema public with Portuguese names."""
    return take_home._translated(FIRST_EDITION, names).replace('"public"', f'"{chosen}"')


@pytest.fixture(params=[("pt", "fila"), ("en", "queue"), ("en", "order")], ids=" ".join)
def old(request: pytest.FixtureRequest, plain: dict[str, str]) -> Home:
    """A queue of the first edition, in use: a document in each state, a claim in flight; its roles are known to it alone."""
    home = first(plain, *request.param)
    for number in range(7):
        home.fetch("application", "SELECT {schema}.{enfileirar}(%s, 'a.xml', '<a/>', 'um', NULL, 3)", f"K{number}")
    finished, failed, for_people, put_off, held = (claim(home) for _ in range(5))
    home.fetch("worker", "SELECT {schema}.{concluir}(%s, %s)", *finished)
    home.fetch("worker", f"SELECT {{schema}}.{{falhar}}(%s, %s, '{home.name('conteudo')}', 'x')", *failed)
    home.fetch("worker", "SELECT {schema}.{conciliar}(%s, %s, 'x')", *for_people)
    home.fetch("worker", f"SELECT {{schema}}.{{falhar}}(%s, %s, '{home.name('sistemico')}', 'x')", *put_off)
    home.fetch("operator", "SELECT {schema}.{pausar}(6, 0, 'ana', 'x')")
    assert held[0] == 5
    return home


def first(plain: dict[str, str], names: str, chosen: str) -> Home:
    """The first edition, installed; the file that is to upgrade it names no role."""
    home = Home(names, chosen, take_home.protocol(names, chosen, {}), plain["owner"], plain)
    assert home.psql(first_edition(names, chosen)) == ""
    duties: dict[str, tuple[str, ...]] = {
        "worker": (
            "reservar",
            "renovar",
            "concluir",
            "concluir_lote",
            "falhar",
            "conciliar",
            "recuperar",
            "registrar_etapa",
        )
    }
    duties |= {"operator": ("pausar", "retomar"), "application": ("enfileirar",), "reader": ()}
    for duty, functions in duties.items():
        execute(home.owner, home.said(f'GRANT USAGE ON SCHEMA {{schema}} TO "{role(duty)}"'))
        for function in functions:
            grant = f'GRANT EXECUTE ON FUNCTION {{schema}}.{{{function}}} TO "{role(duty)}"'
            execute(home.owner, home.said(grant))
    execute(
        home.owner,
        home.said(f'GRANT SELECT ON {{schema}}.{{fila_documentos}}, {{schema}}.{{situacao}} TO "{role("reader")}"'),
    )
    return home


def claim(home: Home) -> tuple[int, int]:
    ((document, token),) = home.fetch("worker", "SELECT {documento_id}, {token_reserva} FROM {schema}.{reservar}('w')")
    return int(str(document)), int(str(token))


def prepared(home: Home, before: str = "", fails: bool = False) -> str:
    return home.psql(before + take_home.section(home.text, "--^"), fails)


def upgraded(home: Home) -> str:
    assert prepared(home) == "building the indexes of the new edition: each waits for transactions that are open now\n"
    return home.psql(home.text)


@contextmanager
def anew(server: Target, home: Home) -> Iterator[Home]:
    """The same queue installed by this file alone, in a database of its own."""
    with server.database("anew") as conninfo:
        execute(
            conninfo,
            f'GRANT CREATE ON DATABASE "{fetch(conninfo, "SELECT current_database()")[0][0]}" TO "{role("owner")}"',
        )
        other = made(
            {kind: make_conninfo(conninfo, user=role(kind)) for kind in ("owner", *KINDS)}, home.names, home.schema
        )
        assert other.psql(other.text) == ""
        try:
            yield other
        finally:
            for kind in ("owner", *KINDS):
                execute(conninfo, f'DROP OWNED BY "{role(kind)}" CASCADE')


def structure(home: Home) -> dict[str, object]:
    """What the schema holds, whatever the order of its columns is; and who may do what there."""
    of_columns = {
        "said of": "SELECT attrelid::REGCLASS || '.' || attname, col_description(attrelid, attnum) FROM pg_attribute"
        " INNER JOIN pg_class AS c ON c.oid = attrelid WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND attnum > 0"
        " AND NOT attisdropped AND relkind = 'r'",
        "right on column": "SELECT attrelid::REGCLASS || '.' || attname || ' ' || grantee::REGROLE, privilege_type FROM pg_attribute"
        " INNER JOIN pg_class AS c ON c.oid = attrelid CROSS JOIN aclexplode(attacl)"
        " WHERE c.relnamespace = to_regnamespace(quote_ident(%s))",
        "right on": "SELECT oid::REGCLASS || ' ' || grantee::REGROLE, array_agg(privilege_type ORDER BY 1)"
        " FROM pg_class CROSS JOIN aclexplode(relacl)"
        " WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND grantee <> grantor GROUP BY 1",
        "right on function": "SELECT proname || ' ' || grantee::REGROLE, privilege_type FROM pg_proc CROSS JOIN aclexplode(proacl)"
        " WHERE pronamespace = to_regnamespace(quote_ident(%s)) AND grantee <> grantor",
        "not valid": "SELECT conname, convalidated FROM pg_constraint WHERE connamespace = to_regnamespace(quote_ident(%s))",
    }
    found = {
        key: text for key, text in catalog(home.owner, home.schema).items() if not re.match(r"comment on \S+ \d+$", key)
    }
    return found | described(home.owner, home.schema, of_columns)


def documents(home: Home) -> list[tuple[object, ...]]:
    new = [home.name(each) for each in ("conteudo_xml", "conteudo_sha256", "chamada_basta")]
    less = " ".join(f"- '{name}'" for name in new)
    return home.fetch(
        "owner", f"SELECT to_jsonb(f) {less} FROM {{schema}}.{{fila_documentos}} AS f ORDER BY {{documento_id}}"
    )


def audit(home: Home) -> list[tuple[object, ...]]:
    columns = "{inquilino}, {documento_id}, {versao}, {de}, {para}, {token_reserva}, {quem}, {por_que}, {quando}"
    return home.fetch("owner", f"SELECT {columns} FROM {{schema}}.{{auditoria}} ORDER BY 2, 3")


def test_an_upgraded_queue_is_what_a_new_one_is_and_keeps_what_it_held(own_server: Target, old: Home) -> None:
    execute(old.owner, old.said("CREATE OR REPLACE FUNCTION {schema}.{tempo_maximo}() RETURNS INTERVAL LANGUAGE plpgsql IMMUTABLE"
    " SET search_path = pg_catalog AS $$ BEGIN RETURN INTERVAL '2 hours'; END $$"))  # fmt: skip
    ((held,),) = old.fetch("owner", "SELECT {token_reserva} FROM {schema}.{fila_documentos} WHERE {documento_id} = 5")
    before = documents(old), audit(old)
    assert upgraded(old) == ""
    assert (documents(old), audit(old)) == before
    with anew(own_server, old) as new:
        assert structure(old) == structure(new)
    # Settings and rights are kept, and who had a duty can do all of it.
    assert old.fetch("owner", "SELECT {duracao_maxima}::TEXT FROM {schema}.{configuracao}") == [("02:00:00",)]
    assert old.fetch("worker", "SELECT {status} FROM {schema}.{concluir}(5, %s)", held) == [(old.name("concluido"),)]
    assert len(old.fetch("worker", "SELECT * FROM {schema}.{concluir_e_reservar}('{}', '{}', NULL, 'w')")) == 1
    assert len(old.fetch("operator", "SELECT * FROM {schema}.{retomar}(6, 1, 'ana', 'x')")) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        old.fetch("reader", "SELECT {conteudo_xml} FROM {schema}.{fila_documentos}")
    # A key is a tenant's own from now on, and a known one is told.
    enqueue = "SELECT {novo} FROM {schema}.{enfileirar}('K1', 'a.xml', '<a/>', %s)"
    assert [old.fetch("application", enqueue, tenant) for tenant in (OTHER_TENANT, OTHER_TENANT)] == [
        [(True,)],
        [(False,)],
    ]
    # Again it changes nothing.
    all_of_it = structure(old), documents(old), audit(old)
    assert old.psql(old.text) == ""
    assert (structure(old), documents(old), audit(old)) == all_of_it


def test_nothing_is_lost_while_workers_and_callers_go_on(plain: dict[str, str]) -> None:
    home = first(plain, "pt", "fila")
    ended = threading.Event()
    enqueued: list[str] = []
    finished: list[int] = []
    errors: list[str] = []

    def enqueue() -> None:
        with psycopg.connect(plain["application"], autocommit=True) as connection:
            while not ended.is_set():
                key = f"K{len(enqueued)}"
                connection.execute("SELECT documento_id FROM fila.enfileirar(%s, 'a.xml', '<a/>')", [key])
                enqueued.append(key)

    def work(name: str) -> None:
        with psycopg.connect(plain["worker"], autocommit=True) as connection:
            while True:
                last = ended.is_set()
                rows = connection.execute(
                    "SELECT documento_id, token_reserva FROM fila.reservar(%s, 3)", [name]
                ).fetchall()
                for document, token in rows:
                    stage = "SELECT versao FROM fila.registrar_etapa(%s, %s, 'desconhecido')"
                    assert connection.execute(stage, [document, token]).rowcount == 1
                    assert connection.execute("SELECT FROM fila.renovar(%s, %s)", [document, token]).rowcount == 1
                    assert connection.execute("SELECT FROM fila.concluir(%s, %s, 'R')", [document, token]).rowcount == 1
                    finished.append(document)
                if last and not rows:
                    return

    def go(target: object, *arguments: object) -> threading.Thread:
        def run() -> None:
            try:
                target(*arguments)  # type: ignore[operator]
            except Exception as error:
                errors.append(repr(error))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [go(enqueue), go(work, "w1"), go(work, "w2")]
    try:
        assert wait.until(lambda: len(finished) > 50 or bool(errors), 20) and not errors, errors
        assert upgraded(home) == ""
        for _ in range(5):
            assert home.psql(home.text) == ""
        after = len(finished)
        assert wait.until(lambda: len(finished) > after + 50 or bool(errors), 20) and not errors, errors
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert sorted(finished) == sorted(set(finished)) and len(finished) == len(enqueued)
    counted = "SELECT count(*), count(*) FILTER (WHERE status = 'concluido' AND tentativas = 1 AND versao = 3) FROM fila.fila_documentos"
    assert home.fetch("owner", counted) == [(len(enqueued), len(enqueued))]
    assert home.fetch("owner", "SELECT count(*) FROM fila.auditoria") == [(3 * len(enqueued),)]


def test_an_upgrade_that_was_interrupted_goes_on_when_it_is_run_again(plain: dict[str, str]) -> None:
    home = first(plain, "pt", "fila")
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    invalid = "SELECT count(*) FROM pg_index INNER JOIN pg_class ON oid = indexrelid WHERE NOT indisvalid AND relname LIKE 'edition_2%'"
    with psycopg.connect(plain["owner"]) as open_for_long:
        open_for_long.execute("UPDATE fila.fila_documentos SET nome_arquivo = 'b.xml'")
        said = prepared(home, "SET statement_timeout = '1s';\n", fails=True)
        assert "canceling statement due to statement timeout" in said
        assert fetch(plain["owner"], invalid) == [(1,)]
        open_for_long.rollback()
    said = home.psql(home.text, fails=True)
    assert "is of an earlier edition, and not prepared for this one; it was left untouched" in said
    assert "begin with --^ first" in said
    assert upgraded(home) == ""
    assert fetch(plain["owner"], invalid) == [(0,)]
    assert home.fetch("owner", "SELECT nome_arquivo FROM fila.fila_documentos") == [("a.xml",)]


def test_a_table_that_is_held_is_waited_for_and_then_named(
    plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_home, "LOCK", take_home.LOCK.replace("1..20", "1..2"))
    home = first(plain, "pt", "fila")
    assert upgraded(home) == ""
    with psycopg.connect(plain["owner"]) as open_for_long:
        open_for_long.execute("SELECT FROM fila.fila_documentos")
        started = time.monotonic()
        said = home.psql(take_home.protocol("pt", "fila", {}), fails=True)
        assert "is held by a transaction that does not end; nothing was changed" in said
        assert "xact_start" in said
        assert time.monotonic() - started < 20


def test_a_first_edition_that_was_moved_out_of_public_is_upgraded(plain: dict[str, str], database: str) -> None:
    new = made(plain, "pt", "fila")
    execute(database, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert new.psql(FIRST_EDITION) == ""
    execute(new.owner, "SELECT public.enfileirar('K1', 'a.xml', '<a/>')")
    assert moved(new) == ""
    assert upgraded(new) == ""
    assert new.fetch("application", "SELECT novo FROM fila.enfileirar('K1', 'a.xml', '<a/>')") == [(False,)]
    assert len(new.fetch("worker", "SELECT * FROM fila.reservar('w')")) == 1


def test_every_link_has_its_marks_and_every_edition_its_link() -> None:
    assert [link.before for link in upgrades.links()] == sorted(upgrades.MARKS) == list(range(1, upgrades.EDITION))
    assert f"edition {upgrades.EDITION}, " in take_home.mark()
    for link in upgrades.links():
        assert link.live and link.locked and link.installed and link.after
