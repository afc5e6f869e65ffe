"""`lab generate`: the files that are written from others, without a server: scripts for two terminals, numbered SQL, pages."""

from __future__ import annotations

import io
from itertools import zip_longest
from pathlib import Path

from cogapp import Cog  # type: ignore[import-untyped]
from cogapp.errors import CogError  # type: ignore[import-untyped]

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons import registry
from lab.protocol import source, without
from lab.scenario import grammar, library, psql_scripts
from lab.scenario.grammar import Scenario
from lab.scenario.psql_scripts import Frame


def texts(lesson: int | None = None) -> dict[Path, str]:
    """Every generated file with the text that it is to have; a change of the protocol's source is that lesson's, if one is named."""
    made = {psql_scripts.PINS: psql_scripts.pins()}
    for scenario, frame in told():
        made |= psql_scripts.scripts(scenario, frame)
    made[paths.SQL / "without.sql"] = without.text()
    return made | source.texts(lesson) | {page: _page(page) for page in pages()}


def told() -> list[tuple[Scenario, Frame]]:
    """Every scenario with what stands around it, in the order in which the lessons tell them."""
    lessons = [
        (grammar.read(path), lesson)
        for lesson in registry.lessons()
        for check in lesson.checks
        if (path := library.scenario_path(lesson.name, check.case)).exists()
    ]
    following = [scenario.name for scenario, _ in lessons[1:]]
    return [(scenario, Frame(lesson.question, name)) for (scenario, lesson), name in zip_longest(lessons, following)]


def pages() -> list[Path]:
    """The pages that hold made parts."""
    there = [*paths.ROOT.glob("*.md"), *paths.ROOT.glob("docs/**/*.md")]
    return sorted(page for page in there if "[[[cog" in page.read_text(encoding="utf-8"))


def changes(lesson: int | None = None) -> dict[Path, str]:
    """What is out of step: each file with its new text, which is empty for one that is no longer made; `lesson` as in `texts`."""
    made = texts(lesson)
    gone = {path: "" for path in paths.WALK.rglob("*/*.psql") if path not in made}
    return {path: text for path, text in made.items() if kept(path) != text} | gone


def write(changed: dict[Path, str]) -> None:
    """Write the changes; a file that is no longer made is removed, and the folder that it leaves empty."""
    for path, text in changed.items():
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            continue
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def _page(page: Path) -> str:
    maker = Cog()
    maker.options.verbosity = 0
    out = io.StringIO()
    try:
        maker.process_file(io.StringIO(page.read_text(encoding="utf-8")), out, str(page))
    except CogError as error:
        name = page.relative_to(paths.ROOT)
        raise LabError(
            say(f"A part of {name} could not be made: {error}", f"Uma parte de {name} não pôde ser gerada: {error}")
        ) from error
    return out.getvalue()


def kept(path: Path) -> str:
    """What the file holds; nothing if it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
