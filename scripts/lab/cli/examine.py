"""The reader's own queue under the lessons' races."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lab.base.errors import CannotRunHere, PlayError, QueueError
from lab.base.language import say
from lab.cli.common import use_server

CANNOT_TELL = 2


def examine(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar=say("[FILE]", "[ARQUIVO]"), help=say("Your queue as annotated SQL.", "A sua fila em SQL anotado.")
        ),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help=say("Print a file to fill in.", "Imprime um arquivo para preencher."))
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help=say("The verdicts as JSON.", "Os veredictos em JSON."))
    ] = False,
) -> None:
    """Try your own queue in races, each with a verdict; status 1 if one breaks it, 2 if that cannot be told.

    Only on a scratch database of the lab's own server, as an ordinary role.

    @pt Testa a sua própria fila em disputas, cada uma com veredicto; status 1 se falhar em uma, 2 se não der para saber.

    Só num banco descartável do servidor do laboratório, com um papel comum.
    """
    from lab.examine import queue_file, report, scratch, trials
    from lab.examine.catalogue import TRIALS

    if template:
        sys.stdout.write(queue_file.template())
        return
    if file is None:
        raise typer.BadParameter(say("Name a file, or ask for --template.", "Indique um arquivo ou peça --template."))
    errors = Console(stderr=True)
    try:
        queue = queue_file.read(file)
        with use_server(errors, as_json) as target:
            verdicts = []
            for trial in TRIALS:  # each in a database of its own
                with scratch.scratch(target) as conninfo:
                    trials.build(queue, conninfo)
                    verdicts.append(trial(queue, conninfo))
    except (QueueError, PlayError, CannotRunHere) as error:
        errors.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(CANNOT_TELL) from error
    if as_json:
        sys.stdout.write(json.dumps(report.as_json(queue, verdicts), indent=2, ensure_ascii=False) + "\n")
    else:
        Console().print(report.text(queue, verdicts), highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if any(each.word == "BREAKS" for each in verdicts) else 0)
