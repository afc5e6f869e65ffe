"""The notebooks: in step with their texts, fit to be read as they are, and run from top to bottom."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import psycopg
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode

import lab.notebook as nb
from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text
from lab.drills import ablation
from lab.drills.catalogue import DrillOutcome
from lab.drills.invariants import Damage
from lab.lessons.lesson import Check, Lesson, Observed
from lab.lessons.registry import lessons
from lab.notebook import api, build
from lab.notebook.variants import play_working
from lab.scenario.library import find_scenario
from lab.scenario.result import Play
from lab.server.target import Target

TEXTS = build.texts()
PROSE_LINES = 60
CODE_COLUMNS = 97  # what fits without a bar below, in a window of 1000 pixels
WELL = DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 1.0)
each_notebook = pytest.mark.parametrize("text", TEXTS, ids=[text.stem for text in TEXTS])


def test_every_lesson_has_its_notebook() -> None:
    assert [text.stem for text in TEXTS] == [lesson.name for lesson in lessons()]
    assert sorted(build.NOTEBOOKS.glob("*.ipynb")) == [build.notebook_of(text) for text in TEXTS]


@each_notebook
def test_text_and_notebook_are_in_step(text: Path) -> None:
    assert _cells(_committed(text)) == _cells(build.read(text)), "run `make notebooks`"


@each_notebook
def test_the_committed_notebook_was_run_and_says_nothing_of_the_machine(text: Path) -> None:
    notebook = _committed(text)
    assert notebook.metadata == build.METADATA
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in output.get("data", {}) for output in _outputs(notebook))
    assert not [
        output for output in _outputs(notebook) if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert not any(cell.metadata for cell in notebook.cells)
    words = re.sub(r"[A-Za-z0-9+/=\n]{500,}", "", str(_outputs(notebook)))  # without the pictures
    for machine in (str(paths.ROOT), str(Path.home()), "/tmp", "127.0.0.1", "localhost", "lab_notebook_"):
        assert machine not in words


@each_notebook
def test_every_core_claim_of_the_lesson_is_shown(text: Path) -> None:
    written = text.read_text(encoding="utf-8")
    for claim in _lesson(text).checks:
        assert not claim.core or f'"{claim.id}"' in written or f'"{claim.id.replace(".", "_")}"' in written, claim.id
    assert f'nb.surprises("{text.name[:2]}")' in written


@each_notebook
def test_the_prose_is_short(text: Path) -> None:
    cells = [cell for cell in build.read(text).cells if cell.cell_type == "markdown"]
    assert sum(bool(line.strip()) for cell in cells for line in cell.source.splitlines()) < PROSE_LINES


@each_notebook
def test_every_question_asked_wants_a_guess_and_every_guess_is_answered(text: Path) -> None:
    cells = [cell.source for cell in build.read(text).cells if cell.cell_type == "code"]
    assert [cell for cell in cells if "nb.ask(" in cell and "guess = ..." not in cell] == []
    code = "\n".join(cells)
    assert code.count("guess = ...") == code.count("nb.answer(")
    assert code.count("guess = ...  # ") == code.count("guess = ...")  # with what is to be guessed


@each_notebook
def test_every_section_that_shows_a_claim_says_why(text: Path) -> None:
    for section in re.split(r"^# ## ", text.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        if title != "Surprises" and re.search(r"nb\.(claim|observe|facts)\(", section):
            assert "**Why.**" in section, title


@each_notebook
def test_no_line_of_code_scrolls_sideways(text: Path) -> None:
    cells = [cell for cell in build.read(text).cells if cell.cell_type == "code"]
    assert [line for cell in cells for line in cell.source.splitlines() if len(line) > CODE_COLUMNS] == []


@each_notebook
def test_every_label_of_a_picture_has_room(text: Path) -> None:
    assert api.CROWDED not in str(_outputs(_committed(text)))


def test_a_lesson_that_is_pointed_to_exists_or_is_said_to_come() -> None:
    there = {int(lesson.number) for lesson in lessons()}
    texts = [*TEXTS, *paths.ROOT.glob("scripts/[0-9]*.py"), *paths.SQL.glob("**/*.sql")]
    for text in texts:
        words = text.read_text(encoding="utf-8")
        for pointer in re.finditer(r"(?:lessons?|liç(?:ão|ões)|\*\*Next:\*\*) (\d\d)\b(.{0,24})", words):
            assert int(pointer[1]) in there or "to come" in pointer[2] or "por vir" in pointer[2], (
                f"{text}: {pointer[0]}"
            )


@each_notebook
def test_a_wrong_kernel_is_told_in_both_languages_what_to_do(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lab.notebook", None)  # what a Python without the lab meets
    first = next(cell for cell in build.read(text).cells if cell.cell_type == "code")
    with pytest.raises(ImportError) as caught:
        exec(first.source, {})
    assert "Start the notebook with ./lab notebook" in str(caught.value)
    assert "Abra o notebook com ./lab notebook" in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.sample(3)
@each_notebook
def test_the_notebook_runs_from_top_to_bottom_and_tells_what_the_committed_one_tells(
    text: Path, server: Target
) -> None:
    notebook = build.read(text)
    asyncio.run(build.execute([notebook], at_once=1))
    assert _told(notebook) == _told(_committed(text)), "run `make notebooks`"
    seen = "".join(str(output.get("data", {}).get("text/markdown", "")) for output in _outputs(notebook))
    assert "| **no**" not in seen, "a claim did not hold"
    assert not _left_behind(server)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the helpers show, one text a display."""
    texts: list[str] = []
    monkeypatch.setattr(api, "display", lambda data, **_: texts.append(data["text/plain"]))
    return texts


