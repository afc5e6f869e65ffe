"""The sentences for a server that cannot be used: not reached, login refused, too old, without libxml, read-only, no privilege."""

from __future__ import annotations

import re

from lab.base.errors import ServerError
from lab.base.language import say
from lab.server.conninfo import Source, back_to_own, describe, named_by

# What libpq says before the reason why a connection failed.
PREAMBLE = re.compile(r"^(connection (failed|is bad): )?(connection to server .*? failed: )?")


def cannot_enter(source: Source, conninfo: str, error: Exception) -> ServerError:
    """The server that the reader named does not answer, or refuses the login (a wrong password, an unknown user or database)."""
    reason = PREAMBLE.sub("", str(error).strip().splitlines()[0])
    return ServerError(
        say(
            f"The lab cannot get into the server you named ({describe(conninfo)}): {reason}."
            f" Check {named_by(source)}, or use the lab's own: {back_to_own()}.",
            f"O laboratório não consegue entrar no servidor indicado ({describe(conninfo)}):"
            f" {reason}. Confira {named_by(source)} ou use o servidor do próprio laboratório:"
            f" {back_to_own()}.",
        )
    )


def unreachable(error: object) -> ServerError:
    """A session could not connect to a server that was there before."""
    reason = str(error).strip()
    return ServerError(
        say(
            f"A session could not connect: {reason}. `./lab doctor` says what is wrong.",
            f"Uma sessão não conseguiu conectar: {reason}. `./lab doctor` diz o que está errado.",
        )
    )


def too_old(server: str, oldest: int, newest: int) -> ServerError:
    """The server's version is below the oldest that the lab needs."""
    return ServerError(
        say(
            f"The server is {server}, and the lab needs {oldest} to {newest}. Name another one, or"
            f" use the lab's own: {back_to_own()}.",
            f"O servidor é {server}, e o laboratório precisa de {oldest} a {newest}. Indique outro ou"
            f" use o do próprio laboratório: {back_to_own()}.",
        )
    )


def without_libxml() -> ServerError:
    """The server has no working type xml."""
    return ServerError(
        say(
            "This server was built without libxml (--with-libxml), and the lab's documents are"
            f" XML. Name another one, or use the lab's own: {back_to_own()}.",
            "Este servidor foi compilado sem libxml (--with-libxml), e os documentos do"
            " laboratório são XML. Indique outro ou use o do próprio laboratório:"
            f" {back_to_own()}.",
        )
    )


def read_only(database: str) -> ServerError:
    """The database takes no writes."""
    return ServerError(
        say(
            f"Database {database} is read-only (a standby, or default_transaction_read_only),"
            " and the lab makes a schema. Name a server that can be written to.",
            f"O banco {database} é só de leitura (réplica ou default_transaction_read_only),"
            " e o laboratório cria um esquema. Indique um servidor que aceite escrita.",
        )
    )


def may_not_create(database: str, user: str, grant: str) -> ServerError:
    """The user lacks CREATE on the database; `grant` is the statement that gives it."""
    return ServerError(
        say(
            f"The lab makes a schema of its own in database {database}, and {user} may not. Ask the owner for: {grant}",
            f"O laboratório cria um esquema próprio no banco {database}, e {user} não pode. Peça ao dono: {grant}",
        )
    )
