"""The protocol: what lessons changed in it, take it home, check the permissions around it."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lab.base.language import say
from lab.cli.common import none_of, use_server

if TYPE_CHECKING:
    from lab.protocol.grants import Duty


DIFF_STYLES = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}


def diff(
    name: Annotated[
        str,
        typer.Argument(
            metavar=say("FUNCTION", "FUNÇÃO"),
            help=say("A function or view of the protocol: reservar.", "Uma função ou visão do protocolo: reservar."),
        ),
    ],
    since: Annotated[
        str, typer.Argument(metavar=say("FROM", "DE"), help=say("The lesson before: 06.", "A lição anterior: 06."))
    ],
    until: Annotated[
        str,
        typer.Argument(
            metavar=say("TO", "ATÉ"), help=say("The last lesson shown: 09.", "A última lição mostrada: 09.")
        ),
    ],
) -> None:
    """Show what lessons changed in a function of the protocol: ./lab diff reservar 06 09 is what 07 to 09 made of it.

    @pt Mostra o que as lições mudaram numa função do protocolo: ./lab diff reservar 06 09 é o que as lições 07 a 09 fizeram dela.
    """
    from lab.protocol import source

    console = Console()
    changed = source.difference(name, since, until)
    for line in changed.splitlines():
        style = next((style for beginning, style in DIFF_STYLES.items() if line.startswith(beginning)), "")
        console.print(Text(line, style), soft_wrap=True)
    if not changed:
        console.print(say(f"{name} did not change.", f"{name} não mudou."))


def protocol(
    names: Annotated[
        str,
        typer.Option(metavar="pt|en", help=say("Language of the names in the database.", "Língua dos nomes no banco.")),
    ] = "pt",
    schema_: Annotated[
        str | None,
        typer.Option(
            "--schema",
            help=say("Where to install it (fila, or queue in English).", "Onde instalar (fila ou, em inglês, queue)."),
        ),
    ] = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            metavar=say("ROLE", "PAPEL"),
            help=say(
                "Who works; may be repeated, as all of these.",
                "Quem trabalha; pode se repetir, como os três seguintes.",
            ),
        ),
    ] = None,
    reader: Annotated[
        list[str] | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who only looks.", "Quem só olha."))
    ] = None,
    operator: Annotated[
        list[str] | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who steps in.", "Quem intervém."))
    ] = None,
    application: Annotated[
        list[str] | None,
        typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who brings documents.", "Quem traz documentos.")),
    ] = None,
) -> None:
    """Print the protocol to take home: one SQL file that installs it; ./lab protocol > protocol.sql.

    ./lab check-permissions --schema NAME --worker ROLE … then tells whether every account may do its part there.

    @pt Imprime o protocolo para levar para casa: um só arquivo SQL que o instala; ./lab protocol > protocol.sql.

    Depois, ./lab check-permissions --schema NOME --worker PAPEL … diz se cada conta pode fazer ali a sua parte.
    """
    from lab.protocol import take_home

    if names not in take_home.SCHEMAS:
        raise typer.BadParameter(none_of(f"--names {names}", take_home.SCHEMAS))
    roles = {"worker": worker, "reader": reader, "operator": operator, "application": application}
    chosen = {kind: given or [] for kind, given in roles.items()}
    sys.stdout.write(take_home.protocol(names, schema_ or take_home.SCHEMAS[names], chosen))


def check_permissions(
    application: Annotated[
        str | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who enqueues.", "Quem enfileira."))
    ] = None,
    worker: Annotated[
        str | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who works.", "Quem trabalha."))
    ] = None,
    operator: Annotated[
        str | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who steps in.", "Quem intervém."))
    ] = None,
    reader: Annotated[
        str | None, typer.Option(metavar=say("ROLE", "PAPEL"), help=say("Who looks.", "Quem olha."))
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            help=say(
                "Connect so, as the service account itself; with a passfile or service=, never a password here.",
                "Conecta assim, com a própria conta de serviço; com passfile ou service=, nunca uma senha aqui.",
            )
        ),
    ] = None,
    schema_: Annotated[
        str | None,
        typer.Option(
            "--schema",
            help=say(
                "Where the queue is: the lab's own, or one that ./lab protocol installed.",
                "Onde está a fila: a do laboratório ou uma que ./lab protocol instalou.",
            ),
        ),
    ] = None,
) -> None:
    """Run the whole protocol as the service accounts, undo it, and name each grant that is missing (from lesson 10 on).

    Without a role: the lab's own four. With some: only those, and the rest of it as the connection's own user.

    @pt Executa o protocolo inteiro com as contas de serviço, desfaz tudo e aponta cada permissão que falta (a partir da lição 10).

    Sem nenhum papel: os quatro do laboratório. Com alguns: só esses, e o resto com o usuário da conexão.
    """
    from lab.protocol import permissions
    from lab.server.session import SCHEMA, SessionPins

    given: dict[Duty, str | None] = {
        "application": application,
        "worker": worker,
        "operator": operator,
        "reader": reader,
    }
    roles = {duty: role for duty, role in given.items() if role}
    if (dsn is not None or schema_ is not None) and not roles:
        with_ = "--dsn" if dsn is not None else "--schema"
        raise typer.BadParameter(
            say(
                f"With {with_}, say what the account is for, as in --worker ROLE.",
                f"Com {with_}, diga para que serve a conta, como em --worker PAPEL.",
            )
        )
    console = Console()
    with ExitStack() as last:
        conninfo = dsn if dsn is not None else last.enter_context(use_server(console)).conninfo
        connection = last.enter_context(SessionPins().psycopg_connection(conninfo, "lab/permissions"))
        checked = permissions.check(connection, roles or None, schema=schema_ or SCHEMA)
    console.print(permissions.table(checked), highlight=False)
    console.print(permissions.summary(checked), style="bold" if checked.good else "bold red", highlight=False)
    raise typer.Exit(0 if checked.good else 1)
