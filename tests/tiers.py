"""The two tiers: `./lab test` is the quick one, `./lab test --all` adds the rest.

Of a test that is marked sample(n), so many of its parameter sets run in the quick tier, drawn by a seed that the header prints
(`--seed` repeats a run); one that is marked thorough runs only with --all. A summary has one line a lesson and a line a room.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
OUTCOMES = ("passed", "failed", "error", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("the lab's tiers")
    group.addoption("--all", action="store_true", help="run everything: no samples, and the thorough tests too")
    group.addoption("--seed", type=int, default=None, help="draw the samples of the quick tier by this seed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sample(n): in the quick tier run so many of the parameter sets, drawn by the seed"
    )
    config.addinivalue_line("markers", "thorough: run with --all only")
    if hasattr(config, "workerinput"):  # one of several processes; the one that started them tells
        config.option.seed = config.workerinput["seed"]
        return
    if config.option.seed is None:
        config.option.seed = random.randrange(10_000)
    config.pluginmanager.register(Summary(config), "lab-summary")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every process draws the same samples."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.all:
        return "tier: all"
    return f"tier: quick, samples drawn by --seed {config.option.seed}; the rest with --all"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What is named one by one is wanted, be it a sample or not.
    if config.option.all or any("::" in word for word in config.args):
        return
    left_out = {item for item in items if item.get_closest_marker("thorough")}
    for name, group in _samples(items):
        size = next(marker.args[0] for item in group[:1] for marker in item.iter_markers("sample"))
        drawn = random.Random(f"{config.option.seed} {name}").sample(group, min(size, len(group)))
        left_out |= set(group) - set(drawn)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _samples(items: Sequence[pytest.Item]) -> Iterator[tuple[str, list[pytest.Item]]]:
    """The tests marked sample, by the function whose parameter sets they are."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample"):
            found[item.nodeid.partition("[")[0]].append(item)
    yield from sorted(found.items())


class Summary:
    """One line a lesson and a line a room instead of a dot a test; on a terminal, how far the run is."""

    def __init__(self, config: pytest.Config) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.on_terminal = sys.stdout.isatty()
        self.plain = config.option.verbose != 0 or config.option.numprocesses in (0, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if self.plain or report.failed or (report.when != "call" and report.outcome == "passed"):
            return None
        return report.outcome, "", report.outcome.upper()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = _place(report.nodeid)
        self.seconds[place] += report.duration
        outcome = report.outcome if report.when == "call" else "error" if report.failed else "skipped"
        if report.when == "call" or report.outcome != "passed":
            self.counts[place][outcome] += 1
        if self.on_terminal and not self.plain and report.when == "call":
            done = sum(counts.total() for counts in self.counts.values())
            sys.stdout.write(f"\r{done} tests done  {place:<30.30}")
            sys.stdout.flush()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("=", "one line a lesson, then a line a room; seconds are all processes' together")
        for place in sorted(self.counts, key=lambda name: (not name[:2].isdigit(), name)):
            told = ", ".join(f"{count} {outcome}" for outcome in OUTCOMES if (count := self.counts[place][outcome]))
            terminalreporter.write_line(f"{place:<28} {told:<36} {self.seconds[place]:7.1f} s")


def _place(nodeid: str) -> str:
    """The lesson that a test is of, or else its room."""
    path = Path(nodeid.partition("::")[0]).relative_to("tests")
    lesson = path.stem.removeprefix("test_")
    return lesson if path.parts[0] == "lessons" and lesson[:2].isdigit() else path.parts[0].removesuffix(".py")
