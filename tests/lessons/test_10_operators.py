"""Lesson 10: operators' commands, roles made and removed, the check before a deployment, and the view over it all."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base import paths
from lab.base.errors import LabError
from lab.lessons import registry
from lab.protocol import grants
from lab.protocol import monitor as lab_monitor
from lab.scenario.stage import Stage
from lab.server.binaries import find_psql
from lab.server.psql import libpq_environment, run_scripts
from lab.server.schema import scripts_for
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.helpers import check_lesson, everything, execute, fetch, rows

STATE = 10
TABLE = "sql_semana_12.fila_documentos"
LATER = "UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 minute'"


@pytest.fixture
def queue(grown: str) -> Iterator[psycopg.Connection]:
    """A connection of the owner to a queue in state 10."""
    with SessionPins().psycopg_connection(grown, "lab/test") as connection:
        yield connection


@pytest.fixture
def with_roles(queue: psycopg.Connection) -> psycopg.Connection:
    """The same, where this user may take the lab's roles."""
    if reason := grants.cannot_become_any(queue):
        pytest.skip(reason)
    return queue


def refused(connection: psycopg.Connection, query: str, *values: object) -> str | None:
    """The SQLSTATE that the query is answered with."""
    with pytest.raises(psycopg.Error) as caught:
        rows(connection, query, *values)
    return caught.value.sqlstate


# Commands


COMMANDS = {
    "pausar": "SELECT documento_id FROM pausar(%(documento)s, %(versao)s, %(quem)s, %(motivo)s, %(inquilino)s)",
    "retomar": "SELECT documento_id FROM retomar(%(documento)s, %(versao)s, %(quem)s, %(motivo)s, %(inquilino)s)",
    "confirmar": "SELECT documento_id FROM confirmar(%(documento)s, %(versao)s, 'R-1', %(quem)s, %(motivo)s, %(inquilino)s)",
    "reenfileirar": "SELECT documento_id FROM reenfileirar(%(documento)s, %(versao)s, %(quem)s, %(motivo)s, 1, %(inquilino)s)",
}
PREPARED = {
    "pausar": "SELECT",
    "retomar": "SELECT FROM pausar(1, 0, 'operador', 'espera')",
    "confirmar": "SELECT FROM reservar('worker-a'); SELECT FROM conciliar(1, 1, 'sem resposta')",
    "reenfileirar": "SELECT FROM reservar('worker-a'); SELECT FROM falhar(1, 1, 'conteudo', 'valor ausente')",
}
each_command = pytest.mark.parametrize("command", COMMANDS)


def send(connection: psycopg.Connection, command: str, **changed: object) -> list[tuple[object, ...]]:
    """Send a command for document 1 as it stands, but for what is changed."""
    (version,) = rows(connection, "SELECT versao FROM examinar(1)")[0]
    values = {"documento": 1, "versao": version, "quem": "operador", "motivo": "conferido", "inquilino": None} | changed
    return connection.execute(COMMANDS[command].encode(), values).fetchall()


@each_command
def test_a_command_leaves_one_audit_row_and_one_version_more(queue: psycopg.Connection, command: str) -> None:
    queue.execute(PREPARED[command].encode())
    before = rows(queue, "SELECT versao, (SELECT count(*) FROM auditoria) FROM examinar(1)")
    assert send(queue, command, motivo="por isto") == [(1,)]
    after = rows(queue, "SELECT versao - 1, (SELECT count(*) - 1 FROM auditoria) FROM examinar(1)")
    assert after == before
    last = rows(queue, "SELECT versao, quem, por_que FROM auditoria ORDER BY quando DESC LIMIT 1")
    assert last == [(int(str(before[0][0])) + 1, "operador", "por isto")]


@each_command
@pytest.mark.parametrize(
    "changed",
    [
        {"versao": 99},
        {"versao": None},
        {"documento": 2},
        {"documento": 99},
        {"documento": None},
        {"inquilino": "outro"},
    ],
    ids=str,
)
def test_a_command_for_something_else_than_was_seen_changes_nothing(
    queue: psycopg.Connection, command: str, changed: dict[str, object]
) -> None:
    queue.execute(PREPARED[command].encode())
    queue.execute(b"UPDATE fila_documentos SET versao = 7 WHERE documento_id = 2")
    before = everything(queue)
    assert send(queue, command, **changed) == []
    assert everything(queue) == before


