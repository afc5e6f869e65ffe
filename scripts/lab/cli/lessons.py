"""The lessons: the tour, run, step, walk, and the notebooks."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.base.facts import decimal
from lab.base.language import say
from lab.cli.common import show_progress, use_server, use_stage


def tour(context: typer.Context) -> None:
    """The tour: the episode's story, in under ten seconds.

    @pt A demonstração: a história do episódio, em menos de dez segundos.
    """
    if context.invoked_subcommand is not None:
        return
    from lab.lessons.tour import Tour

    console = Console()
    with use_server(console) as target, use_stage(target) as stage:
        held = Tour(stage, console).tell()
    raise typer.Exit(0 if held else 1)


def run(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NN …]",
            help=say(
                "Lessons, as 02 or 01-04, or checks, as 06.truth_table; all if none is named.",
                "Lições, como 02 ou 01-04, ou verificações, como 06.truth_table; sem nenhuma, todas.",
            ),
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help=say("The surprises too.", "As surpresas também."))] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar=say("FILE", "ARQUIVO"),
            help=say("Write the run as JSON; - for the screen.", "Grava o resultado em JSON; - para a tela."),
        ),
    ] = None,
    load: Annotated[
        bool,
        typer.Option(
            "--load",
            help=say(
                "The full form of measurements (13: a million rows); it takes minutes.",
                "A forma completa das medições (13: um milhão de linhas); leva minutos.",
            ),
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", help=say("The summary and what did not hold, only.", "Só o resumo e o que não conferiu.")
        ),
    ] = False,
) -> None:
    """Rebuild the queue, play the lessons, observe, compare with what is expected; non-zero if a check fails.

    @pt Recria a fila, roda as lições, observa e compara com o esperado; termina com erro se uma verificação falhar.
    """
    from lab.lessons import registry, report

    chosen = registry.choose(wanted or [], everything)
    to_screen = json_file is not None and str(json_file) == "-"
    console = Console(stderr=to_screen)
    started, clock = datetime.now(UTC), time.monotonic()
    results = []
    if json_file is not None and re.match(r"\d\d?(-\d\d?)?$", str(json_file)):
        raise LabError(
            say(
                f"--json wants a file, and {json_file} is a lesson.",
                f"--json pede um arquivo, e {json_file} é uma lição.",
            )
        )
    if json_file is not None and not to_screen:
        _write_json({}, json_file)  # where it cannot be written, better said now than after the run
    if load and not quiet:
        console.print(_full_form(), highlight=False)
    with use_server(console, quiet) as target, use_stage(target, load) as stage:
        stage.build(1)  # what keeps every lesson from running is said once, here
        for each in chosen:
            with show_progress(console, quiet) as progress:
                results.append(each.lesson.run(stage, only=each.checks, progress=progress))
            if not quiet or report.failed(results[-1:]):
                console.print(report.checks_table(results[-1]), highlight=False)
    console.print(report.summary(results), style="bold red" if report.failed(results) else "bold", highlight=False)
    if json_file is not None:
        server = {"version": target.version, "version_num": target.version_num, "source": target.source}
        run_as_json = report.as_json(results, server, started.isoformat(timespec="seconds"), time.monotonic() - clock)
        _write_json(run_as_json, None if to_screen else json_file)
    raise typer.Exit(1 if report.failed(results) else 0)


def step(
    wanted: Annotated[
        list[str],
        typer.Argument(
            metavar="NN …",
            help=say("Lessons, as 02, or scenarios, as 02_commit.", "Lições, como 02, ou cenários, como 02_commit."),
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help=say("Of a lesson, the surprises too.", "As surpresas da lição também."))
    ] = False,
) -> None:
    """Play a lesson Enter by Enter, for a room: the question first, what was observed last.

    @pt Roda uma lição a cada Enter, para uma turma: a pergunta primeiro, o que foi observado por último.
    """
    from lab.lessons import registry
    from lab.lessons.stepper import Stepper

    scenarios = registry.told(wanted, everything)
    console = Console()
    with use_server(console) as target, use_stage(target) as stage:
        held = Stepper(stage, console).tell(scenarios)
    raise typer.Exit(0 if held else 1)


def walk(
    wanted: Annotated[
        list[str],
        typer.Argument(
            metavar="NN …",
            help=say("Lessons, as 02, or scenarios, as 02_commit.", "Lições, como 02, ou cenários, como 02_commit."),
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help=say("Of a lesson, the surprises too.", "As surpresas da lição também."))
    ] = False,
) -> None:
    """Say what to type in which terminal, to walk a lesson by hand with psql.

    @pt Diz o que digitar em cada terminal, para fazer uma lição à mão com o psql.
    """
    from lab.lessons import registry
    from lab.scenario import psql_scripts

    console = Console()
    watch = os.path.relpath(paths.SQL / "watch.sql")
    lines = [
        say(
            'In each terminal first, for the lab\'s own server:  eval "$(./lab env)"',
            'Primeiro, em cada terminal, para o servidor do laboratório:  eval "$(./lab env)"',
        ),
        say(
            f"In one more, to watch who waits for whom:          psql -X -f {watch}",
            f"Em mais um, para ver quem espera por quem:                   psql -X -f {watch}",
        ),
    ]
    lines += [
        "",
        *(
            psql_scripts.walk(told.scenario, registry.find(told.scenario.lesson).question) + "\n"
            for told in registry.told(wanted, everything)
        ),
    ]
    console.print("\n".join(lines).rstrip(), highlight=False, markup=False, soft_wrap=True)


def explore(
    case: Annotated[
        str,
        typer.Argument(
            metavar="NN_case",
            help=say("A scenario, as 04_claim, or a file.", "Um cenário, como 04_claim, ou um arquivo."),
        ),
    ],
    most: Annotated[
        int,
        typer.Option(
            min=1,
            help=say(
                "Try so many orders; of more, a random sample.", "Tenta tantas ordens; se houver mais, uma amostra."
            ),
        ),
    ] = 1000,
    seed: Annotated[
        int, typer.Option(help=say("Draws the same sample again.", "Sorteia de novo a mesma amostra."))
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar=say("DIR", "PASTA"),
            help=say(
                "Write the shortest breaking order of each invariant there, as a scenario.",
                "Grava ali, como cenário, a ordem mais curta que viola cada invariante.",
            ),
        ),
    ] = None,
) -> None:
    """Play a scenario in every order of its sessions' steps; non-zero if an order breaks an invariant.

    @pt Roda um cenário em todas as ordens dos passos das sessões; termina com erro se uma ordem violar um invariante.
    """
    from lab.scenario import explore as explorer
    from lab.scenario import grammar, library

    told = grammar.read(Path(case)) if case.endswith(".sql") else library.find_scenario(case)
    console = Console()
    with use_server(console) as target:
        if not target.superuser:
            raise LabError(
                say(
                    "explore puts rows back as a superuser, which this server's user is not."
                    " Without LAB_DSN and PGHOST it uses the lab's own server.",
                    "O explore devolve as linhas como superusuário, e o usuário deste servidor não é."
                    " Sem LAB_DSN e PGHOST, ele usa o servidor do laboratório.",
                )
            )
        with target.database("explore") as conninfo:
            found = explorer.explore(told, conninfo, most=most, seed=seed)
    console.print(explorer.report(found), highlight=False, markup=False, soft_wrap=True)
    for file in explorer.write(found, out) if out is not None else []:
        console.print(say(f"written: {file}", f"gravado: {file}"), highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if any(found.breaking(each.name) for each in told.invariants) else 0)


def notebook(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar=say("[JUPYTER OPTIONS …]", "[OPÇÕES DO JUPYTER …]"))
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help=say(
                "Copy the notebooks again; what you changed in them is lost.",
                "Copia os notebooks de novo; o que você mudou neles se perde.",
            ),
        ),
    ] = False,
) -> None:
    """Open your own copy of the notebooks in Jupyter.

    @pt Abre a sua cópia dos notebooks no Jupyter.
    """
    from lab.notebook import copies, jupyter

    jupyter.serve(copies.prepare(fresh), arguments or [])


def _full_form() -> str:
    """What the full form will take, said beforehand."""
    from lab.experiments.index_forms import BYTES_A_ROW, FULL

    millions, disk = FULL // 1_000_000, 2 * FULL * BYTES_A_ROW / 1e9
    return say(
        f"Full form: lesson 13 fills a table of {FULL:,} rows for each check: up to {disk:.1f} GB of disk, some three minutes in all.",
        f"Forma completa: a lição 13 enche uma tabela de {millions} milhão de linhas para cada verificação: até"
        f" {decimal(disk, 1)} GB de disco, uns três minutos ao todo.",
    )


def _write_json(run: dict[str, Any], file: Path | None) -> None:
    text = json.dumps(run, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(
            say(
                f"The JSON cannot be written to {file}: {error.strerror}. Name another file.",
                f"Não dá para gravar o JSON em {file}: {error.strerror}. Indique outro arquivo.",
            )
        ) from error
