"""The `lab` command."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from lab import bench, loader, matrix, paths, record, report, schema, soak, terminals
from lab import doctor as diagnosis
from lab import lesson as lessons
from lab.binaries import find_psql
from lab.errors import LabError
from lab.language import say
from lab.lesson import Claim, ClaimResult, Stage
from lab.scenario import Scenario, read
from lab.schema import libpq_environment
from lab.server import EmbeddedServer
from lab.stepper import Stepper, Stopped
from lab.target import Target, open_target
from lab.tour import Tour

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The queue lab: see where FOR UPDATE waits, why SKIP LOCKED passes, and what else a queue needs. Alone: the tour.",
)
INTERRUPTED = 130  # the shells' status for a command ended by ^C; Typer returns it too
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
        elif isinstance(error, psycopg.OperationalError):
            text = say("The server ended it", "O servidor encerrou")
            errors.print(f"{text}: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
            status = 1
        elif hasattr(error, "show") and hasattr(error, "exit_code"):
            error.show()  # a usage error of the command line
            status = error.exit_code
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
    """Rebuild the queue, play the lessons, observe, compare with what is expected; non-zero if a claim does not hold."""
    chosen = lessons.choose(wanted or [])
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
                console.print(report.claims_table(results[-1]), highlight=False)
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
        lines += ["", *(terminals.walk(scenario) + "\n" for scenario in _scenarios(word, everything))]
    console.print("\n".join(lines).rstrip(), highlight=False, markup=False, soft_wrap=True)


@app.command()
def load(files: Annotated[list[Path], typer.Argument(metavar="FILE …")]) -> None:
    """Load XML files into the queue, each on its own; non-zero if any was refused."""
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


@app.command(rich_help_panel=SERVER)
def up() -> None:
    """Start the lab's own server."""
    with _server(Console()):
        pass


@app.command(rich_help_panel=SERVER)
def down() -> None:
    """Stop the lab's own server; its data stay."""
    stopped = EmbeddedServer().down()
    print(say("Stopped.", "Parado.") if stopped else say("It was not running.", "Não estava no ar."))


@app.command(rich_help_panel=SERVER)
def status() -> None:
    """Say which server would be used, and whether it is running; non-zero if it is not."""
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
    with _server(Console(stderr=True), quiet=True) as target:
        environment = os.environ | libpq_environment(target.conninfo)
    program = str(find_psql())
    os.execve(program, [program, *(arguments or [])], environment)


@app.command(rich_help_panel=SERVER)
def doctor() -> None:
    """Say what the lab finds on this machine, and what is wrong."""
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
    raise typer.Exit(subprocess.run([sys.executable, "-m", "pytest", *(arguments or [])], check=False).returncode)


@app.command("record", rich_help_panel=MAINTAINERS)
def record_(
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Record golden transcripts, psql scripts and observations, after showing what changed."""
    console = Console()
    with _server(console) as target, _stage(target) as stage:
        changed = record.changes(stage)
        record.show(changed, console)
        if changed and not yes and not typer.confirm(say("Write these?", "Gravar?"), default=False):
            raise typer.Exit(1)
        record.keep(changed)
        held = record.observe(target, stage, console)
        record.tell_tour(target, stage)
    raise typer.Exit(0 if held else 1)


@app.command("soak", rich_help_panel=MAINTAINERS)
def soak_(
    plays: Annotated[int, typer.Option(min=1, help="Plays of each scenario.")] = 200,
    busy: Annotated[bool, typer.Option("--busy", help="With every core kept at work.")] = False,
) -> None:
    """Play every scenario many times; each must give one transcript only."""
    console = Console()
    with _server(console) as target, _stage(target) as stage:
        good = soak.soak(stage, console, plays, busy)
    raise typer.Exit(0 if good else 1)


@app.command("matrix", rich_help_panel=MAINTAINERS)
def matrix_(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER …]", help="Folders of server programs.")
    ] = None,
    observe: Annotated[bool, typer.Option("--observe", help="Write the observations under data/observed.")] = False,
) -> None:
    """Run every claim and the referee on every server version that can be had here."""
    console = Console()
    good = [matrix.run(folder, console, observe) for folder in (folders or matrix.program_folders(console))]
    raise typer.Exit(0 if all(good) else 1)


@app.command("bench", rich_help_panel=MAINTAINERS)
def bench_(rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 5) -> None:
    """Measure: the player against isolationtester, the server's start, the tour."""
    console = Console()
    with _server(console) as target, _stage(target) as stage:
        bench.bench(stage, console, rounds)


@contextmanager
def _server(console: Console, quiet: bool = False) -> Iterator[Target]:
    """The server in use. One that this command started is stopped again on ^C, unless another lab has come to use it."""
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
    with target.database() as conninfo:
        yield Stage(
            conninfo,
            superuser=target.superuser,
            embedded=target.embedded is not None,
            load=load or target.embedded is not None,
        )


@contextmanager
def _progress(console: Console, quiet: bool) -> Iterator[Any]:
    """What to call before and after each claim: on a terminal it shows the claim that is being run."""
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("") as status:

        def progress(claim: Claim, result: ClaimResult | None) -> None:
            status.update(f"{claim.id}  {claim.text}" if result is None else "")

        yield progress


def _scenarios(word: str, surprises: bool) -> list[Scenario]:
    """The scenarios that the word names: one by its name, or those of a lesson in the order in which it tells them."""
    name = word.replace(".", "_")  # as a claim is called
    if len(name) > 2 and "_" in name and name not in {known.name for known in lessons.lessons()}:
        return [lessons.find_scenario(name)]
    told = [
        lessons.scenario_path(lesson.name, claim.case)
        for lesson in lessons.choose([name])
        for claim in lesson.claims
        if claim.core or surprises
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


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
