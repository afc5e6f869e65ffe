"""A lesson: its claims, each with the play or experiment that shows it, and how they are run.

A lesson's module is scripts/NN_name.py. It reads like a recipe: for every claim, what is looked at and which number decides.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from lab import paths, scenario, schema, transcript
from lab.errors import CannotRunHere, LabError
from lab.language import Text, say
from lab.play import Event, Play
from lab.player import play
from lab.scenario import Scenario, Step
from lab.session import SessionPins


@dataclass(frozen=True)
class Observed:
    """What a claim's observation came to, in both languages. `holds` is None if it could not be made here; then `why` says so.

    `figures` are numbers of it by name, where a notebook asks for them first.
    """

    holds: bool | None
    en: str
    pt: str
    why: str = ""
    figures: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What was observed, in the reader's language."""
        return say(self.en, self.pt)


@dataclass(frozen=True)
class Claim:
    """A sentence that states a behaviour, and how it is observed.

    `core` claims are the lesson; the others are surprises, run by `--all`. `observe` looks and judges; `judge` judges what was
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
        """The claim's name without its lesson's number."""
        return self.id.partition(".")[2]


@dataclass(frozen=True)
class ScenarioResult:
    """A play and whether it went as expected: as its markers announce and as its golden transcript has it."""

    play: Play
    difference: str

    @property
    def as_expected(self) -> bool:
        return self.play.failure is None and not self.difference

    @property
    def why(self) -> str:
        """What was not as expected, empty if all was."""
        if self.play.failure:
            return self.play.failure
        if self.difference:
            name = self.play.scenario.name
            differs = say(
                f"the transcript of {name} differs from the one kept",
                f"a transcrição de {name} difere da que foi guardada",
            )
            return f"{differs}:\n{self.difference}"
        return ""


@dataclass
class ClaimResult:
    """A claim with what was observed, and the names of the scenarios played for it."""

    claim: Claim
    observed: Observed
    scenarios: tuple[str, ...]


@dataclass
class LessonResult:
    """A lesson that was run: its claims' results and the plays, with the seconds it took."""

    lesson: Lesson
    claims: list[ClaimResult] = field(default_factory=list)
    scenarios: list[ScenarioResult] = field(default_factory=list)
    seconds: float = 0.0


class Stage:
    """What a claim has at hand: a database of the lab, and the player.

    `conninfo` is the database, `load` whether more than the quick form of an experiment is wanted.
    """

    def __init__(self, conninfo: str, superuser: bool, embedded: bool = True, load: bool = False) -> None:
        self.conninfo = conninfo
        self.superuser = superuser
        self.embedded = embedded
        self.load = load
        self.played: list[ScenarioResult] = []

    def build(self, state: int) -> None:
        """Rebuild the queue in the state of that number."""
        schema.build(self.conninfo, state)

    def play(
        self,
        which: Scenario,
        *,
        pins: SessionPins | None = None,
        before: Callable[[Play, Step], None] | None = None,
        seen: Callable[[Play, Event], None] | None = None,
    ) -> ScenarioResult:
        """Rebuild the scenario's state, play it, and compare it with its golden transcript."""
        self.build(which.state)
        played = play(which, self.conninfo, pins=pins, before=before, seen=seen)
        result = ScenarioResult(played, _difference_from_golden(played))
        self.played.append(result)
        return result

    def insist_on_server(self) -> None:
        """Raise ServerError if the server is gone: then nothing that failed says anything about a claim."""
        with self.connection("lab/probe") as connection:
            connection.execute("SELECT 1")

    @contextmanager
    def connection(self, name: str = "lab/experiment") -> Iterator[psycopg.Connection]:
        """A pinned connection in autocommit."""
        with SessionPins().psycopg_connection(self.conninfo, name) as connection:
            yield connection


