"""The house: a room of scripts/lab imports only from the rooms below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base import paths

LAB = paths.ROOT / "scripts" / "lab"
# From the ground up. A new room gets its place here, above all that it imports.
ROOMS = (
    "base",
    "server",
    "scenario",
    "protocol",
    "receiver",
    "worker",
    "drills",
    "measure",
    "experiments",
    "examine",
    "lessons",
    "notebook",
    "maintain",
    "cli",
)
MODULES = sorted(path for path in LAB.glob("*/*.py"))


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The modules of the lab that a module imports, wherever in it, as room and module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides the room"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("lab."):
                _, room, module, *_ = [*name.split("."), ""]
                yield room, module


def test_every_module_lies_in_a_room() -> None:
    assert {path.name for path in LAB.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert {path.name for path in LAB.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_module_imports_only_from_its_own_room_and_from_those_below(path: Path) -> None:
    above = set(ROOMS[ROOMS.index(path.parent.name) + 1 :])
    assert [f"{room}.{module}" for room, module in imports(path) if room in above] == []


def test_within_a_room_no_modules_import_each_other() -> None:
    uses = {
        (path.parent.name, path.stem): {(room, module) for room, module in imports(path) if room == path.parent.name}
        for path in MODULES
        if path.stem != "__init__"
    }
    while uses:
        free = {module for module, used in uses.items() if not used & set(uses) - {module}}
        assert free, f"these import each other: {sorted(uses)}"
        for module in free:
            del uses[module]


def test_the_environment_is_read_in_one_place() -> None:
    reads = [
        path.relative_to(LAB).as_posix()
        for path in MODULES
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    ]
    assert reads == ["base/config.py"]
