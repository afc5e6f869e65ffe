"""Play a scenario on a real server: one connection a session, launched in the order of the file.

A step is either finished or seen waiting. Waiting is seen by a monitor connection through `pg_blocking_pids`; it is never
concluded from time that has passed. The way of looking is isolationtester's (PostgreSQL, src/test/isolation): wait for input
for 10 ms, else ask whether the session is blocked, and read the input once more after a yes, so that the notices a session
sent before it began to wait stand before the wait.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import closing, suppress

import psycopg
from psycopg import pq

from lab.base import wait
from lab.base.errors import PlayError
from lab.base.language import say
from lab.scenario.grammar import Ends, Scenario, Step
from lab.scenario.result import Event, Notice, Play, StepRun
from lab.server.session import SessionPins, connect

POLL_SECONDS = 0.01
LIMIT_SECONDS = 20.0  # a step that neither ends nor waits by then has failed

COPYING = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)


def play(
    scenario: Scenario,
    conninfo: str,
    *,
    pins: SessionPins | None = None,
    limit: float = LIMIT_SECONDS,
    before: Callable[[Play, Step], None] | None = None,
    seen: Callable[[Play, Event], None] | None = None,
    announced: bool = True,
) -> Play:
    """Play a scenario in the database `conninfo`, whose state must have been built.

    `pins` are the settings every session starts with; `limit` is the number of seconds after which a step that neither ends
    nor waits is given up; `before` is called before each launch, `seen` after each event. `announced` is whether waits and
    errors must be as the scenario announces; if not, they may come as they come, and a session that waits is passed over
    until its wait is over: the next step is the first one left whose session is free.

    Returns the play, also when it failed (`failure` says why); then every session was cancelled and closed, and the
    teardown was run. Raises ServerError if the server cannot be reached.
    """
    played = Play(scenario)
    pins = pins or SessionPins()
    # Closed by the player, in whatever state ^C left it: a `with` of its own would first roll back, which may fail.
    with closing(pins.psycopg_connection(conninfo, "lab/monitor")) as monitor:
        kind = _Player if announced else _FreePlayer
        player = kind(played, conninfo, pins, monitor, limit, before, seen)
        try:
            player.open()
            player.run()
        except PlayError as error:
            played.failure = str(error)
        except psycopg.Error as error:
            if not monitor.closed:  # a caller's own
                raise
            name, reason = scenario.path.name, str(error).strip()
            played.failure = say(
                f"{name}: the monitor lost its connection to the server ({reason}).",
                f"{name}: o monitor perdeu a conexão com o servidor ({reason}).",
            )
        finally:
            player.close()
    return played


class _Session:
    """A connection, and the run that is under way on it."""

    def __init__(self, name: str, connection: pq.abc.PGconn) -> None:
        self.name = name
        self.pgconn = connection
        self.pid = connection.backend_pid
        self.run: StepRun | None = None
        self.results: list[pq.abc.PGresult] = []

    def busy(self) -> bool:
        """Whether the statement is still under way, after reading what has arrived."""
        try:
            self.pgconn.consume_input()
        except psycopg.OperationalError:
            # The server's last words may have come before the connection's end.
            self.results += iter(self.pgconn.get_result, None)
            return False
        while not self.pgconn.is_busy():
            result = self.pgconn.get_result()
            if result is None:
                return False
            self.results.append(result)
            if result.status in COPYING:  # libpq would give this result again and again
                return False
        return True

    def alive(self) -> bool:
        """Whether the connection still stands, after reading what has arrived."""
        with suppress(psycopg.OperationalError):
            self.pgconn.consume_input()
        return self.pgconn.status == pq.ConnStatus.OK

    def cancel(self) -> None:
        if self.run is not None and self.pgconn.status == pq.ConnStatus.OK:
            # If the server is gone, there is nothing to cancel, and the other sessions are still to be closed.
            with suppress(psycopg.OperationalError):
                self.pgconn.get_cancel().cancel()


class _Player:
    def __init__(
        self,
        played: Play,
        conninfo: str,
        pins: SessionPins,
        monitor: psycopg.Connection,
        limit: float,
        before: Callable[[Play, Step], None] | None,
        seen: Callable[[Play, Event], None] | None,
    ) -> None:
        self.play = played
        self.scenario = played.scenario
        self.conninfo = conninfo
        self.pins = pins
        self.monitor = monitor
        self.limit = limit
        self.before = before
        self.seen = seen
        self.sessions: dict[str, _Session] = {}
        self.started = time.monotonic()

    # -- opening and closing

    def open(self) -> None:
        self.execute("setup", self.scenario.setup)
        for name in self.scenario.sessions:
            self.sessions[name] = self.open_session(name)
        self.started = time.monotonic()

    def open_session(self, name: str) -> _Session:
        session = _Session(name, connect(self.conninfo, self.pins.options(), f"lab/{name}"))
        session.pgconn.notice_handler = lambda notice: self.notice(name, notice)
        return session

    def close(self) -> None:
        self.play.seconds = time.monotonic() - self.started
        # All are cancelled before any is waited for: one may hold what another waits for.
        for session in self.sessions.values():
            session.cancel()
        for session in self.sessions.values():
            session.pgconn.finish()
        if self.monitor.closed:
            return
        if self.monitor.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            # ^C came while it was asking: it takes no further question.
            self.monitor.close()
            self.monitor = self.pins.psycopg_connection(self.conninfo, "lab/monitor")
        try:
            self.await_backends()
            self.execute("teardown", self.scenario.teardown)
        except PlayError as error:
            self.play.failure = self.play.failure or str(error)
        finally:
            self.monitor.close()

    def await_backends(self) -> None:
        """Wait until the sessions' backends have ended: the next scenario must not meet their locks."""
        pids = [session.pid for session in self.sessions.values()]
        there = "SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)"
        if not wait.until(
            lambda: self.monitor.execute(there, [pids]).fetchone() is None, LIMIT_SECONDS, POLL_SECONDS / 5
        ):
            name = self.scenario.path.name
            raise PlayError(
                say(
                    f"{name}: a session did not end within {LIMIT_SECONDS:g} s.",
                    f"{name}: uma sessão não terminou em {LIMIT_SECONDS:g} s.",
                )
            )

    def execute(self, part: str, statements: tuple[str, ...]) -> None:
        for statement in statements:
            try:
                self.monitor.execute(statement.encode())
            except psycopg.Error as error:
                if self.monitor.closed:
                    raise
                why = f"{error.sqlstate} ({error.diag.message_primary})"
                name = self.scenario.path.name
                raise PlayError(
                    say(
                        f"{name}: the {part} failed with {why} in: {statement}",
                        f"{name}: o {part} falhou com {why} em: {statement}",
                    )
                ) from error

    # -- playing

    def run(self) -> None:
        actions = self.scenario.actions
        for index, action in enumerate(actions):
            if isinstance(action, Step):
                if self.before:
                    self.before(self.play, action)
                self.launch(action)
            else:
                self.await_end(action)
            if not (index + 1 < len(actions) and isinstance(actions[index + 1], Ends)):
                self.nothing_ended_early(action)

    def launch(self, step: Step) -> None:
        session = self.sessions[step.session]
        step = self.bound(step)
        run = StepRun(step, time.monotonic() - self.started)
        self.play.runs[step.name] = session.run = run
        session.results.clear()
        try:
            # The extended protocol: the server itself refuses a second statement in the string.
            session.pgconn.send_query_params(step.sql.encode(), None)
        except psycopg.Error as error:
            raise self.died(run) from error
        deadline = time.monotonic() + self.limit
        while self.under_way(session, POLL_SECONDS):
            blockers = self.blockers(session)
            # Read once more after the positive check: what was sent before the wait must be seen before it.
            if blockers and self.under_way(session, 0):
                self.began_to_wait(run, blockers)
                return
            if time.monotonic() > deadline:
                raise self.failure(
                    step,
                    say(
                        f"neither ended nor waited for another session within {self.limit:g} s, so it was cancelled",
                        f"não terminou nem esperou por outra sessão em {self.limit:g} s, e foi cancelado",
                    ),
                )
        self.finish(session, run)
        if step.blocks:
            if run.sqlstate:
                how = say(f"failed with {run.sqlstate}", f"falhou com {run.sqlstate}")
            else:
                how = say(f"ended at once ({run.command})", f"terminou na hora ({run.command})")
            raise self.failure(
                step,
                say(
                    f"was to wait for {step.blocks} (`blocks {step.blocks}`), but it {how}: no lock held it up",
                    f"deveria esperar por {step.blocks} (`blocks {step.blocks}`), mas {how}: nenhum bloqueio o segurou",
                ),
            )
        self.check_error(run, step.errors)
        self.report(Event("done", run))

    def bound(self, step: Step) -> Step:
        """The step as it is sent."""
        return step

    def began_to_wait(self, run: StepRun, blockers: tuple[str, ...]) -> None:
        run.waited_for = blockers
        run.waiting_since = time.monotonic() - self.started
        step = run.step
        names = _all(blockers)
        if step.blocks is None:
            raise self.failure(
                step,
                say(
                    f"waits for {names}, which the scenario does not announce (`blocks {blockers[0]}`)",
                    f"espera por {names}, e o cenário não anuncia isso (`blocks {blockers[0]}`)",
                ),
            )
        if step.blocks not in blockers:
            raise self.failure(
                step,
                say(
                    f"waits for {names}, not for {step.blocks} as announced",
                    f"espera por {names}, e não por {step.blocks}, como anunciado",
                ),
            )
        self.report(Event("waiting", run))

    def await_end(self, ends: Ends) -> None:
        run = self.play.runs[ends.step]
        session = self.sessions[run.step.session]
        deadline = time.monotonic() + self.limit
        while self.under_way(session, POLL_SECONDS):
            if time.monotonic() > deadline:
                names = _all(self.blockers(session)) or say("no session", "nenhuma sessão")
                raise self.failure(
                    run.step,
                    say(
                        f"still waits for {names} where `@ends {ends.step}` says that it is over"
                        f" (given up after {self.limit:g} s)",
                        f"ainda espera por {names} onde `@ends {ends.step}` diz que a espera acabou"
                        f" (abandonado depois de {self.limit:g} s)",
                    ),
                )
        self.finish(session, run)
        self.check_error(run, ends.errors)
        self.report(Event("completed", run))

    def nothing_ended_early(self, action: Step | Ends) -> None:
        """A wait that is over where no `ends` stands would be reported now or later, as chance has it."""
        after = action.name if isinstance(action, Step) else action.step
        deadline = time.monotonic() + self.limit
        for session in self.sessions.values():
            run = session.run
            # One that no session holds up any longer is about to end, or to wait again further on.
            while run is not None and not self.blockers(session):
                if not self.under_way(session, POLL_SECONDS):
                    self.finish(session, run)
                    if gone := [other.name for other in self.sessions.values() if not other.alive()]:
                        why = say(
                            f"ended its wait after {after}, because session {gone[0]} lost its connection to the server",
                            f"parou de esperar depois de {after}, porque a sessão {gone[0]} perdeu a conexão com o servidor",
                        )
                    else:
                        why = say(
                            f"ended its wait after {after}; `@ends {run.step.name}` must stand right below that",
                            f"parou de esperar depois de {after}; `@ends {run.step.name}` tem de vir logo abaixo disso",
                        )
                    raise self.failure(run.step, why)
                if time.monotonic() > deadline:
                    raise self.failure(
                        run.step,
                        say(
                            f"no longer waits after {after}, but has not ended within {self.limit:g} s either",
                            f"não espera mais depois de {after}, mas também não terminou em {self.limit:g} s",
                        ),
                    )

    def finish(self, session: _Session, run: StepRun) -> None:
        run.ended = time.monotonic() - self.started
        session.run = None
        result = session.results[0]  # the extended protocol gives one; a second tells only that the connection is lost
        if result.status in COPYING:
            raise self.failure(
                run.step,
                say(
                    "is a COPY, which wants data from the client or sends it some; a step cannot do that",
                    "é um COPY, que pede dados ao cliente ou manda dados a ele; um passo não pode fazer isso",
                ),
            )
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            run.outcome = "done"
            run.command = (result.command_status or b"").decode()
            if result.status == pq.ExecStatus.TUPLES_OK:
                run.columns = tuple((result.fname(column) or b"").decode() for column in range(result.nfields))
                run.rows = tuple(
                    tuple(
                        None if (value := result.get_value(row, column)) is None else value.decode()
                        for column in range(result.nfields)
                    )
                    for row in range(result.ntuples)
                )
            return
        run.outcome = "error"
        run.sqlstate = _diagnosis(result, pq.DiagnosticField.SQLSTATE) or "08006"
        run.severity = _diagnosis(result, pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        run.message = _diagnosis(result, pq.DiagnosticField.MESSAGE_PRIMARY) or result.get_error_message().strip()
        run.raised_by_us = _diagnosis(result, pq.DiagnosticField.SOURCE_FUNCTION) == "exec_stmt_raise"
        if session.pgconn.status != pq.ConnStatus.OK:
            raise self.died(run)

    # -- looking

    def under_way(self, session: _Session, seconds: float) -> bool:
        """Whether the session's statement is under way, after waiting for input up to so many seconds."""
        if session.busy():
            select.select([session.pgconn.socket], [], [], seconds)
            return session.busy()
        return False

    def blockers(self, session: _Session) -> tuple[str, ...]:
        """The scenario's own sessions that hold up this one."""
        row = self.monitor.execute("SELECT pg_blocking_pids(%s)", [session.pid]).fetchone()
        pids = row[0] if row else []
        return tuple(other.name for other in self.sessions.values() if other.pid in pids)

    def notice(self, session: str, result: pq.abc.PGresult) -> None:
        notice = Notice(
            session,
            _diagnosis(result, pq.DiagnosticField.SEVERITY_NONLOCALIZED) or "",
            _diagnosis(result, pq.DiagnosticField.SQLSTATE) or "",
            _diagnosis(result, pq.DiagnosticField.MESSAGE_PRIMARY) or "",
            _diagnosis(result, pq.DiagnosticField.SOURCE_FUNCTION) == "exec_stmt_raise",
        )
        self.report(Event("notice", notice=notice))

    # -- judging

    def check_error(self, run: StepRun, announced: str | None) -> None:
        if run.sqlstate == announced:
            return
        if announced is None:
            raise self.failure(
                run.step,
                say(
                    f"failed with {run.sqlstate} ({run.message}), which the scenario does not announce",
                    f"falhou com {run.sqlstate} ({run.message}), e o cenário não anuncia isso",
                ),
            )
        if run.sqlstate:
            how = say(f"failed with {run.sqlstate} ({run.message})", f"falhou com {run.sqlstate} ({run.message})")
        else:
            how = say(f"ended without an error ({run.command})", f"terminou sem erro ({run.command})")
        raise self.failure(
            run.step,
            say(f"was to fail with {announced}, but it {how}", f"deveria falhar com {announced}, mas {how}"),
        )

    def failure(self, step: Step, why: str) -> PlayError:
        file = self.scenario.path.name
        return PlayError(
            say(
                f"{file}, line {step.line}: step {step.name} of session {step.session} {why}.",
                f"{file}, linha {step.line}: o passo {step.name} da sessão {step.session} {why}.",
            )
        )

    def died(self, run: StepRun) -> PlayError:
        run.ended = run.ended if run.ended is not None else time.monotonic() - self.started
        run.outcome = "error"
        run.sqlstate = run.sqlstate or "08006"
        why = f"{run.sqlstate}: {run.message}" if run.message else run.sqlstate
        return self.failure(
            run.step, say(f"lost its connection to the server ({why})", f"perdeu a conexão com o servidor ({why})")
        )

    def report(self, event: Event) -> None:
        self.play.events.append(event)
        if self.seen:
            self.seen(self.play, event)


class _FreePlayer(_Player):
    """Plays steps of which nothing is announced."""

    def run(self) -> None:
        left = list(self.scenario.steps)
        while left or any(session.run for session in self.sessions.values()):
            self.report_ended()
            step = next((step for step in left if self.sessions[step.session].run is None), None)
            if step is None:
                self.await_any()
                continue
            left.remove(step)
            if self.before:
                self.before(self.play, step)
            self.launch(step)

    def began_to_wait(self, run: StepRun, blockers: tuple[str, ...]) -> None:
        run.waited_for = blockers
        run.waiting_since = time.monotonic() - self.started
        self.report(Event("waiting", run))

    def report_ended(self) -> None:
        """Report the waits that are over; one that no session holds up any longer is about to end, or to wait again."""
        deadline = time.monotonic() + self.limit
        for session in self.sessions.values():
            while session.run is not None and not self.blockers(session) and time.monotonic() < deadline:
                self.end(session, session.run)

    def await_any(self) -> None:
        """Wait until one of the sessions, all of which wait, has ended its wait: the server ends a deadlock, and a lock_timeout."""
        deadline = time.monotonic() + self.limit
        waiting = [(session, session.run) for session in self.sessions.values() if session.run is not None]
        while waiting and all(session.run is run for session, run in waiting):
            for session, run in waiting:
                self.end(session, run)
            if time.monotonic() > deadline:
                session, run = waiting[0]
                names = _all(self.blockers(session)) or say("no session", "nenhuma sessão")
                raise self.failure(
                    run.step,
                    say(
                        f"still waits for {names} after {self.limit:g} s, and no step is left to end that",
                        f"ainda espera por {names} depois de {self.limit:g} s, e não resta passo que encerre a espera",
                    ),
                )

    def end(self, session: _Session, run: StepRun) -> None:
        """Finish the run, if its statement has ended."""
        if not self.under_way(session, POLL_SECONDS):
            self.finish(session, run)
            self.report(Event("completed", run))

    def check_error(self, run: StepRun, announced: str | None) -> None:
        """An error is what was seen, as a result is."""


class OrderPlayer(_FreePlayer):
    """Plays one scenario's steps in many orders, over the same sessions; nothing is announced.

    `open` it once; `play_order` as often as wanted, with `reset` between; `close` it. `bind` gives a step as it is sent, by
    what was seen so far.
    """

    def __init__(
        self,
        scenario: Scenario,
        conninfo: str,
        pins: SessionPins,
        monitor: psycopg.Connection,
        limit: float,
        bind: Callable[[Play, Step], Step] | None = None,
    ) -> None:
        super().__init__(Play(scenario), conninfo, pins, monitor, limit, None, None)
        self.bind = bind

    def bound(self, step: Step) -> Step:
        return self.bind(self.play, step) if self.bind else step

    def play_order(self, scenario: Scenario) -> tuple[Play, int]:
        """Play the steps of a scenario strictly in its order.

        Returns the play, and how many steps were launched: fewer than there are if a session that waits for another one that
        could still go on would have had to go on itself, which no client can do. A step that nothing can end any more is
        cancelled, and its outcome stays `waiting`. Raises PlayError if a step neither ends nor waits within the limit.
        """
        self.play, self.scenario = Play(scenario), scenario
        self.started = time.monotonic()
        try:
            for launched, step in enumerate(scenario.steps):
                self.settle()
                session = self.sessions[step.session]
                while session.run is not None and self.deadlocked():
                    self.await_any()
                    self.settle()
                if session.run is not None:
                    return self.play, launched
                self.launch(step)
            self.settle()
            while any(session.run for session in self.sessions.values()) and self.deadlocked():
                self.await_any()
                self.settle()
        finally:
            self.play.seconds = time.monotonic() - self.started
        return self.play, len(scenario.steps)

    def settle(self) -> None:
        """Report the waits that are over, and those that these have ended in their turn."""
        ended = -1
        while ended != len(self.play.events):
            ended = len(self.play.events)
            self.report_ended()

    def deadlocked(self) -> bool:
        """Whether sessions wait for each other in a ring: the server is going to end it."""
        waits = {session.name: self.blockers(session) for session in self.sessions.values() if session.run is not None}
        while waits:
            free = [name for name, blockers in waits.items() if not set(blockers) & set(waits)]
            if not free:
                return True
            for name in free:
                del waits[name]
        return False

    def reset(self) -> None:
        """Let every session begin anew: what it does is cancelled, its transaction rolled back, its settings and locks given up."""
        for session in self.sessions.values():
            session.cancel()
        for name, session in self.sessions.items():
            list(iter(session.pgconn.get_result, None))
            session.run = None
            session.results.clear()
            session.pgconn.notice_handler = None
            session.pgconn.exec_(b"ROLLBACK")
            session.pgconn.exec_(b"DISCARD ALL")
            if session.pgconn.status != pq.ConnStatus.OK:  # a step may have ended it
                session.pgconn.finish()
                self.sessions[name] = self.open_session(name)
                continue
            session.pgconn.notice_handler = lambda notice, name=name: self.notice(name, notice)


def _all(names: tuple[str, ...]) -> str:
    return say(" and ", " e ").join(names)


def _diagnosis(result: pq.abc.PGresult, field: pq.DiagnosticField) -> str | None:
    value = result.error_field(field)
    return value.decode(errors="replace") if value is not None else None
