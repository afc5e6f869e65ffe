"""The two tiers: `./lab test` is the quick one, `./lab test --all` adds the rest.

Of a test that is marked sample(n), so many of its parameter sets run in the quick tier, drawn by a seed that the header prints
(`--seed` repeats a run); one that is marked thorough runs only with --all.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.reader import say_to_reader


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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every process draws the same samples."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.all:
        return say_to_reader("tier: all", "testes: todos")
    seed = config.option.seed
    return say_to_reader(
        f"tier: quick, samples drawn by --seed {seed}; the rest with --all",
        f"testes: os rápidos e uma amostra, sorteada com --seed {seed}; os outros, com --all",
    )


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
