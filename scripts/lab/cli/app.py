"""The `lab` command.

A command imports what it alone needs: a drill starts dozens of workers, and none of them plays a scenario.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say

if TYPE_CHECKING:
    from lab.lessons.lesson import Check, CheckResult
    from lab.protocol.grants import Duty
    from lab.scenario.grammar import Scenario
    from lab.scenario.stage import Stage
    from lab.server.target import Target

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The queue lab: see where FOR UPDATE waits, why SKIP LOCKED passes, and what else a queue needs. Alone: the tour.",
)
INTERRUPTED = 130  # the shells' status for a command ended by ^C; Typer returns it too
RECEIVER_BOOKS = "receiver.sqlite3"
RECEIVER_PORT = 8090
RECEIVER_URL = f"http://127.0.0.1:{RECEIVER_PORT}"
SERVER = "Server"
MAINTAINERS = "Maintainers"

Wanted = Annotated[
    list[str] | None, typer.Argument(metavar="[NN …]", help="Lessons, as 02 or 01-04; all if none is named.")
]


def main() -> None:
    """Run the command; a LabError is printed without a traceback and ends with status 1, ^C ends with 130."""
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # what it says of a connection that ^C broke is no news
    errors = Console(stderr=True)
    try:
        status = app(standalone_mode=False, prog_name="./lab")
    except BrokenPipeError:
        # Whoever read our output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except BaseException as error:
        if _interrupted(error):
            status = INTERRUPTED
        elif isinstance(error, LabError):
            errors.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
            status = 1
        elif hasattr(error, "show") and hasattr(error, "exit_code"):
            error.show()  # a usage error of the command line
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


@app.callback(invoke_without_command=True)
def tour(context: typer.Context) -> None:
    """The tour: the episode's story, in under ten seconds."""
    if context.invoked_subcommand is not None:
        return
    from lab.lessons.tour import Tour

    console = Console()
    with _server(console) as target, _stage(target) as stage:
        held = Tour(stage, console).tell()
    raise typer.Exit(0 if held else 1)


