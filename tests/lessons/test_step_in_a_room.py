"""`lab step` in a pseudo-terminal: what a room sees of it, key by key."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.base import config
from lab.lessons import registry
from lab.lessons.registry import Told
from lab.server.target import Target
from tests.helpers import fetch, rows
from tests.terminal import Grid, Terminal, lab_in_terminal

SIZES = [(24, 80), (30, 100)]
THREE_SESSIONS = "02_third_session"
MORE = ["Enter: more >", "Enter: continua >"]
QUEUE = """
SELECT documento_id, status, worker_id, token_reserva, round(extract(epoch FROM reservado_ate - relogio()))::INTEGER
FROM sql_semana_12.fila_documentos
ORDER BY documento_id
"""
WAITS = """
SELECT substr(waiting.application_name, 5), substr(holder.application_name, 5)
FROM pg_stat_activity AS waiting
INNER JOIN pg_stat_activity AS holder ON holder.pid = ANY(pg_blocking_pids(waiting.pid))
WHERE waiting.datname = current_database()
"""


def told(name: str) -> Told:
    return registry.told([name])[0]


@contextmanager
def stepping(name: str, rows: int = 24, columns: int = 80, language: str = "en") -> Iterator[Terminal]:
    """`lab step` of one scenario, at its first prompt."""
    with lab_in_terminal("step", name, rows=rows, columns=columns, environment={"LAB_LANG": language}) as terminal:
        at_step(terminal, 1)
        yield terminal


def at_step(terminal: Terminal, number: int) -> None:
    """Wait for the prompt before that step."""
    turn_pages(terminal, lambda grid: f"[{number}/" in prompt(grid))


def at_the_end(terminal: Terminal) -> None:
    """Wait for the prompt after the last step."""
    turn_pages(terminal, lambda grid: prompt(grid).startswith("Enter: ") and prompt(grid) not in MORE)


def turn_pages(terminal: Terminal, there: Callable[[Grid], bool]) -> int:
    """Press Enter before each further page until it is there; returns how many pages were turned."""
    turned = 0
    while True:
        terminal.until(lambda grid: prompt(grid) in MORE or there(grid))
        if there(terminal.grid):
            return turned
        turned += 1
        terminal.type("\n")
        terminal.until(lambda grid: prompt(grid) not in MORE)


def prompt(grid: Grid) -> str:
    """The line that the cursor stands in."""
    return grid.lines[grid.row]


def head(grid: Grid) -> str:
    """What stands above the keys, as one line."""
    return " ".join(grid.lines[: grid.top])


@contextmanager
def beside(server: Target) -> Iterator[psycopg.Connection]:
    """A connection to the database in which the stepper plays."""
    names = fetch(server.conninfo, "SELECT datname FROM pg_stat_activity WHERE application_name = 'lab/observer'")
    assert len(names) == 1, names
    conninfo = make_conninfo(server.conninfo, dbname=str(names[0][0]))
    with psycopg.connect(conninfo, autocommit=True, options="-c search_path=sql_semana_12") as connection:
        yield connection


@pytest.mark.sample(1)
@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("name", [THREE_SESSIONS, "04_fields", "06_late_writes", "09_unknown"])
def test_the_head_is_on_the_screen_at_every_step_and_no_line_is_wider(
    name: str, rows: int, columns: int, language: str
) -> None:
    with lab_in_terminal("step", name, rows=rows, columns=columns, environment={"LAB_LANG": language}) as terminal:
        go_through(terminal, registry.told([name]), language)


@pytest.mark.thorough
@pytest.mark.parametrize(("rows", "columns", "language"), [(24, 80, "pt"), (30, 100, "en")])
@pytest.mark.parametrize("lesson", registry.names())
def test_so_it_is_in_every_scenario_of_every_lesson(lesson: str, rows: int, columns: int, language: str) -> None:
    environment = {"LAB_LANG": language}
    with lab_in_terminal("step", lesson, "--all", rows=rows, columns=columns, environment=environment) as terminal:
        go_through(terminal, registry.told([lesson], surprises=True), language)


def go_through(terminal: Terminal, wanted: list[Told], language: str) -> None:
    """Answer every prompt with Enter, and look at the screen before each."""
    english = language == "en"
    for number, each in enumerate(wanted, start=1):
        with config.changed(LAB_LANG=language):
            question, claim = str(each.lesson.question), str(each.check.text)
        steps = each.scenario.steps
        for at, step in enumerate(steps, start=1):
            title = f"{each.scenario.name}   " + (f"{number}/{len(wanted)}   " if len(wanted) > 1 else "")
            title += f"step {at} of {len(steps)}" if english else f"passo {at} de {len(steps)}"
            at_step(terminal, at)
            assert terminal.grid.lines[0] == title
            assert question in head(terminal.grid)
            assert ("r: repeat" if english else "r: repetir") in terminal.grid.lines[terminal.grid.top - 1]
            last = step.sql.split()[-1]
            assert re.search(rf"^ *{step.session} │ .*{re.escape(last)}$", str(terminal.grid), re.MULTILINE)
            terminal.type("\n")
        after = wanted[number].scenario.name if number < len(wanted) else "the end" if english else "fim"
        at_the_end(terminal)
        assert prompt(terminal.grid) == f"Enter: {after} >"
        told = " ".join(str(terminal.grid).split())
        assert f"{'claim' if english else 'afirmação'} {' '.join(claim.split())}" in told
        assert ("holds yes" if english else "confere sim") in told
        if number == len(wanted):
            assert ("Next: ./lab " if english else "A seguir: ./lab ") in told
        terminal.type("\n")
    assert terminal.wait() == 0
    assert terminal.grid.overflowed == 0
    assert terminal.grid.pushed_out == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["06_late_writes", THREE_SESSIONS, "09_unknown"])
def test_the_status_tells_what_the_table_and_the_server_hold(server: Target, name: str) -> None:
    told_of: set[object] = set()
    with stepping(name, 30, 100) as terminal:
        for number in range(1, len(told(name).scenario.steps) + 1):
            at_step(terminal, number)
            with beside(server) as connection:
                documents = rows(connection, QUEUE) if name[:2] >= "06" else []
                if documents:  # the lab's clock stands while the prompt does
                    moment = rows(connection, "SELECT relogio()")
                    time.sleep(0.1)
                    assert rows(connection, "SELECT relogio()") == moment
                waits = rows(connection, WAITS)
            shown = head(terminal.grid)
            for document, status, worker, token, left in documents:
                if status == "processando":
                    lease = f"lease {left} s left" if int(str(left)) > 0 else f"lease ended {-int(str(left))} s ago"
                    assert re.search(rf"{document}: {status}, {worker}, token {token}, (stage \w+, )?{lease}", shown)
                    told_of.add(lease)
                else:
                    assert re.search(rf"(\d–)?{document}(–\d)?: {status}|\d–\d: {status}", shown)
            assert sorted(re.findall(r"(\w) waits for (\w): ", shown)) == sorted(waits)
            told_of.update(waits)
            terminal.type("\n")
        at_the_end(terminal)
    assert told_of  # there was something to tell


@pytest.mark.thorough
def test_a_step_waits_for_as_long_as_the_room_talks_whatever_the_servers_timeouts(own_server: Target) -> None:
    timeouts = ["statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"]
    if own_server.version_num >= 170000:
        timeouts.append("transaction_timeout")
    with psycopg.connect(own_server.conninfo, autocommit=True) as connection:
        for timeout in timeouts:
            connection.execute(f"ALTER ROLE CURRENT_USER SET {timeout} = '3s'".encode())
        try:
            with stepping(THREE_SESSIONS) as terminal:
                for number in (1, 2, 3):
                    at_step(terminal, number)
                    terminal.type("\n")
                at_step(terminal, 4)
                terminal.until(lambda grid: waited(grid) > 5000)
                with beside(own_server) as watch:
                    assert rows(watch, WAITS) == [("B", "A")]
                for number in (4, 5):
                    at_step(terminal, number)
                    terminal.type("\n")
                at_the_end(terminal)
                assert re.search(r"waited [5-9]\d{3} ms for A, until A: COMMIT;", str(terminal.grid))
                assert "holds     yes" in str(terminal.grid)
        finally:
            for timeout in timeouts:
                connection.execute(f"ALTER ROLE CURRENT_USER RESET {timeout}".encode())


def waited(grid: Grid) -> int:
    found = re.search(r"B waits for A: (\d+) ms", head(grid))
    return int(found[1]) if found else 0


@pytest.mark.thorough
def test_what_ended_a_wait_is_said_its_milliseconds_run_and_an_enter_typed_meanwhile_runs_nothing() -> None:
    with stepping("02_lock_timeout") as terminal:
        for number in range(1, 5):
            at_step(terminal, number)
            terminal.type("\n")
        terminal.until(lambda grid: 500 < waited(grid) < 2000)
        terminal.type("\n")
        terminal.until(lambda grid: waited(grid) > 1000)
        at_step(terminal, 5)
        assert re.search(r"waited 2\d{3} ms for A, until its lock_timeout", str(terminal.grid))
        assert "canceling statement due to lock timeout" in str(terminal.grid)
        terminal.read(1)
        assert prompt(terminal.grid).startswith("[5/6] ")


def test_keys_repeat_look_back_and_stop_and_a_guess_stands_beside_the_answer() -> None:
    with stepping("03_passes") as terminal:
        total = len(told("03_passes").scenario.steps)
        terminal.type("\n")
        at_step(terminal, 2)
        assert "A │ BEGIN   " in str(terminal.grid)
        terminal.type("r\n")  # from the start
        terminal.until(lambda grid: "[1/" in prompt(grid) and "A │ BEGIN   " not in str(grid))
        for number in range(1, total + 1):
            at_step(terminal, number)
            if number == total - 1:
                terminal.type("document 7\n")
            elif number == 3:
                before = str(terminal.grid)
                terminal.type("l\n")
                terminal.until("looking back: step 2; Enter: forward")
                assert "─ step 2 ─" in str(terminal.grid)
                assert str(terminal.grid) != before
                terminal.type("\n")
                at_step(terminal, 3)
                assert "─ step 3 ─" in str(terminal.grid)
                terminal.type("\n")
            else:
                terminal.type("\n")
        at_the_end(terminal)
        assert re.search(r"guess +document 7  →  [AB]: ", str(terminal.grid))
        terminal.type("q\n")
        assert terminal.wait() == 0


def test_what_is_longer_than_the_screen_comes_in_pages_also_when_looked_back_at() -> None:
    statement = told("04_fields").scenario.steps[0].sql.splitlines()
    with lab_in_terminal("step", "04_fields", environment={"LAB_LANG": "pt"}) as terminal:
        seen: set[str] = set()
        pages = 0

        def look(until: Callable[[Grid], bool]) -> None:
            nonlocal pages
            terminal.until(lambda grid: prompt(grid) in MORE or until(grid))
            while True:
                seen.update(line.partition("│ ")[2] for line in terminal.grid.lines)
                if until(terminal.grid):
                    return
                pages += 1
                terminal.type("\n")
                terminal.until(lambda grid: prompt(grid) not in MORE)
                terminal.until(lambda grid: prompt(grid) in MORE or until(grid))

        look(lambda grid: prompt(grid).startswith("[1/"))
        terminal.type("\n")
        look(lambda grid: prompt(grid).startswith("[2/"))
        assert pages > 0
        assert {line.rstrip() for line in statement} <= seen
        seen.clear()
        terminal.type("v\n")
        look(lambda grid: prompt(grid).startswith("revendo o passo 1"))
        assert {line.rstrip() for line in statement} <= seen
        assert terminal.grid.pushed_out == []


@pytest.mark.thorough
def test_a_key_skips_to_the_next_scenario_and_one_lets_it_play_by_itself_until_enter() -> None:
    with lab_in_terminal("step", "01_namespace", "01_malformed", rows=30, columns=100) as terminal:
        terminal.until("01_namespace   1/2")
        at_step(terminal, 1)
        terminal.type("s\n")
        terminal.until("01_malformed   2/2")
        at_step(terminal, 1)
        terminal.type("p\n")
        terminal.until("by itself, in")
        started = time.monotonic()
        terminal.until(lambda grid: prompt(grid).startswith("[2/2] Enter: A runs it (by itself, in"))
        assert time.monotonic() - started > 1.5  # at a pace that can be followed
        terminal.type("\n")
        terminal.until(lambda grid: prompt(grid).startswith("[2/2] Enter: A runs it >"))
        terminal.type("p\n")
        assert terminal.wait() == 0  # to its end, without another key
        assert "holds     yes" in str(terminal.grid)


@pytest.mark.sample(1)
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_ended_while_a_step_waits_it_leaves_nothing_behind(server: Target, ending: signal.Signals) -> None:
    databases = "SELECT datname FROM pg_database ORDER BY datname"
    before = fetch(server.conninfo, databases)
    with stepping(THREE_SESSIONS) as terminal:
        modes = terminal.attributes()
        for number in (1, 2, 3):
            at_step(terminal, number)
            terminal.type("\n")
        at_step(terminal, 4)
        if ending is signal.SIGINT:
            terminal.type("\x03")
        else:
            os.kill(terminal.pid, ending)
        assert terminal.wait() == 130
        assert (terminal.grid.top, terminal.grid.bottom) == (0, 23)
        assert terminal.attributes() == modes
    assert fetch(server.conninfo, databases) == before
    assert fetch(server.conninfo, "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'lab/_'") == []
