r"""A scenario by hand: the psql script of each terminal, generated from the scenario into walk/, and what to type where.

Each script asks for Enter before every step, and again until it is that step's turn; after it, it says what the scenario says only
if the step came to what the recorded play came to. What they have in common lies beside them, written by hand: walk/begin.psql and
its like, which keep every terminal's place in the database (sql/turns.sql). A `\prompt` reads the terminal's standard input although
the script is run with -f, so that a pipe can press Enter too.
"""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from lab.base import paths
from lab.base.language import Text, say
from lab.scenario.grammar import Ends, Scenario, Step
from lab.scenario.library import golden_path
from lab.server import schema
from lab.server.session import SessionPins

LANGUAGES = ("en", "pt")
PINS = paths.WALK / "pins.psql"
WIDTH = 76  # columns of prose: a terminal of 80, with room for what a reader's editor or projector takes

GOLDEN_STEP = re.compile(r"^step (\w+): ", re.MULTILINE)
GOLDEN_ROWS = re.compile(r"^\((\d+) rows?\)$", re.MULTILINE)
GOLDEN_TABLE = re.compile(r"^(?P<head>.*)\n(?P<rule>[-+]+)\n(?P<rows>(?:.*\n)*?)\(\d+ rows?\)$", re.MULTILINE)
MOMENT = "<clock>"
MOMENT_WIDTH = len("2026-10-16 09:00:01.123456+00")
# Statements that bring a table, of which psql does not count the rows.
UNCOUNTED = ("SHOW", "EXPLAIN")


@dataclass(frozen=True)
class Frame:
    """What stands around a scenario: the question of its lesson, and the scenario that comes next, if any."""

    question: Text
    following: str | None = None


def pins() -> str:
    """The text of the script that every terminal includes: the settings that the player's sessions have, too."""
    # A learner may ponder for long: nothing but the scenario's own lock_timeout may end a wait.
    settings = SessionPins(statement_timeout="0").settings()
    lines = ["-- What each terminal's session is set to. Generated: ./lab generate"]
    return "\n".join([*lines, *(f"SET {name} = {_literal(name, value)};" for name, value in settings.items())]) + "\n"


def scripts(scenario: Scenario, frame: Frame) -> dict[Path, str]:
    """The generated scripts of a scenario, for every session in both languages: path and text."""
    expected = expectations(scenario)
    return {
        script_path(scenario, session, language): _Terminal(scenario, frame, expected, session, language).text()
        for session in scenario.sessions
        for language in LANGUAGES
    }


def script_path(scenario: Scenario, session: str, language: str) -> Path:
    """Where a session's script lies: walk/NN_case/a.psql, in Portuguese walk/pt/NN_case/a.psql."""
    folder = paths.WALK / "pt" if language == "pt" else paths.WALK
    return folder / scenario.name / f"{session.lower()}.psql"


def walk(scenario: Scenario, question: Text) -> str:
    """What to type in which terminal, in the reader's language, with paths as they are from the folder one is in."""
    language = say("en", "pt")
    lines = [scenario.name, *textwrap.wrap(str(question), WIDTH), ""]
    for session in sorted(scenario.sessions):
        path = os.path.relpath(script_path(scenario, session, language))
        lines.append(f"  terminal {session}   psql -X -f {path}")
    order = " → ".join(f"{number} {step.session}" for number, step in enumerate(scenario.steps, start=1))
    intro = say("  Press Enter in this order: ", "  Aperte Enter nesta ordem: ")
    lines += ["", *textwrap.wrap(intro + order, WIDTH, subsequent_indent="    ", break_long_words=False)]
    return "\n".join(lines)


@dataclass(frozen=True)
class Expectation:
    """What a step came to in the recorded play: how many rows, and the md5 of what it showed; None and "" where neither is kept."""

    rows: int | None = None
    values: str = ""