@pytest.mark.parametrize(
    ("guess", "seen", "told"),
    [
        ("padrao/nfe-0001", "padrao/NFE-0001", "**padrao/NFE-0001** (you guessed it"),
        ("R-4711", "padrao/NFE-0001", "**padrao/NFE-0001** (your guess / seu palpite: R-4711)"),
        (..., 4, "**4** (no guess yet"),
        ("3, 4", "3 4", "**3 4** (you guessed it"),
        ("não", "f", "**no** (you guessed it"),
        ("nenhum", None, "**none** (you guessed it"),
    ],
)
def test_what_was_seen_is_shown_as_it_came(guess: object, seen: object, told: str, shown: list[str]) -> None:
    nb.answer(guess, seen)
    assert told in shown[0]


@pytest.fixture
def recovered(queue_database: str) -> Play:
    """A play of the recovery."""
    return play_working(find_scenario("05_recover"), queue_database, {})


def test_a_claim_is_judged_by_the_play_that_was_given(recovered: Play, shown: list[str]) -> None:
    nb.claim("05_recover", recovered)
    assert shown[0].endswith("| yes |")
    recovered.runs["b_finishes"].rows = ()  # B, which was left alone, lost its document after all
    nb.claim("05_recover", recovered)
    assert "| **no**: " in shown[1]


def test_a_claim_of_a_time_is_judged_by_the_time_that_passed(queue_database: str, shown: list[str]) -> None:
    passes = play_working(find_scenario("03_passes"), queue_database, {})
    passes["b_asks"].ended = passes["b_asks"].started + 2  # no transcript tells that
    nb.claim("03_passes", passes)
    assert "| **no**: " in shown[0]


def test_a_play_of_something_else_says_nothing_about_a_claim(recovered: Play) -> None:
    with pytest.raises(LabError, match="A play of 05_recover says nothing about the claim of 05_blanket"):
        nb.claim("05_blanket", recovered)


@pytest.mark.parametrize(
    ("damaged", "verdict"), [(WELL, "| yes |"), (replace(WELL, effects=5, damage=Damage(duplicates=1)), "| **no**: ")]
)
def test_a_claim_is_judged_by_the_drills_that_were_held(damaged: DrillOutcome, verdict: str, shown: list[str]) -> None:
    names = ("kill_before_commit", "kill_after_claim", "kill_before_call", "kill_after_call")
    nb.claim("09.killed_workers", dict.fromkeys(names, WELL) | {"kill_after_call": damaged})
    assert verdict in shown[0]
    with pytest.raises(LabError, match="needs the drill kill_after_call"):
        nb.claim("09.killed_workers", dict.fromkeys(names[:3], WELL))


