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
from lab.cli.common import use_server

RECEIVER_LEDGER = "receiver.sqlite3"
RECEIVER_PORT = 8090
RECEIVER_URL = f"http://127.0.0.1:{RECEIVER_PORT}"


def load(files: Annotated[list[Path], typer.Argument(metavar="FILE …")]) -> None:
    """Load XML files into the queue, each on its own; non-zero if any was refused."""
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
    name: Annotated[str, typer.Option("--name", help="What the queue calls it.")] = "worker-a",
    receiver_url: Annotated[
        str, typer.Option("--receiver", metavar="URL", help="Where the receiver listens.")
    ] = RECEIVER_URL,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Documents a claim.")] = 1,
    lease: Annotated[float, typer.Option(min=0.1, help="Seconds.")] = 30.0,
    tenant: Annotated[str | None, typer.Option(help="Only this one's documents.")] = None,
    rest: Annotated[
        float, typer.Option(min=0.01, help="Seconds at most between two looks at a receiver that does not answer.")
    ] = 60.0,
    poll: Annotated[float, typer.Option(min=0.01, help="Seconds between two looks at an empty queue.")] = 1.0,
    beat: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds between renewals (a third of the lease); 0: none.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for the receiver's whole answer.")] = 10.0,
    irreversible: Annotated[
        bool, typer.Option("--irreversible", help="A result that cannot be found out is for people.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="One claim.")] = False,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when no document is due or put off.")] = False,
    stop_at: Annotated[
        str | None, typer.Option(metavar="POINT", help="For drills, stop there (a wrong one is answered with all).")
    ] = None,
    schema_: Annotated[
        str | None, typer.Option("--schema", help="Where the queue is, if not where the lab makes it.")
    ] = None,
) -> None:
    """Work on the queue (from lesson 09 on): claim, post to the receiver, write the outcome; a JSON line an event."""
    from lab.server.session import SCHEMA
    from lab.server.target import named_server
    from lab.worker import worker as processes
    from lab.worker.handler import PostToReceiver

    if stop_at is not None and stop_at not in processes.STOPS:
        raise typer.BadParameter(f"{stop_at} is none of {', '.join(processes.STOPS)}")
    options = processes.Options(
        name=name,
        batch=batch,
        lease=lease,
        tenant=tenant,
        poll=poll,
        beat=beat,
        longest_pause=rest,
        irreversible=irreversible,
        rounds=1 if once else None,
        until_empty=until_empty,
        stop_at=cast("processes.StopAt | None", stop_at),
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
            metavar="FILE",
            help=f"Its ledger, an SQLite file (default: {RECEIVER_LEDGER} in the lab's folder; delete it together with the queue).",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: any free one.")] = RECEIVER_PORT,
    without_keys: Annotated[
        bool, typer.Option("--without-keys", help="A defence off: execute a repeated key again.")
    ] = False,
    behaviour: Annotated[
        str, typer.Option(metavar="JSON", help='How it behaves, as {"delay": 1.5}; POST /behaviour changes it.')
    ] = "{}",
) -> None:
    """Receive documents, outside the database: the effects, with a ledger of its own."""
    from lab.receiver import service

    try:
        wanted = service.Behaviour().changed(json.loads(behaviour))
    except ValueError as error:
        raise typer.BadParameter(f"behaviour: {error}") from error
    ledger_file = ledger or paths.home() / RECEIVER_LEDGER
    service.serve(ledger_file, port, by_key=not without_keys, behaviour=wanted)


def drill(
    name: Annotated[str, typer.Argument(help="A drill, all, or matrix: each defence taken away once.")] = "all",
    times: Annotated[int, typer.Option(min=1, help="How often in a row.")] = 1,
    documents: Annotated[
        int | None, typer.Option(min=20, help="Of random_kills. A few hundred, if none is given.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=50, help="Of random_kills, at a time. A handful, if none is given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of random_kills: which worker is killed when. Any, if none is given.")
    ] = None,
) -> None:
    """Kill and stop real workers, and count what became of the documents (lesson 09); non-zero if anything went wrong."""
    from lab.drills import ablation
    from lab.drills import catalogue as drills
    from lab.drills import report as lab_report
    from lab.drills.random_kills import Size

    size = Size(documents or Size.documents, workers or Size.workers, seed)
    if size.kills >= size.documents:
        raise typer.BadParameter(f"{size.workers} workers want more than {size.documents} documents")
    if size != Size() and name not in ("all", drills.RANDOM_KILLS):
        raise typer.BadParameter(
            f"--documents, --workers and --seed are of the drill {drills.RANDOM_KILLS}, not of {name}"
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
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    times: Annotated[int | None, typer.Option(min=1, help="So many looks; without it until ^C.")] = None,
) -> None:
    """Watch the queue (from lesson 10 on): waiting, running, orphaned, retrying, paused, dead; ages, failures by class."""
    from lab.protocol import monitor as live

    console = Console()
    with use_server(console) as target:
        live.watch(target.conninfo, console, every, times)