@app.command()
def run(
    wanted: Wanted = None,
    everything: Annotated[bool, typer.Option("--all", help="The surprises too.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the run as JSON; - for the screen.")
    ] = None,
    load: Annotated[bool, typer.Option("--load", help="On a given server, more load than the quick form.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="The summary and what did not hold, only.")] = False,
) -> None:
    """Rebuild the queue, play the lessons, observe, compare with what is expected; non-zero if a check fails."""
    from lab.lessons import registry, report

    chosen = registry.choose(wanted or [])
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
    with _server(console, quiet) as target, _stage(target, load) as stage:
        stage.build(1)  # what keeps every lesson from running is said once, here
        for lesson in chosen:
            with _progress(console, quiet) as progress:
                results.append(lesson.run(stage, surprises=everything, progress=progress))
            if not quiet or report.failed(results[-1:]):
                console.print(report.checks_table(results[-1]), highlight=False)
    console.print(report.summary(results), style="bold red" if report.failed(results) else "bold", highlight=False)
    if json_file is not None:
        server = {"version": target.version, "version_num": target.version_num, "source": target.source}
        run_as_json = report.as_json(results, server, started.isoformat(timespec="seconds"), time.monotonic() - clock)
        _write_json(run_as_json, None if to_screen else json_file)
    raise typer.Exit(1 if report.failed(results) else 0)


@app.command()
def step(
    wanted: Annotated[list[str], typer.Argument(metavar="NN …", help="A lesson, as 02, or a scenario, as 02_commit.")],
    everything: Annotated[bool, typer.Option("--all", help="Of a lesson, the surprises too.")] = False,
) -> None:
    """Play a lesson Enter by Enter, sessions side by side."""
    from lab.lessons.stepper import Stepper, Stopped

    scenarios = [scenario for word in wanted for scenario in _scenarios(word, everything)]
    console = Console()
    with _server(console) as target, _stage(target) as stage:
        stepper = Stepper(stage, console)
        try:
            for number, scenario in enumerate(scenarios, start=1):
                stepper.play(scenario)
                if number < len(scenarios):
                    more = f"{number}/{len(scenarios)}"
                    stepper.enter(
                        say(f"{more} done. Enter: the next scenario", f"{more} pronto. Enter: o próximo cenário")
                    )
            console.print(say("That was all of it.", "Era isso."), style="bold")
        except Stopped:
            console.print()
    failed = any(not played.as_expected for played in stage.played)
    raise typer.Exit(1 if failed else 0)


@app.command()
def walk(
    wanted: Annotated[list[str], typer.Argument(metavar="NN …", help="A lesson, as 02, or a scenario, as 02_commit.")],
    everything: Annotated[bool, typer.Option("--all", help="Of a lesson, the surprises too.")] = False,
) -> None:
    """Say what to type in which terminal, to walk a lesson by hand with psql."""
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
    for word in wanted:
        lines += ["", *(psql_scripts.walk(scenario) + "\n" for scenario in _scenarios(word, everything))]
    console.print("\n".join(lines).rstrip(), highlight=False, markup=False, soft_wrap=True)


@app.command()
def load(files: Annotated[list[Path], typer.Argument(metavar="FILE …")]) -> None:
    """Load XML files into the queue, each on its own; non-zero if any was refused."""
    from rich.table import Table

    from lab.protocol import loader
    from lab.server import schema

    console = Console()
    with _server(console) as target, target.playground() as conninfo:
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


@app.command()
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
        bool, typer.Option("--irreversible", help="A result that nobody can tell is for people.")
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
        rest=rest,
        irreversible=irreversible,
        rounds=1 if once else None,
        until_empty=until_empty,
        stop_at=cast("processes.StopAt | None", stop_at),
    )
    work = PostToReceiver(receiver_url, timeout)
    with ExitStack() as last:
        # A server that the reader named may come up after its workers: they wait for it.
        named = named_server()
        conninfo = named[1] if named else last.enter_context(_server(Console(stderr=True), quiet=True)).conninfo
        processes.run_until_signal(processes.make(conninfo, work, options, schema_ or SCHEMA))


@app.command()
def receiver(
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Its books, an SQLite file (default: {RECEIVER_BOOKS} in the lab's folder; delete it together with the queue).",
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
    """Receive documents, outside the database: the effects, with books of their own."""
    from lab.receiver import service

    try:
        wanted = service.Behaviour().changed(json.loads(behaviour))
    except ValueError as error:
        raise typer.BadParameter(f"behaviour: {error}") from error
    books = ledger or paths.home() / RECEIVER_BOOKS
    service.serve(books, port, by_key=not without_keys, behaviour=wanted)


@app.command("drill")
def drill_(
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
    with _server(console) as target, target.database("drill") as conninfo:
        if name == "matrix":
            good = lab_report.show_matrix(ablation.examine(conninfo), console)
        else:
            chosen = drills.drills(size) if name == "all" else [drills.find(name, size)]
            good = lab_report.show_drills(chosen, conninfo, console, times)
    raise typer.Exit(0 if good else 1)


@app.command()
def top(
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    times: Annotated[int | None, typer.Option(min=1, help="So many looks; without it until ^C.")] = None,
) -> None:
    """Watch the queue (from lesson 10 on): waiting, running, orphaned, retrying, paused, dead; ages, failures by class."""
    from lab.protocol import monitor as live

    console = Console()
    with _server(console) as target:
        live.watch(target.conninfo, console, every, times)


@app.command("check-permissions")
def check_permissions(
    application: Annotated[str | None, typer.Option(metavar="ROLE", help="Who enqueues.")] = None,
    worker: Annotated[str | None, typer.Option(metavar="ROLE", help="Who works.")] = None,
    operator: Annotated[str | None, typer.Option(metavar="ROLE", help="Who steps in.")] = None,
    reader: Annotated[str | None, typer.Option(metavar="ROLE", help="Who looks.")] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Connect so, as the service account itself; with a passfile or service=, never a password here."
        ),
    ] = None,
    schema_: Annotated[
        str | None,
        typer.Option("--schema", help="Where the queue is: the lab's own, or one that ./lab protocol installed."),
    ] = None,
) -> None:
    """Run the whole protocol as the service accounts, undo it, and name each grant that is missing (from lesson 10 on).

    Without a role: the lab's own four. With some: only those, and the rest of it as the connection's own user.
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
        raise typer.BadParameter(f"with {with_}, say what the account is for, as in --worker ROLE")
    console = Console()
    with ExitStack() as last:
        conninfo = dsn if dsn is not None else last.enter_context(_server(console)).conninfo
        connection = last.enter_context(SessionPins().psycopg_connection(conninfo, "lab/permissions"))
        checked = permissions.check(connection, roles or None, schema=schema_ or SCHEMA)
    console.print(permissions.table(checked), highlight=False)
    console.print(permissions.summary(checked), style="bold" if checked.good else "bold red", highlight=False)
    raise typer.Exit(0 if checked.good else 1)


@app.command("protocol")
def protocol_(
    names: Annotated[str, typer.Option(metavar="pt|en", help="Language of the names in the database.")] = "pt",
    schema_: Annotated[
        str | None, typer.Option("--schema", help="Where to install it (fila, or queue in English).")
    ] = None,
    worker: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Who works; may be repeated, as all of these.")
    ] = None,
    reader: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="Who only looks.")] = None,
    operator: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="Who steps in.")] = None,
    application: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="Who brings documents.")] = None,
) -> None:
    """Print the protocol to take home: one SQL file that installs it; ./lab protocol > protocol.sql.

    ./lab check-permissions --schema NAME --worker ROLE … then tells whether every account may do its part there.
    """
    from lab.protocol import take_home

    if names not in take_home.SCHEMAS:
        raise typer.BadParameter(f"--names {names} is none of {', '.join(take_home.SCHEMAS)}")
    roles = {"worker": worker, "reader": reader, "operator": operator, "application": application}
    chosen = {kind: given or [] for kind, given in roles.items()}
    sys.stdout.write(take_home.protocol(names, schema_ or take_home.SCHEMAS[names], chosen))


@app.command(rich_help_panel=SERVER)
def up() -> None:
    """Start the lab's own server."""
    with _server(Console()):
        pass


@app.command(rich_help_panel=SERVER)
def down() -> None:
    """Stop the lab's own server; its data stay."""
    from lab.server.embedded import EmbeddedServer

    stopped = EmbeddedServer().down()
    print(say("Stopped.", "Parado.") if stopped else say("It was not running.", "Não estava no ar."))


@app.command(rich_help_panel=SERVER)
def status() -> None:
    """Say which server would be used, and whether it is running; non-zero if it is not."""
    from lab.server.target import open_target

    target = open_target(start=False)
    print(target.headline())


@app.command(rich_help_panel=SERVER)
def env() -> None:
    """Print the variables for a plain psql:  eval "$(./lab env)"."""
    with _server(Console(stderr=True), quiet=True) as target:
        if target.embedded is None:
            raise LabError(
                say(
                    "A server of yours is in use (LAB_DSN or PG… is set): psql needs no variables from the lab.",
                    "O servidor em uso é o seu (LAB_DSN ou PG… definido): o psql não precisa de variáveis do laboratório.",
                )
            )
        for name, value in target.embedded.environment().items():
            print(f"export {name}={shlex.quote(value)}")


@app.command(rich_help_panel=SERVER, context_settings={"ignore_unknown_options": True, "help_option_names": []})
def psql(arguments: Annotated[list[str] | None, typer.Argument(metavar="[PSQL OPTIONS …]")] = None) -> None:
    """Open psql on the lab's database."""
    from lab.server.binaries import find_psql
    from lab.server.psql import libpq_environment

    with _server(Console(stderr=True), quiet=True) as target:
        environment = os.environ | libpq_environment(target.conninfo)
    program = str(find_psql())
    os.execve(program, [program, *(arguments or [])], environment)


@app.command(rich_help_panel=SERVER)
def doctor() -> None:
    """Say what the lab finds on this machine, and what is wrong."""
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


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def notebook(arguments: Annotated[list[str] | None, typer.Argument(metavar="[JUPYTER OPTIONS …]")] = None) -> None:
    """Open the notebooks in Jupyter."""
    os.chdir(paths.ROOT)
    # Jupyter would write to the reader's home; what the lab makes lies in its own folder.
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        os.environ.setdefault(name, str(paths.home() / "jupyter" / name.lower()))
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *as_root, *(arguments or ["notebooks"])])


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def test(arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST OPTIONS …]")] = None) -> None:
    """Run the tests."""
    os.chdir(paths.ROOT)
    shared_out = ["-n", "auto", "--dist", "worksteal"]
    # In this process's place, so that ^C reaches the tests, which stop their servers.
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *shared_out, *(arguments or [])])


