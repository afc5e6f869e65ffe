"""For maintainers: tests, recording, every server version, benchmarks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.cli.common import confirm, none_of, use_server, use_stage

OWN_TIMES = "lab"  # the part of the benchmark that measures the lab itself


def test(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar=say("[PYTEST OPTIONS …]", "[OPÇÕES DO PYTEST …]"))
    ] = None,
) -> None:
    """Run the tests.

    @pt Roda os testes.
    """
    os.chdir(paths.ROOT)
    shared_out = ["-n", "auto", "--dist", "worksteal"]
    # In this process's place, so that ^C reaches the tests, which stop their servers.
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *shared_out, *(arguments or [])])


def record(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NN …]", help=say("Lessons, all if none is named.", "Lições; sem nenhuma, todas.")),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=say("Write without asking.", "Grava sem perguntar."))] = False,
) -> None:
    """Run lessons once and keep what was seen: transcripts, tables, observations, the tour, what is generated from them.

    What is asserted and has changed is shown before anything is written.

    @pt Roda as lições uma vez e guarda o que se viu: transcrições, tabelas, observações, a demonstração e o que se gera a partir disso.

    O que é verificado e mudou aparece antes de qualquer gravação.
    """
    from lab.lessons import registry
    from lab.maintain import record as recording

    lessons = [registry.find(word) for word in wanted] if wanted else registry.lessons()

    def agrees() -> bool:
        return yes or confirm(say("Write these?", "Gravar?"))

    console = Console()
    with use_server(console) as target, use_stage(target) as stage:
        written = recording.record(target, stage, lessons, console, agrees)
    raise typer.Exit(0 if written else 1)


def generate(
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help=say(
                "Write nothing; non-zero if a file is out of step.",
                "Não grava nada; termina com erro se um arquivo estiver desatualizado.",
            ),
        ),
    ] = False,
    lesson: Annotated[
        int | None,
        typer.Option(
            metavar="NN",
            help=say(
                "A change of sql/protocol/ is this lesson's, not a fix for all of them.",
                "A mudança em sql/protocol/ é desta lição, e não uma correção para todas.",
            ),
        ),
    ] = None,
) -> None:
    """Write what is made from other files: scripts for two terminals, numbered SQL, pages. No server is needed.

    @pt Grava o que se gera a partir de outros arquivos: scripts para dois terminais, SQL numerado, páginas. Não precisa de servidor.
    """
    from lab.maintain import generate as files

    changed = files.changes(lesson)
    for path, text in changed.items():
        stale = say("out of step", "desatualizado") if check else say("written", "gravado")
        print(f"{path.relative_to(paths.ROOT)}: {stale if text or check else say('removed', 'removido')}")
    if not check:
        files.write(changed)
    raise typer.Exit(1 if check and changed else 0)


def new(
    number: Annotated[
        str,
        typer.Argument(
            metavar="NN", help=say("Two digits; numbers are only appended.", "Dois dígitos; números novos só no fim.")
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar=say("NAME", "NOME"),
            help=say("Lower case, words joined by _.", "Minúsculas, palavras ligadas por _."),
        ),
    ],
) -> None:
    """Make the skeleton of a lesson in both languages, with a check that fails until it is written.

    @pt Cria o esqueleto de uma lição nas duas línguas, com uma verificação que falha até ser escrita.
    """
    from lab.maintain import new_lesson

    for path in new_lesson.make(number, name):
        print(path.relative_to(paths.ROOT))
    print(
        say(
            f"Write where they say {new_lesson.TO_WRITE}; ./lab check {number} tells what is missing.",
            f"Escreva onde estiver {new_lesson.TO_WRITE}; ./lab check {number} diz o que falta.",
        )
    )


def check(
    number: Annotated[str, typer.Argument(metavar="NN", help=say("A lesson, as 02.", "Uma lição, como 02."))],
) -> None:
    """Say what a lesson lacks and what of it is stale; non-zero if anything is.

    @pt Diz o que falta numa lição e o que nela está desatualizado; termina com erro se houver algo.
    """
    from lab.lessons import registry
    from lab.maintain import check as checking

    found = checking.findings(number)
    tests = f"tests/lessons/test_{registry.find(number).name}.py"
    for finding in found:
        print(finding)
    if not found:
        print(
            say(
                f"Nothing is missing; nothing was played. To play it: ./lab run {number} --all; to test it: ./lab test {tests}",
                f"Não falta nada; nada foi executado. Para executar: ./lab run {number} --all; para testar: ./lab test {tests}",
            )
        )
    raise typer.Exit(1 if found else 0)


def soak(
    plays: Annotated[int, typer.Option(min=1, help=say("Plays of each scenario.", "Execuções de cada cenário."))] = 200,
    busy: Annotated[
        bool, typer.Option("--busy", help=say("With every core kept at work.", "Com todos os núcleos ocupados."))
    ] = False,
) -> None:
    """Play every scenario many times; each must give one transcript only.

    @pt Roda cada cenário muitas vezes; cada um tem de dar sempre a mesma transcrição.
    """
    from lab.maintain import repeat

    console = Console()
    with use_server(console) as target, use_stage(target) as stage:
        good = repeat.soak(stage, console, plays, busy)
    raise typer.Exit(0 if good else 1)


def matrix(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar=say("[FOLDER …]", "[PASTA …]"),
            help=say("Folders of server programs.", "Pastas com programas do servidor."),
        ),
    ] = None,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe",
            help=say("Write the observations under data/observed.", "Grava as observações em data/observed."),
        ),
    ] = False,
) -> None:
    """Run every check and the referee on every server version that can be had here.

    @pt Roda cada verificação e o árbitro em cada versão do servidor que se consiga aqui.
    """
    from lab.maintain import versions

    console = Console()
    good = [versions.run(folder, console, observe) for folder in (folders or versions.program_folders(console))]
    raise typer.Exit(0 if all(good) else 1)


def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=say("[PART …]", "[PARTE …]"),
            help=say(
                "All if none is named; a wrong one is answered with all.",
                "Sem nenhuma, todas; uma errada é respondida com a lista.",
            ),
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help=say("How often each is measured.", "Quantas vezes cada uma é medida."))
    ] = 5,
    load: Annotated[
        bool,
        typer.Option(
            "--load",
            help=say(
                "On a given server too: it is loaded to its limit.", "Também num servidor seu: ele vai ao limite."
            ),
        ),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--record", help=say("Write the figures under data/observed.", "Grava os números em data/observed.")
        ),
    ] = False,
) -> None:
    """Measure: the worker against pgbench, what each guarantee costs, a claim among many; lab: the lab's own running times.

    @pt Mede: o worker em relação ao pgbench, o custo de cada garantia, uma reserva entre muitas; lab: os tempos do próprio laboratório.
    """
    from lab.maintain import running_times
    from lab.measure import bench

    known = (*bench.PARTS, OWN_TIMES)
    for part in parts or ():
        if part not in known:
            raise typer.BadParameter(none_of(part, known))
    console = Console()
    chosen = parts or known
    wanted = tuple(part for part in chosen if part != OWN_TIMES)
    if keep and set(wanted) != set(bench.PARTS):
        named = ", ".join(bench.PARTS)
        raise typer.BadParameter(
            say(
                f"--record wants {named}, so that the figures are of one run.",
                f"--record pede {named}, para que os números sejam de uma só execução.",
            )
        )
    with use_server(console) as target:
        if target.embedded is None and wanted:
            _insist_on_load(load)
        if wanted:
            figures = bench.queue(target, console, rounds, wanted)
            if keep:
                bench.RECORDED.write_text(figures.as_json(), encoding="utf-8")
        if OWN_TIMES in chosen:
            with use_stage(target) as stage:
                running_times.measure(stage, console, rounds)


def _insist_on_load(load: bool) -> None:
    if not load:
        raise LabError(
            say(
                "A server of yours is named (LAB_DSN or PG…), and the benchmark loads a server to its limit: add --load if that is"
                " what you want.",
                "Um servidor seu foi indicado (LAB_DSN ou PG…), e o benchmark leva o servidor ao limite: use --load se for isso que"
                " você quer.",
            )
        )
