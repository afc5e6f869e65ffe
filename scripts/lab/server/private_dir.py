"""Folders that only their owner can enter, and where the server's folder can lie."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from lab.base import config
from lab.base.errors import ServerError
from lab.base.language import say
from lab.server.os_user import Account

LONGEST_SOCKET_PATH = 103  # bytes: macOS allows 103, Linux 107
LONGEST_SOCKET_NAME = "99/socket/.s.PGSQL.65535"
# libpq and pg_ctl read these characters of a path as something else.
MISREAD_IN_A_PATH = re.compile(r'[,"$`\\\n]')


def server_folder(home: Path) -> Path:
    """Where the lab's own servers live: in home, else in the user's state folder.

    Home will not do if a socket's path would get too long in it, if it cannot hold mode 0700 (a
    Windows drive under WSL) or if it is not writable. The folder returned exists.
    Raises ServerError if the state folder will not do either.
    """
    for folder in (home / "server", state_folder() / _short_hash(home)):
        if fits(folder) and holds_private_mode(folder):
            return folder
    raise ServerError(
        say(
            f"Neither {home} nor {state_folder()} can hold the lab's server: it needs a short path"
            " on a disk with Unix permissions. Set LAB_HOME to such a folder, for example"
            " LAB_HOME=$HOME/queue-lab.",
            f"Nem {home} nem {state_folder()} podem guardar o servidor do laboratório: ele precisa"
            " de um caminho curto num disco com permissões Unix. Aponte LAB_HOME para uma pasta"
            " assim, por exemplo LAB_HOME=$HOME/queue-lab.",
        )
    )


def state_folder() -> Path:
    """The folder in which programs keep their state for this user."""
    chosen = config.value("XDG_STATE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".local" / "state") / "queue-lab"


def fits(folder: Path) -> bool:
    """Whether a socket in the folder can be named to PostgreSQL's programs."""
    longest = os.fsencode(folder / LONGEST_SOCKET_NAME)
    return len(longest) <= LONGEST_SOCKET_PATH and not MISREAD_IN_A_PATH.search(str(folder))


def holds_private_mode(folder: Path) -> bool:
    """Whether a folder made in this one (which is made if need be) is closed to other users."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="probe", dir=folder) as probe:
            return Path(probe).stat().st_mode & 0o777 == 0o700
    except OSError:
        return False


def make_private(folder: Path, account: Account | None) -> None:
    """Make the folder, if it is not there, for its owner only: the account, if one is given."""
    if folder.is_dir():
        return
    folder.mkdir(mode=0o700)
    if account:
        account.own(folder)


def _short_hash(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
