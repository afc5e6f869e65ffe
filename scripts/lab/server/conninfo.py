"""What the reader's words for a server say: LAB_DSN, or PGHOST and its like; never a password."""

from __future__ import annotations

from typing import Literal

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.base import config
from lab.base.errors import ServerError
from lab.base.language import say

NAMING_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE")
CONNECT_SECONDS = 5

Source = Literal["embedded", "dsn", "environment"]


def describe(conninfo: str) -> str:
    """Where the conninfo leads, in words: server, database and user, never the password."""
    values = _values(conninfo)
    if service := values.get("service"):
        server = say(f"service {service}", f"serviço {service}")
    elif host := values.get("hostaddr") or values.get("host"):
        server = f"{host}:{values.get('port')}"
    else:
        server = say(f"this machine's port {values.get('port')}", f"porta {values.get('port')} desta máquina")
    user = values.get("user") or "?"
    database = values.get("dbname") or user
    return say(
        f"{server}, database {database}, user {user}",
        f"{server}, banco {database}, usuário {user}",
    )


def readable(source: Source, dsn: str) -> str:
    """The DSN with a time limit for connecting, if it can be read and says what its writer meant.

    A password with an unescaped @ or / makes libpq take a part of it for the host, the port or
    the database; such a DSN is refused before any of it could be printed.
    """
    try:
        conninfo = make_conninfo(dsn)
        if "connect_timeout" not in conninfo_to_dict(conninfo):
            conninfo = make_conninfo(conninfo, connect_timeout=CONNECT_SECONDS)
    except psycopg.ProgrammingError:
        raise _unreadable(source) from None
    host, port, database = (_values(conninfo).get(name, "") for name in ("host", "port", "dbname"))
    if "@" in host + port + database or not port.replace(",", "").isdigit():
        raise _unreadable(source)
    return conninfo


def named_by(source: Source) -> str:
    """The variables that name the server in use."""
    if source == "dsn":
        return "LAB_DSN"
    return ", ".join(name for name in NAMING_VARIABLES if config.value(name))


def back_to_own() -> str:
    """What to type so that the lab uses its own server."""
    names = [name for name in ("LAB_DSN", *NAMING_VARIABLES) if config.value(name)]
    return f"unset {' '.join(names)}"


def _unreadable(source: Source) -> ServerError:
    if source == "environment":
        names = named_by(source)
        return ServerError(
            say(
                f"{names} cannot be read as a server's address. Check, or use the lab's own: {back_to_own()}.",
                f"Não dá para ler o endereço de um servidor em {names}. Confira ou use o servidor"
                f" do próprio laboratório: {back_to_own()}.",
            )
        )
    return ServerError(
        say(
            "LAB_DSN cannot be read. It is written postgresql://user:password@host:5432/database,"
            " with @ : / % in a password as %40 %3A %2F %25, or as"
            " host=... port=... dbname=... user=...",
            "Não dá para ler LAB_DSN. Escreve-se postgresql://usuario:senha@host:5432/banco, com"
            " @ : / % da senha como %40 %3A %2F %25, ou como"
            " host=... port=... dbname=... user=...",
        )
    )


def _values(conninfo: str) -> dict[str, str]:
    """What the conninfo says, and the environment where it is silent."""
    defaults = {option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val}
    if service := config.value("PGSERVICE"):
        defaults["service"] = service
    return defaults | {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