def expectations(scenario: Scenario) -> dict[str, Expectation]:
    """What each step is to come to, by its name, read from the golden transcript."""
    path = golden_path(scenario)
    if not path.exists():
        return {}
    names = iter(GOLDEN_STEP.split(path.read_text(encoding="utf-8"))[1:])
    # A step that waited stands there twice; its result stands under the second.
    return {name: _expectation(scenario.step(name), text) for name, text in zip(names, names, strict=True)}


def _expectation(step: Step, text: str) -> Expectation:
    counts = GOLDEN_ROWS.findall(text)
    if not counts:
        return Expectation()
    table = text[text.index(";\n") + 2 :] if step.sql in text else text.partition("\n")[2]
    found = GOLDEN_TABLE.search(table)
    rows = None if step.sql.upper().startswith(UNCOUNTED) else int(counts[-1])
    if found is None:
        return Expectation(rows)
    lines = [found["head"], *found["rows"].splitlines()]
    # psql folds a table that is too wide for the terminal, and then its lines are other ones.
    width = max(len(line.replace(MOMENT, "." * MOMENT_WIDTH)) for line in lines) + 2 * lines[0].count("|") + 2
    columns = lines[0].count("|")
    if width > WIDTH or any(line.count("|") != columns for line in lines):
        return Expectation(rows)
    kept = "\n".join(re.sub(r" *\| *", "|", line.strip()) for line in lines if line.strip())
    return Expectation(rows, hashlib.md5(kept.encode()).hexdigest())