@app.command("record", rich_help_panel=MAINTAINERS)
def record_(
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Record golden transcripts, psql scripts and observations, after showing what changed."""
    from lab.maintain import record

    console = Console()
    with _server(console) as target, _stage(target) as stage:
        changed = record.changes(stage)
        record.show(changed, console)
        if changed and not yes and not typer.confirm(say("Write these?", "Gravar?"), default=False):
            raise typer.Exit(1)
        record.keep(changed)
        record.tell_tour(target, stage)
        record.tell_truth_table(stage)
        record.tell_defence_matrix(stage)
        held = record.observe(target, stage, console)
    raise typer.Exit(0 if held else 1)


@app.command("soak", rich_help_panel=MAINTAINERS)
def soak_(
    plays: Annotated[int, typer.Option(min=1, help="Plays of each scenario.")] = 200,
    busy: Annotated[bool, typer.Option("--busy", help="With every core kept at work.")] = False,
) -> None:
    """Play every scenario many times; each must give one transcript only."""
    from lab.maintain import repeat

    console = Console()
    with _server(console) as target, _stage(target) as stage:
        good = repeat.soak(stage, console, plays, busy)
    raise typer.Exit(0 if good else 1)


@app.command("matrix", rich_help_panel=MAINTAINERS)
def matrix_(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER …]", help="Folders of server programs.")
    ] = None,
    observe: Annotated[bool, typer.Option("--observe", help="Write the observations under data/observed.")] = False,
) -> None:
    """Run every check and the referee on every server version that can be had here."""
    from lab.maintain import versions

    console = Console()
    good = [versions.run(folder, console, observe) for folder in (folders or versions.program_folders(console))]
    raise typer.Exit(0 if all(good) else 1)


@app.command("bench", rich_help_panel=MAINTAINERS)
def bench_(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PART …]", help="All if none is named; a wrong one is answered with all."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 5,
    load: Annotated[bool, typer.Option("--load", help="On a given server too: it is loaded to its limit.")] = False,
    keep: Annotated[bool, typer.Option("--record", help="Write the figures under data/observed.")] = False,
) -> None:
    """Measure: the worker against pgbench, what each guarantee costs, a claim among many; lab: the lab's own running times."""
    from lab.measure import bench

    for part in parts or ():
        if part not in bench.PARTS:
            raise typer.BadParameter(f"{part} is none of {', '.join(bench.PARTS)}")
    console = Console()
    chosen = parts or bench.PARTS
    wanted = tuple(part for part in chosen if part != bench.LAB)
    if keep and set(wanted) != set(bench.QUEUE):
        raise typer.BadParameter(f"--record wants {', '.join(bench.QUEUE)}, so that the figures are of one run")
    with _server(console) as target:
        if target.embedded is None and wanted:
            _insist_on_load(load)
        if wanted:
            figures = bench.queue(target, console, rounds, wanted)
            if keep:
                bench.RECORDED.write_text(figures.as_json(), encoding="utf-8")
        if bench.LAB in chosen:
            with _stage(target) as stage:
                bench.bench(stage, console, rounds)


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


@contextmanager
def _server(console: Console, quiet: bool = False) -> Iterator[Target]:
    """The server in use. One that this command started is stopped again on ^C, unless another lab has come to use it."""
    from lab.server import schema
    from lab.server.target import open_target

    target = open_target()
    if target.embedded:
        with suppress(LabError):  # a schema that the reader typed himself is there, and stays
            if schema.state(target.conninfo) is None:
                schema.build(target.conninfo, 1)  # so that the database one plays in by hand is never empty
    if not quiet:
        console.print(target.headline(), highlight=False, markup=False, soft_wrap=True)
    try:
        yield target
    except BaseException as error:
        if _interrupted(error) and target.embedded and target.started and not target.started.was_running:
            target.embedded.down_if_alone()
        raise


@contextmanager
def _stage(target: Target, load: bool = False) -> Iterator[Stage]:
    """A database of one's own on the target, to play in."""
    from lab.scenario.stage import Stage

    with target.database() as conninfo:
        yield Stage(
            conninfo,
            superuser=target.superuser,
            embedded=target.embedded is not None,
            load=load or target.embedded is not None,
        )


@contextmanager
def _progress(console: Console, quiet: bool) -> Iterator[Any]:
    """What to call before and after each check: on a terminal it shows the check that is being run."""
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("") as status:

        def progress(check: Check, result: CheckResult | None) -> None:
            status.update(f"{check.id}  {check.text}" if result is None else "")

        yield progress


def _scenarios(word: str, surprises: bool) -> list[Scenario]:
    """The scenarios that the word names: one by its name, or those of a lesson in the order in which it tells them."""
    from lab.lessons import registry
    from lab.scenario import library
    from lab.scenario.grammar import read

    name = word.replace(".", "_")  # as a check is called
    if len(name) > 2 and "_" in name and name not in {known.name for known in registry.lessons()}:
        return [library.find_scenario(name)]
    told = [
        library.scenario_path(lesson.name, check.case)
        for lesson in registry.choose([name])
        for check in lesson.checks
        if check.core or surprises
    ]
    return [read(path) for path in told if path.exists()]


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


def _interrupted(error: BaseException | None) -> bool:
    """Whether ^C is behind it; what was being cleaned up then may have failed in its turn."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | typer.Abort):
            return True
        error = error.__context__
    return False


def _ended_by_the_server(error: BaseException) -> bool:
    import psycopg

    return isinstance(error, psycopg.OperationalError)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