def test_some_defences_can_refute_the_matrix_and_cannot_prove_it(shown: list[str]) -> None:
    kept = ablation.recorded()
    key = kept.row("key")
    for matrix in (kept, ablation.Matrix((key,)), ablation.Matrix((replace(key, without_it=Damage()),))):
        nb.claim("09.defence_matrix", matrix)
    whole, one, harmless = shown
    assert "| yes |" in whole
    assert f"| not decided: 1 of {len(kept.rows)} defences tried, as recorded |" in one
    assert "| **no**: " in harmless


def test_slow_surprises_are_run_when_asked_for_and_named_when_not(
    monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    ran = []

    def observing(name: str) -> Callable[[object], Observed]:
        def observe(_: object) -> Observed:
            ran.append(name)
            return Observed(True, name, name)

        return observe

    words = Text("words", "palavras")
    lesson = Lesson("09_effects.py", minutes=1, question=words, answer=words, psql_only=words)
    lesson.checks = [
        Check(f"09.{name}", Text(name, name), False, observing(name), slow=name == "slow") for name in ("quick", "slow")
    ]
    monkeypatch.setattr("lab.lessons.registry.find", lambda _: lesson)
    monkeypatch.setattr(api, "stage", lambda: None)
    nb.surprises("09")
    assert ran == ["quick"]
    assert 'nb.surprises("09", everything=True)' in shown[-1]
    assert "- slow" in shown[-1]
    nb.surprises("09", everything=True)
    assert ran == ["quick", "quick", "slow"]


def test_nobody_waited_is_no_column(recovered: Play) -> None:
    assert "waited for" not in nb.events(recovered).columns


def test_somebody_waited_is_a_column(queue_database: str) -> None:
    waited = nb.events(play_working(find_scenario("02_commit"), queue_database, {}))
    assert "A" in set(waited["waited for"])


def test_a_cell_that_was_interrupted_leaves_the_notebook_usable(server: Target) -> None:
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    manager.start_kernel(
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts")}, extra_arguments=["--log-level=ERROR"]
    )
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=30)
        assert _run(client, 'import lab.notebook as nb; nb.play("03_passes")') == "ok"
        waiting = client.execute('nb.play("02_rollback", work={"a_gives_up": 15})')
        time.sleep(2)
        manager.interrupt_kernel()
        assert _reply(client, waiting) == {"status": "error", "ename": "KeyboardInterrupt"}
        assert _run(client, 'assert nb.play("03_passes")["b_asks"].value == "2"') == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert not _left_behind(server)


def test_the_picture_of_the_readme_is_there_and_light() -> None:
    assert build.PICTURE.read_bytes().startswith(b"\x89PNG")
    assert build.PICTURE.stat().st_size < 150_000


def _committed(text: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(build.notebook_of(text), as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def _cells(notebook: NotebookNode) -> list[tuple[str, str, str]]:
    return [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells]


def _outputs(notebook: NotebookNode) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def _told(notebook: NotebookNode) -> list[str]:
    """The SQL, questions and claims that the notebook shows: not what was seen, nor where."""
    shown = [output.get("data", {}).get("text/markdown", "") for output in _outputs(notebook)]
    return [text for text in shown if text and not text.startswith(("Seen / visto", "| claim", "*PostgreSQL"))]


def _lesson(text: Path) -> Lesson:
    return next(lesson for lesson in lessons() if lesson.name == text.stem)


def _left_behind(server: Target) -> list[str]:
    """Databases of notebooks whose kernels have ended."""
    with psycopg.connect(server.conninfo) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lab_notebook_%'").fetchall()
    return [name for (name,) in rows]


def _run(client: BlockingKernelClient, code: str) -> str:
    return str(_reply(client, client.execute(code))["status"])


def _reply(client: BlockingKernelClient, message: str) -> dict[str, str]:
    while True:
        reply = client.get_shell_msg(timeout=30)
        if reply["parent_header"].get("msg_id") == message:
            return {key: value for key, value in reply["content"].items() if key in ("status", "ename")}
