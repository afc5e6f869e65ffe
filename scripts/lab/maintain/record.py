"""`lab record`: keep what was seen, after showing what changed in meaning."""

from __future__ import annotations

import io
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lab.base import config, paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.drills import ablation
from lab.experiments import fencing_table
from lab.lessons import registry, report
from lab.lessons.tour import Tour
from lab.maintain import observations
from lab.scenario import library, psql_scripts, transcript
from lab.scenario.stage import Stage
from lab.server.target import Target


def changes(stage: Stage) -> dict[Path, str]:
    """What `keep` would write: golden transcripts, asserted tables and psql scripts that differ from the files there are.

    Raises LabError if a play fails: what is not as announced is never recorded.
    """
    texts: dict[Path, str] = {}
    for scenario in library.scenarios():
        result = stage.play(scenario)
        if result.play.failure:
            why = result.play.failure
            raise LabError(say(f"Nothing was recorded: {why}", f"Nada foi gravado: {why}"))
        texts[library.golden_path(scenario)] = transcript.golden(result.play)
        texts |= psql_scripts.scripts(scenario)
    texts[fencing_table.RECORDED] = fencing_table.examine(stage.conninfo).as_json()
    texts[ablation.RECORDED] = ablation.examine(stage.conninfo).as_json()
    return {path: text for path, text in texts.items() if _text(path) != text} | {path: "" for path in _orphans(texts)}


def show(changed: dict[Path, str], console: Console) -> None:
    """Print what the changes mean, a diff a file."""
    for path, text in changed.items():
        gone = say("no longer made", "não é mais gerado")
        kind = say("new", "novo") if not path.exists() else say("changed", "mudou") if text else gone
        console.print(f"{path.relative_to(paths.ROOT)}: {kind}", style="yellow", highlight=False)
        if path.exists() and text:
            console.print(transcript.difference(_text(path), text), markup=False, highlight=False)


def keep(changed: dict[Path, str]) -> None:
    """Write the changes; a file that is no longer made is removed."""
    for path, text in changed.items():
        if not text:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def observe(target: Target, stage: Stage, console: Console) -> bool:
    """Run everything and write the observations of this server's version under data/observed, with their environment.

    Returns whether every check held; only then is anything written.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    results = [each.run(stage, surprises=True) for each in registry.lessons()]
    console.print(report.summary(results), highlight=False)
    if report.failed(results):
        for result in results:
            console.print(report.checks_table(result), highlight=False)
        return False
    environment = {"started": started, "source": target.source} | _environment(stage)
    for path in observations.keep(results, target.version, environment):
        console.print(f"{path.relative_to(paths.ROOT)} {say('written', 'gravado')}", highlight=False)
    return True


def tell_tour(target: Target, stage: Stage) -> None:
    """Write the tour, in both languages, as the pages show it."""
    for language in ("en", "pt"):
        told = io.StringIO()
        console = Console(file=told, width=200)
        with config.changed(LAB_LANG=language):
            console.print(target.headline(), highlight=False, markup=False)
            Tour(stage, console).tell()
        (paths.OBSERVED / f"tour_{language}.txt").write_text(told.getvalue(), encoding="utf-8")


def _environment(stage: Stage) -> dict[str, object]:
    """What a figure depends on: machine, system, Python, and the server's settings that are not its defaults."""
    with stage.connection() as connection:
        settings = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE source NOT IN ('default', 'override', 'client', 'session')"
            " AND name !~ '(file|director|path|port|listen|socket|application_name|log_)' ORDER BY name"
        ).fetchall()
        row = connection.execute("SELECT version()").fetchone()
    assert row
    return {
        "postgresql": row[0],
        **{f"settings.{name}": setting for name, setting in settings},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _orphans(texts: dict[Path, str]) -> list[Path]:
    kept = [*paths.EXPECTED.glob("*/*.out"), *paths.SQL.glob("*/*.psql")]
    return [path for path in kept if path not in texts]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
