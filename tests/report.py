"""One line a lesson and a room in place of a dot a test; on a terminal another, while they run, that tells how far they are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Generator

import pytest
from _pytest.terminal import TerminalReporter

from tests.reader import say_to_reader

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


@pytest.hookimpl(trylast=True)  # the reporter comes first
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, TerminalReporter) and config.option.verbose <= 0:  # with -v pytest names each test
        config.pluginmanager.register(LineReport(reporter))


def group_of(nodeid: str) -> str:
    """The lesson of a test; of one that is not about a lesson the room; of one that is about the whole house its file."""
    folder, _, file = nodeid.partition("::")[0].removeprefix("tests/").rpartition("/")
    name = file.removeprefix("test_").removesuffix(".py")
    return name if re.match(r"\d\d_", name) else folder or name


class LineReport:
    """Counts the tests of this process, or of those that they are shared out to."""

    def __init__(self, reporter: TerminalReporter) -> None:
        self.reporter = reporter
        self.total = 0
        self.ended = 0
        reporter.showfspath = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.total = len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[str, str, object], tuple[str, str, object]]:
        """No letter for a test."""
        category, _, word = yield
        return category, "", word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ended += report.when == "teardown"
        failed = len(self.reporter.getreports("failed") + self.reporter.getreports("error"))
        told = say_to_reader(
            f"{self.ended} of {self.total}, {failed} failed", f"{self.ended} de {self.total}, {failed} com falha"
        )
        self._tell(f"{told}: {group_of(report.nodeid)}")

    def pytest_sessionfinish(self) -> None:
        self._tell("")

    def pytest_terminal_summary(self) -> None:
        counts, seconds = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for outcome in (*OUTCOMES, ""):  # what is set up and torn down has no outcome, but takes its time
            for report in self.reporter.getreports(outcome):
                seconds[group_of(report.nodeid)] += report.duration
                if outcome:
                    counts[group_of(report.nodeid)][outcome] += 1
        heading = say_to_reader(
            "one line a lesson, then a line a room; seconds are all processes' together",
            "por lição, depois por parte do laboratório; segundos: soma dos processos",
        )
        self.reporter.write_sep("=", heading)
        for group in sorted(counts):
            told = ", ".join(f"{number:3} {outcome}" for outcome, number in counts[group].items())
            bad = counts[group]["failed"] + counts[group]["error"]
            self.reporter.write_line(f"{group:28}{told:24}{seconds[group]:7.1f} s", red=bool(bad))

    def _tell(self, line: str) -> None:
        if self.reporter.isatty:
            self.reporter.rewrite(line, erase=True)
            if not line:
                self.reporter.rewrite("")
