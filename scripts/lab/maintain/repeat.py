"""`lab soak`: play every scenario many times; each must give one transcript only, the one kept."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from lab.base.language import say
from lab.scenario import library, transcript
from lab.scenario.grammar import Scenario
from lab.scenario.stage import Stage


def soak(stage: Stage, console: Console, plays: int, busy: bool) -> bool:
    """Play each scenario `plays` times; with `busy` every core is kept at work meanwhile.

    Prints a line a scenario; returns whether all transcripts of each were the golden one.
    """
    with _busy_cores(busy):
        return all([_soak_one(stage, console, scenario, plays) for scenario in library.scenarios()])


def _soak_one(stage: Stage, console: Console, scenario: Scenario, plays: int) -> bool:
    transcripts = Counter[str]()
    as_kept = 0
    for number in range(plays):
        if console.is_terminal:
            console.print(f"{scenario.name} {number + 1}/{plays}", end="\r", highlight=False)
        result = stage.play(scenario)
        stage.played.clear()
        transcripts[result.play.failure or transcript.golden(result.play)] += 1
        as_kept += result.as_expected
    good = as_kept == plays
    line = say(
        f"{scenario.name:32} plays {plays}, different transcripts {len(transcripts)}, as kept {as_kept}",
        f"{scenario.name:32} execuções {plays}, transcrições diferentes {len(transcripts)}, iguais à guardada {as_kept}",
    )
    console.print(line, style="" if good else "red", highlight=False)
    if not good:
        for text, times in transcripts.most_common():
            often = say(f"{times} times", f"{times} vezes")
            console.print(f"--- {often}\n{text}", markup=False, highlight=False)
    return good


@contextmanager
def _busy_cores(busy: bool) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_spin, daemon=True) for _ in range((os.cpu_count() or 1) if busy else 0)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _spin() -> None:
    while True:
        pass
