"""Where a check is observed: a database of the lab, and what was played on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from lab.base.language import say
from lab.scenario import transcript
from lab.scenario.grammar import Scenario, Step
from lab.scenario.library import difference_from, golden_path
from lab.scenario.player import play
from lab.scenario.result import Event, Play
from lab.server import schema
from lab.server.session import SessionPins


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
            if not golden_path(self.play.scenario).exists():
                return say(
                    f"no transcript of {name} is kept yet: ./lab record {name[:2]} shows it and writes it",
                    f"ainda não há transcrição guardada de {name}: ./lab record {name[:2]} mostra e grava",
                )
            differs = say(
                f"the transcript of {name} differs from the one kept",
                f"a transcrição de {name} difere da que foi guardada",
            )
            return f"{differs}:\n{self.difference}"
        return ""


class Stage:
    """What a claim has at hand: a database of the lab, and the player.

    `conninfo` is the database, `load` whether more than the quick form of an experiment is wanted, `full` whether the form that
    takes minutes and a large table. When `recording`, what is seen is not compared with what is kept. `seen` is what was seen of
    each kept file, by its path.
    """

    def __init__(
        self,
        conninfo: str,
        superuser: bool,
        embedded: bool = True,
        load: bool = False,
        recording: bool = False,
        full: bool = False,
    ) -> None:
        self.conninfo = conninfo
        self.superuser = superuser
        self.embedded = embedded
        self.load = load
        self.full = full
        self.recording = recording
        self.played: list[ScenarioResult] = []
        self.seen: dict[Path, str] = {}

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
        result = ScenarioResult(played, self.compare(golden_path(which), transcript.golden(played)))
        self.played.append(result)
        return result

    def compare(self, path: Path, text: str) -> str:
        """What was seen, as text, against the file that is kept of it; returns the difference, empty if there is none."""
        self.seen[path] = text
        return "" if self.recording else difference_from(path, text)

    def insist_on_server(self) -> None:
        """Raise ServerError if the server is gone: then nothing that failed says anything about a claim."""
        with self.connection("lab/probe") as connection:
            connection.execute("SELECT 1")

    @contextmanager
    def connection(self, name: str = "lab/experiment") -> Iterator[psycopg.Connection]:
        """A pinned connection in autocommit."""
        with SessionPins().psycopg_connection(self.conninfo, name) as connection:
            yield connection
