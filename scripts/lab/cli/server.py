"""The lab's own server, and what the lab finds on this machine."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer
from rich.console import Console

from lab.base import config
from lab.base.errors import LabError
from lab.base.language import say
from lab.cli.common import use_server


def up() -> None:
    """Start the lab's own server.

    @pt Sobe o servidor do laboratório.
    """
    with use_server(Console()):
        pass


def down() -> None:
    """Stop the lab's own server; its data stay.

    @pt Para o servidor do laboratório; os dados ficam.
    """
    from lab.server.embedded import EmbeddedServer

    stopped = EmbeddedServer().down()
    print(say("Stopped.", "Parado.") if stopped else say("It was not running.", "Não estava no ar."))


def status() -> None:
    """Say which server would be used, and whether it is running; non-zero if it is not.

    @pt Diz qual servidor seria usado e se ele está no ar; termina com erro se não estiver.
    """
    from lab.server.target import open_target

    target = open_target(start=False)
    print(target.headline())


def env() -> None:
    """Print the variables for a plain psql: eval "$(./lab env)" sets them in this terminal, until it is closed.

    @pt Imprime as variáveis para um psql comum: eval "$(./lab env)" vale para este terminal, até ele ser fechado.
    """
    from lab.server.psql import in_the_readers_language

    with use_server(Console(stderr=True), quiet=True) as target:
        if target.embedded is None:
            raise LabError(
                say(
                    "A server of yours is in use (LAB_DSN or PG… is set): psql needs no variables from the lab.",
                    "O servidor em uso é o seu (LAB_DSN ou PG… definido): o psql não precisa de variáveis do laboratório.",
                )
            )
        for name, value in in_the_readers_language(target.embedded.environment()).items():
            print(f"export {name}={shlex.quote(value)}" if value else f"unset {name}")


def psql(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar=say("[PSQL OPTIONS …]", "[OPÇÕES DO PSQL …]"))
    ] = None,
) -> None:
    """Open psql on the lab's database.

    @pt Abre o psql no banco do laboratório.
    """
    from lab.server.binaries import find_psql
    from lab.server.psql import in_the_readers_language, libpq_environment

    with use_server(Console(stderr=True), quiet=True) as target:
        environment = config.for_process(**in_the_readers_language(libpq_environment(target.conninfo)))
    program = str(find_psql())
    os.execve(program, [program, *(arguments or [])], environment)


def doctor() -> None:
    """Say what the lab finds on this machine, and what is wrong.

    @pt Diz o que o laboratório encontra nesta máquina e o que está errado.
    """
    from rich.table import Table

    from lab.server import doctor as diagnosis

    findings = diagnosis.examine()
    table = Table(show_header=False, box=None)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]·[/]"}[finding.good]
        table.add_row(mark, finding.what, finding.found)
    Console().print(table, highlight=False)
    raise typer.Exit(1 if any(finding.good is False for finding in findings) else 0)