@each_command
@pytest.mark.parametrize(
    "changed",
    [{"motivo": None}, {"motivo": ""}, {"motivo": " \n\t"}, {"quem": None}, {"quem": " "}, {"quem": "o" * 201}],
    ids=lambda changed: str(changed)[:20],
)
def test_a_command_without_a_reason_or_a_name_is_refused(
    queue: psycopg.Connection, command: str, changed: dict[str, object]
) -> None:
    queue.execute(PREPARED[command].encode())
    before = everything(queue)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        send(queue, command, **changed)
    assert everything(queue) == before


@each_command
def test_a_command_is_for_some_states_only(queue: psycopg.Connection, command: str) -> None:
    meant = {
        "pausar": {"pendente"},
        "retomar": {"pausado"},
        "confirmar": {"conciliacao"},
        "reenfileirar": {"falhou", "conciliacao"},
    }
    obeyed = set()
    for state in ("pendente", "processando", "concluido", "falhou", "conciliacao", "pausado"):
        with queue.transaction(force_rollback=True):
            # In work under a live lease, where it is in work at all.
            queue.execute(
                "UPDATE fila_documentos SET status = %s, reservado_ate = relogio() + INTERVAL '1 minute'", [state]
            )
            if send(queue, command):
                obeyed.add(state)
    assert obeyed == meant[command]


def test_a_reason_of_a_megabyte_is_bounded(queue: psycopg.Connection) -> None:
    assert send(queue, "pausar", motivo="x" * 2**20) == [(1,)]
    assert rows(queue, "SELECT max(length(por_que)) FROM auditoria") == [(200,)]


@pytest.mark.parametrize("more", [0, -1, 101, None])
def test_requeueing_wants_a_sensible_number_of_attempts(queue: psycopg.Connection, more: int | None) -> None:
    queue.execute(PREPARED["reenfileirar"].encode())
    assert refused(queue, "SELECT FROM reenfileirar(1, 2, 'operador', 'corrigido', %s)", more) == "22023"


def test_a_pause_that_waits_for_a_renewal_sees_the_new_lease(grown: str, queue: psycopg.Connection) -> None:
    queue.execute(b"SELECT FROM reservar('worker-a')")
    queue.execute(LATER.encode())
    with SessionPins().psycopg_connection(grown, "lab/A") as worker:
        worker.execute("BEGIN")
        assert rows(worker, "SELECT documento_id FROM renovar(1, 1)") == [(1,)]
        with waiting(queue, lambda: rows(queue, "SELECT documento_id FROM pausar(1, 1, 'operador', 'lento')")) as pause:
            worker.execute("COMMIT")
    assert pause == [[]]


def test_a_paused_document_keeps_what_its_last_attempt_said(queue: psycopg.Connection) -> None:
    queue.execute(b"SELECT FROM reservar('worker-a')")
    queue.execute(b"SELECT FROM falhar(1, 1, 'sistemico', 'receptor fora do ar')")
    error = [("sistemico", "receptor fora do ar")]
    for command in ("pausar", "retomar"):
        send(queue, command)
        assert rows(queue, "SELECT categoria_erro, ultimo_erro FROM examinar(1)") == error
    assert rows(queue, "SELECT categoria_erro, falhas FROM falhas_por_categoria") == [("sistemico", 1)]


def test_a_document_that_was_put_off_stays_so_through_a_pause(queue: psycopg.Connection) -> None:
    queue.execute(b"UPDATE fila_documentos SET disponivel_em = relogio() + INTERVAL '7 days' WHERE documento_id = 1")
    before = rows(queue, "SELECT disponivel_em FROM fila_documentos WHERE documento_id = 1")
    send(queue, "pausar")
    send(queue, "retomar")
    assert rows(queue, "SELECT disponivel_em FROM fila_documentos WHERE documento_id = 1") == before


def test_a_pause_is_no_waiting(queue: psycopg.Connection) -> None:
    send(queue, "pausar")
    queue.execute(LATER.encode())
    send(queue, "retomar")
    assert rows(queue, "SELECT documento_id FROM reservar('worker-a', 4)") == [(2,), (3,), (4,), (1,)]


