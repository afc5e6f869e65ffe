"""The `lab` command: which commands there are, and how they end.

A command imports what it alone needs: a drill starts dozens of workers, and none of them plays a scenario.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable

import typer
from rich.console import Console
from typer._click.exceptions import UsageError

from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.cli import examine, lessons, maintain, protocol, queue, server, usage
from lab.cli.common import was_interrupted

INTERRUPTED = 130  # the shells' status for a command ended by ^C; Typer returns it too
MAINTAINERS = Text("Maintainers", "Manutenção")
# The commands as --help lists them, under their headings.
COMMANDS: dict[Text, tuple[Callable[..., None], ...]] = {
    Text("Lessons", "Lições"): (lessons.run, lessons.step, lessons.walk, lessons.explore, lessons.notebook),
    Text("A queue at work", "Uma fila em funcionamento"): (
        queue.load,
        queue.worker,
        queue.receiver,
        queue.drill,
        queue.top,
        examine.examine,
        protocol.diff,
        protocol.protocol,
        protocol.check_permissions,
    ),
    Text("The lab's server", "O servidor do laboratório"): (
        server.up,
        server.down,
        server.status,
        server.env,
        server.psql,
        server.doctor,
        maintain.test,
    ),
    MAINTAINERS: (
        maintain.new,
        maintain.check,
        maintain.generate,
        maintain.record,
        maintain.soak,
        maintain.matrix,
        maintain.bench,
    ),
}
# These start another program, and hand their options on to it.
STARTERS = (lessons.notebook, server.psql, maintain.test)


def command_line() -> typer.Typer:
    """The `lab` command with its commands, told in the reader's language."""
    app = typer.Typer(
        cls=usage.Commands,
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": usage.HELP_OPTIONS},
        help=say(
            "The queue lab: see where FOR UPDATE waits, why SKIP LOCKED passes, and what else a queue needs. Alone: the tour.",
            "O laboratório de filas: veja onde o FOR UPDATE espera, por que o SKIP LOCKED passa e do que mais uma fila precisa."
            " Sem comando: a demonstração.",
        ),
    )
    app.callback(invoke_without_command=True)(lessons.tour)
    for heading, commands in COMMANDS.items():
        for command in commands:
            handed_on = {"ignore_unknown_options": True, "help_option_names": []} if command in STARTERS else None
            app.command(
                cls=usage.Command, help=usage.told(command), rich_help_panel=str(heading), context_settings=handed_on
            )(command)
    return app


def main() -> None:
    """Run the command; a LabError is printed without a traceback and ends with status 1, ^C ends with 130."""
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # what it says of a connection that ^C broke is no news
    errors = Console(stderr=True)
    try:
        status = command_line()(standalone_mode=False, prog_name="./lab")
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except BaseException as error:
        if was_interrupted(error):
            status = INTERRUPTED
        elif isinstance(error, LabError):
            errors.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
            status = 1
        elif isinstance(error, UsageError):
            usage.show(error)
            status = error.exit_code
        elif _ended_by_the_server(error):
            text = say("The server ended it", "O servidor encerrou")
            errors.print(f"{text}: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
            status = 1
        else:
            raise
    if status == INTERRUPTED:
        errors.print(say("Stopped; nothing of it is left behind.", "Interrompido; nada dele ficou para trás."))
    sys.exit(status if isinstance(status, int) else 0)


def _ended_by_the_server(error: BaseException) -> bool:
    import psycopg

    return isinstance(error, psycopg.OperationalError)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
