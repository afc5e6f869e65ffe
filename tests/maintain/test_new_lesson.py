"""`lab new` makes a lesson that can be read and played, and that fails until it is written; `lab check` says what it lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.base import config, paths
from lab.base.errors import LabError
from lab.maintain import check, new_lesson
from lab.server import schema

NUMBER, NAME = "98", "made_up"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout of its own, with the new lesson in it."""
    root = tmp_path / "lab"
    ignored = shutil.ignore_patterns(".git", ".lab", "__pycache__", ".*_cache", ".hypothesis", "images")
    shutil.copytree(paths.ROOT, root, ignore=ignored)
    made = _python(root, "-m", "lab", "new", NUMBER, NAME)
    assert made.returncode == 0, made.stderr
    return root


def test_a_new_lesson_lacks_what_is_to_be_written(copy: Path) -> None:
    told = _python(copy, "-m", "lab", "check", NUMBER)
    assert told.returncode == 1
    for lacking in (
        "scripts/98_made_up.py still says TO WRITE",
        "sql/98_made_up/98_first.sql still says TO WRITE",
        "data/expected/98_made_up/98_first.out is missing: ./lab record 98",
        "walk/98_first/a.psql is out of step: ./lab generate",
        "README.md is out of step: ./lab generate",
        "notebooks/98_made_up.ipynb is missing or out of step",
        "notebooks/pt/98_made_up.ipynb is missing or out of step",
        "data/observed/98_made_up.csv says nothing of 98.first",
    ):
        assert lacking in told.stdout


def test_a_new_lesson_needs_no_upgrade_and_fails_until_it_is_written(copy: Path, database: str) -> None:
    state = _python(copy, "-c", "from lab.server import schema; print(schema.latest())")
    assert state.stdout.strip() == str(schema.latest())
    run = _python(copy, "-m", "lab", "run", NUMBER, LAB_DSN=database)
    assert run.returncode == 1 and "Checks passed: 0 of 1" in run.stdout


def test_an_english_line_without_its_portuguese_one_is_found(copy: Path) -> None:
    scenario = copy / "sql" / "98_made_up" / "98_first.sql"
    text = scenario.read_text(encoding="utf-8")
    scenario.write_text(text.replace("-- @pt TO WRITE: a pergunta a quem lê?\n", ""), encoding="utf-8")
    told = _python(copy, "-m", "lab", "check", NUMBER)
    assert "sql/98_made_up/98_first.sql has 3 English lines for the reader and 2 @pt lines." in told.stdout


@pytest.mark.parametrize(("number", "name"), [("02", "trial"), ("97", "token"), ("9", "trial"), ("97", "Trial")])
def test_a_number_or_a_name_that_does_not_fit_writes_nothing(number: str, name: str) -> None:
    before = {path for path in paths.ROOT.glob("scripts/*.py")}
    with pytest.raises(LabError):
        new_lesson.make(number, name)
    assert {path for path in paths.ROOT.glob("scripts/*.py")} == before


@pytest.mark.parametrize("name", ["01_queue", "10_operators"])
def test_of_a_lesson_that_stands_nothing_is_missing(name: str) -> None:
    assert check.findings(name) == []


def _python(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=config.for_process(PYTHONPATH=str(root / "scripts"), COLUMNS="200", **environment),
        capture_output=True,
        text=True,
        check=False,
    )
