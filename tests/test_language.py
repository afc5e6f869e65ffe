"""Under LAB_LANG=pt no English is left but SQL, code, and what servers and programs say themselves.

Every text for readers goes through `Text`, which `say` uses too. Here it gives back dots for letters: a word that a command still
prints in letters came from elsewhere.
"""

from __future__ import annotations

import ast
import csv
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text, say
from lab.cli import app, usage
from lab.drills import catalogue
from lab.scenario import grammar, player
from lab.server import schema

Lab = Callable[..., str]

COMMANDS = get_command(app.command_line()).commands  # type: ignore[attr-defined]
OWN_HELP = {command.__name__ for command in app.STARTERS}  # they hand --help on to the program that they start
FROM_LESSON_10 = ("top", "check-permissions", "worker")

# What is the same in both languages: words in capitals, what a slash, a point or an underscore joins, options, commands, and names.
CODE = re.compile(r"\./lab(?: [\w-]+)?|--[\w-]+|\.?/?\w+(?:[._/-]\w+)+|\b[A-Z]+\b|^\{.*\}$", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]{3,}")
NAMES = {"PostgreSQL", "Python", "psql", "pgbench", "isolationtester", "terminal"}
AS_PSQL_SAYS = {"row", "rows"}  # under a table


def names_in_the_database() -> set[str]:
    with (paths.DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        return {row["pt"] for row in csv.DictReader(file)} | {
            "aguardando",
            "adiados",
            "pausados",
            "falhos",
            "concluidos",
        }


def prose(printed: str) -> list[str]:
    """The words that are no names, no code, and did not come through `Text`."""
    known = {*NAMES, *AS_PSQL_SAYS, *COMMANDS, *names_in_the_database(), *(drill.name for drill in catalogue.drills())}
    return [word for word in WORD.findall(CODE.sub(" ", printed)) if word not in known]


@pytest.fixture
def dotted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Text, "__str__", lambda text: re.sub(r"[^\W\d_]", "·", text.pt))
    monkeypatch.setenv("LAB_LANG", "pt")
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def lab(dotted: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Lab]:
    """The command, run in this process with Enter at every question; gives back what it prints."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["lab", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 200))
        with pytest.raises(SystemExit):
            app.main()
        printed = capsys.readouterr()
        assert "·" in printed.out + printed.err
        return printed.out + printed.err

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


def test_say_and_text_are_one_place(dotted: None) -> None:
    assert say("one", "um") == str(Text("one", "um")) == "··"


# What commands print


@pytest.mark.parametrize("command", ["", *sorted(set(COMMANDS) - OWN_HELP)])
def test_help_is_in_the_readers_language(lab: Lab, command: str) -> None:
    printed = lab(*command.split(), "--help")
    assert prose(printed) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "nonsense", "tpo", "--nonsense", "-x run", "top x y", "walk", "load", "up --nonsense", "run --jso x", "run --all=3",
        "top --every x", "top --every 0", "top --times=", "bench --rounds x", "receiver --port 99999", "receiver --ledger",
        "protocol --names x", "check-permissions --schema x", "worker --stop-at x", "drill zombie --workers 3",
        "drill random_kills --documents 20 --workers 20", "bench x", "bench workers --record", "receiver --behaviour []",
        "receiver --behaviour x",
    ],
)  # fmt: skip
def test_a_usage_error_is_in_the_readers_language(lab: Lab, arguments: str) -> None:
    printed = lab(*arguments.split())
    given = {word.strip("-=[]") for word in arguments.split()}
    assert [word for word in prose(printed) if word not in given] == []


@pytest.mark.parametrize(
    "arguments",
    [
        "run 99", "run 02.nothing", "run --json 02", "run 02 --json /nonexistent/run.json", "step 02_nothing", "walk 01.built",
        "drill nothing", "check 99", "new 2 x", "new 02 x", "diff nothing 06 09", "diff reservar 08 08", "diff reservar 9 1",
        "protocol --schema a.b", "bench workers", "env", "load nothing.xml",
        "receiver --ledger /nonexistent/x",
    ],
)  # fmt: skip
def test_a_refusal_is_in_the_readers_language(
    lab: Lab, own_server: object, queue_database: str, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_DSN", queue_database)
    printed = lab(*arguments.split())
    assert [word for word in prose(printed) if word not in arguments.split()] == []


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "arguments",
    [
        "", "run 01 --all", "run 02", "run 03 --quiet", "run 06", "step 02_commit", "walk 02", "walk 06 --all", "status", "doctor",
        "check 02", "generate --check", "drill zombie", "load data/documents/nfe-malformada.xml", "top --times 1",
        "check-permissions", "worker --once --until-empty --receiver http://127.0.0.1:9",
    ],
)  # fmt: skip
def test_what_a_command_prints_is_in_the_readers_language(
    lab: Lab, own_server: object, database: str, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.build(database, 10 if arguments.startswith(FROM_LESSON_10) else 1)
    monkeypatch.setenv("LAB_DSN", database)
    monkeypatch.chdir(paths.ROOT)
    assert prose(lab(*arguments.split())) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;", "-- a\n\nSELECT 1;", "-- @setup", "-- a\n-- @nothing", "-- a\n-- @step a A", "-- a\n-- @step A A\nSELECT 1;",
        "-- a\n-- @step a a\nSELECT 1;", "-- a\n-- @step a A\nSELECT 1;\nSELECT 2;", "-- a\n-- @ends b", "-- @pt a",
        "-- a\n-- @step a A blocks B\nSELECT 1;", "-- a\n-- @step a A errors x\nSELECT 1;", "-- a\n-- @builds_on x",
        "-- a\n-- @step a A blocks A\nSELECT 1;\n-- @ends a", "-- a\n-- @step a A\nSELECT 1;\n-- @step a A\nSELECT 1;",
        "-- a\n-- @step a A\nSELECT '}';", "-- a\n-- @step a A\nSELECT 1\n-- b\n;", "-- a\n-- @ends a\nSELECT 1;",
    ],
)  # fmt: skip
def test_an_error_of_a_scenario_file_is_in_the_readers_language(dotted: None, text: str) -> None:
    with pytest.raises(LabError) as error:
        grammar.parse(text, paths.SQL / "02_for_update_waits" / "02_x.sql")
    assert prose(str(error.value)) == []


@pytest.mark.parametrize(
    "steps",
    [
        "-- @step a A blocks B\nSELECT 1;\n-- @step b B\nSELECT 1;\n-- @ends a",
        "-- @step a A\nSELECT 1 / 0;",
        "-- @step a A errors 22012\nSELECT 1;",
        "-- @step a A errors 22012\nSELECT 'x'::INTEGER;",
        "-- @step a A\nCOPY (SELECT 1) TO STDOUT;",
        "-- @step a A\nSELECT pg_terminate_backend(pg_backend_pid());",
        "-- @step a A\nSELECT pg_advisory_lock(1);\n-- @step b B\nSELECT pg_advisory_lock(1);",
        "-- @setup\nSELECT 1 / 0;\n-- @step a A\nSELECT 1;",
    ],
)
def test_why_a_play_failed_is_told_in_the_readers_language(dotted: None, queue_database: str, steps: str) -> None:
    told = grammar.parse(f"-- a\n{steps}", paths.SQL / "02_for_update_waits" / "02_x.sql")
    failure = player.play(told, queue_database).failure
    assert failure and "·" in failure
    server = re.sub(r"\(.*\)", "", failure)  # its own words stand in brackets
    assert [word for word in prose(server) if not word.startswith(("SELECT", "pg"))] == []


# What each command says of itself


@pytest.mark.parametrize(
    "command", [each for group in app.COMMANDS.values() for each in group], ids=lambda each: each.__name__
)
def test_a_command_tells_what_it_does_in_both_languages(
    command: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    english = usage.told(command)
    monkeypatch.setenv("LAB_LANG", "pt")
    portuguese = usage.told(command)
    assert english and portuguese and english != portuguese
    assert english.count("\n\n") == portuguese.count("\n\n")


# What the code holds

PRINTING = {
    "print", "echo", "seen", "input", "update", "add_column", "add_row", "write", "error", "failure", "fail", "BadParameter",
    "Finding", "Panel", "Option", "Argument",
}  # fmt: skip
REASONS = {"why", "reason"}  # what such a variable holds is shown
STYLING = {"style", "end", "justify", "overflow", "header_style", "title_style", "border_style", "name", "sep"}
QUIET = {"replace", "startswith", "endswith", "removeprefix", "split", "execute", "encode", "getattr", "Path", "get"}
# Texts for programs, or the same in both languages, by module.
ALLOWED = {
    "cli/queue.py": {"JSON", "URL"},
    "cli/server.py": {"export ", "unset "},
    "experiments/fencing_table.py": {"concluido", "falhou"},
    "lessons/stepper.py": {"italic", "dim"},
    "measure/bench.py": {"WAL", "fsyncs"},
    "measure/drain.py": {"ready\n", "pgbench: "},
    "measure/worker_vs_pgbench.py": {", workers ", "; Python "},
    "notebook/api.py": {
        "The claim ",
        " is judged by its own experiment only: nb.observe(",
        "The notebook's database is gone: was its server stopped? Restart the kernel and run all cells."
        " / O banco do notebook se foi: o servidor foi parado? Reinicie o kernel e rode todas as células.",
    },
    "notebook/variants.py": {"The picture holds 2 to ", " sessions, not "},
    "receiver/service.py": {"event"},
    "scenario/grammar.py": {"`@ends "},
    "server/doctor.py": {"Python"},
    "server/temp_databases.py": {"count() has no end"},
    "worker/attempt.py": {"unwritten"},
    "worker/failures.py": {
        "SQLSTATE ",
        "none: the connection was lost",
    },  # kept in the queue, as the protocol's own texts
    "worker/worker.py": {"error", "unwritten"},
}
MODULES = sorted([*(paths.ROOT / "scripts").glob("[0-9]*.py"), *(paths.ROOT / "scripts" / "lab").glob("*/*.py")])


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def untold(node: ast.AST) -> Iterator[str]:
    """The texts with words in an expression, without those of `say` and `Text`."""
    match node:
        case ast.Call() if called(node) in {"say", "Text"} | QUIET:
            return
        case ast.Subscript() | ast.Compare():
            return
        case ast.IfExp(body=body, orelse=other):
            yield from untold(body)
            yield from untold(other)
        case ast.FormattedValue(value=value):
            yield from untold(value)
        case ast.Constant(value=str() as text) if WORD.search(re.sub(r"\[/?[\w ]*\]|--[\w-]+|\S*[/_.=]\S*", "", text)):
            yield text
        case _:
            for child in ast.iter_child_nodes(node):
                yield from untold(child)


def shown(tree: ast.AST) -> Iterator[str]:
    """The texts that a module prints or raises, and that were not told in both languages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (
            called(node) in PRINTING or called(node).endswith(("Error", "CannotRunHere"))
        ):
            for value in (*node.args, *(word.value for word in node.keywords if word.arg not in STYLING)):
                yield from untold(value)
        elif isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id in REASONS for to in node.targets):
            yield from untold(node.value)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_module_prints_or_raises_is_told_in_both_languages(path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    assert set(shown(ast.parse(path.read_text(encoding="utf-8")))) - ALLOWED.get(name, set()) == set()


def test_a_bare_sentence_is_seen() -> None:
    assert list(shown(ast.parse("print('bare words'); raise LabError(f'{x} is gone')"))) == ["bare words", " is gone"]
    assert list(shown(ast.parse("print(say('words', 'palavras'), style='bold red')"))) == []


# The tests themselves


def test_a_run_of_tests_speaks_the_readers_language_and_tests_in_english() -> None:
    page = "tests/maintain/test_readme.py::test_every_command_for_readers_is_named_on_the_first_page"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", page],
        cwd=paths.ROOT,
        env=os.environ | {"LAB_LANG": "pt_BR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for words in ("servidor: ", "testes: os rápidos e uma amostra", " por lição, depois por parte do laboratório"):
        assert words in done.stdout
    assert not re.search("server: |tier: |one line a lesson", done.stdout)
