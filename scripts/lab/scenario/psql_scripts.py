r"""A scenario by hand: the psql script of each terminal, generated from the scenario into walk/, and what to type where.

Each script asks for Enter before every step, and says which step of which terminal has to come first. A `\prompt` reads the
terminal's standard input although the script is run with -f, so that a pipe can press Enter too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lab.base import paths
from lab.base.language import Text, say
from lab.scenario.grammar import Ends, Scenario, Step
from lab.server import schema
from lab.server.session import SessionPins

LANGUAGES = ("en", "pt")
PINS = paths.WALK / "pins.psql"


def pins() -> str:
    """The text of the script that every terminal includes: the settings that the player's sessions have, too."""
    # A learner may ponder for long: nothing but the scenario's own lock_timeout may end a wait.
    settings = SessionPins(statement_timeout="0").settings()
    lines = ["-- What each terminal's session is set to. Generated: ./lab generate"]
    return "\n".join([*lines, *(f"SET {name} = {_literal(name, value)};" for name, value in settings.items())]) + "\n"


def scripts(scenario: Scenario) -> dict[Path, str]:
    """The generated scripts of a scenario, for every session in both languages: path and text."""
    return {
        script_path(scenario, session, language): _Terminal(scenario, session, language).text()
        for session in scenario.sessions
        for language in LANGUAGES
    }


def script_path(scenario: Scenario, session: str, language: str) -> Path:
    """Where a session's script lies: walk/NN_case/a.psql, in Portuguese walk/pt/NN_case/a.psql."""
    folder = paths.WALK / "pt" if language == "pt" else paths.WALK
    return folder / scenario.name / f"{session.lower()}.psql"


def walk(scenario: Scenario) -> str:
    """What to type in which terminal, in the reader's language, with paths as they are from the folder one is in."""
    language = say("en", "pt")
    lines = [f"{scenario.name}: {scenario.claim}", ""]
    for session in sorted(scenario.sessions):
        path = os.path.relpath(script_path(scenario, session, language))
        lines.append(f"  terminal {session}   psql -X -f {path}")
    lines.append("")
    order = " → ".join(f"{number} {step.session}" for number, step in enumerate(scenario.steps, start=1))
    lines.append(say(f"  Press Enter in this order: {order}", f"  Aperte Enter nesta ordem: {order}"))
    return "\n".join(lines)


