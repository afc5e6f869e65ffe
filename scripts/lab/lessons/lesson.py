"""A lesson: its checks, each with the play or experiment that shows it, and how they are run.

A lesson's module is scripts/NN_name.py. It reads like a recipe: for every claim, what is looked at and which number decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from lab.base.errors import CannotRunHere, LabError
from lab.base.facts import Fact, sentence
from lab.base.language import Text, say
from lab.scenario import grammar, library
from lab.scenario.result import Play
from lab.scenario.stage import ScenarioResult, Stage


@dataclass(frozen=True)
class Observed:
    """What a check's observation came to. `holds` is None if it could not be made here; then `why` says so.

    `facts` are what was observed, by name; `en` and `pt` are the sentences around them, with {name} for a fact: see
    lab.base.facts.sentence.
    """

    holds: bool | None
    en: str
    pt: str
    why: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def text(self) -> Text:
        """What was observed, in both languages."""
        return Text(sentence(self.en, self.facts, "en"), sentence(self.pt, self.facts, "pt"))


@dataclass(frozen=True)
class Check:
    """A claim, which is a sentence that states a behaviour, and how it is observed.

    `core` checks are the lesson; the others are surprises, run by `--all`. `observe` looks and judges; `judge` judges what was
    seen already: a play of its scenario, or what its experiment looks at (None where only the experiment itself can). `slow` is
    whether it takes longer than a reader of a notebook waits unasked.
    """

    id: str
    text: Text
    core: bool
    observe: Callable[[Stage], Observed]
    judge: Callable[[Any], Observed] | None = None
    slow: bool = False

    @property
    def case(self) -> str:
        """The check's name without its lesson's number."""
        return self.id.partition(".")[2]


@dataclass
class CheckResult:
    """A check with what was observed, and the names of the scenarios played for it."""

    check: Check
    observed: Observed
    scenarios: tuple[str, ...]


@dataclass
class LessonResult:
    """A lesson that was run: its checks' results and the plays, with the seconds it took."""

    lesson: Lesson
    checks: list[CheckResult] = field(default_factory=list)
    scenarios: list[ScenarioResult] = field(default_factory=list)
    seconds: float = 0.0


class Lesson:
    """A lesson and its checks, in the order in which they are told.

    `module` is the lesson's file (its name gives number and name), `minutes` how long it takes a learner, `question` what
    they come with, `answer` what they will have seen; `psql_only` whether two psql windows are enough to see it.
    """

    def __init__(self, module: str, *, minutes: int, question: Text, answer: Text, psql_only: Text) -> None:
        self.name = Path(module).stem
        self.number = self.name[:2]
        self.minutes = minutes
        self.question = question
        self.answer = answer
        self.psql_only = psql_only
        self.checks: list[Check] = []

    def scenario(self, case: str, *, core: bool = True) -> Callable[[_JudgePlay], _JudgePlay]:
        """Declare the check of the claim that scenario NN_case states; the function judges the play.

        The check passes if the play went as its markers announce, the golden transcript is met and the function agrees.
        """
        told = grammar.read(library.scenario_path(self.name, case))

        def declare(judge: _JudgePlay) -> _JudgePlay:
            def judged(result: ScenarioResult) -> Observed:
                if result.as_expected:
                    return judge(result.play)
                if result.play.failure is None and not library.golden_path(told).exists():
                    # A new one: its author sees what it observes before its transcript is kept.
                    return replace(judge(result.play), holds=False, why=result.why)
                return Observed(False, "not as announced", "não foi como anunciado", result.why)

            def judge_play(played: Play) -> Observed:
                if played.scenario.name != told.name:
                    seen = played.scenario.name
                    raise LabError(
                        say(
                            f"A play of {seen} says nothing about the claim of {told.name}.",
                            f"Uma execução de {seen} não diz nada sobre a afirmação de {told.name}.",
                        )
                    )
                return judged(ScenarioResult(played, library.difference_from_golden(played)))

            def observe(stage: Stage) -> Observed:
                return judged(stage.play(told))

            self.checks.append(Check(f"{self.number}.{case}", told.claim, core, observe, judge_play))
            return judge

        return declare

    def experiment(
        self,
        slug: str,
        en: str,
        pt: str,
        *,
        core: bool = True,
        judge: Callable[[Any], Observed] | None = None,
        slow: bool = False,
    ) -> Callable[[_Observe], _Observe]:
        """Declare a check that one scenario cannot make; the function makes the observation. `judge` and `slow` are as in Check."""

        def declare(observe: _Observe) -> _Observe:
            self.checks.append(Check(f"{self.number}.{slug}", Text(en, pt), core, observe, judge, slow))
            return observe

        return declare

    def run(
        self,
        stage: Stage,
        *,
        surprises: bool = False,
        only: Sequence[Check] | None = None,
        progress: Callable[[Check, CheckResult | None], None] | None = None,
    ) -> LessonResult:
        """Run the core checks, and the surprises if asked, or `only` these; `progress` is called before and after each.

        An experiment that cannot be carried through is a check that does not pass, with the reason; one that cannot be made on
        this server is not run. Only a lost server (ServerError) or ^C ends the run.
        """
        result = LessonResult(self)
        started = time.monotonic()
        for check in only if only is not None else self.checks:
            if only is None and not (check.core or surprises):
                continue
            if progress:
                progress(check, None)
            already = len(stage.played)
            try:
                observed = check.observe(stage)
            except CannotRunHere as error:
                observed = Observed(None, "", "", str(error))
            except (LabError, psycopg.Error) as error:
                stage.insist_on_server()
                observed = Observed(False, "could not be observed", "não deu para observar", str(error))
            plays = stage.played[already:]
            names = tuple(played.play.scenario.name for played in plays)
            result.scenarios += plays
            result.checks.append(CheckResult(check, observed, names))
            if progress:
                progress(check, result.checks[-1])
        result.seconds = time.monotonic() - started
        return result


_JudgePlay = Callable[[Play], Observed]
_Observe = Callable[[Stage], Observed]
