"""The account that the server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import ServerError
from lab.base.language import say

# A checkout inside /root is closed to every other account. This capability opens paths and files,
# and nothing else; it is given only where it is needed. The securebit makes access(2), by which
# initdb looks for postgres, heed it.
PASS_CLOSED_FOLDERS = (
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
    "--securebits=+no_setuid_fixup",
)


@dataclass(frozen=True)
class Account:
    """An unprivileged account that stands in for root."""

    uid: int
    gid: int

    def own(self, path: Path) -> None:
        """Hand the path over to the account."""
        os.chown(path, self.uid, self.gid)

    def command(self, setpriv: str, *options: str) -> list[str]:
        """What to put before a command so that it runs as the account."""
        return [
            setpriv,
            f"--reuid={self.uid}",
            f"--regid={self.gid}",
            "--clear-groups",
            *options,
            "--",
        ]


def stand_in(folder: Path) -> Account | None:
    """The account for a server in the folder; None for an ordinary user, who runs it himself.

    For root: the owner of the folder, if it is there, else `postgres`, else `nobody`.
    """
    if os.geteuid() != 0:
        return None
    if folder.exists() and (owner := folder.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ServerError(
        say(
            "PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to"
            " run it as. Run the lab as an ordinary user.",
            "O PostgreSQL se recusa a rodar como root, e não há conta `postgres` nem `nobody` para"
            " rodá-lo. Rode o laboratório como um usuário comum.",
        )
    )


def command_prefix(account: Account | None, program: Path, folder: Path) -> list[str]:
    """What to put before a server program so that it runs as the account.

    Parameters: the account (None: nothing is put before), the program and the folder it must reach.
    Raises ServerError if setpriv is missing or may not do it.
    """
    if account is None:
        return []
    setpriv = shutil.which("setpriv") or "setpriv"
    for options in ((), PASS_CLOSED_FOLDERS):
        prefix = account.command(setpriv, *options)
        if _reaches(prefix, program, folder):
            return prefix
    raise ServerError(
        say(
            "PostgreSQL refuses to run as root, and `setpriv` (package util-linux), which would run"
            " it as another account, is missing or may not. Install it, or run the lab as an"
            " ordinary user.",
            "O PostgreSQL se recusa a rodar como root, e `setpriv` (pacote util-linux), que o"
            " rodaria com outra conta, falta ou não tem permissão. Instale-o ou rode o laboratório"
            " como um usuário comum.",
        )
    )


def _reaches(prefix: list[str], program: Path, folder: Path) -> bool:
    test = ["sh", "-c", 'test -x "$1" && test -w "$2"', "sh", str(program), str(folder)]
    try:
        return subprocess.run([*prefix, *test], cwd="/", capture_output=True).returncode == 0
    except OSError:
        return False
