"""The protocol to take home: installed by a plain user in a fresh database, it drains a queue, in both languages; and goes again."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base import paths, wait
from lab.base.errors import LabError
from lab.protocol import forbidden, grants, permissions, source, take_home
from lab.server import psql, schema
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment
from lab.server.session import SCHEMA, SessionPins
from lab.server.target import Target
from tests.helpers import execute, fetch, run_lab

KINDS = ("worker", "reader", "operator", "application")
DOCUMENTS = 20


@dataclass(frozen=True)
class Home:
    """A database where the protocol was installed, and how it is spoken to there."""

    names: str
    schema: str
    text: str
    owner: str  # conninfos
    roles: dict[str, str]

    def name(self, portuguese: str) -> str:
        return portuguese if self.names == "pt" else take_home.glossary().get(portuguese, portuguese)

    def said(self, statement: str) -> str:
        """A statement with its {names} in the language and schema of this home."""
        return re.sub(
            r"\{(\w+)\}",
            lambda found: f'"{self.schema}"' if found[1] == "schema" else self.name(found[1]),
            statement,
        )

    def fetch(self, who: str, statement: str, *values: object) -> list[tuple[object, ...]]:
        return fetch(self.owner if who == "owner" else self.roles[who], self.said(statement), *values)

    def psql(self, text: str, fails: bool = False) -> str:
        """What psql says when it runs the text as the owner."""
        done = subprocess.run(
            [str(find_psql()), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=text,
            env=os.environ | libpq_environment(self.owner),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def plain(own_server: Target, database: str) -> Iterator[dict[str, str]]:
    """Conninfos by kind for a fresh database: its user, who is nobody special and may create a schema, and four roles."""
    names = {kind: role(kind) for kind in ("owner", *KINDS)}
    for name in names.values():
        execute(database, f'CREATE ROLE "{name}" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE')
    ((dbname,),) = fetch(database, "SELECT current_database()")
    execute(database, f'GRANT CREATE ON DATABASE {dbname} TO "{names["owner"]}"')
    try:
        yield {kind: make_conninfo(database, user=name) for kind, name in names.items()}
    finally:
        for name in names.values():
            if fetch(database, "SELECT FROM pg_roles WHERE rolname = %s", name):
                execute(database, f'DROP OWNED BY "{name}" CASCADE; DROP ROLE "{name}"')


@pytest.fixture(params=[("pt", "fila"), ("en", "queue"), ("pt", "notas_fiscais"), ("en", "order")], ids=" ".join)
def home(request: pytest.FixtureRequest, plain: dict[str, str]) -> Home:
    names, chosen = request.param
    return installed(plain, names, chosen)


def role(kind: str) -> str:
    return f"take_home_{os.getpid()} {kind}"


def made(plain: dict[str, str], names: str, chosen: str) -> Home:
    """A home with its file, not yet installed."""
    text = take_home.protocol(names, chosen, {kind: [role(kind)] for kind in KINDS})
    return Home(names, chosen, text, plain["owner"], plain)


def installed(plain: dict[str, str], names: str, chosen: str) -> Home:
    home = made(plain, names, chosen)
    assert home.psql(home.text) == ""
    return home


# It works


def test_a_plain_user_drains_a_queue_with_it(home: Home) -> None:
    for number in range(DOCUMENTS):
        call = "SELECT {documento_id} FROM {schema}.{enfileirar}(%s, 'a.xml', '<a/>', %s)"
        assert home.fetch("application", call, f"K{number}", f"tenant {number % 3}") == [(number + 1,)]
    assert home.fetch("application", call, "K0", "tenant 0") == [(1,)]
    while claimed := home.fetch(
        "worker", "SELECT {documento_id}, {token_reserva}, {tentativas} FROM {schema}.{reservar}('w', 7, '30 seconds')"
    ):
        for document, token, attempts in claimed:
            work(home, int(str(document)), int(str(token)), int(str(attempts)))
        # What is put back is due in a while: the owner, who waits for nobody, brings that forward.
        home.fetch("owner", "UPDATE {schema}.{fila_documentos} SET {disponivel_em} = {criado_em} RETURNING 1")
    outcome = home.fetch(
        "reader",
        "SELECT {status}, count(*) FROM {schema}.{fila_documentos} GROUP BY {status} ORDER BY count(*), min({documento_id}) DESC",
    )
    assert outcome == [(home.name("conciliacao"), 2), (home.name("falhou"), 2), (home.name("concluido"), 16)]
    assert home.fetch("reader", "SELECT {concluidos}, {falhos}, {em_conciliacao} FROM {schema}.{situacao}") == [
        (16, 2, 2)
    ]
    gaps = home.fetch(
        "reader",
        "SELECT {documento_id} FROM {schema}.{auditoria} GROUP BY {documento_id}"
        " HAVING count(*) <> max({versao}) OR min({versao}) <> 1",
    )
    assert gaps == []
    tokens = "SELECT count({token_reserva}), count(DISTINCT {token_reserva}) FROM {schema}.{auditoria} WHERE {de} = %s"
    ((claims, different),) = home.fetch("reader", tokens, home.name("pendente"))
    assert claims == different == DOCUMENTS + 2


def work(home: Home, document: int, token: int, attempts: int) -> None:
    """One attempt: of ten documents one fails for good, one goes to people, one needs two attempts."""
    call = "SELECT {status} FROM {schema}."
    stage = "SELECT {etapa} FROM {schema}.{registrar_etapa}(%s, %s, %s, %s)"
    if document % 10 == 1:
        failed = home.fetch(
            "worker", call + "{falhar}(%s, %s, %s, 'bad content')", document, token, home.name("conteudo")
        )
        assert failed == [(home.name("falhou"),)]
        return
    assert home.fetch("worker", stage, document, token, home.name("desconhecido"), None) != []
    if document % 10 == 2:
        assert home.fetch("worker", call + "{conciliar}(%s, %s, 'no answer')", document, token) != []
        return
    if document % 10 == 3 and attempts == 1:
        failed = home.fetch("worker", call + "{falhar}(%s, %s, %s, 'timeout')", document, token, home.name("sistemico"))
        assert failed == [(home.name("pendente"),)]
        assert home.fetch("worker", call + "{concluir}(%s, %s, 'R1')", document, token) == []
        return
    if attempts == 1:
        assert home.fetch("worker", stage, document, token, home.name("obtido"), "R1") != []
    assert home.fetch("worker", "SELECT {documento_id} FROM {schema}.{renovar}(%s, %s)", document, token) == [
        (document,)
    ]
    assert home.fetch("worker", call + "{concluir}(%s, %s, 'R1')", document, token) == [(home.name("concluido"),)]


def test_an_orphan_is_recovered_and_an_operator_steps_in(home: Home) -> None:
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>', 'x', NULL, 1)")
    home.fetch("worker", "SELECT {schema}.{reservar}('w', 1, '1 millisecond')")
    assert home.fetch("worker", "SELECT {status} FROM {schema}.{recuperar}('w')") == [(home.name("falhou"),)]
    ((version,),) = home.fetch("operator", "SELECT {versao} FROM {schema}.{examinar}(1)")
    again = "SELECT {status} FROM {schema}.{reenfileirar}(1, %s, 'ana', 'mended')"
    assert home.fetch("operator", again, version) == [(home.name("pendente"),)]
    assert home.fetch("operator", again, version) == []


def test_each_role_may_do_what_it_is_for_and_no_more(home: Home) -> None:
    for who, statement in [
        ("application", "SELECT {schema}.{reservar}('w')"),
        ("application", "SELECT * FROM {schema}.{fila_documentos}"),
        ("worker", "UPDATE {schema}.{fila_documentos} SET {status} = ''"),
        ("worker", "SELECT {schema}.{travar}(1, 1, NULL)"),
        ("worker", "SELECT {schema}.{pausar}(1, 0, 'w', 'why')"),
        ("reader", "SELECT {schema}.{reservar}('w')"),
        ("reader", "DELETE FROM {schema}.{auditoria}"),
        ("operator", "SELECT {schema}.{concluir}(1, 1)"),
    ]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            home.fetch(who, statement)


def tried(home: Home, who: str) -> list[tuple[str, str | None]]:
    """What a role may do with each object of a schema, one after the other: what was tried, and the answer's SQLSTATE."""
    relations = home.fetch(
        "owner",
        "SELECT relname, relkind FROM pg_class WHERE relnamespace = {schema}::REGNAMESPACE AND relkind IN ('r', 'v', 'S')".replace(
            "{schema}", f"'{home.said('{schema}')}'"
        ),
    )
    functions = fetch(home.owner, forbidden.FUNCTIONS, home.said("{schema}"))
    tries = [f"CREATE TABLE {home.said('{schema}')}.mine ()", f"CREATE VIEW {home.said('{schema}')}.mine AS SELECT 1"]
    for name, kind in relations:
        place = f'{home.said("{schema}")}."{name}"'
        columns = (
            []
            if kind == "S"
            else [
                str(column)
                for (column,) in fetch(
                    home.owner, "SELECT attname FROM pg_attribute WHERE attrelid = %s::REGCLASS AND attnum > 0", place
                )
            ]
        )
        tries += [f"SELECT {column} FROM {place}" for column in columns]
        tries += [
            f"SELECT FROM {place}",
            f"COMMENT ON {'SEQUENCE' if kind == 'S' else 'VIEW' if kind == 'v' else 'TABLE'} {place} IS ''",
        ]
        if kind == "S":
            tries += [f"SELECT nextval('{place}')", f"SELECT setval('{place}', 1)"]
            continue
        tries += [f"UPDATE {place} SET {column} = DEFAULT" for column in columns if kind == "r"]
        tries += [
            f"{do} {place}{how}"
            for do, how in (
                ("INSERT INTO", " DEFAULT VALUES"),
                ("DELETE FROM", ""),
                ("TRUNCATE", ""),
                ("DROP TABLE", ""),
                ("LOCK TABLE", " IN ACCESS SHARE MODE"),
                ("ALTER TABLE", " OWNER TO CURRENT_USER"),
            )
            if kind == "r"
        ]
        if kind == "r":
            tries += [
                f"CREATE TABLE pg_temp.child () INHERITS ({place})",
                f"CREATE INDEX ON {place} ({columns[0]})",
                f"CREATE TRIGGER t BEFORE UPDATE ON {place} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            ]
    for name, types in functions:
        assert isinstance(types, list)
        place = f'{home.said("{schema}")}."{name}"'
        given = [kind for kind in types if kind is not None]
        tries += [
            f"SELECT {place}({', '.join(f'NULL::{kind}' for kind in given)})",
            f"DROP FUNCTION {place}({', '.join(given)})",
            f"ALTER FUNCTION {place}({', '.join(given)}) RESET ALL",
        ]
    answers: list[tuple[str, str | None]] = []
    with psycopg.connect(home.roles[who]) as connection:
        for statement in tries:
            try:
                with connection.transaction(force_rollback=True):
                    connection.execute(statement.encode())
                answers.append((statement, None))
            except psycopg.Error as error:
                answers.append((statement, error.sqlstate))
    return answers


@pytest.mark.parametrize("door", ["closed", "open"])
@pytest.mark.parametrize(("names", "chosen"), [("pt", "fila"), ("en", "order")])
def test_a_role_without_rights_can_do_nothing(plain: dict[str, str], names: str, chosen: str, door: str) -> None:
    """Nor where it may enter the schema."""
    home = Home(names, chosen, take_home.protocol(names, chosen, {}), plain["owner"], plain)
    assert home.psql(home.text) == ""
    home.fetch("owner", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    if door == "open":
        execute(home.owner, home.said("GRANT USAGE ON SCHEMA {schema} TO ") + f'"{role("reader")}"')
    before = everything(home.owner, home.schema)
    answers = tried(home, "reader")
    assert len(answers) > 200
    assert [answer for answer in answers if answer[1] != "42501"] == []
    assert everything(home.owner, home.schema) == before


def test_the_reader_and_the_operator_see_no_payload(home: Home) -> None:
    """Each column is either granted or kept back, in so many words."""
    for who in ("reader", "operator"):
        kept = {
            (relation, home.name(column))
            for (duty, relation), columns in grants.KEPT_BACK.items()
            if duty == who
            for column in columns
        }
        for relation in ("fila_documentos", "auditoria"):
            place = home.said(f"{{schema}}.{{{relation}}}")
            for (column,) in fetch(
                home.owner, "SELECT attname FROM pg_attribute WHERE attrelid = %s::REGCLASS AND attnum > 0", place
            ):
                may = fetch(home.roles[who], "SELECT has_column_privilege(%s, %s, 'SELECT')", place, column)
                assert may == [((relation, column) not in kept,)], (who, relation, column)
    secret = "<a>secret</a>"
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', %s)", secret)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        home.fetch("reader", "SELECT {conteudo_xml} FROM {schema}.{fila_documentos}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        home.fetch("operator", "SELECT f FROM {schema}.{fila_documentos} AS f")


def test_an_operator_finds_what_is_for_people_and_runs_the_alerts(home: Home) -> None:
    for key in ("K1", "K2", "K3"):
        home.fetch("application", "SELECT {schema}.{enfileirar}(%s, 'a.xml', '<a/>')", key)
    claimed = home.fetch("worker", "SELECT {documento_id}, {token_reserva} FROM {schema}.{reservar}('w', 2)")
    token = {document: minted for document, minted in claimed}
    home.fetch("worker", "SELECT {schema}.{falhar}(1, %s, %s, 'x')", token[1], home.name("conteudo"))
    home.fetch("worker", "SELECT {schema}.{conciliar}(2, %s, 'x')", token[2])
    found = "SELECT {documento_id}, {versao} FROM {schema}.{fila_documentos} WHERE {status} IN (%s, %s) ORDER BY 1"
    assert home.fetch("operator", found, home.name("falhou"), home.name("conciliacao")) == [(1, 2), (2, 2)]
    alerts = [each for each in take_home.section(home.text, "--?").split(";")[1:] if each.strip()]
    assert [len(home.fetch("operator", question)) for question in alerts] == [0, 0, 1, 0, 0]


def test_installing_it_again_changes_nothing(home: Home) -> None:
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    before = everything(home.owner, home.schema)
    execute(home.owner, home.text)  # by a driver this time, in one message
    assert everything(home.owner, home.schema) == before
    assert home.fetch("worker", "SELECT {documento_id} FROM {schema}.{reservar}('w')") == [(1,)]


def test_the_alerts_are_silent_on_a_busy_queue_and_count_what_is_wrong(home: Home) -> None:
    alerts = take_home.section(home.text, "--?")
    assert alerts.count(";") == 6
    for number in range(DOCUMENTS):
        home.fetch("application", "SELECT {schema}.{enfileirar}(%s, 'a.xml', '<a/>')", f"K{number}")
    claimed = home.fetch("worker", "SELECT {documento_id}, {token_reserva} FROM {schema}.{reservar}('w', 10)")
    token = {document: minted for document, minted in claimed}
    home.fetch("worker", "SELECT {schema}.{falhar}(10, %s, %s, 'timeout')", token[10], home.name("sistemico"))
    home.fetch("worker", "SELECT {schema}.{concluir}(9, %s)", token[9])
    assert home.psql(alerts).count("(0 rows)") == 5  # eight in work, eleven waiting, one done
    home.fetch("worker", "SELECT {schema}.{conciliar}(8, %s, 'no answer')", token[8])
    home.fetch("worker", "SELECT {schema}.{conciliar}(7, %s, 'no answer')", token[7])
    for column, documents in (("reservado_ate", (1, 2, 3)), ("disponivel_em", (11, 12))):
        earlier = f"UPDATE {{schema}}.{{fila_documentos}} SET {{{column}}} = {{{column}}} - INTERVAL '1 hour'"
        home.fetch("owner", earlier + " WHERE {documento_id} = ANY(%s) RETURNING 1", list(documents))
    execute(home.owner, f'GRANT CREATE ON SCHEMA "{home.schema}" TO "{role("worker")}", PUBLIC')
    told = [home.fetch("owner", question) for question in filter(str.strip, alerts.split(";")[1:])]
    assert [len(rows) for rows in told] == [1, 1, 1, 2, 0]
    (orphans, overdue), (waited,), reconciled = (rows[0] for rows in told[:3])
    assert set(told[3]) == {(role("worker"),), ("PUBLIC",)}
    assert orphans == 3, "three whose lease has ended, and three workers that live"
    for late in (overdue, waited):
        assert isinstance(late, timedelta) and timedelta(minutes=59) < late < timedelta(minutes=61)
    assert reconciled == (2, 7)


# And goes


def test_the_uninstall_leaves_nothing(home: Home) -> None:
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    assert home.psql(take_home.section(home.text, "---")) == ""
    assert fetch(home.owner, "SELECT to_regnamespace(quote_ident(%s))", home.schema) == [(None,)]
    left = "SELECT oid::regclass::text FROM pg_class WHERE pg_get_userbyid(relowner) = current_user"
    assert fetch(home.owner, left) == []
    dependent = "SELECT count(*) FROM pg_shdepend WHERE refobjid IN (SELECT oid FROM pg_roles WHERE rolname LIKE %s)"
    pattern = f"take\\_home\\_{os.getpid()} %"
    # The right to create in the database is all that is left: the fixture gave it.
    assert fetch(home.owner, dependent, pattern) == [(1,)]


def test_the_uninstall_keeps_what_is_not_its_own(home: Home) -> None:
    execute(home.owner, f'CREATE TABLE "{home.schema}".mine (a INTEGER)')
    assert "stays" in home.psql(take_home.section(home.text, "---"))
    assert list(catalog(home.owner, home.schema)) == ["columns mine"]


def test_the_uninstall_does_not_need_the_roles(plain: dict[str, str], database: str) -> None:
    home = installed(plain, "pt", "fila")
    execute(database, f'DROP OWNED BY "{role("reader")}"; DROP ROLE "{role("reader")}"')
    assert home.psql(take_home.section(home.text, "---")) == ""
    assert fetch(home.owner, "SELECT to_regnamespace('fila')") == [(None,)]


def test_a_schema_that_holds_something_else_is_left_alone(plain: dict[str, str]) -> None:
    home = made(plain, "pt", "app")
    execute(
        home.owner,
        "CREATE SCHEMA app; CREATE FUNCTION app.resumir(p_motivo TEXT) RETURNS TEXT LANGUAGE sql AS 'SELECT $1'",
    )
    before = everything(home.owner, "app")
    assert 'schema "app" holds something else, function app.resumir(text) for one' in home.psql(home.text, fails=True)
    assert "nothing was dropped" in home.psql(take_home.section(home.text, "---"), fails=True)
    assert everything(home.owner, "app") == before


# A schema that is not its own alone


REFUSED = {
    "another role's": ("CREATE SCHEMA fila", "", "it belongs to"),
    "everyone may create": (
        "CREATE SCHEMA fila AUTHORIZATION {owner}; GRANT CREATE ON SCHEMA fila TO PUBLIC",
        "",
        "everyone (PUBLIC) may create there",
    ),
    "a role may create": (
        "CREATE SCHEMA fila AUTHORIZATION {owner}; GRANT CREATE ON SCHEMA fila TO {worker}",
        "",
        "worker may create there",
    ),
    "a right that new schemas get": (
        "",
        "ALTER DEFAULT PRIVILEGES GRANT CREATE ON SCHEMAS TO {reader}",
        "reader may create there",
    ),
    "another role's function": (
        "CREATE SCHEMA fila AUTHORIZATION {owner};"
        " CREATE FUNCTION fila.cardinality(BIGINT[]) RETURNS INTEGER LANGUAGE sql AS 'SELECT 1'",
        "",
        "function fila.cardinality(bigint[]) is there and belongs to",
    ),
    "another role's operator": (
        "CREATE SCHEMA fila AUTHORIZATION {owner}; CREATE OPERATOR fila.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)",
        "",
        "operator fila.===(text,text) is there and belongs to",
    ),
}


@pytest.mark.parametrize(("by_the_server", "by_the_owner", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_schema_in_which_others_may_create_is_refused(
    plain: dict[str, str], database: str, by_the_server: str, by_the_owner: str, reason: str
) -> None:
    home = made(plain, "pt", "fila")
    named = {kind: f'"{role(kind)}"' for kind in ("owner", *KINDS)}
    execute(database, by_the_server.format(**named) or "SELECT")
    execute(home.owner, by_the_owner.format(**named) or "SELECT")
    try:
        before = everything(database, "fila")
        said = home.psql(home.text, fails=True)
        assert "schema fila is not the installing role's alone" in said and reason in said
        assert "HINT" in said and "-->" in said
        assert everything(database, "fila") == before
    finally:
        execute(home.owner, f"ALTER DEFAULT PRIVILEGES REVOKE ALL ON SCHEMAS FROM {named['reader']}")


def test_a_right_to_create_granted_later_is_refused_at_the_next_installation(plain: dict[str, str]) -> None:
    home = installed(plain, "pt", "fila")
    execute(home.owner, f'GRANT CREATE ON SCHEMA fila TO "{role("worker")}"')
    assert "worker may create there" in home.psql(home.text, fails=True)
    execute(home.owner, f'REVOKE CREATE ON SCHEMA fila FROM "{role("worker")}"')
    assert home.psql(home.text) == ""


def test_a_superuser_is_warned_and_installs_all_the_same(plain: dict[str, str], database: str) -> None:
    home = made({**plain, "owner": database}, "pt", "fila")
    said = home.psql(home.text)
    assert "WARNING:  a superuser installs the document queue" in said and "HINT:  Better" in said
    enqueue = "SELECT {documento_id} FROM {schema}.{enfileirar}('K1', 'a.xml', '<a/>')"
    assert home.fetch("application", enqueue) == [(1,)]


def test_public_is_refused_with_a_way_out() -> None:
    with pytest.raises(LabError, match=r"^public cannot be the schema: others may create in it.*see Move"):
        take_home.protocol("pt", "public", {})


def test_what_others_made_in_public_is_not_called_by_the_file(plain: dict[str, str], database: str) -> None:
    """The path of the session that installs may begin with a schema in which everyone may create."""
    execute(database, "GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC")
    traps = {
        "obj_description": ["REGTYPE, TEXT", "REGNAMESPACE, TEXT", "REGCLASS, TEXT"],
        "to_regtype": ["VARCHAR"],
        "min": ["TIMESTAMPTZ", "BIGINT"],
        "cardinality": ["BIGINT[]"],
        "coalesce": [],
    }
    trap = (
        "CREATE FUNCTION public.{}({}) RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;"
    )
    execute(plain["reader"], "".join(trap.format(name, given) for name, each in traps.items() for given in each))
    home = installed(plain, "pt", "fila")
    assert home.psql(home.text) == ""
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    assert home.psql(take_home.section(home.text, "--?")).count("(0 rows)") == 5
    assert home.psql(take_home.section(home.text, "---")) == ""


FIRST_EDITION = Path(__file__).with_name(
    "first_edition.sql"
)  # as it was made for the schema public, with Portuguese names


def test_a_first_edition_in_public_moves_and_goes_on(plain: dict[str, str], database: str) -> None:
    execute(database, "GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC")
    new = made(plain, "pt", "fila")
    assert new.psql(FIRST_EDITION.read_text(encoding="utf-8")) == ""
    execute(
        new.owner,
        f'GRANT EXECUTE ON FUNCTION public.reservar, public.concluir TO "{role("worker")}";'
        f' GRANT SELECT ON public.situacao TO "{role("reader")}"; GRANT EXECUTE ON FUNCTION public.relogio TO "{role("reader")}";'
        " CREATE TABLE public.mine (a INTEGER); CREATE FUNCTION public.mine() RETURNS INTEGER LANGUAGE sql AS 'SELECT 1';"
        " SELECT public.enfileirar('K1', 'a.xml', '<a/>'); SELECT public.enfileirar('K2', 'b.xml', '<b/>')",
    )
    ((token,),) = fetch(plain["worker"], "SELECT token_reserva FROM public.reservar('w')")
    # Another role's trap: the queue in public would call it. It stays behind.
    trap = "CREATE FUNCTION public.{}(BIGINT[]) RETURNS INTEGER LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;"
    execute(plain["reader"], trap.format("cardinality"))
    documents = "SELECT to_jsonb(f) - 'conteudo_xml' FROM {}.fila_documentos AS f ORDER BY documento_id"
    before = fetch(new.owner, documents.format("public"))
    assert moved(new) == ""
    assert fetch(new.owner, documents.format("fila")) == before
    left = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::REGNAMESPACE UNION ALL"
    left += " SELECT proname FROM pg_proc WHERE pronamespace = 'public'::REGNAMESPACE ORDER BY 1"
    assert fetch(new.owner, left) == [("cardinality",), ("mine",), ("mine",)]
    # Work goes on where it was, by the same roles: the token that was given there holds here.
    assert fetch(plain["worker"], "SELECT status FROM fila.concluir(1, %s)", token) == [("concluido",)]
    assert fetch(plain["worker"], "SELECT documento_id FROM fila.reservar('w')") == [(2,)]
    assert fetch(plain["reader"], "SELECT concluidos FROM fila.situacao") == [(1,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        fetch(plain["application"], "SELECT fila.enfileirar('K3', 'a.xml', '<a/>')")
    assert "there is no document queue of the first edition in schema public" in moved(new, fails=True)


def test_a_first_edition_does_not_move_to_where_others_may_create(plain: dict[str, str], database: str) -> None:
    execute(database, "GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC")
    new = made(plain, "pt", "fila")
    assert new.psql(FIRST_EDITION.read_text(encoding="utf-8")) == ""
    execute(plain["owner"], f'CREATE SCHEMA fila; GRANT CREATE ON SCHEMA fila TO "{role("reader")}"')
    before = everything(plain["owner"], "public")
    assert "reader may create there" in moved(new, fails=True)
    assert everything(plain["owner"], "public") == before


def moved(home: Home, fails: bool = False) -> str:
    """What the lines that move a queue out of public say."""
    return home.psql("\\set from public\n" + take_home.section(home.text, "-->"), fails)


# The audit


def test_the_audit_keeps_who_was_logged_in_beside_who_is_claimed(home: Home) -> None:
    home.fetch("application", "SELECT {schema}.{enfileirar}('K1', 'a.xml', '<a/>')")
    home.fetch("operator", "SELECT {schema}.{pausar}(1, 0, 'the director', 'why')")
    said = "SELECT {quem}, {conectado_como} FROM {schema}.{auditoria}"
    assert home.fetch("reader", said) == [("the director", role("operator"))]


def test_the_audit_may_belong_to_another_role_that_alone_changes_it(home: Home, database: str) -> None:
    """As the head of the file says; then everything goes on, and the file may be run again."""
    audit, owner = f'"{home.schema}".{home.name("auditoria")}', role("owner")
    execute(
        database,
        f'ALTER TABLE {audit} OWNER TO "{role("reader")}"; GRANT SELECT, INSERT ON {audit} TO "{owner}" WITH GRANT OPTION',
    )
    test_the_audit_keeps_who_was_logged_in_beside_who_is_claimed(home)
    for statement in (
        "UPDATE {schema}.{auditoria} SET {quem} = 'x'",
        "DELETE FROM {schema}.{auditoria}",
        "TRUNCATE {schema}.{auditoria}",
        "ALTER TABLE {schema}.{auditoria} ALTER {conectado_como} SET DEFAULT 'x'",
        "CREATE TRIGGER t BEFORE INSERT ON {schema}.{auditoria} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ):
        for who in ("owner", "worker", "operator", "application"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                home.fetch(who, statement)
    assert home.psql(home.text) == ""
    assert home.fetch("owner", "SELECT {quem} FROM {schema}.{auditoria}") == [("the director",)]
    assert home.psql(take_home.section(home.text, "---")) == ""


@pytest.mark.parametrize("name", ["w\n--- DROP TABLE precious;\n", "a\rb", "a\x00b", "a\tb", "a\x85b", "a\u2028b", ""])
def test_a_name_that_would_break_a_line_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="cannot be a role here") as caught:
        take_home.protocol("pt", "fila", {"worker": [name]})
    assert str(caught.value).isprintable()
    with pytest.raises(LabError, match="lower-case name"):
        take_home.protocol("pt", f"f{name}\n", {})


def test_two_languages_do_not_meet_in_one_schema(plain: dict[str, str]) -> None:
    home = installed(plain, "pt", "app")
    other = made(plain, "en", "app")
    before = everything(home.owner, "app")
    assert "it was left untouched" in home.psql(other.text, fails=True)
    assert "nothing was dropped" in home.psql(take_home.section(other.text, "---"), fails=True)
    assert everything(home.owner, "app") == before


def test_an_empty_schema_that_was_there_is_used_and_stays_with_its_rights(plain: dict[str, str]) -> None:
    home = made(plain, "en", "app")
    execute(
        home.owner,
        f"CREATE SCHEMA app; COMMENT ON SCHEMA app IS 'mine'; GRANT USAGE ON SCHEMA app TO \"{role('worker')}\"",
    )
    worker = "SELECT has_schema_privilege('app', 'USAGE'),"
    worker += " obj_description('app'::REGNAMESPACE, 'pg_namespace')"
    for _ in range(2):
        assert home.psql(home.text) == ""
        assert fetch(plain["worker"], worker) == [(True, "mine")]
    assert "it was here before" in home.psql(take_home.section(home.text, "---"))
    assert fetch(plain["worker"], worker) == [(True, "mine")]
    assert catalog(home.owner, "app") == {}


# Again


def test_installing_it_again_keeps_what_hangs_on_it(home: Home) -> None:
    where = f'"{home.schema}"'
    held, view = home.name("posse"), home.name("situacao")
    execute(
        home.owner,
        f"CREATE TABLE {where}.mine (held {where}.{held});"
        f" CREATE FUNCTION {where}.mine(held {where}.{held}) RETURNS INTEGER LANGUAGE sql AS 'SELECT 1';"
        f" CREATE VIEW {where}.my_view AS SELECT * FROM {where}.{view};"
        f' GRANT SELECT ON {where}.{view}, {where}.{home.name("falhas_por_categoria")} TO "{role("application")}"',
    )
    before = everything(home.owner, home.schema)
    assert home.psql(home.text) == ""
    assert everything(home.owner, home.schema) == before
    assert home.fetch("application", "SELECT count(*) FROM {schema}.{falhas_por_categoria}") == [(0,)]


def of_another_day(monkeypatch: pytest.MonkeyPatch, plain: dict[str, str], old: str, new: str) -> Home:
    """The file as it would be if the source said something else."""
    today = source.whole()
    assert old in today
    with monkeypatch.context() as patched:
        patched.setattr(source, "whole", lambda: today.replace(old, new))
        return installed(plain, "pt", "fila")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", 'pausado')", ")"),  # a state
        ("renovacoes INTEGER NOT NULL DEFAULT 0", "renovacoes INTEGER NOT NULL DEFAULT 1"),  # a column
        ("p_lote INTEGER DEFAULT 1", "p_lote INTEGER DEFAULT 2"),  # what a function is given
        ("WHERE categoria_erro IS NOT NULL", "WHERE categoria_erro IS NULL"),  # an index
    ],
)
def test_a_queue_of_another_structure_is_refused_and_stays(
    monkeypatch: pytest.MonkeyPatch, plain: dict[str, str], old: str, new: str
) -> None:
    earlier = of_another_day(monkeypatch, plain, old, new)
    before = everything(earlier.owner, "fila")
    now = made(plain, "pt", "fila")
    assert "has another structure than this file makes" in now.psql(now.text, fails=True)
    assert "nothing was dropped" in now.psql(take_home.section(now.text, "---"), fails=True)
    assert everything(earlier.owner, "fila") == before
    with pytest.raises(LabError, match="has another structure"):
        checked(now)
    assert earlier.psql(take_home.section(earlier.text, "---")) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [("* (0.5 + random() / 2)", "* random()"), ("fila.status = 'falhou'", "fila.status = 'pendente'")],
    ids=["function", "view"],
)
def test_a_function_or_view_of_another_day_becomes_that_of_today(
    monkeypatch: pytest.MonkeyPatch, plain: dict[str, str], old: str, new: str
) -> None:
    earlier = everything(of_another_day(monkeypatch, plain, old, new).owner, "fila")
    now = installed(plain, "pt", "fila")
    renewed = everything(now.owner, "fila")
    assert earlier != renewed
    assert now.psql(take_home.section(now.text, "---")) == ""
    assert everything(installed(plain, "pt", "fila").owner, "fila") == renewed


# The check before a deployment


def checked(home: Home) -> permissions.Report:
    """What the check says, as the owner asks it."""
    with SessionPins().psycopg_connection(home.owner, "lab/test") as connection:
        return permissions.check(connection, {duty: role(duty) for duty in grants.DUTIES}, schema=home.schema)


@pytest.fixture
def of_the_owner(home: Home, database: str) -> Home:
    """A home whose owner may become its roles."""
    for kind in KINDS:
        execute(database, f'GRANT "{role(kind)}" TO "{role("owner")}"')
    return home


def test_the_check_finds_nothing_amiss_in_what_was_installed(of_the_owner: Home) -> None:
    home = of_the_owner
    report = checked(home)
    assert report.good and report.on_own_row and len(report.calls) >= 21, permissions.summary(report)
    assert home.fetch("owner", "SELECT count(*) FROM {schema}.{fila_documentos}") == [(0,)]
    place = grants.Place(home.schema, {} if home.names == "pt" else take_home.glossary())
    with psycopg.connect(home.owner) as connection:
        held = forbidden.grants(connection, report.calls, place)
        assert {grant.role for grant in held} == {role(kind) for kind in KINDS}
        assert [grant for grant in held if not grant.asked] == []
        connection.execute(home.said("GRANT UPDATE ({status}) ON {schema}.{fila_documentos} TO PUBLIC").encode())
        too_wide = [grant for grant in forbidden.grants(connection, report.calls, place) if not grant.asked]
    assert {(grant.role, grant.privilege) for grant in too_wide} == {(role(kind), "UPDATE") for kind in KINDS}


def test_the_check_names_what_is_missing_where_it_was_installed(of_the_owner: Home) -> None:
    home = of_the_owner
    execute(
        home.owner,
        home.said("REVOKE EXECUTE ON FUNCTION {schema}.{concluir}, {schema}.{relogio} FROM ")
        + f'"{role("worker")}", "{role("operator")}";'
        + home.said("REVOKE SELECT ON {schema}.{auditoria} FROM ")
        + f'"{role("reader")}"',
    )
    schema_ = '"order"' if home.schema == "order" else home.schema
    seen = ", ".join(
        map(
            home.name,
            [
                "inquilino",
                "documento_id",
                "versao",
                "de",
                "para",
                "token_reserva",
                "quem",
                "quando",
                "categoria_erro",
                "conectado_como",
            ],
        )
    )
    expected = {
        f'GRANT EXECUTE ON FUNCTION {schema_}.{home.name("concluir")} TO "{role("worker")}";',
        f'GRANT EXECUTE ON FUNCTION {schema_}.{home.name("relogio")} TO "{role("operator")}";',
        f'GRANT SELECT ({seen}) ON {schema_}.{home.name("auditoria")} TO "{role("reader")}";',
    }
    assert set(checked(home).missing) == expected
    execute(home.owner, " ".join(expected))
    assert checked(home).good


@pytest.mark.parametrize("home", [("en", "order")], indirect=True)
def test_the_command_checks_what_was_installed_as_the_account_itself(home: Home) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        itself = ("--dsn", home.roles["worker"], "--worker", role("worker"))
        return run_lab("check-permissions", *itself, "--schema", home.schema, *arguments)

    done = run()
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b(\d+) of \1 calls allowed", done.stdout) and home.name("reservar") in done.stdout
    execute(home.owner, home.said("REVOKE EXECUTE ON FUNCTION {schema}.{renovar} FROM ") + f'"{role("worker")}"')
    done = run()
    assert done.returncode == 1
    assert f'{home.name("renovar")} TO "{role("worker")}";' in done.stdout


def test_the_command_says_where_there_is_no_queue(plain: dict[str, str]) -> None:
    done = run_lab("check-permissions", "--dsn", plain["owner"], "--worker", role("owner"), "--schema", "nowhere")
    assert done.returncode == 1 and "In schema nowhere of this database is no queue" in done.stderr
    done = run_lab("check-permissions", "--schema", "nowhere")
    assert done.returncode == 2 and "--worker ROLE" in done.stderr


# What the file holds


def catalog(conninfo: str, where: str) -> dict[str, object]:
    """What a schema holds, with its own name left out."""
    queries = {
        "columns": "SELECT c.relname, array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' ||"
        " a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || a.attidentity::TEXT ORDER BY a.attname)::TEXT"
        " FROM pg_class AS c INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum"
        " WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND c.relkind IN ('r', 'v', 'c') GROUP BY c.relname",
        "index": "SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_class AS c"
        " WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND c.relkind = 'i'",
        "sequence": "SELECT c.relname, s.seqtypid::regtype || ' ' || s.seqcycle FROM pg_class AS c"
        " INNER JOIN pg_sequence AS s ON s.seqrelid = c.oid WHERE c.relnamespace = to_regnamespace(quote_ident(%s))",
        "constraint": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = to_regnamespace(quote_ident(%s)) AND contype <> 'n'",
        "view": "SELECT viewname, definition FROM pg_views WHERE schemaname = %s",
        "function": "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))",
        "comment on function": "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc"
        " WHERE pronamespace = to_regnamespace(quote_ident(%s))",
        "comment on type": "SELECT typname, obj_description(oid, 'pg_type') FROM pg_type"
        " WHERE typnamespace = to_regnamespace(quote_ident(%s)) AND obj_description(oid, 'pg_type') IS NOT NULL",
        "comment on": "SELECT c.relname || ' ' || d.objsubid, d.description FROM pg_class AS c"
        " INNER JOIN pg_description AS d ON d.classoid = 'pg_class'::REGCLASS AND d.objoid = c.oid"
        " WHERE c.relnamespace = to_regnamespace(quote_ident(%s))",
    }
    return described(conninfo, where, queries)


def rights(conninfo: str, where: str) -> dict[str, object]:
    """Who may do what with a schema and what it holds, and what the schema's comment says."""
    queries = {
        "schema": "SELECT '', coalesce(nspacl::TEXT, '') || coalesce(obj_description(oid, 'pg_namespace'), '')"
        " FROM pg_namespace WHERE oid = to_regnamespace(quote_ident(%s))",
        "rights on": "SELECT oid::REGCLASS::TEXT, relacl::TEXT FROM pg_class"
        " WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND relacl IS NOT NULL",
        "rights on function": "SELECT proname, proacl::TEXT FROM pg_proc"
        " WHERE pronamespace = to_regnamespace(quote_ident(%s)) AND proacl IS NOT NULL",
    }
    return described(conninfo, where, queries)


def described(conninfo: str, where: str, queries: dict[str, str]) -> dict[str, object]:
    return {
        f"{kind} {name}".strip(): re.sub(rf'"{where}"|\b{where}\b', "…", str(text))
        for kind, query in queries.items()
        for name, text in fetch(conninfo, query, where)
    }


def everything(conninfo: str, where: str) -> dict[str, object]:
    return catalog(conninfo, where) | rights(conninfo, where)


def test_it_makes_what_the_numbered_scripts_make(plain: dict[str, str], database: str) -> None:
    """The sources say what holds today, the scripts lead there from lesson to lesson; the lab's clock is left out."""
    home = installed(plain, "pt", "notas_fiscais")
    theirs = catalog(home.owner, home.schema)
    psql.run_scripts(database, *schema.upgrades())
    ours = catalog(database, SCHEMA)
    assert theirs.pop(f"comment on type {take_home.MARKED}")  # by which an installation is known again
    assert theirs == {key: without_lesson(str(text)) for key, text in ours.items()}
    for conninfo, where in ((home.owner, home.schema), (database, SCHEMA)):
        names = fetch(
            conninfo, "SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s) ORDER BY 1", where
        )
        assert names == [(each.name,) for each in source.sources() if each.kind == "FUNCTION"], "one overload a name"


def without_lesson(text: str) -> str:
    return re.sub(r" \(lesson \d\d\)", "", text)


@pytest.mark.parametrize("names", ["pt", "en"])
def test_it_holds_nothing_of_the_lab(names: str) -> None:
    text = take_home.protocol(names, "somewhere", {})
    for word in (
        SCHEMA,
        "queue lab",
        "lab.",
        "laboratorio",
        "NFE-",
        "CREATE ROLE",
        "lesson",
        "sql/",
        "INSERT INTO fila_documentos (",
    ):
        assert word not in text, word
    assert not re.search(r"^\\", text, re.MULTILINE), "a line of psql's own"
    assert not re.search(r"^GRANT", text, re.MULTILINE)


def test_the_english_file_holds_no_portuguese_name() -> None:
    text = take_home.protocol("en", "somewhere", {})
    portuguese = {pt for pt, en in take_home.glossary().items() if pt != en}
    assert {word.removeprefix("p_").removeprefix("v_") for word in re.findall(r"\w+", text)} & portuguese == set()
    assert text.count("\n") == take_home.protocol("pt", "somewhere", {}).count("\n")


def test_every_name_and_every_word_that_is_stored_is_in_the_glossary(plain: dict[str, str]) -> None:
    home = installed(plain, "pt", "somewhere")
    known = take_home.glossary()
    names = {
        str(name)
        for query in (
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND relname !~"
            " '_(pkey|key|documento_id_seq)$'",
            "SELECT attname FROM pg_attribute INNER JOIN pg_class ON pg_class.oid = attrelid"
            " WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND relkind IN ('r', 'v', 'c') AND attnum > 0",
            "SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))",
            "SELECT regexp_replace(unnest(proargnames), '^p_', '') FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))",
            "SELECT (regexp_matches(prosrc, '\\mv_(\\w+)', 'g'))[1] FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))",
            "SELECT (regexp_matches(prosrc, '\\mAS ([a-z]\\w+)', 'g'))[1] FROM pg_proc"
            " WHERE pronamespace = to_regnamespace(quote_ident(%s))",
            "SELECT (regexp_matches(pg_get_constraintdef(oid), '''(\\w+)''', 'g'))[1] FROM pg_constraint"
            " WHERE connamespace = to_regnamespace(quote_ident(%s))",
        )
        for (name,) in fetch(home.owner, query, home.schema)
    }
    assert {name for name in names if name not in known} <= {"worker", "token"}


@pytest.mark.parametrize("name", ["", "Fila", "a b", 'a"; DROP TABLE x; --', "1a", "pg_fila", SCHEMA, "é", "a" * 64])
def test_a_schema_that_will_not_do_is_refused(name: str) -> None:
    with pytest.raises(LabError, match=r"lower-case name .* not begin with pg_"):
        take_home.protocol("pt", name, {})


@pytest.mark.parametrize("names", ["pt", "en"])
def test_a_schema_may_be_called_by_a_reserved_word(names: str, plain: dict[str, str], database: str) -> None:
    # Every name but these two is quoted.
    assert (
        fetch(database, "SELECT word FROM pg_get_keywords() WHERE word = ANY(%s)", list(take_home.SCHEMAS.values()))
        == []
    )
    for word in ("user", "table", "all", "values", "xmltable"):
        home = installed(plain, names, word)
        assert home.psql(take_home.section(home.text, "--?")).count("(0 rows)") == 5
        assert home.psql(take_home.section(home.text, "---")) == ""


@pytest.mark.parametrize("names", ["pt", "en"])
def test_roles_are_called_what_they_are_called(names: str) -> None:
    called = ["inquilino", f"{SCHEMA}_worker", "o (lesson 05)", 'a"b', "de; --"]
    for kind in KINDS:
        text = take_home.protocol(names, "somewhere", {kind: called})
        granted = set(re.findall(r'^GRANT [^"]*"somewhere"[^"]* TO "((?:[^"]|"")*)";$', text, re.MULTILINE))
        assert granted == {name.replace('"', '""') for name in called}


@pytest.mark.parametrize("names", ["pt", "en"])
def test_the_header_warns_of_commits_that_are_not_synchronous(names: str) -> None:
    header = take_home.protocol(names, "somewhere", {}).partition("BEGIN;")[0]
    assert "must commit synchronously (synchronous_commit on" in header
    assert max(len(line) for line in header.splitlines()) <= 132


def test_the_command_prints_it() -> None:
    done = run_lab("protocol", "--names", "en", "--schema", "work", "--worker", 'a"b', "--worker", "c")
    assert done.stdout == take_home.protocol("en", "work", {"worker": ['a"b', "c"]})
    assert 'TO "a""b";' in done.stdout


def test_every_column_says_what_it_is_for(plain: dict[str, str]) -> None:
    """One who reads only the file has to be able to write a worker."""
    home = installed(plain, "pt", "fila")
    silent = home.fetch(
        "owner",
        "SELECT relname, attname FROM pg_attribute INNER JOIN pg_class ON pg_class.oid = attrelid"
        " WHERE relnamespace = 'fila'::REGNAMESPACE AND relkind = 'r' AND attnum > 0 AND NOT attisdropped"
        " AND col_description(attrelid, attnum) IS NULL",
    )
    assert silent == []
    states = (
        "SELECT (regexp_matches(pg_get_constraintdef(oid), '''(\\w+)''', 'g'))[1] FROM pg_constraint"
        " WHERE conrelid = 'fila.fila_documentos'::REGCLASS AND conname LIKE %s"
    )
    for column in ("status", "etapa", "categoria_erro"):
        words = [str(word) for (word,) in home.fetch("owner", states, f"%_{column}_check")]
        ((told,),) = home.fetch(
            "owner",
            "SELECT col_description(attrelid, attnum) FROM pg_attribute"
            " WHERE attrelid = 'fila.fila_documentos'::REGCLASS AND attname = %s",
            column,
        )
        assert words and [word for word in words if f"{word}:" not in str(told)] == []


# A worker that was written from the file's comments alone


class Careless(BaseHTTPRequestHandler):
    """A receiver that knows no keys: it executes whatever comes, and cannot be asked."""

    executed: ClassVar[list[str]]

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        time.sleep(0.005)
        self.executed.append(content)
        time.sleep(0.005)
        with suppress(OSError):
            self.send_response(201)
            self.end_headers()
            self.wfile.write(f"R-{len(self.executed)}".encode())

    def log_message(self, *_: object) -> None: ...


def test_the_reference_worker_is_killed_and_nothing_is_executed_twice(plain: dict[str, str]) -> None:
    """300 documents, ten kills, no key at the receiver: each is executed once and finished, or for people to look up."""
    home = installed(plain, "pt", "fila")
    home.fetch(
        "owner",
        "SELECT count(novo) FROM generate_series(1, 300) AS n,"
        " fila.enfileirar('K' || n, 'k.xml', xmlparse(DOCUMENT '<n>' || n || '</n>'))",
    )
    script = paths.ROOT / "docs" / "worker.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 80
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), type("Receiver", (Careless,), {"executed": []}))
    executed: list[str] = receiver.RequestHandlerClass.executed  # type: ignore[attr-defined]
    serving = threading.Thread(target=receiver.serve_forever)
    serving.start()
    command = [sys.executable, str(script), plain["worker"], f"http://127.0.0.1:{receiver.server_port}/"]
    workers = [subprocess.Popen(command, env=os.environ | {"LEASE": "1"}) for _ in range(2)]
    dice = random.Random(9)
    left = "SELECT count(*) FROM fila.fila_documentos WHERE status IN ('pendente', 'processando')"
    try:
        for kill in range(10):
            assert wait.until(lambda kill=kill: len(executed) > 20 * kill, 30)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.02))  # where in its work it is hit
            workers[kill % 2].kill()
            workers[kill % 2].wait()
            workers[kill % 2] = subprocess.Popen(command, env=os.environ | {"LEASE": "1"})
        assert wait.until(lambda: home.fetch("owner", left) == [(0,)], 60)
        for worker in workers:
            worker.terminate()
        assert [worker.wait(10) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        receiver.shutdown()
        serving.join()
        receiver.server_close()
    rows = home.fetch("owner", "SELECT conteudo_xml::TEXT, status FROM fila.fila_documentos")
    ended = {str(content): status for content, status in rows}
    assert len(executed) == len(set(executed)), "executed twice"
    finished = {content for content, status in ended.items() if status == "concluido"}
    for_people = {content for content, status in ended.items() if status == "conciliacao"}
    assert finished | for_people == set(ended) and len(ended) == 300
    assert finished <= set(executed) and len(for_people) <= 10