@pytest.mark.parametrize(("stage", "state"), [("nao_chamado", "falhou"), ("desconhecido", "conciliacao")])
def test_an_orphan_paused_in_its_last_attempt_ends_by_its_stage(
    queue: psycopg.Connection, stage: str, state: str
) -> None:
    queue.execute(b"UPDATE fila_documentos SET max_tentativas = 1")
    queue.execute(b"SELECT FROM reservar('worker-a')")
    if stage != "nao_chamado":
        queue.execute("SELECT FROM registrar_etapa(1, 1, %s)", [stage])
    queue.execute(LATER.encode())
    send(queue, "pausar")
    assert send(queue, "retomar") == [(1,)]
    assert rows(queue, "SELECT status, categoria_erro FROM examinar(1)") == [(state, "queda")]


def test_examining_shows_all_but_the_payload_and_locks_nothing(grown: str, queue: psycopg.Connection) -> None:
    with psycopg.connect(grown) as other:
        other.execute(f"SELECT FROM {TABLE} FOR UPDATE".encode())
        cursor = queue.execute("SELECT * FROM examinar(1)")
        names = {column.name for column in cursor.description or ()}
        assert names >= {"versao", "tentativas", "worker_id", "reservado_ate", "etapa", "chave_operacao"}
        assert "conteudo_xml" not in names and len(cursor.fetchall()) == 1


# Scripts and roles


