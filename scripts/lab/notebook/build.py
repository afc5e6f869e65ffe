"""Make the notebooks from their texts, notebooks/py/*.py, and run them; draw the README's picture."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import jupytext  # type: ignore[import-untyped]
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from lab.base import config, paths
from lab.notebook.variants import play_working
from lab.scenario import ownership_figure
from lab.scenario.library import find_scenario
from lab.scenario.timeline import timeline
from lab.server.target import open_target

NOTEBOOKS = paths.ROOT / "notebooks"
PICTURE = NOTEBOOKS / "images" / "02_for_update_waits.png"
PICTURE_DOTS = 200  # an inch: twice the width of a page, for sharp screens
CELL_SECONDS = 60
# What a notebook says about itself: nothing of the machine it was run on.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# The plays whose picture of ownership stands on a page, one a lesson.
OWNERSHIP = ("05_blanket", "06_late_writes", "07_maximum", "08_by_category", "09_unknown", "10_pause")
OWNERSHIP_DOTS = 150


def texts() -> list[Path]:
    """The notebooks' texts, in the order of their numbers."""
    return sorted((NOTEBOOKS / "py").glob("[0-9][0-9]_*.py"))


def notebook_of(text: Path) -> Path:
    """Where the notebook of a text lies."""
    return NOTEBOOKS / f"{text.stem}.ipynb"


def read(text: Path) -> NotebookNode:
    """The notebook that a text describes, without outputs."""
    notebook: NotebookNode = jupytext.read(text)
    notebook.metadata = _metadata()
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02}"  # by itself it would be random, and new every time
    return notebook


def is_in_step(text: Path) -> bool:
    """Whether the notebook of a text is there, was made from it, and was run."""
    if not notebook_of(text).exists():
        return False
    kept, told = nbformat.read(notebook_of(text), as_version=4), read(text)  # type: ignore[no-untyped-call]
    same = [(cell.cell_type, cell.source) for cell in kept.cells] == [
        (cell.cell_type, cell.source) for cell in told.cells
    ]
    return same and all(cell.execution_count for cell in kept.cells if cell.cell_type == "code")


async def execute(notebooks: list[NotebookNode], at_once: int) -> None:
    """Run notebooks from top to bottom, so many at a time, each in a new kernel of this Python; their outputs are put in.

    Raises nbclient.exceptions.CellExecutionError if a cell fails.
    """
    turn = asyncio.Semaphore(at_once)

    async def one(notebook: NotebookNode) -> None:
        async with turn:
            # No folders of kernels: an installed kernel called python3 is not this Python.
            kernels = KernelSpecManager(kernel_dirs=[])
            manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels)
            client = NotebookClient(
                notebook,
                km=manager,
                timeout=CELL_SECONDS,
                record_timing=False,
                extra_arguments=["--log-level=ERROR"],  # it would warn that it listens on this machine
            )
            environment = config.for_lab_process()
            # A kernel whose manager it was given would be left running.
            await client.async_execute(cleanup_kc=True, env=environment, cwd=str(NOTEBOOKS))
            notebook.metadata = _metadata()  # the kernel has added its own

    await asyncio.gather(*map(one, notebooks))


def _metadata() -> NotebookNode:
    return NotebookNode(METADATA)  # type: ignore[no-untyped-call]


def draw() -> None:
    """Draw the README's picture from two plays: waiting above, passing below."""
    with open_target().database("picture") as conninfo:
        waits = play_working(find_scenario("02_lock_timeout"), conninfo, {})
        passes = play_working(find_scenario("03_passes"), conninfo, {"b_ends": 1.0, "a_ends": 2.0})
    figure = timeline(
        waits,
        passes,
        titles=(
            "FOR UPDATE: B waits for document 1, and gets none of the other three",
            "FOR UPDATE SKIP LOCKED: B takes the next one at once",
        ),
        note="As observed on a real server. Below, A and B work 2 s and 1 s on their documents (simulated) before they commit.",
    )
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=PICTURE_DOTS, metadata={"Software": None})


def draw_ownership() -> list[Path]:
    """Draw who owned what in one play of each lesson from 05 on, in both languages; returns the files."""
    made = []
    with open_target().database("picture") as conninfo:
        for name in OWNERSHIP:
            play = play_working(find_scenario(name), conninfo, {})
            for language in ("en", "pt"):
                path = ownership_picture(name, language)
                path.parent.mkdir(parents=True, exist_ok=True)
                with config.changed(LAB_LANG=language):
                    ownership_figure.figure(play).savefig(path, dpi=OWNERSHIP_DOTS, metadata={"Software": None})
                made.append(path)
    return made


def ownership_picture(name: str, language: str) -> Path:
    """Where the picture of a scenario lies, in that language."""
    return PICTURE.parent / ("pt" if language == "pt" else "") / f"{name}.png"


def main() -> None:
    """Make the notebooks whose numbers are given (all, and the picture, without any)."""
    config.drop("LAB_LANG")  # both languages stand in the notebooks
    wanted = sys.argv[1:]
    chosen = [text for text in texts() if not wanted or text.name[:2] in wanted]
    # On a server that was given, all would play in the one database that was given.
    at_once = 1 if open_target().embedded is None else 2
    made = [read(text) for text in chosen]
    asyncio.run(execute(made, at_once))
    for text, notebook in zip(chosen, made, strict=True):
        nbformat.write(notebook, notebook_of(text))  # type: ignore[no-untyped-call]
        print(notebook_of(text).relative_to(paths.ROOT))
    if not wanted:
        draw()
        for picture in (PICTURE, *draw_ownership()):
            print(picture.relative_to(paths.ROOT))


if __name__ == "__main__":
    main()