@dataclass(frozen=True)
class _Terminal:
    scenario: Scenario
    session: str
    language: str

    def text(self) -> str:
        first = self.session == self.scenario.sessions[0]
        parts = [self.head(), self.included()]
        if first:
            parts.append(self.preparation())
        parts.append("\\set QUIET off")
        parts += [self.step(number) for number, step in enumerate(self.scenario.steps) if step.session == self.session]
        parts.append(self.end())
        return "\n".join(parts)

    def say(self, en: str, pt: str) -> str:
        return Text(en, pt).pt if self.language == "pt" else en

    def told(self, text: Text | None) -> str:
        if text is None:
            return ""
        return _echo(text.pt if self.language == "pt" and text.pt else text.en)

    def head(self) -> str:
        others = ", ".join(other for other in self.scenario.sessions if other != self.session)
        name, lesson = self.scenario.path.name, self.scenario.lesson
        lines = [
            self.say(
                f"-- Terminal {self.session} of {name} (lesson {lesson}). Generated from it; edit that file, not this one.",
                f"-- Terminal {self.session} de {name} (lição {lesson}). Gerado a partir dele; edite aquele arquivo, não este.",
            ),
            self.say(
                f"-- Run it in a terminal of its own, beside {others}:" if others else "-- Run it:",
                f"-- Execute em um terminal próprio, ao lado de {others}:" if others else "-- Execute:",
            ),
            f"--     psql -X -f {script_path(self.scenario, self.session, self.language).relative_to(paths.ROOT)}",
            "\\set ON_ERROR_STOP on",
            "\\set QUIET on",
            f"\\echo '=== {self.say('Terminal', 'Terminal')} {self.session} ==='",
            self.told(self.scenario.claim),
        ]
        return "\n".join(lines)

    def included(self) -> str:
        return f"SET application_name = 'lab/{self.session}';\n\\ir {self.beside(PINS)}"

    def beside(self, path: Path) -> str:
        """The path from this script's folder, as an include names it."""
        return Path(os.path.relpath(path, script_path(self.scenario, self.session, self.language).parent)).as_posix()

    def preparation(self) -> str:
        lines = [
            self.enter(
                self.say(
                    "First, Enter here rebuilds the schema sql_semana_12 of this database",
                    "Primeiro, Enter aqui recria o esquema sql_semana_12 deste banco",
                )
            ),
            "\\o /dev/null",
            *(f"\\ir {self.beside(script)}" for script in schema.scripts_for(self.scenario.state)),
            "\\o",
            "SET client_min_messages = notice;",
            *self.scenario.setup,
            _echo(self.say("The queue is ready.", "A fila está pronta.")),
        ]
        return "\n".join(lines)

    def step(self, index: int) -> str:
        steps = self.scenario.steps
        step, total = steps[index], len(steps)
        lines = ["", "\\echo", self.told(step.prose)]
        where = self.say(f"step {index + 1} of {total}", f"passo {index + 1} de {total}")
        lines.append(self.enter(f"[{self.session}] {where}{self.after(index)}"))
        ends = self.scenario.ends_of(step)
        errors = ends.errors if ends else step.errors
        if ends:
            lines.append(_echo(self.hang(step, ends)))
        if errors:
            lines.append("\\set ON_ERROR_STOP off")
        lines.append("\\set ECHO queries\n" + step.sql + "\n\\set ECHO none")
        if errors:
            lines.append(_echo(self.say(f"(announced: {errors})", f"(anunciado: {errors})")))
            lines.append("\\set ON_ERROR_STOP on")
        if ends:
            lines.append(self.told(ends.prose))
        return "\n".join(line for line in lines if line)

    def end(self) -> str:
        # The session stays open to the end of the story: another one may still look at it.
        over = self.say(
            "Nothing more to do here; leave it open until the other terminals are through",
            "Nada mais a fazer aqui; deixe aberto até os outros terminais terminarem",
        )
        return f"\n\\echo\n{self.enter(f'[{self.session}] {over}')}\n"

    def after(self, index: int) -> str:
        """Which step of another terminal must have come before."""
        if index == 0:
            return ""
        before = self.scenario.steps[index - 1]
        if before.session == self.session:
            return ""
        verb = self.say("after", "depois do")
        waits = before.blocks and not self.ended_before(before, index)
        state = self.say(" (which waits)", " (que espera)") if waits else ""
        return f", {verb} {self.say('step', 'passo')} {index} {self.say('in', 'em')} {before.session}{state}"

    def ended_before(self, waiting: Step, index: int) -> bool:
        """Whether that step has ended when the step of this index is launched."""
        launched = self.scenario.actions.index(self.scenario.steps[index])
        return self.scenario.ends_of(waiting) in self.scenario.actions[:launched]

    def hang(self, step: Step, ends: Ends) -> str:
        actions = self.scenario.actions
        position = actions.index(ends)
        release = next(action for action in reversed(actions[:position]) if isinstance(action, Step))
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

    def enter(self, text: str) -> str:
        press = self.say("Enter", "Enter")
        return f"\\prompt '{_quoted(text)}. {press}: ' enter"


def _echo(text: str) -> str:
    return f"\\echo '{_quoted(text)}'"


def _quoted(text: str) -> str:
    """Inside single quotes of a psql meta-command."""
    return text.replace("\\", "\\\\").replace("'", "''")


def _literal(name: str, value: str) -> str:
    # A list setting takes its items unquoted.
    return value if name in ("search_path", "DateStyle") else f"'{value}'"
