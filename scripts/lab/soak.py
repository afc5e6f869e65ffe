"""`lab soak`: play every scenario many times, on idle and on busy cores; each must give one transcript only, the one kept."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from lab import lesson, transcript
from lab.lesson import Stage


def soak(stage: Stage, console: Console, plays: int) -> bool:
    """Play each scenario `plays` times, the second half of them with every core kept busy.

    Prints a line a scenario; returns whether all transcripts of each were the golden one.
    """
    seen = {scenario.name: Counter[str]() for scenario in lesson.scenarios()}
    good = dict.fromkeys(seen, 0)
    for busy, times in ((False, plays - plays // 2), (True, plays // 2)):
        with _busy_cores(busy):
            for scenario in lesson.scenarios():
                for number in range(times):
                    console.print(f"{scenario.name} {number + 1}/{times}", end="\r") if console.is_terminal else None
                    result = stage.play(scenario)
                    stage.played.clear()
                    seen[scenario.name][result.play.failure or transcript.golden(result.play)] += 1
                    good[scenario.name] += result.as_expected
    for name, transcripts in seen.items():
        line = f"{name:32} plays {plays}, different transcripts {len(transcripts)}, as kept {good[name]}"
        console.print(line, style="" if good[name] == plays else "red", highlight=False)
        if good[name] != plays:
            for text, times in transcripts.most_common():
                console.print(f"--- {times} times\n{text}", markup=False, highlight=False)
    return all(count == plays for count in good.values())


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