class Copy:
    """The lab's scripts with roles of other names, so that a test may make and drop them while others use the real ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"sql_semana_12_t{os.getpid()}_"
        for script in paths.SQL.glob("*.sql"):
            text = script.read_text(encoding="utf-8")
            (folder / script.name).write_text(
                re.sub(r"\bsql_semana_12_(worker|reader|operator|application)\b", rf"{self.prefix}\1", text),
                encoding="utf-8",
            )

    @property
    def roles(self) -> list[str]:
        return [f"{self.prefix}{duty}" for duty in grants.DUTIES]

    def script(self, name: str) -> Path:
        return self.folder / name

    def build(self, conninfo: str, state: int = STATE) -> None:
        run_scripts(conninfo, *(self.script(script.name) for script in scripts_for(state)))

    def tear_down(self, conninfo: str) -> dict[str, str]:
        """What became of each object."""
        said = run_scripts(conninfo, self.script("teardown.sql"))
        parts = [line.split("|") for line in said.splitlines() if " | " in line][1:]
        return {name.strip(): result.strip() for name, result in parts}

    def there(self, conninfo: str) -> set[object]:
        return {
            name for (name,) in fetch(conninfo, "SELECT rolname FROM pg_roles WHERE rolname LIKE %s", f"{self.prefix}%")
        }


@pytest.fixture
def copy(own_server: Target, database: str, tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path)
    yield made
    execute(database, "DROP SCHEMA IF EXISTS sql_semana_12 CASCADE")
    for role in made.there(database):
        execute(database, f'DROP ROLE "{role}"')


@contextmanager
def waiting(watch: psycopg.Connection, work: Callable[[], object]) -> Iterator[list[object]]:
    """Start the work in a thread and go on when a session is seen waiting for a lock; what it returned is in the list."""
    results: list[object] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    with psycopg.connect(watch.info.dsn, autocommit=True) as monitor:
        while (
            thread.is_alive()
            and not monitor.execute(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ).fetchall()
        ):
            pass
    try:
        yield results
    finally:
        thread.join(30)
    if failures:
        raise failures[0]


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
def test_two_sessions_may_make_the_same_roles_at_once(database: str, copy: Copy, ending: str) -> None:
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("BEGIN")
        for role in copy.roles:
            other.execute(f"CREATE ROLE {role} NOLOGIN; COMMENT ON ROLE {role} IS 'queue lab'".encode())
        with waiting(other, lambda: copy.build(database)):
            other.execute(ending.encode())
    assert copy.there(database) == set(copy.roles)
    assert fetch(database, "SELECT obj_description('sql_semana_12'::REGNAMESPACE)") == [("queue lab, state 10",)]


def test_a_role_dropped_at_the_moment_of_its_use_is_made_again(database: str, copy: Copy) -> None:
    copy.build(database, 9)
    role = f"{copy.prefix}worker"
    execute(database, f"CREATE ROLE {role} NOLOGIN; COMMENT ON ROLE {role} IS 'queue lab'")
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute(f"DROP ROLE {role}".encode())
        with waiting(other, lambda: run_scripts(database, copy.script("10_operators.sql"))):
            other.execute("COMMIT")
    assert copy.there(database) == set(copy.roles)


def test_many_builds_and_teardowns_at_once_leave_nothing_undone(server: Target, copy: Copy) -> None:
    rounds, failures = 4, []

    def build_and_tear_down() -> None:
        try:
            with server.database("roles") as conninfo:
                for _ in range(rounds):
                    copy.build(conninfo)
                    assert fetch(conninfo, "SELECT count(*) FROM sql_semana_12.situacao") == [(1,)]
                    copy.tear_down(conninfo)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=build_and_tear_down) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_role_that_the_lab_did_not_make_is_refused(database: str, copy: Copy) -> None:
    copy.build(database, 9)
    execute(database, f"CREATE ROLE {copy.prefix}reader NOLOGIN; COMMENT ON ROLE {copy.prefix}reader IS 'mine'")
    with pytest.raises(LabError, match=f"a role {copy.prefix}reader that this lab did not make is here; it was left"):
        run_scripts(database, copy.script("10_operators.sql"))
    assert fetch(database, "SELECT obj_description('sql_semana_12'::REGNAMESPACE)") == [("queue lab, state 09",)]
    assert copy.there(database) == {f"{copy.prefix}reader"}
    assert copy.tear_down(database)[f"role {copy.prefix}reader"] == "left untouched: this lab did not make it"
    assert copy.there(database) == {f"{copy.prefix}reader"}


def test_teardown_keeps_a_role_while_another_database_uses_it(server: Target, database: str, copy: Copy) -> None:
    with server.database("second") as second:
        copy.build(database)
        copy.build(second)
        (name,) = fetch(second, "SELECT current_database()")[0]
        first = copy.tear_down(database)
        assert first.pop("schema sql_semana_12") == "dropped"
        assert first == {f"role {role}": f"kept: still used in {name}" for role in copy.roles}
        assert set(copy.tear_down(second).values()) == {"dropped"}
        assert set(copy.tear_down(second).values()) == {"not here"}
    assert copy.there(database) == set()


def test_teardown_leaves_another_schema_of_that_name(database: str, copy: Copy) -> None:
    execute(database, "CREATE SCHEMA sql_semana_12; CREATE TABLE sql_semana_12.meu (a INTEGER)")
    assert copy.tear_down(database)["schema sql_semana_12"] == "left untouched: this lab did not make it"
    assert fetch(database, "SELECT count(*) FROM sql_semana_12.meu") == [(0,)]


def test_teardown_takes_along_where_the_terminals_of_a_scenario_stood(database: str, copy: Copy) -> None:
    execute(database, "CREATE SCHEMA sql_semana_12_turns; COMMENT ON SCHEMA sql_semana_12_turns IS 'queue lab, turns'")
    assert copy.tear_down(database)["schema sql_semana_12_turns"] == "dropped"
    execute(database, "CREATE SCHEMA sql_semana_12_turns")  # without the mark it is not the lab's
    assert "schema sql_semana_12_turns" not in copy.tear_down(database)
    assert fetch(database, "SELECT to_regnamespace('sql_semana_12_turns') IS NOT NULL") == [(True,)]


@pytest.fixture
def plain(own_server: Target, database: str) -> Iterator[str]:
    """The conninfo as a user who may create a schema, and no role."""
    name = f"sql_semana_12_plain_{os.getpid()}"
    (own,) = fetch(database, "SELECT current_database()")[0]
    execute(database, f"CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE {own} TO {name}")
    yield make_conninfo(database, user=name)
    execute(database, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_without_the_right_to_create_roles_all_else_is_made(plain: str, copy: Copy) -> None:
    build_09 = [copy.script(script.name) for script in scripts_for(9)]
    run_scripts(plain, *build_09)
    done = subprocess.run(
        [str(find_psql()), "-X", "-f", str(copy.script("10_operators.sql"))],
        env=os.environ | libpq_environment(plain),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.count("may not create roles, so") == 4 and "CREATEROLE" in done.stderr
    assert copy.there(plain) == set()
    with SessionPins().psycopg_connection(plain, "lab/test") as connection:
        assert rows(connection, "SELECT documento_id FROM pausar(1, 0, 'operador', 'espera')") == [(1,)]


def test_without_the_roles_their_claims_are_not_run_and_say_why(plain: str) -> None:
    told = registry.find("10")
    with_roles = [claim for claim in told.checks if "permission" in claim.id or claim.id == "10.row_security"]
    assert len(with_roles) == 3
    for claim in with_roles:
        observed = claim.observe(Stage(plain, superuser=False))
        assert observed.holds is None
        assert "sql_semana_12_application" in observed.why


def test_script_10_says_what_it_needs(database: str, copy: Copy) -> None:
    copy.build(database, 8)
    with pytest.raises(LabError, match="the queue is in state 08; this script needs state 09 first"):
        run_scripts(database, copy.script("10_operators.sql"))
    copy.build(database)
    run_scripts(database, copy.script("10_operators.sql"))
    assert "1" in run_scripts(database, copy.script("10_operators.sql"))


def test_the_functions_are_told_pinned_and_closed(queue: psycopg.Connection) -> None:
    functions = rows(
        queue,
        "SELECT proname, obj_description(oid, 'pg_proc') IS NOT NULL, proconfig[1],"
        " has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE",
    )
    assert len({name for name, *_ in functions}) == len(functions) > 20
    assert {(told, path, public) for _, told, path, public in functions} == {
        (True, "search_path=pg_catalog, pg_temp", False)
    }


# Permissions


def test_the_claim_of_the_permissions_fails_for_a_column_that_may_be_changed(
    grown: str, with_roles: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = registry.find("10")
    (claim,) = [claim for claim in told.checks if claim.id == "10.permissions"]
    stage = Stage(grown, superuser=False)
    assert claim.observe(stage).holds
    with_roles.execute("GRANT UPDATE (token_reserva, tentativas) ON fila_documentos TO sql_semana_12_worker")
    monkeypatch.setattr(Stage, "build", lambda *_: None)
    observed = claim.observe(stage)
    assert observed.holds is False
    assert re.search(r"refused (\d+) of \1 .* grants needed (\d+) of (?!\2)", observed.text.en)


# Monitoring


def test_every_document_is_counted_once(queue: psycopg.Connection) -> None:
    states = ", ".join(lab_monitor.STANDS)
    for change in (
        "SELECT",
        "SELECT FROM reservar('worker-a', 3)",
        "SELECT FROM falhar(1, 1, 'sistemico', 'tempo')",
        LATER,
    ):
        queue.execute(change.encode())
        counts = rows(queue, f"SELECT {states} FROM situacao")[0]
        assert sum(int(str(number)) for number in counts) == 4


def test_what_is_put_off_does_not_wait(queue: psycopg.Connection) -> None:
    queue.execute(b"UPDATE fila_documentos SET disponivel_em = relogio() + INTERVAL '1 hour'")
    assert rows(queue, "SELECT aguardando, adiados, maior_espera FROM situacao") == [(0, 4, None)]
    queue.execute(b"UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 hour 5 minutes'")
    waits = "SELECT aguardando, adiados, date_trunc('minute', maior_espera) FROM situacao"
    assert rows(queue, waits) == [(4, 0, timedelta(minutes=5))]


def test_a_failure_whose_document_is_finished_all_the_same_is_not_for_good(queue: psycopg.Connection) -> None:
    for _ in range(4):
        queue.execute(b"SELECT FROM reservar('worker-a')")
    for document in (1, 2):
        queue.execute("SELECT FROM registrar_etapa(%s, %s, 'desconhecido')", [document, document])
    queue.execute(b"SELECT FROM registrar_etapa(1, 1, 'obtido', 'R1', p_chamada_basta => TRUE)")
    ends = [
        rows(queue, "SELECT status FROM falhar(%s, %s, %s, 'motivo')", document, document, category)[0][0]
        for document, category in ((1, "conteudo"), (2, "conteudo"), (3, "conteudo"), (4, "conexao"))
    ]
    assert ends == ["concluido", "conciliacao", "falhou", "pendente"]
    counted = "SELECT categoria_erro, falhas, a_repetir, definitivas FROM falhas_por_categoria ORDER BY 1"
    assert rows(queue, counted) == [("conexao", 1, 1, 0), ("conteudo", 3, 0, 2)]


# Alerts

# The documents of the episode are due for weeks; these have come just now.
JUST_NOW = "UPDATE fila_documentos SET disponivel_em = relogio() - INTERVAL '1 second' * (10 - documento_id)"


def alerts(queue: psycopg.Connection) -> list[list[tuple[object, ...]]]:
    """What each of the five alerts says."""
    text = (paths.SQL / "alerts.sql").read_text(encoding="utf-8")
    asked = re.findall(r"^SELECT\b[^;]*;", text, re.MULTILINE)
    assert len(asked) == 5
    return [rows(queue, query) for query in asked]


def test_the_alerts_are_silent_while_a_busy_queue_is_well(queue: psycopg.Connection) -> None:
    # One of each: ended and paused long ago, in work, late but not too late, due but not for long, put off.
    queue.execute(
        b"SELECT enfileirar('A', 'a.xml', '<a/>'), enfileirar('B', 'b.xml', '<b/>'), enfileirar('C', 'c.xml', '<c/>');"
        b"SELECT reservar('worker-a'); SELECT reservar('worker-b'); SELECT reservar('worker-c');"
        b"SELECT concluir(1, 1), falhar(2, 2, 'conteudo', 'valor ausente'), pausar(4, 0, 'ana', 'espera');"
        b"UPDATE relogio_do_laboratorio SET adiantado = '20 days';"
        b"UPDATE fila_documentos SET reservado_ate = relogio() - INTERVAL '1 minute 50 seconds' WHERE documento_id = 3;"
        b"UPDATE fila_documentos SET disponivel_em = relogio() - INTERVAL '9 minutes 50 seconds' WHERE documento_id > 4;"
        b"SELECT FROM reservar('worker-a');"
        b"UPDATE fila_documentos SET disponivel_em = relogio() + INTERVAL '1 day' WHERE documento_id = 7"
    )
    states = "SELECT aguardando, adiados, executando, orfaos, pausados, falhos, concluidos FROM situacao"
    assert rows(queue, states) == [(1,) * 7]
    assert alerts(queue) == [[], [], [], [], []]


def test_an_alert_counts_the_orphans_and_not_the_living(queue: psycopg.Connection) -> None:
    queue.execute(b"SELECT reservar('worker-a'); SELECT reservar('worker-b', 3, '10 minutes')")
    queue.execute(b"UPDATE relogio_do_laboratorio SET adiantado = '2 minutes 40 seconds'")
    ((number, late),), *others = alerts(queue)
    assert (number, others) == (1, [[], [], [], []])
    assert timedelta(minutes=2, seconds=10) <= late <= timedelta(minutes=2, seconds=20)  # type: ignore[operator]
    assert rows(queue, "SELECT orfaos FROM situacao") == [(number,)]


def test_in_work_without_a_deadline_is_an_orphan_to_the_alert_too(queue: psycopg.Connection) -> None:
    queue.execute(f"{JUST_NOW}; SELECT reservar('worker-a'); UPDATE fila_documentos SET reservado_ate = NULL".encode())
    assert alerts(queue) == [[(1, None)], [], [], [], []]


def test_the_alerts_name_the_longest_wait_and_the_first_document_for_people(queue: psycopg.Connection) -> None:
    queue.execute(f"{JUST_NOW}; SELECT reservar('worker-a'); SELECT reservar('worker-b')".encode())
    queue.execute(b"SELECT conciliar(1, 1, 'motivo'), conciliar(2, 2, 'motivo')")
    queue.execute(
        b"UPDATE fila_documentos SET disponivel_em = relogio() - INTERVAL '11 minutes' WHERE documento_id = 4"
    )
    orphans, ((waits,),), people, creators, old = alerts(queue)
    assert (orphans, people, creators, old) == ([], [(2, 1)], [], [])
    assert timedelta(minutes=11) <= waits <= timedelta(minutes=11, seconds=10)  # type: ignore[operator]


def test_the_start_of_an_attempt_ends_its_delay(queue: psycopg.Connection) -> None:
    queue.execute("SELECT FROM reservar('worker-a', 1, '10 minutes')")
    queue.execute(b"UPDATE relogio_do_laboratorio SET adiantado = '1 minute'")
    queue.execute("SELECT FROM registrar_etapa(1, 1, 'desconhecido')")
    queue.execute(b"UPDATE relogio_do_laboratorio SET adiantado = '5 minutes'")
    delay = "SELECT maior_demora_para_iniciar BETWEEN '1 minute' AND '70 seconds' FROM situacao"
    assert rows(queue, delay) == [(True,)]


def test_renewals_are_counted_and_stay_heap_only(queue: psycopg.Connection) -> None:
    queue.execute(b"VACUUM fila_documentos")
    queue.execute(b"SELECT FROM reservar('worker-a')")
    for _ in range(20):
        queue.execute(b"SELECT FROM renovar(1, 1)")
    queue.execute(b"SELECT FROM renovar(1, 99)")
    assert rows(queue, "SELECT renovacoes FROM situacao") == [(20,)]
    assert rows(queue, "SELECT versao, token_reserva FROM fila_documentos WHERE documento_id = 1") == [(1, 1)]


def test_every_check_of_lesson_10_passes(stage: Stage) -> None:
    check_lesson("10_operators", stage)
