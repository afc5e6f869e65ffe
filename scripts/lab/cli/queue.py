"""A queue at work: load it, work on it, receive, drill, watch."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from lab.base import paths
from lab.base.language import say
from lab.cli.common import none_of, use_server

RECEIVER_LEDGER = "receiver.sqlite3"
RECEIVER_PORT = 8090
RECEIVER_URL = f"http://127.0.0.1:{RECEIVER_PORT}"


def load(files: Annotated[list[Path], typer.Argument(metavar=say("FILE …", "ARQUIVO …"))]) -> None:
    """Load XML files into the queue, each on its own; non-zero if any was refused.

    @pt Carrega arquivos XML na fila, um a um; termina com erro se algum for recusado.
    """
    from rich.table import Table

    from lab.protocol import loader
    from lab.server import schema

    console = Console()
    with use_server(console) as target, target.playground() as conninfo:
        if schema.state(conninfo) is None:
            schema.build(conninfo, 1)
            console.print(
                say(
                    "The queue was not there yet: built (sql/01_queue.sql).",
                    "A fila ainda não existia: criada (sql/01_queue.sql).",
                )
            )
        outcomes = loader.load(conninfo, files)
    table = Table()
    for heading in (
        say("file", "arquivo"),
        say("key", "chave"),
        say("loaded", "carregado"),
        say("why not", "por que não"),
    ):
        table.add_column(heading, overflow="fold")
    for outcome in outcomes:
        loaded = f"[green]{say('yes', 'sim')}[/]" if outcome.loaded else f"[red]{say('no', 'não')}[/]"
        table.add_row(outcome.path.name, outcome.key or "", loaded, str(outcome.reason or ""))
    console.print(table, highlight=False)
    console.print(loader.summary(outcomes), style="bold", highlight=False)
    raise typer.Exit(0 if all(outcome.loaded for outcome in outcomes) else 1)


def worker(
    name: Annotated[
        str, typer.Option("--name", help=say("What the queue calls it.", "Como a fila o chama."))
    ] = "worker-a",
    receiver_url: Annotated[
        str,
        typer.Option("--receiver", metavar="URL", help=say("Where the receiver listens.", "Onde o receptor escuta.")),
    ] = RECEIVER_URL,
    batch: Annotated[int, typer.Option(min=1, max=1000, help=say("Documents a claim.", "Documentos por reserva."))] = 1,
    lease: Annotated[float, typer.Option(min=0.1, help=say("Seconds.", "Segundos."))] = 30.0,
    tenant: Annotated[
        str | None, typer.Option(help=say("Only this one's documents.", "Só os documentos deste inquilino."))
    ] = None,
    rest: Annotated[
        float,
        typer.Option(
            min=0.01,
            help=say(
                "Seconds at most between two looks at a receiver that does not answer.",
                "No máximo tantos segundos entre duas tentativas com um receptor que não responde.",
            ),
        ),
    ] = 60.0,
    poll: Annotated[
        float,
        typer.Option(
            min=0.01,
            help=say("Seconds between two looks at an empty queue.", "Segundos entre duas consultas a uma fila vazia."),
        ),
    ] = 1.0,
    beat: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help=say(
                "Seconds between renewals (a third of the lease); 0: none.",
                "Segundos entre renovações (um terço do prazo); 0: nenhuma.",
            ),
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            help=say("Seconds for the receiver's whole answer.", "Segundos para a resposta inteira do receptor."),
        ),
    ] = 10.0,
    irreversible: Annotated[
        bool,
        typer.Option(
            "--irreversible",
            help=say(
                "A result that cannot be found out is for people.",
                "Um resultado que não se consegue descobrir fica para pessoas.",
            ),
        ),
    ] = False,
    receiver_knows: Annotated[
        str,
        typer.Option(
            "--receiver-knows",
            metavar=say("ABILITY", "CAPACIDADE"),
            help=say(
                "How an unknown result is found out (a wrong one is answered with all).",
                "Como se descobre um resultado desconhecido (uma errada é respondida com a lista).",
            ),
        ),
    ] = "both",
    once: Annotated[bool, typer.Option("--once", help=say("One claim.", "Uma só reserva."))] = False,
    until_empty: Annotated[
        bool,
        typer.Option(
            "--until-empty",
            help=say("End when no document is due or put off.", "Termina quando não há documento à espera nem adiado."),
        ),
    ] = False,
    stop_at: Annotated[
        str | None,
        typer.Option(
            metavar=say("POINT", "PONTO"),
            help=say(
                "For drills, stop there (a wrong one is answered with all).",
                "Para ensaios: para ali (um errado é respondido com a lista).",
            ),
        ),
    ] = None,
    pooled: Annotated[
        bool | None,
        typer.Option(
            "--pooled/--not-pooled",
            help=say(
                "A pooler chooses the session of each transaction (otherwise it is looked for).",
                "Um pooler escolhe a sessão de cada transação (senão, o worker procura saber).",
            ),
        ),
    ] = None,
    schema_: Annotated[
        str | None,
        typer.Option(
            "--schema",
            help=say(
                "Where the queue is, if not where the lab makes it.",
                "Onde está a fila, se não for onde o laboratório a cria.",
            ),
        ),
    ] = None,
) -> None:
    """Work on the queue (from lesson 09 on): claim, post to the receiver, write the outcome; a JSON line an event.

    @pt Trabalha na fila (a partir da lição 09): reserva, envia ao receptor, grava o resultado; uma linha de JSON por evento.
    """
    from lab.server.session import SCHEMA
    from lab.server.target import named_server
    from lab.worker import worker as processes
    from lab.worker.handler import PostToReceiver

    if stop_at is not None and stop_at not in processes.STOPS:
        raise typer.BadParameter(none_of(stop_at, processes.STOPS))
    if receiver_knows not in processes.RECEIVERS:
        raise typer.BadParameter(none_of(receiver_knows, processes.RECEIVERS))
    options = processes.Options(
        name=name,
        batch=batch,
        lease=lease,
        tenant=tenant,
        poll=poll,
        beat=beat,
        longest_pause=rest,
        irreversible=irreversible,
        receiver=cast("processes.Knows", receiver_knows),
        rounds=1 if once else None,
        until_empty=until_empty,
        stop_at=cast("processes.StopAt | None", stop_at),
        pooled=pooled,
    )
    work = PostToReceiver(receiver_url, timeout)
    with ExitStack() as last:
        # A server that the reader named may come up after its workers: they wait for it.
        named = named_server()
        conninfo = named[1] if named else last.enter_context(use_server(Console(stderr=True), quiet=True)).conninfo
        processes.run_until_signal(processes.make(conninfo, work, options, schema_ or SCHEMA))


def receiver(
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar=say("FILE", "ARQUIVO"),
            help=say(
                f"Its ledger, an SQLite file (default: {RECEIVER_LEDGER} in the lab's folder; delete it together with the queue).",
                f"O registro, um arquivo SQLite (padrão: {RECEIVER_LEDGER} na pasta do laboratório; apague-o junto com a fila).",
            ),
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help=say("On 127.0.0.1; 0: any free one.", "Em 127.0.0.1; 0: qualquer uma livre.")
        ),
    ] = RECEIVER_PORT,
    without_keys: Annotated[
        bool,
        typer.Option(
            "--without-keys",
            help=say(
                "A defence off: execute a repeated key again.", "Sem uma defesa: executa de novo uma chave repetida."
            ),
        ),
    ] = False,
    behaviour: Annotated[
        str,
        typer.Option(
            metavar="JSON",
            help=say(
                'How it behaves, as {"delay": 1.5}; POST /behaviour changes it.',
                'Como ele se comporta, como {"delay": 1.5}; POST /behaviour muda isso.',
            ),
        ),
    ] = "{}",
) -> None:
    """Receive documents, outside the database: the effects, with a ledger of its own.

    @pt Recebe documentos, fora do banco: os efeitos, com registro próprio.
    """
    from lab.receiver import service

    try:
        wanted = service.Behaviour().changed(json.loads(behaviour))
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            say(f"--behaviour wants JSON: {behaviour}", f"--behaviour pede JSON: {behaviour}")
        ) from error
    except ValueError as error:
        raise typer.BadParameter(f"--behaviour: {error}") from error
    ledger_file = ledger or paths.home() / RECEIVER_LEDGER
    service.serve(ledger_file, port, by_key=not without_keys, behaviour=wanted)


def drill(
    name: Annotated[
        str,
        typer.Argument(
            metavar=say("[NAME]", "[NOME]"),
            help=say(
                "A drill, all, or matrix: each defence taken away once.",
                "Um ensaio, all (todos) ou matrix: cada defesa retirada uma vez.",
            ),
        ),
    ] = "all",
    times: Annotated[int, typer.Option(min=1, help=say("How often in a row.", "Quantas vezes seguidas."))] = 1,
    documents: Annotated[
        int | None,
        typer.Option(
            min=20,
            help=say(
                "Of random_kills. A few hundred, if none is given.", "Do random_kills. Sem nada, algumas centenas."
            ),
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=50,
            help=say(
                "Of random_kills, at a time. A handful, if none is given.",
                "Do random_kills, ao mesmo tempo. Sem nada, uns poucos.",
            ),
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help=say(
                "Of random_kills: which worker is killed when. Any, if none is given.",
                "Do random_kills: qual worker morre e quando. Sem nada, qualquer um.",
            )
        ),
    ] = None,
) -> None:
    """Kill and stop real workers, and count what became of the documents (lesson 09); non-zero if anything went wrong.

    @pt Mata e congela workers de verdade e conta o que foi feito dos documentos (lição 09); termina com erro se algo saiu errado.
    """
    from lab.drills import ablation
    from lab.drills import catalogue as drills
    from lab.drills import report as lab_report
    from lab.drills.random_kills import Size

    size = Size(documents or Size.documents, workers or Size.workers, seed)
    if size.kills >= size.documents:
        raise typer.BadParameter(
            say(
                f"{size.workers} workers want more than {size.documents} documents.",
                f"{size.workers} workers pedem mais de {size.documents} documentos.",
            )
        )
    if size != Size() and name not in ("all", drills.RANDOM_KILLS):
        raise typer.BadParameter(
            say(
                f"--documents, --workers and --seed are of the drill {drills.RANDOM_KILLS}, not of {name}.",
                f"--documents, --workers e --seed são do ensaio {drills.RANDOM_KILLS}, não de {name}.",
            )
        )
    console = Console()
    with use_server(console) as target, target.database("drill") as conninfo:
        if name == "matrix":
            good = lab_report.show_matrix(ablation.examine(conninfo), console)
        else:
            chosen = drills.drills(size) if name == "all" else [drills.find(name, size)]
            good = lab_report.show_drills(chosen, conninfo, console, times)
    raise typer.Exit(0 if good else 1)


def top(
    every: Annotated[
        float, typer.Option(min=0.1, help=say("Seconds between two looks.", "Segundos entre duas consultas."))
    ] = 1.0,
    times: Annotated[
        int | None,
        typer.Option(min=1, help=say("So many looks; without it until ^C.", "Tantas consultas; sem isso, até ^C.")),
    ] = None,
) -> None:
    """Watch the queue (from lesson 10 on): waiting, running, orphaned, retrying, paused, dead; ages, failures by class.

    @pt Acompanha a fila (a partir da lição 10): esperando, em execução, órfãos, em nova tentativa, pausados, mortos; idades e falhas.
    """
    from lab.protocol import monitor as live

    console = Console()
    with use_server(console) as target:
        live.watch(target.conninfo, console, every, times)