@dataclass(frozen=True)
class _Terminal:
    scenario: Scenario
    frame: Frame
    expected: dict[str, Expectation]
    session: str
    language: str

    def text(self) -> str:
        parts = [self.head()]
        if self.session == self.first:
            parts.append(self.preparation())
        parts += [self.step(number) for number, step in enumerate(self.scenario.steps) if step.session == self.session]
        parts.append(self.end())
        return "\n\n".join(parts) + "\n"

    @property
    def first(self) -> str:
        """The terminal that builds the queue."""
        return self.scenario.sessions[0]

    def say(self, en: str, pt: str) -> str:
        return pt if self.language == "pt" else en

    def told(self, text: Text | None, indent: str = "") -> list[str]:
        if text is None:
            return []
        return _echo(text.pt if self.language == "pt" and text.pt else text.en, indent)

    def head(self) -> str:
        others = ", ".join(other for other in self.scenario.sessions if other != self.session)
        name, lesson = self.scenario.path.name, self.scenario.lesson
        path = script_path(self.scenario, self.session, self.language)
        lines = [
            self.say(
                f"-- Terminal {self.session} of {name} (lesson {lesson}). Generated from it; edit that file, not this one.",
                f"-- Terminal {self.session} de {name} (lição {lesson}). Gerado a partir dele; edite aquele arquivo, não este.",
            ),
            self.say(
                f"-- Run it in a terminal of its own, beside {others}:" if others else "-- Run it:",
                f"-- Execute em um terminal próprio, ao lado de {others}:" if others else "-- Execute:",
            ),
            f"--     psql -X -f {path.relative_to(paths.ROOT).as_posix()}",
            "\\set ON_ERROR_STOP on",
            f"\\set scenario {self.scenario.name}",
            f"\\set session {self.session}",
            f"\\set first {self.first}",
            f"\\set pt {self.say('off', 'on')}",
            f"\\set script {path.relative_to(paths.WALK).as_posix()}",
            self.included("begin.psql"),
            "\\if :over \\q \\endif",
            "\\echo",
            *_echo(f"=== Terminal {self.session} · {self.scenario.name} ==="),
            *self.told(self.frame.question),
        ]
        return "\n".join(lines)

    def included(self, name: str) -> str:
        return f"\\ir {self.beside(paths.WALK / name)}"

    def beside(self, path: Path) -> str:
        """The path from this script's folder, as an include names it."""
        return Path(os.path.relpath(path, script_path(self.scenario, self.session, self.language).parent)).as_posix()

    def preparation(self) -> str:
        guess = self.say("Your guess, if you like, and Enter: ", "Seu palpite, se quiser, e Enter: ")
        lines = [
            "\\echo",
            f"\\prompt '{guess}' first_guess",
            self.included("free.psql"),
            "\\o /dev/null",
            *(f"\\ir {self.beside(script)}" for script in schema.scripts_for(self.scenario.state)),
            "\\o",
            "SET client_min_messages = notice;",
            *self.scenario.setup,
            self.included("built.psql"),
            "\\if :over \\q \\endif",
        ]
        return "\n".join(lines)

    def step(self, index: int) -> str:
        steps = self.scenario.steps
        step, total = steps[index], len(steps)
        ends = self.scenario.ends_of(step)
        errors = ends.errors if ends else step.errors
        expected = self.expected.get(step.name, Expectation())
        where = self.say(f"step {index + 1} of {total}", f"passo {index + 1} de {total}")
        before = self.asked_after(index)
        lines = [
            "\\echo",
            f"\\set step {index + 1}",
            f"\\set after '{self.after(index)}'",
        ]
        if before and step.prose:
            # What is told before a step may take for granted what another terminal does first.
            lines += self.entered("look", f"{where}{before}")
            before = ""
        lines += [
            *self.told(step.prose),
            *self.entered("begin", f"{where}{before}"),
            *self.expect(errors, expected, ends, step),
            *(_echo(self.hang(step, ends)) if ends else []),
            self.included("statement.psql"),
            *([self.included("compared.psql")] if expected.values else []),
            step.sql,
            self.included("ended.psql"),
            "\\if :over \\q \\endif",
            *([self.included("guessed.psql")] if self.asks(step.prose) else []),
        ]
        if errors:
            lines += _echo(self.say(f"(announced: {errors})", f"(anunciado: {errors})"))
        if ends:
            lines += self.told(ends.prose)
        return "\n".join(lines)

    def entered(self, for_what: str, asked: str) -> list[str]:
        """Ask for Enter until it is the step's turn."""
        return [
            f"\\set for {for_what}",
            f"\\set ask '{_quoted(f'[{self.session}] {asked}. Enter: ')}'",
            self.included("enter.psql"),
            "\\if :over \\q \\endif",
        ]

    def expect(self, errors: str | None, expected: Expectation, ends: Ends | None, step: Step) -> list[str]:
        """What the step is to come to, as far as it is more than a success (walk/enter.psql sets that)."""
        return [
            *([f"\\set announced {errors}"] if errors else []),
            *([] if expected.rows is None else [f"\\set rows {expected.rows}"]),
            *([f"\\set values {expected.values}"] if expected.values else []),
            *(["\\set waited on"] if ends else []),
            *([f"\\set until '{self.until(step, ends)}'"] if self.until(step, ends) else []),
            *([f"\\set leaves {self.leaves(step)}"] if self.leaves(step) else []),
        ]

    def asks(self, prose: Text | None) -> bool:
        """Whether it ends with a question, to which a guess may be typed."""
        return prose is not None and prose.en.endswith("?")

    def leaves(self, step: Step) -> str:
        """How the terminal is needed after that step: not if it is its last (done), nor if another one ends its session (killed)."""
        later = self.scenario.steps[self.scenario.steps.index(step) + 1 :]
        if any(each.session == self.session for each in later):
            return ""
        kill = ("pg_terminate_backend", f"'lab/{self.session}'")
        return "killed" if any(all(word in each.sql for word in kill) for each in later) else "done"

    def end(self) -> str:
        # The session stays open to the end of the story: another one may still look at it.
        over = self.say(
            "Nothing more to do here; the other terminals go on",
            "Nada mais a fazer aqui; os outros terminais continuam",
        )
        alone = self.say("That was the last step", "Esse foi o último passo")
        total = len(self.scenario.steps)
        lines = [
            "\\echo",
            f"\\set step {total + 1}",
            f"\\set steps {total}",
            f"\\set waits '{self.waits()}'",
            f"\\set after '{self.after(total)}'",
            *self.entered("leave", alone if self.scenario.steps[-1].session == self.session else over),
            "\\echo",
            *self.told(self.scenario.claim),
            self.included("verdict.psql"),
            *(["\\set guess :first_guess", self.included("guessed.psql")] if self.session == self.first else []),
            "\\echo",
        ]
        if self.frame.following:
            lines += _echo(self.say("Next: ", "A seguir: ") + f"./lab walk {self.frame.following}")
        return "\n".join(lines)

    def waits(self) -> str:
        numbers = [str(number) for number, step in enumerate(self.scenario.steps, start=1) if step.blocks]
        return "{" + ",".join(numbers) + "}"

    def after(self, index: int) -> str:
        """Where the other terminals have to be when the step of this index is launched: `A ended 2, C waits 5`."""
        latest: dict[str, tuple[int, Step]] = {}
        for number, step in enumerate(self.scenario.steps[:index], start=1):
            latest[step.session] = (number, step)
        return ", ".join(
            f"{session} {'waits' if step.blocks and not self.ended_before(step, index) else 'ended'} {number}"
            for session, (number, step) in latest.items()
            if session != self.session
        )

    def asked_after(self, index: int) -> str:
        """Which step of another terminal must have come before, as a prompt says it."""
        if index == 0:
            return ""
        before = self.scenario.steps[index - 1]
        if before.session == self.session or self.released_by(before, index):
            return ""
        verb = self.say("after", "depois do")
        waits = before.blocks and not self.ended_before(before, index)
        state = self.say(" (which waits)", " (que espera)") if waits else ""
        return f", {verb} {self.say('step', 'passo')} {index} {self.say('in', 'em')} {before.session}{state}"

    def released_by(self, before: Step, index: int) -> bool:
        """Whether the terminal's own latest step waited until that step, which has then begun."""
        own = next((step for step in reversed(self.scenario.steps[:index]) if step.session == self.session), None)
        ends = self.scenario.ends_of(own) if own else None
        return ends is not None and self.release(ends) is before

    def ended_before(self, waiting: Step, index: int) -> bool:
        """Whether that step has ended when the step of this index is launched; the index after the last is the end."""
        steps, actions = self.scenario.steps, self.scenario.actions
        launched = actions.index(steps[index]) if index < len(steps) else len(actions)
        return self.scenario.ends_of(waiting) in actions[:launched]

    def release(self, ends: Ends) -> Step:
        """The step that ends the wait: the last one launched before; the waiting step itself, if it ends by itself."""
        actions = self.scenario.actions
        return next(action for action in reversed(actions[: actions.index(ends)]) if isinstance(action, Step))

    def until(self, step: Step, ends: Ends | None) -> str:
        """The step that ends the wait, as `A 6`; empty if there is none, or if it ends by itself."""
        if ends is None or self.release(ends) is step:
            return ""
        release = self.release(ends)
        return f"{release.session} {self.scenario.steps.index(release) + 1}"

    def hang(self, step: Step, ends: Ends) -> str:
        release = self.release(ends)
        if release is step:
            return self.say(
                f"This will hang, waiting for {step.blocks}, until it is cancelled.",
                f"O comando vai ficar parado, esperando por {step.blocks}, até ser cancelado.",
            )
        number = self.scenario.steps.index(release) + 1
        return self.say(
            f"This will hang, waiting for {step.blocks}: go on in the other terminal; step {number} in {release.session} ends it.",
            f"O comando vai ficar parado, esperando por {step.blocks}: continue no outro terminal; a espera acaba no"
            f" passo {number}, em {release.session}.",
        )


def _echo(text: str, indent: str = "") -> list[str]:
    """The text as psql prints it, wrapped."""
    return [f"\\echo '{_quoted(line)}'" for line in textwrap.wrap(text, WIDTH, subsequent_indent=indent)]


def _quoted(text: str) -> str:
    """Inside single quotes of a psql meta-command."""
    return text.replace("\\", "\\\\").replace("'", "''")


def _literal(name: str, value: str) -> str:
    # A list setting takes its items unquoted.
    return value if name in ("search_path", "DateStyle") else f"'{value}'"
