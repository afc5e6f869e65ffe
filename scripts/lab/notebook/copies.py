"""The reader's copies of the notebooks, in the private folder, so that saving never touches the checkout; and what was seen in them.

`notebooks/` of the private folder holds a folder for each language, with the copies, without outputs, and an index; and the
folder `checks`, with a file for each check that was run in a copy: whether it held.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from lab.base import paths
from lab.base.language import portuguese, say
from lab.lessons import registry
from lab.lessons.lesson import Lesson

INDEX = "index.ipynb"
CHECKOUT = paths.ROOT / "notebooks"
HELD, FAILED = "held", "failed"


def folder() -> Path:
    """Where the copies of the reader's language lie."""
    return _home() / ("pt" if portuguese() else "en")


def committed() -> list[Path]:
    """The notebooks of the reader's language in the checkout, in the order of their numbers."""
    return sorted((CHECKOUT / "pt" if portuguese() else CHECKOUT).glob("[0-9][0-9]_*.ipynb"))


def prepare(fresh: bool = False) -> Path:
    """Copy the notebooks that the reader has no copy of, and write the index; returns its path.

    `fresh` is whether all are copied again, and what was seen is forgotten.
    """
    if fresh:
        shutil.rmtree(folder(), ignore_errors=True)
        shutil.rmtree(_checks(), ignore_errors=True)
    folder().mkdir(parents=True, exist_ok=True)
    for original in committed():
        copy = folder() / original.name
        if not copy.exists():
            _copy(original, copy)
    index = folder() / INDEX
    _write(index, _index())
    return index


def note(check: str, held: bool | None) -> None:
    """Keep whether a check held, by its id, if it was run in a copy; one that could not be decided counts for nothing."""
    if held is None or not Path.cwd().is_relative_to(_home()):
        return
    _checks().mkdir(parents=True, exist_ok=True)
    (_checks() / check).write_text(HELD if held else FAILED, encoding="utf-8")


def table() -> str:
    """The lessons, in Markdown: how many of each one's checks were run in a copy, and whether they held."""
    head = say("| lesson | question | checks run |", "| lição | pergunta | verificações rodadas |")
    return "\n".join([head, "|:--|:--|:--|", *map(_row, registry.lessons())])


def _row(lesson: Lesson) -> str:
    seen = [_seen(check.id) for check in lesson.checks]
    run = sum(each is not None for each in seen)
    told = [say(f"{run} of {len(seen)}", f"{run} de {len(seen)}")] if run else []
    if failed := seen.count(FAILED):
        disagree = "não confere" if failed == 1 else "não conferem"
        told.append(say(f"**{failed} did not hold**", f"**{failed} {disagree}**"))
    elif run:
        told.append(say("all held", "todas conferem"))
    if _is_older(lesson):
        told.append(
            say(
                "a newer edition is there: `./lab notebook --fresh`",
                "há uma edição mais nova: `./lab notebook --fresh`",
            )
        )
    return f"| [{lesson.name}]({lesson.name}.ipynb) | {lesson.question} | {', '.join(told)} |"


def _seen(check: str) -> str | None:
    file = _checks() / check
    return file.read_text(encoding="utf-8") if file.exists() else None


def _copy(original: Path, copy: Path) -> None:
    """Without outputs: the question comes before the answer."""
    notebook = _read(original)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
    notebook["metadata"]["queue_lab"] = {"edition": _edition(original)}
    _write(copy, notebook)


def _is_older(lesson: Lesson) -> bool:
    """Whether the checkout has another edition of the notebook than the one that was copied."""
    original = next((each for each in committed() if each.stem == lesson.name), None)
    copy = folder() / f"{lesson.name}.ipynb"
    if original is None or not copy.exists():
        return False
    return bool(_read(copy)["metadata"].get("queue_lab", {}).get("edition") != _edition(original))


def _edition(original: Path) -> str:
    sources = json.dumps([cell["source"] for cell in _read(original)["cells"]])
    return hashlib.sha256(sources.encode()).hexdigest()[:12]


def _index() -> dict[str, Any]:
    """The first page: its table as of now, and the cell that brings it up to date."""
    title = say(
        "# The lessons\n\nOpen one. Your copies are private: save what you like; `./lab notebook --fresh` starts over."
        " Run the cell below to see how far you are.",
        "# As lições\n\nAbra uma. As cópias são só suas: salve o que quiser; `./lab notebook --fresh` recomeça."
        " Rode a célula abaixo para ver até onde você chegou.",
    )
    shown = {"output_type": "display_data", "data": {"text/markdown": table()}, "metadata": {}}
    return {
        "cells": [
            {"cell_type": "markdown", "id": "title", "metadata": {}, "source": title},
            {
                "cell_type": "code",
                "id": "progress",
                "metadata": {},
                "execution_count": None,
                "source": "import lab.notebook as nb\n\nnb.progress()",
                "outputs": [shown],
            },
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


# A notebook is JSON; nbformat would take a second of every kernel's start.
def _read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def _write(path: Path, notebook: dict[str, Any]) -> None:
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _checks() -> Path:
    return _home() / "checks"


def _home() -> Path:
    return paths.home() / "notebooks"
