"""What a run came to: the table of checks for the screen, and the object for --json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text as Line

from lab.base.facts import decimal
from lab.base.language import say
from lab.lessons.lesson import CheckResult, LessonResult
from lab.scenario.stage import ScenarioResult


def checks_table(result: LessonResult) -> RenderableType:
    """The checks of one lesson: what is claimed, observed, and whether it holds."""
    table = Table(
        title=f"{result.lesson.name}   {result.lesson.question}", title_justify="left", title_style="bold", expand=False
    )
    table.add_column(say("claim", "afirmação"), ratio=5, overflow="fold")
    table.add_column(say("observed", "observado"), ratio=4, overflow="fold")
    table.add_column(say("holds", "confere"), justify="center", no_wrap=True)
    for check in result.checks:
        name = Line(check.check.id, style="bold" if check.check.core else "dim bold")
        table.add_row(Line.assemble(name, "\n", str(check.check.text)), Line(str(check.observed.text)), verdict(check))
    reasons = [
        Line(f"{check.check.id}: {check.observed.why}", style="red" if check.observed.holds is False else "yellow")
        for check in result.checks
        if check.observed.why
    ]
    return Group(table, *reasons)


def verdict(check: CheckResult) -> Line:
    """Yes, NO, or not run."""
    match check.observed.holds:
        case True:
            return Line(say("yes", "sim"), style="green")
        case False:
            return Line(say("NO", "NÃO"), style="bold red")
        case None:
            return Line(say("not run", "não rodou"), style="yellow")


def summary(results: Sequence[LessonResult]) -> str:
    """One line: how many checks passed, failed, were not run; and the seconds it took."""
    checks = [check for result in results for check in result.checks]
    held = sum(check.observed.holds is True for check in checks)
    failed = sum(check.observed.holds is False for check in checks)
    not_run = len(checks) - held - failed
    seconds = sum(result.seconds for result in results)
    line = say(
        f"Checks passed: {held} of {len(checks) - not_run}",
        f"Verificações: {held} de {len(checks) - not_run}",
    )
    if not_run:
        line += say(f"; not run here: {not_run}", f"; não rodaram aqui: {not_run}")
    return f"{line}.  ({decimal(seconds, 1)} s)"


def failed(results: Sequence[LessonResult]) -> bool:
    """Whether a check failed. One that could not be run here is no failure."""
    return any(check.observed.holds is False for result in results for check in result.checks)


def as_json(results: Sequence[LessonResult], server: dict[str, Any], started: str, seconds: float) -> dict[str, Any]:
    """The run as one object: server, started (ISO 8601, UTC), seconds, lessons with their claims (the checks) and scenarios."""
    return {
        "server": server,
        "started": started,
        "seconds": round(seconds, 3),
        "lessons": [
            {
                "number": result.lesson.number,
                "name": result.lesson.name,
                "seconds": round(result.seconds, 3),
                "claims": [_check(check) for check in result.checks],
                "scenarios": [_scenario(scenario) for scenario in result.scenarios],
            }
            for result in results
        ],
    }


def _check(result: CheckResult) -> dict[str, Any]:
    check, observed = result.check, result.observed
    return {
        "id": check.id,
        "claim": check.text.en,
        "core": check.core,
        "holds": observed.holds,
        "why": observed.why,
        "observed": observed.text.en,
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
