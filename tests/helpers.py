"""Scenarios made in memory: real ones with an edit, and short ones written for a test."""

from __future__ import annotations

import os
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from lab.base import paths
from lab.base.errors import LabError
from lab.lessons import registry
from lab.lessons.lesson import Check, Lesson, Observed
from lab.scenario import grammar, library
from lab.scenario.grammar import Scenario
from lab.scenario.stage import Stage
from lab.server.binaries import find_server_binaries

HEAD = "-- A claim.\n-- @pt Uma afirmação.\n"

# A locks a table, B waits for it until A commits: the shortest play with a wait.
WAIT = """\
-- @step a_begin A
BEGIN;
-- @step a_locks A
LOCK TABLE fila_documentos;
-- @step b_asks B blocks A
SELECT count(*) AS documentos FROM fila_documentos;
-- @step a_commits A
COMMIT;
-- @ends b_asks
"""


# Digits that a sentence may hold outside its facts, being part of a name.
NAMES_WITH_DIGITS = re.compile(r"(document|documento|worker) \d|LIMIT \$?1")

# Facts that are kept though no sentence tells them, by the check's id.
UNTOLD: Mapping[str, frozenset[str]] = {}


def parsed(body: str, head: str = HEAD) -> Scenario:
    """A scenario of lesson 01, by its markers and statements."""
    return grammar.parse(head + body, Path("sql/01_queue/01_made_up.sql"))


def mutated(name: str, *edits: tuple[str, str]) -> Scenario:
    """The scenario NN_case with each text replaced by another; the text must stand there exactly once."""
    original = library.find_scenario(name)
    text = original.path.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    return grammar.parse(text, original.path)


def all_scenarios() -> list[Scenario]:
    """The scenarios of all lessons."""
    return library.scenarios()


@contextmanager
def short_home() -> Iterator[Path]:
    """A folder for a server of its own, whose path is short and open, unlike pytest's; skips where there is no server to start."""
    try:
        find_server_binaries()
    except LabError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="lab") as folder:
        home = Path(folder)
        home.chmod(0o755)
        yield home


def fetch(conninfo: str, query: str, *values: object) -> list[tuple[object, ...]]:
    """The rows of a query, run on a connection of its own."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


def rows(connection: psycopg.Connection, query: str, *values: object) -> list[tuple[object, ...]]:
    """The rows of a query on this connection."""
    return connection.execute(query.encode(), values or None).fetchall()


def everything(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    """The queue and its audit, without the payload, which cannot be compared."""
    return rows(
        connection,
        "SELECT to_jsonb(fila) - 'conteudo_xml' FROM fila_documentos AS fila"
        " UNION ALL SELECT to_jsonb(auditoria) FROM auditoria ORDER BY 1",
    )


def execute(conninfo: str, statements: str) -> None:
    """Run statements on a connection of their own, as one transaction."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statements.encode())


def run_lab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The `lab` command in a process of its own, on a wide screen."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts"), "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def terminate(conninfo: str, name: str) -> None:
    """End the backend of the session that is called so in pg_stat_activity, as an operator would."""
    rows = fetch(
        conninfo,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s",
        name,
    )
    assert rows == [(True,)]


def check_lesson(name: str, stage: Stage) -> None:
    """Run every check of a lesson, the surprises too, but for the slow ones, each of which is a test of its own in test_lesson.py."""
    told = registry.find(name)
    run_checks(told, [check for check in told.checks if not check.slow], stage)


def run_checks(told: Lesson, checks: Sequence[Check], stage: Stage) -> None:
    """Run these checks of a lesson; fails with what was observed of those that do not hold."""
    result = told.run(stage, only=checks)
    failed = [
        f"{each.check.id}: {each.observed.text}. {each.observed.why}"
        for each in result.checks
        if not each.observed.holds
    ]
    assert not failed
    assert [each.check for each in result.checks] == list(checks)
    assert all(each.observed.text.en and each.observed.text.pt for each in result.checks)
    not_facts = {each.check.id: prose_for_facts(each.observed, UNTOLD.get(each.check.id)) for each in result.checks}
    assert {check: faults for check, faults in not_facts.items() if faults} == {}


def prose_for_facts(observed: Observed, untold: frozenset[str] | None = None) -> list[str]:
    """What an observation says in prose that ought to be a fact, or the other way round; `untold` facts need no sentence."""
    faults = [] if observed.facts else ["no facts"]
    for language, template in (("en", observed.en), ("pt", observed.pt)):
        parts = [(literal, name) for literal, name, *_ in string.Formatter().parse(template)]
        named = {name for _, name in parts if name is not None}
        faults += [f"{language} names {name}, which is no fact" for name in sorted(named - observed.facts.keys())]
        silent = observed.facts.keys() - named - (untold or frozenset())
        faults += [f"{language} does not tell {name}" for name in sorted(silent)]
        # The bar keeps what stands before a fact from what stands after it.
        prose = NAMES_WITH_DIGITS.sub("", "|".join(literal for literal, _ in parts))
        faults += [f"{language} holds {digits} in prose" for digits in re.findall(r"\S*\d\S*", prose)]
    for name, fact in observed.facts.items():
        if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name):
            faults.append(f"{name} is not in snake_case")
        for value in fact.values:
            if isinstance(value, str) and re.fullmatch(r"[\d.]+", value) and "sqlstate" not in name:
                faults.append(f"{name} is a number kept as text")
            if isinstance(value, float) and not fact.unit:
                faults.append(f"{name} is measured and has no unit")
    return faults
