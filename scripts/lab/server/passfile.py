"""The server's passfile: the password for connections by TCP, and the record of the port."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass
from pathlib import Path

from lab.base import config
from lab.base.errors import ServerError
from lab.base.language import say
from lab.server.os_user import Account
from lab.server.postmaster import port_is_free

PORTS = range(20000, 30000)  # below the ports that systems hand out by themselves


@dataclass(frozen=True)
class Passfile:
    """A file in the form that libpq reads (PGPASSFILE), with one line: the lab's own server."""

    path: Path

    def port(self) -> int:
        """The port of last time; raises ServerError if there was none."""
        return self._read()[0]

    def password(self) -> str:
        """The password; raises ServerError if there is none yet."""
        return self._read()[1]

    def write(self, port: int, user: str, account: Account | None) -> None:
        """Record the port, and the password of before or a fresh one, for the account only."""
        _, password = self._known() or (port, secrets.token_hex(16))
        fresh = self.path.with_suffix(".tmp")
        fresh.touch(mode=0o600)
        if account:
            account.own(fresh)
        fresh.write_text(f"127.0.0.1:{port}:*:{user}:{password}\n")
        fresh.rename(self.path)

    def choose_port(self) -> int:
        """Choose the port to listen on: LAB_PORT, else the one of last time, else a free one.

        Raises ServerError if LAB_PORT is no port.
        """
        if wanted := config.value("LAB_PORT"):
            return _checked_port(wanted)
        if known := self._known():
            return known[0]
        return next(port for port in random.sample(PORTS, len(PORTS)) if port_is_free(port))

    def _read(self) -> tuple[int, str]:
        if known := self._known():
            return known
        raise ServerError(
            say(
                "The lab's own server has not been started yet: `./lab up`.",
                "O servidor do laboratório ainda não foi iniciado: `./lab up`.",
            )
        )

    def _known(self) -> tuple[int, str] | None:
        """The port and the password; None if the file is missing, or empty after a power cut."""
        try:
            _, port, _, _, password = self.path.read_text().strip().split(":")
            return int(port), password
        except (FileNotFoundError, ValueError):
            return None


def _checked_port(text: str) -> int:
    if text.isascii() and text.isdigit() and 1024 <= int(text) <= 65535:
        return int(text)
    raise ServerError(
        say(
            f"LAB_PORT is {text!r}, but a port is a number from 1024 to 65535.",
            f"LAB_PORT é {text!r}, mas uma porta é um número de 1024 a 65535.",
        )
    )
