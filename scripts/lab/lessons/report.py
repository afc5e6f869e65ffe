"""What a run came to: the table of claims for the screen, and the object for --json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text as Line

from lab.base.language import say
from lab.lessons.lesson import ClaimResult, LessonResult
from lab.scenario.stage import ScenarioResult


def claims_table(result: LessonResult) -> RenderableType:
    """The claims of one lesson: claim, observed, holds."""
    table = Table(
        title=f"{result.lesson.name}   {result.lesson.question}", title_justify="left", title_style="bold", expand=False
    )
    table.add_column(say("claim", "afirmação"), ratio=5, overflow="fold")
    table.add_column(say("observed", "observado"), ratio=4, overflow="fold")
    table.add_column(say("holds", "vale"), justify="center", no_wrap=True)
    for claim in result.claims:
        name = Line(claim.claim.id, style="bold" if claim.claim.core else "dim bold")
        table.add_row(Line.assemble(name, "\n", str(claim.claim.text)), Line(claim.observed.text), verdict(claim))
    reasons = [
        Line(f"{claim.claim.id}: {claim.observed.why}", style="red" if claim.observed.holds is False else "yellow")
        for claim in result.claims
        if claim.observed.why
    ]
    return Group(table, *reasons)


def verdict(claim: ClaimResult) -> Line:
    """Yes, NO, or not run."""
    match claim.observed.holds:
        case True:
            return Line(say("yes", "sim"), style="green")
        case False:
            return Line(say("NO", "NÃO"), style="bold red")
        case None:
            return Line(say("not run", "não rodou"), style="yellow")


def summary(results: Sequence[LessonResult]) -> str:
    """One line: how many claims held, did not hold, were not run; and the seconds it took."""
    claims = [claim for result in results for claim in result.claims]
    held = sum(claim.observed.holds is True for claim in claims)
    failed = sum(claim.observed.holds is False for claim in claims)
    not_run = len(claims) - held - failed
    seconds = sum(result.seconds for result in results)
    line = say(
        f"Claims that held: {held} of {len(claims) - not_run}",
        f"Afirmações que valeram: {held} de {len(claims) - not_run}",
    )
    if not_run:
        line += say(f"; not run here: {not_run}", f"; não rodaram aqui: {not_run}")
    return f"{line}.  ({seconds:.1f} s)"


def failed(results: Sequence[LessonResult]) -> bool:
    """Whether a claim did not hold. One that could not be run here is no failure."""
    return any(claim.observed.holds is False for result in results for claim in result.claims)


def as_json(results: Sequence[LessonResult], server: dict[str, Any], started: str, seconds: float) -> dict[str, Any]:
    """The run as one object: server, started (ISO 8601, UTC), seconds, lessons with their claims and scenarios."""
    return {
        "server": server,
        "started": started,
        "seconds": round(seconds, 3),
        "lessons": [
            {
                "number": result.lesson.number,
                "name": result.lesson.name,
                "seconds": round(result.seconds, 3),
                "claims": [_claim(claim) for claim in result.claims],
                "scenarios": [_scenario(scenario) for scenario in result.scenarios],
            }
            for result in results
        ],
    }


def _claim(result: ClaimResult) -> dict[str, Any]:
    claim, observed = result.claim, result.observed
    return {
        "id": claim.id,
        "claim": claim.text.en,
        "core": claim.core,
        "holds": observed.holds,
        "why": observed.why,
        "observed": observed.en,
        "scenarios": list(result.scenarios),
    }


def _scenario(result: ScenarioResult) -> dict[str, Any]:
    return {
        "name": result.play.scenario.name,
        "as_expected": result.as_expected,
        "steps": [
            {
                "name": run.step.name,
                "session": run.step.session,
                "outcome": run.outcome,
                "sqlstate": run.sqlstate,
                "waited_for": list(run.waited_for),
                "wait_ms": run.wait_ms,
                "columns": None if run.columns is None else list(run.columns),
                "rows": [list(row) for row in run.rows],
            }
            for run in result.play.runs.values()
        ],
    }
