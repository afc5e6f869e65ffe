"""The numbered scripts, run as a learner runs them: psql -X -f, as often as he likes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from lab.base import paths
from lab.base.errors import LabError
from lab.scenario import transcript
from lab.scenario.library import scenarios
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment, run_scripts
from lab.server.schema import build, numbered_scripts
from lab.server.target import Target
from tests.helpers import execute, fetch
from tests.scenario.terminal import COLUMNS, Terminal

NAMES = ("01_queue", "02_for_update_waits", "03_skip_locked_passes", "04_claim_and_finish", "reset")
EPISODE = [paths.SQL / f"{name}.sql" for name in NAMES]
AFTER_THE_FIRST = EPISODE[1:]
TABLE = "sql_semana_12.fila_documentos"
MINE = (
    "CREATE SCHEMA sql_semana_12; CREATE TABLE sql_semana_12.meu (a INTEGER); INSERT INTO sql_semana_12.meu VALUES (42)"
)

named = pytest.mark.parametrize("script", AFTER_THE_FIRST, ids=lambda path: path.stem)


def psql(conninfo: str, script: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the reader is told to, from the checkout."""
    return subprocess.run(
        [str(find_psql()), "-X", "-f", str(script.relative_to(paths.ROOT))],
        cwd=paths.ROOT,
        env=os.environ | libpq_environment(conninfo) | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def documents(conninfo: str) -> list[tuple[object, ...]]:
    columns = "documento_id, chave, status, tentativas, worker_id, ultimo_erro"
    return fetch(conninfo, f"SELECT {columns} FROM {TABLE} ORDER BY criado_em, documento_id")


PENDING = [(number, f"NFE-000{number}", "pendente", 0, None, None) for number in (1, 2, 3, 4)]


# Running


def test_every_script_runs_twice_in_a_row_in_order(database: str) -> None:
    for script in EPISODE:
        first, second = psql(database, script), psql(database, script)
        assert (first.returncode, first.stderr) == (0, ""), script.name
        assert (second.returncode, second.stderr) == (0, ""), script.name
        assert _without_clock(second.stdout) == _without_clock(first.stdout), script.name


def _without_clock(printed: str) -> str:
    """What psql printed without the moments at which documents ended, and without the room that it makes for them."""
    return re.sub(r"[- ]+", " ", transcript.CLOCK.sub("", printed))


def test_the_numbered_scripts_are_the_lessons() -> None:
    assert set(numbered_scripts()) <= {
        paths.SQL / f"{told.stem}.sql" for told in (paths.ROOT / "scripts").glob("[0-9]*.py")
    }


@pytest.mark.parametrize("script", EPISODE, ids=lambda path: path.stem)
def test_a_script_runs_without_notices_and_whatever_the_session_brings(queue_database: str, script: Path) -> None:
    done = psql(
        queue_database,
        script,
        PGOPTIONS="-c search_path=pg_catalog -c client_min_messages=debug1 -c timezone=Asia/Tokyo",
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    assert fetch(queue_database, f"SELECT count(*) FROM {TABLE}") == [(4,)]


def test_scripts_that_only_show_change_nothing(queue_database: str) -> None:
    for script in EPISODE[1:3]:
        assert psql(queue_database, script).returncode == 0
    assert documents(queue_database) == PENDING


def test_for_update_leaves_its_mark_in_the_row_and_not_in_the_lock_manager(queue_database: str) -> None:
    shown = psql(queue_database, EPISODE[1]).stdout
    assert "            1 | NFE-0001" in shown
    assert "            1 | t" in shown and "            2 | f" in shown
    assert " relation | RowShareLock    | t" in shown and " tuple " not in shown


def test_the_query_that_tells_why_zero_counts_the_free(queue_database: str) -> None:
    assert "         4 |      4 |          0 |           0" in psql(queue_database, EPISODE[2]).stdout


def test_claiming_and_finishing_leave_one_attempt_each(queue_database: str) -> None:
    done = psql(queue_database, EPISODE[3])
    assert done.stdout.count("UPDATE 0") == 1
    assert documents(queue_database) == [
        (1, "NFE-0001", "concluido", 1, "worker-a", None),
        (2, "NFE-0002", "falhou", 1, "worker-b", "Falha sintética ao enviar documento"),
        *PENDING[2:],
    ]


def test_reset_puts_every_document_back(queue_database: str) -> None:
    psql(queue_database, EPISODE[3])
    assert psql(queue_database, EPISODE[4]).returncode == 0
    assert documents(queue_database) == PENDING
    times = fetch(queue_database, f"SELECT count(iniciado_em), count(concluido_em) FROM {TABLE}")
    assert times == [(0, 0)]


# Refusing


def test_script_01_leaves_a_schema_without_the_labs_mark_untouched(own_server: Target, database: str) -> None:
    execute(database, MINE)
    done = psql(database, EPISODE[0])
    assert done.returncode != 0
    assert "a schema sql_semana_12 that this lab did not make is here; it was left untouched" in done.stderr
    assert fetch(database, "SELECT a FROM sql_semana_12.meu") == [(42,)]
    assert fetch(database, "SELECT to_regclass('sql_semana_12.fila_documentos') IS NULL") == [(True,)]


def test_the_two_lines_of_the_refusal_can_be_pasted(own_server: Target, database: str) -> None:
    execute(database, MINE)
    said = psql(database, EPISODE[0]).stderr.splitlines()
    (rename,) = (line for line in said if line.startswith("ALTER SCHEMA"))
    (create,) = (line for line in said if line.startswith("CREATE DATABASE"))
    assert create == r"CREATE DATABASE queue_lab;  -- and connect to it: \c queue_lab"
    execute(database, rename)
    assert psql(database, EPISODE[0]).returncode == 0
    assert fetch(database, "SELECT a FROM sql_semana_12_mine.meu") == [(42,)]
    assert documents(database) == PENDING


@pytest.mark.parametrize("comment", ["my notes on the queue lab", "queue lab", ""])
def test_another_comment_is_not_the_mark(own_server: Target, database: str, comment: str) -> None:
    execute(database, f"{MINE}; COMMENT ON SCHEMA sql_semana_12 IS '{comment}'")
    assert psql(database, EPISODE[0]).returncode != 0
    assert fetch(database, "SELECT a FROM sql_semana_12.meu") == [(42,)]


@pytest.fixture
def guest(own_server: Target, database: str) -> Iterator[str]:
    """A role without any privilege."""
    name = f"sql_semana_12_test_{os.getpid()}"
    execute(database, f"CREATE ROLE {name} NOLOGIN")
    yield name
    execute(database, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_script_01_says_which_privilege_is_missing(database: str, guest: str) -> None:
    done = psql(database, EPISODE[0], PGOPTIONS=f"-c role={guest}")
    (name,) = fetch(database, "SELECT current_database()")[0]
    assert done.returncode != 0
    assert f"role {guest} may not create a schema in database {name}" in done.stderr
    grant = f"GRANT CREATE ON DATABASE {name} TO {guest};"
    assert grant in done.stderr
    execute(database, grant)
    assert psql(database, EPISODE[0], PGOPTIONS=f"-c role={guest}").returncode == 0


@named
def test_a_script_that_needs_the_queue_says_so_where_there_is_none(
    own_server: Target, database: str, script: Path
) -> None:
    done = psql(database, script)
    assert done.returncode != 0
    assert "the lab's queue is not in database" in done.stderr
    assert "psql -X -f sql/01_queue.sql" in done.stderr


@named
def test_a_script_that_needs_the_queue_does_not_touch_another_schema(
    own_server: Target, database: str, script: Path
) -> None:
    execute(
        database,
        f"{MINE}; CREATE TABLE {TABLE} (status TEXT, tentativas INTEGER); INSERT INTO {TABLE} VALUES ('meu', 7)",
    )
    assert psql(database, script).returncode != 0
    assert fetch(database, f"SELECT status, tentativas FROM {TABLE}") == [("meu", 7)]


@named
def test_a_script_of_the_episode_refuses_a_later_state(queue_database: str, script: Path) -> None:
    execute(queue_database, "COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 08'")
    done = psql(queue_database, script)
    assert done.returncode != 0
    assert "the queue has grown to state 08" in done.stderr
    assert documents(queue_database) == PENDING


def test_script_01_rebuilds_from_a_later_state_too(queue_database: str) -> None:
    execute(queue_database, f"COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 20'; DELETE FROM {TABLE}")
    assert psql(queue_database, EPISODE[0]).returncode == 0
    assert documents(queue_database) == PENDING
    assert fetch(queue_database, "SELECT obj_description('sql_semana_12'::regnamespace)") == [("queue lab, state 01",)]


def test_script_01_that_fails_half_way_changes_nothing(queue_database: str) -> None:
    execute(queue_database, f"UPDATE {TABLE} SET worker_id = 'worker-a'")
    text = EPISODE[0].read_text(encoding="utf-8")
    assert text.count("'NFE-0004', 'nfe-0004.xml'") == 1
    done = subprocess.run(
        [str(find_psql()), "-X", "-f", "-"],
        cwd=paths.SQL,  # it includes another script
        input=text.replace("'NFE-0004', 'nfe-0004.xml'", "'NFE-0001', 'nfe-0004.xml'"),
        env=os.environ | libpq_environment(queue_database),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "duplicate key" in done.stderr
    assert done.returncode != 0
    assert fetch(queue_database, f"SELECT count(*) FROM {TABLE} WHERE worker_id = 'worker-a'") == [(4,)]


# While another session is in the way

SECONDS_TO_SAY = 2.0  # it is to say so within a second; starting psql on a busy machine takes the rest
HELD = {"en": "another session holds a lock on the queue", "pt": "outra sessão está segurando a fila"}
WHAT_TO_DO = {"en": "COMMIT or ROLLBACK in the other terminal", "pt": "Faça COMMIT ou ROLLBACK no outro terminal"}


# What a reader may have made beside the queue, and what is told of it: all of it goes with the schema, if that is dropped by CASCADE.
OUTSIDE = {
    "view": ("CREATE VIEW mine AS SELECT chave FROM {q}.fila_documentos", "view mine"),
    "view of the clock": ("CREATE VIEW mine AS SELECT {q}.relogio() AS agora", "view mine"),
    "materialized view": ("CREATE MATERIALIZED VIEW mine AS SELECT chave FROM {q}.fila_documentos", "materialized view mine"),
    "child table": ("CREATE TABLE mine () INHERITS ({q}.fila_documentos)", "table mine"),
    "foreign key": (
        "CREATE TABLE mine (a TEXT, b TEXT, FOREIGN KEY (a, b) REFERENCES {q}.fila_documentos (inquilino, chave))",
        "on table mine",
    ),
    "default": ("CREATE TABLE mine (quando TIMESTAMPTZ DEFAULT {q}.relogio())", "of table mine"),
    "check": ("CREATE TABLE mine (a TEXT, CHECK ({q}.recuo(1) IS NOT NULL))", "on table mine"),
    "column of a type": ("CREATE TABLE mine (visto {q}.posse)", "column visto of table mine"),
    "column of a row type": ("CREATE TABLE mine (visto {q}.fila_documentos)", "column visto of table mine"),
    "array of a type": ("CREATE TABLE mine (visto {q}.posse[])", "column visto of table mine"),
    "function's body": ("CREATE FUNCTION mine() RETURNS BIGINT BEGIN ATOMIC SELECT count(*) FROM {q}.auditoria; END", "function mine()"),
    "function's argument": ("CREATE FUNCTION mine(a {q}.posse) RETURNS INT LANGUAGE sql AS 'SELECT 1'", "function mine("),
    "trigger": (
        "CREATE TABLE mine (a INT); CREATE FUNCTION {q}.gatilho() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN new; END';"
        " CREATE TRIGGER meu BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {q}.gatilho()",
        "trigger meu on table mine",
    ),
    "domain": ("CREATE DOMAIN mine AS {q}.posse", "type mine"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "told"), OUTSIDE.values(), ids=OUTSIDE)
def test_what_a_reader_made_beside_the_queue_keeps_it(grown: str, made: str, told: str) -> None:
    with psycopg.connect(grown, autocommit=True, options="-c search_path=public") as reader:
        reader.execute(made.format(q="sql_semana_12").encode())
    for name in ("01_queue", "teardown"):
        done = psql(grown, paths.SQL / f"{name}.sql", PGOPTIONS="-c search_path=public")
        assert done.returncode != 0 and "something of yours depends" in done.stderr
        assert told in done.stderr
    assert documents(grown) == PENDING


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("name", ["01_queue", "05_lease", "reset", "teardown"])
def test_a_script_that_changes_the_queue_says_soon_that_another_session_is_in_the_way(
    own_server: Target, queue_database: str, name: str, language: str
) -> None:
    with psycopg.connect(queue_database) as holder:
        holder.execute(f"SELECT documento_id FROM {TABLE} FOR UPDATE")
        began = time.monotonic()
        done = psql(queue_database, paths.SQL / f"{name}.sql", PGOPTIONS=f"-c lab.lang={language}")
        assert time.monotonic() - began < SECONDS_TO_SAY
        assert done.returncode != 0 and HELD[language] in done.stderr and WHAT_TO_DO[language] in done.stderr
        holder.rollback()
    assert documents(queue_database) == PENDING


def test_a_build_says_so_in_the_language_of_the_lab(queue_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LANG", "pt")
    with psycopg.connect(queue_database) as holder:
        holder.execute(f"LOCK TABLE {TABLE}")
        with pytest.raises(LabError, match=HELD["pt"]):
            build(queue_database, 1)
        holder.rollback()


def test_watch_waits_for_the_queue_and_never_for_a_lock(database: str) -> None:
    watch = Terminal(paths.SQL / "watch.sql", database)
    try:
        watch.await_text("the queue is not there yet")
        build(database, 1)
        watch.await_text("pendente | 4")
        with psycopg.connect(database) as holder:
            holder.execute(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
            watch.await_text("the whole queue is locked")
            holder.rollback()
            holder.execute(f"SELECT documento_id FROM {TABLE} FOR UPDATE")
            with psycopg.connect(database) as waiter, ThreadPoolExecutor() as pool:
                reset = pool.submit(waiter.execute, f"UPDATE {TABLE} SET tentativas = 0 WHERE documento_id = 1")
                watch.await_text(f"(pid {waiter.info.backend_pid}) → ")
                watch.await_text(f"(pid {holder.info.backend_pid}) | ")
                watch.await_text("UPDATE sql_semana_12.fila_do")
                holder.rollback()
                reset.result()
        assert "ERROR" not in watch.all_shown and max(map(len, watch.all_shown.splitlines())) <= COLUMNS
    finally:
        watch.interrupt()
        watch.close()


def test_no_pager_traps_a_reader_whose_terminal_is_small(database: str) -> None:
    scripts = [*EPISODE, *(path for path in numbered_scripts() if path not in EPISODE)]
    for script in [*scripts, paths.SQL / "alerts.sql", paths.SQL / "teardown.sql"]:
        terminal = Terminal(script, database)
        try:
            shown = terminal.await_end()
        finally:
            terminal.close()
        assert terminal.process.returncode == 0, f"{script.name}: {shown}"
        assert "A PAGER CAME" not in shown, script.name


def test_a_plain_psql_on_the_labs_own_database_finds_the_queue(own_server: Target) -> None:
    path = fetch(own_server.conninfo, "SHOW search_path")
    assert path == [('"$user", public, sql_semana_12',)]


# The facts of the episode


def test_the_columns_are_those_of_the_episode(queue_database: str) -> None:
    columns = fetch(
        queue_database,
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), attidentity"
        " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
        f" WHERE attrelid = '{TABLE}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
    )
    assert columns == [
        ("documento_id", "bigint", True, None, "a"),
        ("chave", "text", True, None, ""),
        ("nome_arquivo", "text", True, None, ""),
        ("conteudo_xml", "xml", True, None, ""),
        ("status", "text", True, "'pendente'::text", ""),
        ("tentativas", "integer", True, "0", ""),
        ("worker_id", "text", False, None, ""),
        ("criado_em", "timestamp with time zone", True, "clock_timestamp()", ""),
        ("iniciado_em", "timestamp with time zone", False, None, ""),
        ("concluido_em", "timestamp with time zone", False, None, ""),
        ("ultimo_erro", "text", False, None, ""),
    ]


def test_the_keys_are_those_of_the_episode(queue_database: str) -> None:
    keys = fetch(
        queue_database,
        "SELECT contype::text, pg_get_constraintdef(oid) FROM pg_constraint"
        f" WHERE conrelid = '{TABLE}'::regclass AND contype IN ('p', 'u', 'f') ORDER BY 1",
    )
    assert keys == [("p", "PRIMARY KEY (documento_id)"), ("u", "UNIQUE (chave)")]


def test_the_partial_index_holds_the_pending_rows_in_the_order_of_claiming(queue_database: str) -> None:
    indexes = fetch(
        queue_database,
        "SELECT indexrelid::regclass::text, pg_get_expr(indpred, indrelid), indnkeyatts, indisunique,"
        " pg_get_indexdef(indexrelid, 1, true), pg_get_indexdef(indexrelid, 2, true)"
        f" FROM pg_index WHERE indrelid = '{TABLE}'::regclass AND indpred IS NOT NULL",
    )
    name = "sql_semana_12.fila_documentos_pendentes_idx"
    assert indexes == [(name, "(status = 'pendente'::text)", 2, False, "criado_em", "documento_id")]


@pytest.mark.parametrize("status", ["pendente", "processando", "concluido", "falhou"])
def test_the_four_states_are_taken(queue_database: str, status: str) -> None:
    execute(queue_database, f"UPDATE {TABLE} SET status = '{status}' WHERE documento_id = 1")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("UPDATE {} SET status = 'pausado'", psycopg.errors.CheckViolation),
        ("UPDATE {} SET status = ''", psycopg.errors.CheckViolation),
        ("UPDATE {} SET status = NULL", psycopg.errors.NotNullViolation),
        ("UPDATE {} SET tentativas = -1", psycopg.errors.CheckViolation),
        ("INSERT INTO {} (chave, nome_arquivo, conteudo_xml) VALUES ('NFE-0001', 'a', '<a/>')", psycopg.errors.UniqueViolation),
        (
            "INSERT INTO {} (documento_id, chave, nome_arquivo, conteudo_xml) VALUES (9, 'NFE-0009', 'a', '<a/>')",
            psycopg.errors.GeneratedAlways,
        ),
        ("INSERT INTO {} (chave, nome_arquivo, conteudo_xml) VALUES ('NFE-0009', 'a', '<a>')", psycopg.errors.InvalidXmlContent),
    ],
)  # fmt: skip
def test_what_the_table_refuses(queue_database: str, change: str, error: type[psycopg.Error]) -> None:
    with pytest.raises(error):
        execute(queue_database, change.format(TABLE))


def test_the_four_documents_are_those_of_the_episode(queue_database: str) -> None:
    rows = fetch(
        queue_database,
        "SELECT documento_id, chave, nome_arquivo, xpath('/*/@id', conteudo_xml)::text, xpath('name(/*)', conteudo_xml)::text,"
        " xpath('/nfe/*', conteudo_xml)::text, to_char(criado_em AT TIME ZONE INTERVAL '-03:00', 'YYYY-MM-DD HH24:MI:SS.US')"
        f" FROM {TABLE} ORDER BY documento_id",
    )
    assert rows == [
        (
            number,
            f"NFE-000{number}",
            f"nfe-000{number}.xml",
            f"{{NFE-000{number}}}",
            "{nfe}",
            f"{{<valor>{number}0{number}.{number}0</valor>}}",
            f"2026-10-16 09:00:0{number}.000000",
        )
        for number in (1, 2, 3, 4)
    ]
    moments = fetch(
        queue_database,
        f"SELECT min(criado_em) = '2026-10-16 12:00:01Z', max(criado_em) = '2026-10-16 12:00:04Z' FROM {TABLE}",
    )
    assert moments == [(True, True)]
    assert documents(queue_database) == PENDING


def test_building_again_starts_the_numbers_anew(queue_database: str) -> None:
    build(queue_database, 1)
    execute(queue_database, f"INSERT INTO {TABLE} (chave, nome_arquivo, conteudo_xml) VALUES ('NFE-0005', 'a', '<a/>')")
    assert fetch(queue_database, f"SELECT max(documento_id) FROM {TABLE}") == [(5,)]


def test_every_state_a_scenario_starts_from_can_be_built(database: str) -> None:
    for state in sorted({told.state for told in scenarios()}):
        build(database, state)
        assert documents(database) == PENDING


# In the reader's language


@pytest.mark.parametrize(
    ("prepare", "script", "said"),
    [
        (MINE, "01_queue", "já existe um esquema sql_semana_12 que não é do laboratório; ele ficou intacto"),
        ("SELECT", "reset", "a fila do laboratório não está no banco"),
        ("SELECT", "06_token", "Crie a fila antes: psql -X -f sql/01_queue.sql"),
    ],
)
def test_a_refusal_is_told_in_the_language_of_the_session(database: str, prepare: str, script: str, said: str) -> None:
    execute(database, "DROP SCHEMA IF EXISTS sql_semana_12 CASCADE")
    execute(database, prepare)
    path = paths.SQL / f"{script}.sql"
    assert said in psql(database, path, PGOPTIONS="-c lab.lang=pt_BR").stderr
    english = psql(database, path)
    assert english.returncode != 0
    assert said not in english.stderr


def test_the_lab_asks_its_scripts_for_the_readers_language(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(database, "DROP SCHEMA IF EXISTS sql_semana_12 CASCADE")
    execute(database, MINE)
    monkeypatch.setenv("LAB_LANG", "pt_BR")
    with pytest.raises(LabError, match=r"^ERRO:  já existe um esquema sql_semana_12 .*\nDICA:  Cole uma destas"):
        build(database, 1)
    execute(database, "ALTER SCHEMA sql_semana_12 RENAME TO sql_semana_12_meu")
    build(database, 1)
    execute(database, "COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 08'")
    with pytest.raises(LabError, match="a fila já está no estado 08; este script é dos estados 01 a 04"):
        run_scripts(database, paths.SQL / "reset.sql")
    execute(database, "COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 05'")
    with pytest.raises(LabError, match="a fila está no estado 05; este script precisa antes do estado 08"):
        run_scripts(database, paths.SQL / "09_effects.sql")


HEADED = sorted(path for path in paths.SQL.glob("*.sql"))


@pytest.mark.parametrize("script", HEADED, ids=lambda path: path.stem)
def test_the_head_of_a_script_is_in_both_languages(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    head = text[: text.index("\n\n")].split("\n--\n")
    for paragraph in head:
        kinds = [line.startswith("-- @pt ") for line in paragraph.splitlines()]
        assert kinds[0] is False and kinds[-1] is True, paragraph  # English first, then Portuguese
        assert kinds == sorted(kinds), paragraph
