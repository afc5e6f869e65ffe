"""The scripts of the terminals, driven by hand: real psql processes in pseudo-terminals, Enter by Enter.

What each of them prints is compared with what is true: the play of the same scenario by the player. A sentence that explains a step
may stand only below the step's own result, and a terminal whose turn it is not says so and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from lab.base import wait
from lab.base.language import Text
from lab.scenario import library, psql_scripts, transcript
from lab.scenario.grammar import Ends, Scenario, Step
from lab.scenario.player import play
from lab.scenario.result import Play, StepRun
from lab.server import schema
from lab.server.target import Target
from tests.scenario.terminal import COLUMNS, PAGER, SECONDS, Terminal

SCENARIOS = library.scenarios()
# The two languages differ in words only, so a few scenarios in Portuguese are enough.
DRIVEN = [*((scenario, "en") for scenario in SCENARIOS), *((scenario, "pt") for scenario in SCENARIOS[::20])]
driven = pytest.mark.parametrize(("scenario", "language"), DRIVEN, ids=lambda value: getattr(value, "name", value))

MOST_SILENCE = 2.0  # seconds from a key to a word on the screen
REFUSED = {
    "en": [
        r"\w+ is still at step \d+; do step \d+ there first\.",
        r"Terminal \w+ is not open yet: \./lab walk \w+ says how to open it\.( Do step \d+ there first\.)?",
        r"Terminal \w+ has not built the queue yet: press Enter there first\.",
        r"\w+ is at step \d+ of \d+: go on there\.",
        r"Step \d+ in \w+ has not ended yet\.",
    ],
    "pt": [
        r"\w+ ainda está no passo \d+; faça o passo \d+ lá primeiro\.",
        r"O terminal \w+ ainda não está aberto: \./lab walk \w+ diz como abrir\.( Faça o passo \d+ lá primeiro\.)?",
        r"O terminal \w+ ainda não criou a fila: aperte Enter lá primeiro\.",
        r"\w+ está no passo \d+ de \d+: continue lá\.",
        r"O passo \d+ de \w+ ainda não terminou\.",
    ],
}
OVER = {"en": "this play is over", "pt": "esta execução acabou"}
AFTER = {"en": ", after step ", "pt": ", depois do passo "}
HOLDS = {"en": "Holds: yes.", "pt": "Confere: sim."}


@pytest.mark.sample(4)
@driven
def test_in_order_every_terminal_prints_what_is_true(scenario: Scenario, language: str, database: str) -> None:
    truth = _played(scenario, database)
    with _opened(scenario, language, database) as room:
        room.walk(truth)
        assert _state(room.monitor) == truth.state
        room.leave()


@pytest.mark.sample(2)
@driven
def test_out_of_order_a_terminal_says_whose_turn_it_is(scenario: Scenario, language: str, database: str) -> None:
    """Before every step, Enter is pressed in every other terminal, too."""
    truth = _played(scenario, database)
    with _opened(scenario, language, database) as room:
        room.walk(truth, before=room.press_elsewhere)
        assert _state(room.monitor) == truth.state
        room.leave()


@pytest.mark.sample(2)
@driven
def test_after_an_interrupt_all_begin_again(scenario: Scenario, language: str, database: str) -> None:
    """^C in one terminal before some step; then that script is started again, and the others are told that their play is over."""
    truth = _played(scenario, database)
    dice = random.Random(scenario.name)
    # A terminal that has played and has more to play; where each plays all of its steps at once, all are left.
    stops = [
        (stop, step.session)
        for number, stop in enumerate(scenario.steps)
        for step in scenario.steps[:number]
        if step.session in {later.session for later in scenario.steps[number:]}
    ]
    stop, left = dice.choice(stops) if stops else (scenario.steps[-1], None)
    begun = {step.session for step in scenario.steps[: scenario.steps.index(stop)]}
    with _opened(scenario, language, database) as room:
        room.walk(truth, until=stop)
        interrupted = {left, *room.waiting} if left else set(scenario.sessions)
        room.interrupt(interrupted)
        room.begin_again(begun, set(scenario.sessions) - interrupted)
        room.walk(truth)
        assert _state(room.monitor) == truth.state
        room.leave()


def test_an_explanation_of_an_error_stands_only_below_that_error(database: str) -> None:
    scenario = library.find_scenario("02_lock_timeout")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.step("b_asks"))
        room.terminals["B"].press()
        _await_wait(room.monitor, "B", "A")
        room.monitor.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'lab/B'")
        shown = room.terminals["B"].await_prompt()
        assert "This step was to fail with 55P03, and it failed with 57014." in shown and OVER["en"] in shown
        assert "None: after two seconds" not in shown and "announced" not in shown


def test_an_explanation_of_a_row_stands_only_below_that_row(database: str) -> None:
    scenario = library.find_scenario("03_passes")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.step("b_asks"))
        room.monitor.execute("UPDATE sql_semana_12.fila_documentos SET status = 'falhou' WHERE documento_id = 2")
        room.terminals["B"].press()
        shown = room.terminals["B"].await_prompt()
        assert "The values above are not those of the recorded play." in _on_one_line(shown)
        assert not _explained(scenario, "en", shown)


def test_enter_pressed_during_a_wait_is_not_taken_for_the_next_step(database: str) -> None:
    scenario = library.find_scenario("02_commit")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.step("a_commits"))
        for _ in range(3):
            room.terminals["B"].press()
        room.terminals["A"].press()
        shown = room.terminals["B"].await_prompt()
        assert _explained(scenario, "en", shown) == {"b_asks"} and "[B] step 7 of 7" in shown
        for _ in range(3):
            room.terminals["A"].await_prompt()
            room.terminals["A"].press()
        assert "B is at step 5 of 7: go on there." in room.terminals["A"].await_prompt()
        assert room.terminals["B"].await_prompt() == shown


def test_a_terminal_that_was_closed_by_another_ends_the_play(database: str) -> None:
    scenario = library.find_scenario("02_commit")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.step("b_asks"))
        room.monitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lab/A'")
        gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'lab/A'"
        assert wait.until(lambda: room.monitor.execute(gone).fetchone() is None, SECONDS)
        room.terminals["B"].press()
        shown = room.terminals["B"].await_prompt()
        assert "Terminal A was closed at step" in shown and "hang" not in shown


def test_the_queue_is_not_built_while_another_session_holds_a_lock_on_it(queue_database: str) -> None:
    scenario = library.find_scenario("02_lock_timeout")
    with _opened(scenario, "pt", queue_database) as room, psycopg.connect(queue_database) as holder:
        holder.execute("SELECT 1 FROM sql_semana_12.fila_documentos FOR UPDATE")
        first = room.terminals["A"]
        first.await_prompt()
        for _ in ("a guess", "the queue"):
            first.press()
            shown = first.await_prompt()
        assert f"(pid {holder.info.backend_pid}). Faça COMMIT ou ROLLBACK lá" in _on_one_line(shown)
        holder.rollback()
        first.press()
        assert "A fila está pronta." in first.await_prompt()
        room.terminals["B"].await_prompt()


def test_a_play_is_over_once_its_queue_was_rebuilt_by_hand(database: str) -> None:
    scenario = library.find_scenario("03_passes")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.steps[1])
        schema.build(database, scenario.state)  # A has begun a transaction, and holds no lock yet
        for name, told in (("A", "The queue has been rebuilt since"), ("B", "Terminal A has not built the queue yet")):
            room.terminals[name].press()
            shown = room.terminals[name].await_prompt()
            assert told in shown and "SELECT" not in shown


def test_where_the_second_connection_fails_no_step_is_played(own_server: Target, database: str) -> None:
    scenario = library.find_scenario("03_passes")
    truth = _played(scenario, database)
    with _opened(scenario, "en", database) as room:
        room.walk(truth, until=scenario.step("b_asks"))
        (name,) = room.monitor.execute("SELECT current_database()").fetchone() or ("",)
        with psycopg.connect(own_server.conninfo, autocommit=True) as elsewhere:
            elsewhere.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            room.terminals["B"].press()
            shown = _on_one_line(room.terminals["B"].await_prompt())
            elsewhere.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        assert "Whose turn it is cannot be known" in shown and "SELECT" not in shown


class _Truth:
    """What the player saw, and the rows it left."""

    def __init__(self, play: Play, state: object) -> None:
        self.play = play
        self.state = state


def _played(scenario: Scenario, conninfo: str) -> _Truth:
    schema.build(conninfo, scenario.state)
    played = play(scenario, conninfo)
    assert played.failure is None
    with psycopg.connect(conninfo, autocommit=True) as monitor:
        state = _state(monitor)
        monitor.execute("DROP SCHEMA sql_semana_12 CASCADE")
    return _Truth(played, state)


class _Room:
    """The terminals of a scenario, each at a prompt, unless it waits."""

    def __init__(self, scenario: Scenario, language: str, conninfo: str, monitor: psycopg.Connection) -> None:
        self.scenario = scenario
        self.language = language
        self.conninfo = conninfo
        self.monitor = monitor
        self.terminals: dict[str, Terminal] = {}
        self.waiting: set[str] = set()
        self.asks: dict[str, str] = {}  # the last line of each terminal
        for name in scenario.sessions:
            self.open(name)

    @property
    def first(self) -> str:
        return self.scenario.sessions[0]

    def open(self, name: str) -> None:
        self.terminals[name] = Terminal(psql_scripts.script_path(self.scenario, name, self.language), self.conninfo)

    def walk(self, truth: _Truth, *, until: Step | None = None, before: Callable[[Step], None] | None = None) -> None:
        """Press Enter in the order of the scenario; a step is over when the next prompt stands there, or it is seen waiting."""
        for name, terminal in self.terminals.items():
            assert not _explained(self.scenario, self.language, terminal.await_prompt()), name
        since = {name: len(terminal.all_shown) for name, terminal in self.terminals.items()}
        if before:
            before(self.scenario.steps[0])
        for _ in ("a guess", "the queue"):
            self.terminals[self.first].press()
            self.terminals[self.first].await_prompt()
        for action in self.scenario.actions:
            if action is until:
                return
            if isinstance(action, Ends):
                step = self.scenario.step(action.step)
                self.waiting.discard(step.session)
                self.check_step(step, self.terminals[step.session].await_prompt(), truth.play[step.name])
                continue
            if before:
                before(action)
            terminal = self.terminals[action.session]
            self.check_told(action, since)
            if AFTER[self.language] in terminal.shown.splitlines()[-1] and action.prose:
                terminal.press()
                told = terminal.await_prompt()
                assert _in(self.language, action.prose) in _on_one_line(told) and action.sql not in told
            terminal.press()
            if action.blocks is None:
                self.check_step(action, terminal.await_prompt(), truth.play[action.name])
            else:
                self.waiting.add(action.session)
                terminal.await_text(";\n")
                _await_wait(self.monitor, action.session, action.blocks)
                assert not _explained(self.scenario, self.language, terminal.shown)

    def check_step(self, step: Step, shown: str, run: StepRun) -> None:
        """What a terminal printed of a step is what the player saw; and only this step is explained."""
        assert step.sql in shown, "the statement is shown"
        if run.sqlstate:
            assert "ERROR:" in shown or "FATAL:" in shown, shown
        else:
            assert "ERROR:" not in shown, shown
        if run.columns is not None and (rows := _printed(shown, run.columns)) is not None:
            assert rows == _rows(run), shown
        ends = self.scenario.ends_of(step)
        assert _explained(self.scenario, self.language, shown) <= {ends.step if ends else ""}
        if ends and ends.prose:
            assert _explained(self.scenario, self.language, shown) == {ends.step}
        assert OVER[self.language] not in shown and HOLDS[self.language] not in shown

    def check_told(self, step: Step, since: dict[str, int]) -> None:
        """Before a step, no terminal has told what belongs to a later one."""
        for later in self.scenario.steps[self.scenario.steps.index(step) + 1 :]:
            said = " ".join(self.terminals[later.session].all_shown[since[later.session] :].split())
            if later.prose and later.prose.en not in {
                each.prose.en for each in self.scenario.steps if each.prose and each is not later
            }:
                assert _in(self.language, later.prose) not in said, later.name

    def press_elsewhere(self, step: Step) -> None:
        """Enter in every terminal whose turn it is not: it says so, asks again, and prints nothing else."""
        for name, terminal in self.terminals.items():
            if name in {step.session, *self.waiting}:
                continue
            ask = terminal.shown.splitlines()[-1]
            terminal.press()
            lines = terminal.await_prompt().splitlines()
            assert lines[-1] == ask
            told = _on_one_line(" ".join(lines[:-1]))
            assert any(re.fullmatch(refused, told) for refused in REFUSED[self.language]), lines

    def interrupt(self, names: set[str]) -> None:
        """^C in these terminals, and each is opened again."""
        for name in names:
            terminal = self.terminals[name]
            assert not _explained(self.scenario, self.language, terminal.interrupt())
            self.check_screen(terminal)
            terminal.close()
        for name in names:
            self.open(name)
            self.terminals[name].await_prompt()
        self.waiting.clear()

    def begin_again(self, begun: set[str], names: set[str]) -> None:
        """Enter in these terminals: the play is over, and each begins again, unless it has not begun."""
        for name in names:
            terminal = self.terminals[name]
            terminal.press()
            shown = terminal.await_prompt()
            assert OVER[self.language] in _on_one_line(shown), shown
            assert not _explained(self.scenario, self.language, shown)
            if name in begun:
                terminal.press()
                assert "===" in terminal.await_prompt()

    def leave(self) -> None:
        """Press Enter at the last prompt of each terminal: the claim, what was seen, and what comes next."""
        for terminal in self.terminals.values():
            terminal.press()
            shown = terminal.await_end()
            assert terminal.process.returncode == 0, shown
            claim = _in(self.language, self.scenario.claim)
            assert claim in _on_one_line(shown) and HOLDS[self.language] in shown, shown

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.close()

    def check_screen(self, terminal: Terminal) -> None:
        """No pager, no line that is too long, no long silence."""
        statements = {line for step in self.scenario.steps for line in step.sql.splitlines()}
        assert PAGER.split(";")[0].removeprefix("echo ") not in terminal.all_shown
        assert terminal.longest_silence < MOST_SILENCE
        for line in terminal.all_shown.splitlines():
            # A statement stands as the scenario has it, and the server's messages are its own (a deadlock's DETAIL takes two lines).
            if line not in statements and not re.match(r"(psql:|DETAIL:|HINT:|Process \d+ waits for )", line):
                assert len(line) <= COLUMNS, line


@contextmanager
def _opened(scenario: Scenario, language: str, conninfo: str) -> Iterator[_Room]:
    with psycopg.connect(conninfo, autocommit=True) as monitor:
        room = _Room(scenario, language, conninfo, monitor)
        try:
            yield room
            for terminal in room.terminals.values():
                room.check_screen(terminal)
        finally:
            room.close()


def _explained(scenario: Scenario, language: str, shown: str) -> set[str]:
    """The steps whose result is explained in what was shown."""
    said = _on_one_line(shown)
    return {
        action.step
        for action in scenario.actions
        if isinstance(action, Ends) and action.prose and _in(language, action.prose) in said
    }


def _in(language: str, text: Text) -> str:
    return text.pt if language == "pt" and text.pt else text.en


def _on_one_line(shown: str) -> str:
    return " ".join(shown.split())


def _printed(shown: str, columns: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """The rows of the table with these columns; None if psql folded it, since it is too wide for the terminal."""
    lines = iter(shown.splitlines())
    for line in lines:
        if tuple(cell.strip() for cell in line.split("|")) == columns:
            break
    else:
        return None
    if not re.fullmatch(r"[-+]+", next(lines)):
        return None
    rows: list[tuple[str, ...]] = []
    for line in lines:
        if re.match(r"\(\d+ rows?\)", line):
            return rows
        rows.append(tuple(transcript.CLOCK.sub("<clock>", cell.strip()) for cell in line.split("|")))
        if len(rows[-1]) != len(columns) or line.endswith((".", "+")):
            return None
    return None


def _rows(run: StepRun) -> list[tuple[str, ...]]:
    return [tuple(transcript.CLOCK.sub("<clock>", value or "") for value in row) for row in run.rows]


def _await_wait(monitor: psycopg.Connection, session: str, blocker: str) -> None:
    waits = (
        "SELECT count(*) FROM pg_stat_activity AS waiter JOIN pg_stat_activity AS blocker"
        " ON blocker.pid = ANY(pg_blocking_pids(waiter.pid)) WHERE waiter.datname = current_database()"
        " AND waiter.application_name = %s AND blocker.application_name = %s"
    )
    names = [f"lab/{session}", f"lab/{blocker}"]
    assert wait.until(lambda: monitor.execute(waits, names).fetchone() == (1,), SECONDS), f"{session} does not wait"


def _state(monitor: psycopg.Connection) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Every row of every table of the lab's schema; of a time only whether it is set."""
    tables = monitor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'sql_semana_12' ORDER BY 1").fetchall()
    rows = (
        "SELECT (SELECT jsonb_object_agg(key, CASE WHEN value::TEXT ~ %s THEN 'true' ELSE value END)"
        " FROM jsonb_each(to_jsonb(t))) FROM sql_semana_12.{} AS t ORDER BY 1"
    )
    return [
        (table, monitor.execute(rows.format(table).encode(), [r'^"\d{4}-\d\d-\d\dT']).fetchall()) for (table,) in tables
    ]
