"""What was seen when a scenario was played: data only, made by the player, read by everyone else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lab.base.errors import PlayError
from lab.base.language import say
from lab.scenario.grammar import Scenario, Step
from lab.scenario.queue_state import QueueState

StepOutcome = Literal["done", "error", "waiting"]


@dataclass(frozen=True)
class Notice:
    """A notice that a session received."""

    session: str
    severity: str
    sqlstate: str
    message: str
    raised_by_us: bool


@dataclass
class StepRun:
    """How one step went. Times are seconds since the play began; `rows` holds text as the server sent it."""

    step: Step
    started: float
    outcome: StepOutcome = "waiting"
    ended: float | None = None
    waited_for: tuple[str, ...] = ()
    waiting_since: float | None = None
    command: str = ""
    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[str | None, ...], ...] = ()
    sqlstate: str | None = None
    severity: str | None = None
    message: str | None = None
    raised_by_us: bool = False

    @property
    def seconds(self) -> float:
        """Seconds from launch to end (so far, if it has not ended: 0)."""
        return 0.0 if self.ended is None else self.ended - self.started

    @property
    def wait_ms(self) -> float | None:
        """Milliseconds from launch to end of a step that was seen waiting; None for any other."""
        return round(self.seconds * 1000, 1) if self.waited_for and self.ended is not None else None

    def column(self, name: str) -> tuple[str | None, ...]:
        """The column of that name, from top to bottom. Raises PlayError, naming those there are, if there is none."""
        if self.columns is None or name not in self.columns:
            there = ", ".join(self.columns or ()) or say("none", "nenhuma")
            raise PlayError(
                say(
                    f"step {self.step.name} returned no column {name}; its columns: {there}",
                    f"o passo {self.step.name} não devolveu a coluna {name}; as que há: {there}",
                )
            )
        return tuple(row[self.columns.index(name)] for row in self.rows)

    def one(self, name: str) -> str | None:
        """The column of that name of the only row. Raises PlayError if there is no such column, or not exactly one row."""
        found = self.column(name)
        if len(found) != 1:
            raise PlayError(
                say(
                    f"step {self.step.name} returned {len(found)} rows, not one",
                    f"o passo {self.step.name} devolveu {len(found)} linhas, não uma",
                )
            )
        return found[0]

    @property
    def value(self) -> str | None:
        """The first column of the first row; None if no row came."""
        return self.rows[0][0] if self.rows else None


@dataclass(frozen=True)
class Event:
    """Something seen: a step that ended at once, began to wait, or ended after its wait; or a notice."""

    kind: Literal["done", "waiting", "completed", "notice"]
    run: StepRun | None = None
    notice: Notice | None = None


@dataclass(repr=False)
class Play:
    """What was seen when a scenario was played. `failure` says why it did not go as announced, None if it did.

    `paced` is whether pauses were made between its statements. `states` is what the queue held before the first step and after
    each event of a step; there are none if the play was not observed.
    """

    scenario: Scenario
    events: list[Event] = field(default_factory=list)
    runs: dict[str, StepRun] = field(default_factory=dict)
    failure: str | None = None
    seconds: float = 0.0
    paced: bool = False
    states: list[QueueState] = field(default_factory=list)

    @property
    def steps_seen(self) -> list[Event]:
        """The events of steps, without the notices: one for a step that ended at once, two for one that waited."""
        return [event for event in self.events if event.run is not None]

    def __getitem__(self, step: str) -> StepRun:
        """The run of the step of that name; ScenarioError, naming those there are, if there is none, PlayError if it was not reached."""
        self.scenario.step(step)
        if step not in self.runs:
            name, why = self.scenario.name, self.failure or ""
            text = say(
                f"{name}: step {step} was not reached. {why}", f"{name}: o passo {step} não foi alcançado. {why}"
            )
            raise PlayError(text.strip())
        return self.runs[step]

    def __repr__(self) -> str:
        return say(
            f"<{self.scenario.name}: {len(self.runs)} steps played in {self.seconds:.1f} s>",
            f"<{self.scenario.name}: {len(self.runs)} passos executados em {self.seconds:.1f} s>",
        )


def whole(text: str | None) -> int | None:
    """The whole number that the server sent as text; None for NULL. Raises ValueError if it is none."""
    return None if text is None else int(text)


def amount(text: str | None) -> float | None:
    """The number with decimals that the server sent as text; None for NULL. Raises ValueError if it is none."""
    return None if text is None else float(text)


def flag(text: str | None) -> bool | None:
    """The boolean that the server sent as t or f; None for NULL. Raises KeyError for any other text."""
    return None if text is None else {"t": True, "f": False}[text]
