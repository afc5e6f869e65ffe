"""The notebooks: in step with their texts, fit to be read as they are, and run from top to bottom."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import psycopg
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode

from lab import make_notebooks, paths
from lab.lesson import Lesson, lessons
from lab.target import Target

TEXTS = make_notebooks.texts()
PROSE_LINES = 60
each_notebook = pytest.mark.parametrize("text", TEXTS, ids=[text.stem for text in TEXTS])


def test_every_lesson_has_its_notebook() -> None:
    assert [text.stem for text in TEXTS] == [lesson.name for lesson in lessons()]
    assert sorted(make_notebooks.NOTEBOOKS.glob("*.ipynb")) == [make_notebooks.notebook_of(text) for text in TEXTS]


@each_notebook
def test_text_and_notebook_are_in_step(text: Path) -> None:
    assert _cells(_committed(text)) == _cells(make_notebooks.read(text)), "run `make notebooks`"


@each_notebook
def test_the_committed_notebook_was_run_and_says_nothing_of_the_machine(text: Path) -> None:
    notebook = _committed(text)
    assert notebook.metadata == make_notebooks.METADATA
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
    for claim in _lesson(text).claims:
        assert not claim.core or f'"{claim.id}"' in written or f'"{claim.id.replace(".", "_")}"' in written, claim.id
    assert f'nb.surprises("{text.name[:2]}")' in written


@each_notebook
def test_the_prose_is_short(text: Path) -> None:
    cells = [cell for cell in make_notebooks.read(text).cells if cell.cell_type == "markdown"]
    assert sum(bool(line.strip()) for cell in cells for line in cell.source.splitlines()) < PROSE_LINES


@each_notebook
def test_a_wrong_kernel_is_told_in_both_languages_what_to_do(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lab.notebook", None)  # what a Python without the lab meets
    first = next(cell for cell in make_notebooks.read(text).cells if cell.cell_type == "code")
    with pytest.raises(ImportError) as caught:
        exec(first.source, {})
    assert "Start the notebook with ./lab notebook" in str(caught.value)
    assert "Abra o notebook com ./lab notebook" in str(caught.value)
    assert caught.value.__suppress_context__


@each_notebook
def test_the_notebook_runs_from_top_to_bottom_and_tells_what_the_committed_one_tells(
    text: Path, server: Target
) -> None:
    notebook = make_notebooks.read(text)
    asyncio.run(make_notebooks.execute([notebook], at_once=1))
    assert _told(notebook) == _told(_committed(text)), "run `make notebooks`"
    seen = "".join(str(output.get("data", {}).get("text/markdown", "")) for output in _outputs(notebook))
    assert "| **no**" not in seen, "a claim did not hold"
    assert not _left_behind(server)


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
    assert make_notebooks.PICTURE.read_bytes().startswith(b"\x89PNG")
    assert make_notebooks.PICTURE.stat().st_size < 150_000


def _committed(text: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(make_notebooks.notebook_of(text), as_version=4)  # type: ignore[no-untyped-call]
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
