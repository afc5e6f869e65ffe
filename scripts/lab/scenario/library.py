"""The scenarios that are kept, and their golden transcripts: sql/NN_name/NN_case.sql, data/expected/NN_name/NN_case.out."""

from __future__ import annotations

from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.scenario import grammar, transcript
from lab.scenario.grammar import Scenario
from lab.scenario.result import Play


def scenario_path(lesson: str, case: str) -> Path:
    """Where the scenario NN_case of lesson NN_name lies."""
    return paths.SQL / lesson / f"{lesson[:2]}_{case}.sql"


def scenarios(lesson: str | None = None) -> list[Scenario]:
    """The scenarios of a lesson (of all, without one), in the order of their files."""
    pattern = f"{lesson or '[0-9][0-9]_*'}/[0-9][0-9]_*.sql"
    return [grammar.read(path) for path in sorted(paths.SQL.glob(pattern))]


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
    return grammar.read(found[0])


def golden_path(which: Scenario) -> Path:
    """Where the golden transcript of a scenario lies."""
    return paths.EXPECTED / which.lesson / f"{which.name}.out"


def difference_from_golden(played: Play) -> str:
    """The golden transcript against this play's, as a diff; empty if they are the same."""
    return difference_from(golden_path(played.scenario), transcript.golden(played))


def difference_from(path: Path, text: str) -> str:
    """The kept file, empty if there is none, against what was seen, as a diff; empty if they are the same."""
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    return transcript.difference(expected, text)
