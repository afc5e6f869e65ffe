"""PostgreSQL's own isolationtester plays the same scenarios and must print the same; and a play repeats itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from lab.base.errors import LabError
from lab.protocol import grants
from lab.scenario import isolationtester as lab_isolationtester
from lab.scenario import library, transcript
from lab.scenario.grammar import Scenario
from lab.scenario.player import play
from lab.scenario.result import Play
from lab.server.binaries import find_program
from lab.server.schema import build
from lab.server.session import SessionPins
from lab.server.target import Target
from tests.conftest import nothing_left
from tests.helpers import WAIT, all_scenarios, fetch, mutated, parsed
from tests.scenario.test_player import CHAIN, DEADLOCK, NOTICES, QUEUE_OF_WAITERS

ACCENTS = "-- @step a_asks A\nSELECT 'não é síncrono' AS situação, '1' AS número UNION ALL SELECT 'sim', '20';\n"

each_scenario = pytest.mark.parametrize("told", all_scenarios(), ids=lambda told: told.name)

EVERY_SHAPE = (
    "-- @step a_asks A\nSELECT * FROM (VALUES (1, 'um', NULL, -1.5, '', '1e5', 'E1', 'a b'), (20, 'dois', 3, 0, NULL, '2', '3', '1-2'),"
    " (NULL, NULL, 4, 12, '', ' 7', '4', '')) AS t (id, nome, nulo, numero, vazio, expoente, letra, traco);\n"
    "-- @step a_zero A\nSELECT documento_id, chave FROM fila_documentos WHERE FALSE;\n"
    "-- @step a_bare A\nSELECT FROM fila_documentos;\n"
    "-- @step a_null A\nSELECT NULL AS a, '' AS b;\n"
    "-- @step a_same A\nSELECT 1 AS x, 2 AS x;\n"
    "-- @step a_wide A\nSELECT documento_id AS a, chave AS nome_bem_mais_largo_que_o_valor FROM fila_documentos ORDER BY 1;\n"
    "-- @step a_dates A\nSELECT criado_em, criado_em - timestamptz 'epoch' AS desde FROM fila_documentos ORDER BY documento_id;\n"
    "-- @step a_returning A\nUPDATE fila_documentos SET tentativas = 1 WHERE FALSE RETURNING documento_id;\n"
    "-- @step a_xml A\nSELECT conteudo_xml FROM fila_documentos ORDER BY documento_id LIMIT 1;\n"
    "-- @step a_nothing A\nSET lock_timeout = '3s';\n"
)

SETUP_AND_TEARDOWN = (
    "-- @setup\nSELECT 1 AS nao_mostrado;\nVACUUM fila_documentos;\nCREATE TABLE feito (a INTEGER);\n"
    "-- @step a_sees A\nTABLE feito;\n-- @teardown\nSELECT 2;\nVACUUM fila_documentos;\nDROP TABLE feito;\n"
)

TWO_END_AT_ONCE = (
    "-- @step a_begin A\nBEGIN;\n-- @step a_locks A\nLOCK TABLE fila_documentos;\n"
    "-- @step b_asks B blocks A\nSELECT count(*) FROM fila_documentos;\n"
    "-- @step c_asks C blocks A\nSELECT count(*) FROM fila_documentos;\n"
    "-- @step a_ends A\nCOMMIT;\n-- @ends b_asks\n-- @ends c_asks\n-- @step b_more B\nSELECT 1;\n"
)


@pytest.fixture
def stage(module_database: str) -> Iterator[str]:
    """The conninfo of the module's database, watched: each play rebuilds what it needs."""
    with nothing_left(module_database):
        yield module_database


@pytest.fixture(scope="session")
def isolationtester() -> Path:
    found = find_program("isolationtester")
    if found is None:
        pytest.skip(
            "isolationtester is not on this machine; it comes with the wheel and with a server's development files"
        )
    return found


@pytest.fixture
def english(server: Target) -> SessionPins:
    if not server.superuser:
        pytest.skip("only a superuser may ask for the server's messages in English, which the referee view quotes")
    return SessionPins(english=True)


