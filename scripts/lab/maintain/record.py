"""`lab record`: keep what was seen, after showing what changed in meaning."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console

from lab.base import config, paths
from lab.base.language import say
from lab.lessons import registry, report
from lab.lessons.lesson import Lesson, LessonResult
from lab.lessons.tour import Tour
from lab.maintain import generate, observations
from lab.measure.counters import environment
from lab.scenario import library
from lab.scenario.stage import Stage
from lab.server.target import Target


def record(
    target: Target, stage: Stage, lessons: Sequence[Lesson], console: Console, agrees: Callable[[], bool]
) -> bool:
    """Run these lessons once and feed all that is kept of them; returns whether it was written.

    Nothing is written if a check fails, or if what is asserted (transcripts, tables) changed and the author does not agree, who
    is shown the changes first.
    """
    stage.recording = True
    results = run(stage, lessons, console)
    if report.failed(results):
        console.print(say("Nothing was recorded.", "Nada foi gravado."), style="red")
        return False
    changed = {path: text for path, text in stage.seen.items() if generate.kept(path) != text}
    everything = len(lessons) == len(registry.names())
    if everything:
        changed |= {path: "" for path in paths.EXPECTED.glob("*/*.*") if path not in stage.seen}
    show(changed, console)
    if changed and not agrees():
        return False
    generate.write(changed)
    observe(target, stage, results, console)
    if everything:
        tell_tour(target, stage)
    generated = generate.changes()
    show(generated, console)
    generate.write(generated)
    return True


def run(stage: Stage, lessons: Sequence[Lesson], console: Console) -> list[LessonResult]:
    """Run every check of these lessons; what failed is shown."""
    results = [each.run(stage, surprises=True) for each in lessons]
    console.print(report.summary(results), highlight=False)
    for result in results:
        if report.failed([result]):
            console.print(report.checks_table(result), highlight=False)
    return results


def show(changed: dict[Path, str], console: Console) -> None:
    """Print what the changes mean, a diff a file."""
    for path, text in changed.items():
        gone = say("no longer made", "não é mais gerado")
        kind = say("new", "novo") if not path.exists() else say("changed", "mudou") if text else gone
        console.print(f"{path.relative_to(paths.ROOT)}: {kind}", style="yellow", highlight=False)
        if path.exists() and text:
            console.print(library.difference_from(path, text), markup=False, highlight=False)
        elif text:
            console.print(text, markup=False, highlight=False)


def observe(target: Target, stage: Stage, results: Sequence[LessonResult], console: Console) -> None:
    """Write what a run observed on this server's version under data/observed, with its environment."""
    with stage.connection() as connection:
        about = environment(connection)
    about = {"date": date.today().isoformat(), "source": target.source} | about
    for path in observations.keep(results, target.version, about):
        console.print(f"{path.relative_to(paths.ROOT)} {say('written', 'gravado')}", highlight=False)


def tell_tour(target: Target, stage: Stage) -> None:
    """Write the tour, in both languages, as the pages show it."""
    for language in ("en", "pt"):
        told = io.StringIO()
        console = Console(file=told, width=200)
        with config.changed(LAB_LANG=language):
            console.print(target.headline(), highlight=False, markup=False)
            Tour(stage, console).tell()
        (paths.OBSERVED / f"tour_{language}.txt").write_text(told.getvalue(), encoding="utf-8")