class Lesson:
    """A lesson and its claims, in the order in which they are told.

    `module` is the lesson's file (its name gives number and name), `minutes` how long it takes a learner, `question` what he
    comes with, `answer` what he will have seen; `psql_only` whether two psql windows are enough to see it.
    """

    def __init__(self, module: str, *, minutes: int, question: Text, answer: Text, psql_only: Text) -> None:
        self.name = Path(module).stem
        self.number = self.name[:2]
        self.minutes = minutes
        self.question = question
        self.answer = answer
        self.psql_only = psql_only
        self.claims: list[Claim] = []

    def scenario(self, case: str, *, core: bool = True) -> Callable[[_JudgePlay], _JudgePlay]:
        """Declare the claim that scenario NN_case states; the function judges the play.

        The claim holds if the play went as its markers announce, the golden transcript is met and the function agrees.
        """
        told = scenario.read(scenario_path(self.name, case))

        def declare(judge: _JudgePlay) -> _JudgePlay:
            def judged(result: ScenarioResult) -> Observed:
                if not result.as_expected:
                    return Observed(False, "not as announced", "não foi como anunciado", result.why)
                return judge(result.play)

            def judge_play(played: Play) -> Observed:
                if played.scenario.name != told.name:
                    raise LabError(f"A play of {played.scenario.name} says nothing about the claim of {told.name}.")
                return judged(ScenarioResult(played, _difference_from_golden(played)))

            def observe(stage: Stage) -> Observed:
                return judged(stage.play(told))

            self.claims.append(Claim(f"{self.number}.{case}", told.claim, core, observe, judge_play))
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
        """Declare a claim that one scenario cannot show; the function makes the observation. `judge` and `slow` are as in Claim."""

        def declare(observe: _Observe) -> _Observe:
            self.claims.append(Claim(f"{self.number}.{slug}", Text(en, pt), core, observe, judge, slow))
            return observe

        return declare

    def run(
        self,
        stage: Stage,
        *,
        surprises: bool = False,
        progress: Callable[[Claim, ClaimResult | None], None] | None = None,
    ) -> LessonResult:
        """Run the core claims, and the surprises if asked; `progress` is called before and after each.

        An experiment that cannot be carried through is a claim that does not hold, with the reason; one that cannot be made on
        this server is not run. Only a lost server (ServerError) or ^C ends the run.
        """
        result = LessonResult(self)
        started = time.monotonic()
        for claim in self.claims:
            if not (claim.core or surprises):
                continue
            if progress:
                progress(claim, None)
            already = len(stage.played)
            try:
                observed = claim.observe(stage)
            except CannotRunHere as error:
                observed = Observed(None, "", "", str(error))
            except (LabError, psycopg.Error) as error:
                stage.insist_on_server()
                observed = Observed(False, "could not be observed", "não deu para observar", str(error))
            plays = stage.played[already:]
            names = tuple(played.play.scenario.name for played in plays)
            result.scenarios += plays
            result.claims.append(ClaimResult(claim, observed, names))
            if progress:
                progress(claim, result.claims[-1])
        result.seconds = time.monotonic() - started
        return result


_JudgePlay = Callable[[Play], Observed]
_Observe = Callable[[Stage], Observed]


def lessons() -> list[Lesson]:
    """All lessons, in the order of their numbers."""
    return [_load(path) for path in sorted((paths.ROOT / "scripts").glob("[0-9][0-9]_*.py"))]


def choose(wanted: Sequence[str]) -> list[Lesson]:
    """The lessons named as `02`, `2`, `02_for_update_waits` or `01-04`; all if none is named.

    Raises LabError, with what there is, for one that does not exist.
    """
    known = lessons()
    if not wanted:
        return known
    by_number = {int(lesson.number): lesson for lesson in known}
    by_name = {lesson.name: int(lesson.number) for lesson in known}
    numbers: list[int] = []
    for word in wanted:
        if word in by_name:
            numbers.append(by_name[word])
            continue
        named = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", word)
        meant = range(int(named[1]), int(named[2] or named[1]) + 1) if named else ()
        if not meant or any(number not in by_number for number in meant):
            raise LabError(
                say(
                    f"There is no lesson {word}; there are {_names(known)}.",
                    f"Não há lição {word}; há {_names(known)}.",
                )
            )
        numbers += meant
    return [by_number[number] for number in dict.fromkeys(numbers)]


def scenario_path(lesson: str, case: str) -> Path:
    """Where the scenario NN_case of lesson NN_name lies."""
    return paths.SQL / lesson / f"{lesson[:2]}_{case}.sql"


def scenarios(lesson: str | None = None) -> list[Scenario]:
    """The scenarios of a lesson (of all, without one), in the order of their files."""
    pattern = f"{lesson or '[0-9][0-9]_*'}/[0-9][0-9]_*.sql"
    return [scenario.read(path) for path in sorted(paths.SQL.glob(pattern))]


def find_scenario(name: str) -> Scenario:
    """The scenario of that name, `NN_case`; LabError if there is none."""
    found = sorted(paths.SQL.glob(f"{name[:2]}_*/{name}.sql"))
    if not found:
        raise LabError(
            say(
                f"There is no scenario {name}; `./lab walk {name[:2]}` lists those of lesson {name[:2]}.",
                f"Não há cenário {name}; `./lab walk {name[:2]}` mostra os da lição {name[:2]}.",
            )
        )
    return scenario.read(found[0])


def golden_path(which: Scenario) -> Path:
    """Where the golden transcript of a scenario lies."""
    return paths.EXPECTED / which.lesson / f"{which.name}.out"


def _difference_from_golden(played: Play) -> str:
    path = golden_path(played.scenario)
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    return transcript.difference(expected, transcript.golden(played))


def _names(known: Sequence[Lesson]) -> str:
    return ", ".join(lesson.name for lesson in known)


def _load(path: Path) -> Lesson:
    # A module whose name begins with a digit cannot be imported by an import statement.
    name = f"lesson_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    lesson = sys.modules[name].lesson
    assert isinstance(lesson, Lesson)
    return lesson