def skip_without_roles(told: Scenario, conninfo: str) -> None:
    """Skip a scenario that takes the lab's roles where the server's user may not make them, as its claim is skipped there."""
    if not any("SET ROLE" in step.sql for step in told.steps):
        return
    build(conninfo, told.state)
    with SessionPins().psycopg_connection(conninfo, "lab/test") as connection:
        if reason := grants.cannot_become_any(connection):
            pytest.skip(reason)


def played_by_both(told: Scenario, conninfo: str, pins: SessionPins, isolationtester: Path) -> tuple[Play, str]:
    """The player's play, and what isolationtester prints; both start from the scenario's state."""
    build(conninfo, told.state)
    played = play(told, conninfo, pins=pins)
    assert played.failure is None
    build(conninfo, told.state)
    return played, lab_isolationtester.judge(told, conninfo, isolationtester)


@pytest.mark.sample(20)
@each_scenario
def test_isolationtester_prints_what_the_player_saw(
    told: Scenario, stage: str, english: SessionPins, isolationtester: Path
) -> None:
    skip_without_roles(told, stage)
    played, printed = played_by_both(told, stage, english, isolationtester)
    assert transcript.difference(printed, transcript.referee(played)) == ""
    assert transcript.golden(played) == golden(told)


@pytest.mark.parametrize(
    "body",
    [WAIT, CHAIN, QUEUE_OF_WAITERS, DEADLOCK, NOTICES, EVERY_SHAPE, SETUP_AND_TEARDOWN, TWO_END_AT_ONCE, ACCENTS],
    ids=["wait", "chain", "queue", "deadlock", "notices", "shapes", "setup", "two_end", "accents"],
)
def test_isolationtester_agrees_on_what_no_lesson_has_yet(
    body: str, stage: str, english: SessionPins, isolationtester: Path
) -> None:
    played, printed = played_by_both(parsed(body), stage, english, isolationtester)
    assert printed == transcript.referee(played)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("03_passes", ("-- @step b_asks B\n", "-- @step b_inquires B\n")),
        ("03_all_locked", ("count(*) AS pendentes", "count(*) AS quantos")),
        ("03_no_limit", ("    FOR UPDATE SKIP LOCKED\n)", "    FOR UPDATE SKIP LOCKED\n    LIMIT 3\n)")),
        ("03_nowait", ("FOR UPDATE NOWAIT", "FOR UPDATE SKIP LOCKED")),
        ("02_commit", ("WHERE documento_id = 1", "WHERE documento_id = 2")),
    ],
    ids=["step", "column", "rows", "error", "wait"],
)
def test_the_referee_disagrees_about_another_play(
    name: str, edit: tuple[str, str], stage: str, english: SessionPins, isolationtester: Path
) -> None:
    build(stage, 1)
    played = play(library.find_scenario(name), stage, pins=english)
    build(stage, 1)
    printed = lab_isolationtester.judge(mutated(name, edit), stage, isolationtester)
    assert transcript.difference(printed, transcript.referee(played))


def test_a_play_that_isolationtester_cannot_do_is_told_and_torn_down(
    stage: str, english: SessionPins, tmp_path: Path
) -> None:
    refuses = tmp_path / "refuses"
    refuses.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
    refuses.chmod(0o755)
    told = parsed("-- @step a_asks A\nSELECT 1;\n-- @teardown\nCREATE TABLE acabado (a INTEGER);\n")
    build(stage, 1)
    with pytest.raises(LabError, match="isolationtester could not play 01_made_up: too old"):
        lab_isolationtester.judge(told, stage, refuses)
    assert fetch(stage, "SELECT to_regclass('sql_semana_12.acabado') IS NOT NULL") == [(True,)]


# The same every time


def golden(told: Scenario) -> str:
    return library.golden_path(told).read_text(encoding="utf-8")


@contextmanager
def busy_processors() -> Iterator[None]:
    """Two processes that do nothing but keep the processors from the play."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.sample(20)
@each_scenario
@pytest.mark.parametrize("around", [nullcontext, busy_processors], ids=["idle", "busy"])
def test_every_play_gives_the_golden_transcript(
    told: Scenario, around: Callable[[], AbstractContextManager[None]], stage: str
) -> None:
    skip_without_roles(told, stage)
    build(stage, told.state)
    with around():
        played = play(told, stage)
    assert played.failure is None
    assert transcript.golden(played) == golden(told)
