"""README.md and LEIAME.md say what the lab does: made parts are in step, and what they name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from lab.base import paths
from lab.cli.app import app
from lab.lessons import registry
from lab.scenario import library

PAGES = [paths.ROOT / "README.md", paths.ROOT / "LEIAME.md"]
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def test_made_parts_are_in_step() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", *map(str, PAGES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nmake pages"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_named_exists(page: Path) -> None:
    named = set(re.findall(r"\./lab ([a-z][a-z-]*)", page.read_text(encoding="utf-8")))
    assert named and named <= set(COMMANDS)


def test_every_command_for_readers_is_named_in_the_readme() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    readers = [name for name, command in COMMANDS.items() if command.rich_help_panel != "Maintainers"]
    assert [name for name in readers if f"`{name}`" not in text and f"./lab {name}" not in text] == []


def test_every_claim_named_in_the_readme_exists() -> None:
    claims = {claim.id for each in registry.lessons() for claim in each.checks}
    named = set(re.findall(r"\b\d\d\.[a-z]\w+", PAGES[0].read_text(encoding="utf-8")))
    assert len(named) > 10 and named <= claims


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_scenario_and_file_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    scenarios = set(re.findall(r"\./lab (?:step|walk) ((?:\d\d_\w+ ?)+)", text))
    for name in " ".join(scenarios).split():
        assert library.find_scenario(name).name == name
    files = [file for file in re.findall(r"(?:sql|notebooks|data)/[\w./]+\.\w+", text) if "NN" not in file]
    assert files and [file for file in files if not (paths.ROOT / file).exists()] == []


def test_every_sqlstate_explained_is_one_that_the_lab_shows() -> None:
    explained = set(re.findall(r"^\| ([0-9A-Z]{5}) \|", PAGES[1].read_text(encoding="utf-8"), re.MULTILINE))
    transcripts = "".join(path.read_text(encoding="utf-8") for path in paths.EXPECTED.glob("*/*.out"))
    assert explained and explained <= set(re.findall(r"ERROR ([0-9A-Z]{5})", transcripts))
