"""Make the notebooks from their texts, notebooks/py/*.py, and run them; draw the README's picture.

A text holds both languages, and each notebook one: notebooks/NN_name.ipynb is in English, notebooks/pt/NN_name.ipynb in Portuguese.
A cell marked `lang="en"` is followed by its twin, marked `lang="pt"`; a cell without a mark is code for both, in which a comment
`# a number | um número` is told in one language.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jupytext  # type: ignore[import-untyped]
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

from lab.base import config, paths
from lab.notebook.variants import play_working
from lab.scenario import ownership_figure
from lab.scenario.library import find_scenario
from lab.scenario.timeline import timeline
from lab.server.target import open_target

NOTEBOOKS = paths.ROOT / "notebooks"
PICTURE = NOTEBOOKS / "images" / "02_for_update_waits.png"
PICTURE_DOTS = 200  # an inch: twice the width of a page, for sharp screens
COLOURS = 128
STYLE = re.compile(
    r"<style scoped>.*?</style>\n?", re.DOTALL
)  # what pandas adds to every table, and Jupyter has by itself
CELL_SECONDS = 180  # a cell takes some seconds; on a busy machine the first one, which imports, up to a minute
LANGUAGES = ("en", "pt")
COMMENT = re.compile(r"(?m)^(.*# )(.+) \| (.+)$")
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


def notebook_of(text: Path, language: str) -> Path:
    """Where the notebook of a text lies, in that language."""
    return (NOTEBOOKS / "pt" if language == "pt" else NOTEBOOKS) / f"{text.stem}.ipynb"


def read(text: Path, language: str) -> NotebookNode:
    """The notebook that a text describes in that language, without outputs."""
    notebook: NotebookNode = jupytext.read(text)
    notebook.metadata = _metadata()
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("lang", language) == language]
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code" and not cell.metadata:
            cell.source = COMMENT.sub(rf"\1\{2 if language == 'en' else 3}", cell.source)
        cell.metadata = NotebookNode()  # type: ignore[no-untyped-call]
        cell.id = f"cell-{number:02}"  # by itself it would be random, and new every time
    return notebook


def is_in_step(text: Path, language: str) -> bool:
    """Whether the notebook of a text is there, was made from it, and was run."""
    path = notebook_of(text, language)
    if not path.exists():
        return False
    kept, told = nbformat.read(path, as_version=4), read(text, language)  # type: ignore[no-untyped-call]
    same = [(cell.cell_type, cell.source) for cell in kept.cells] == [
        (cell.cell_type, cell.source) for cell in told.cells
    ]
    return same and was_run(kept)


def was_run(notebook: NotebookNode) -> bool:
    """Whether the notebook was run to its end: its last code cell, which shows the surprises, has shown something."""
    return bool([cell for cell in notebook.cells if cell.cell_type == "code"][-1].outputs)


async def execute(
    notebooks: Sequence[NotebookNode], at_once: int, done: Callable[[NotebookNode], None] = lambda _: None
) -> None:
    """Run notebooks from top to bottom, so many at a time, each in a new kernel of this Python; their outputs are put in.

    `done` is called with each one that was run.
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
            _keep_what_is_seen(notebook)
            done(notebook)

    await asyncio.gather(*map(one, notebooks))


def _keep_what_is_seen(notebook: NotebookNode) -> None:
    """Take out what the kernel has added and no reader sees, so that the checkout stays small: counts, styles, second forms, colours."""
    notebook.metadata = _metadata()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
                data = output.get("data", {})
                if "text/html" in data:
                    data.pop("text/plain", None)
                    data["text/html"] = STYLE.sub("", data["text/html"])
                if "image/png" in data:
                    picture = _with_fewer_colours(base64.b64decode(data["image/png"]))
                    data["image/png"] = base64.b64encode(picture).decode()


def _with_fewer_colours(png: bytes) -> bytes:
    """A picture with a palette of its own: a third of the size, and no difference to be seen."""
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


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
                file = io.BytesIO()
                with config.changed(LAB_LANG=language):
                    ownership_figure.figure(play).savefig(file, dpi=OWNERSHIP_DOTS, metadata={"Software": None})
                path.write_bytes(_with_fewer_colours(file.getvalue()))
                made.append(path)
    return made


def ownership_picture(name: str, language: str) -> Path:
    """Where the picture of a scenario lies, in that language."""
    return PICTURE.parent / ("pt" if language == "pt" else "") / f"{name}.png"


def main() -> None:
    """Make the notebooks whose numbers are given, in both languages (all, and the picture, without any)."""
    config.drop("LAB_LANG")  # a notebook names its own language
    wanted = sys.argv[1:]
    chosen = [text for text in texts() if not wanted or text.name[:2] in wanted]
    # On a server that was given, all would play in the one database that was given.
    at_once = 1 if open_target().embedded is None else 2
    made = [(notebook_of(text, language), read(text, language)) for text in chosen for language in LANGUAGES]

    def keep(notebook: NotebookNode) -> None:
        path = next(path for path, each in made if each is notebook)
        path.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(path.relative_to(paths.ROOT), flush=True)

    asyncio.run(execute([notebook for _, notebook in made], at_once, keep))
    if not wanted:
        draw()
        for picture in (PICTURE, *draw_ownership()):
            print(picture.relative_to(paths.ROOT))


if __name__ == "__main__":
    main()
