"""Waiting for what another process does: the one place that polls."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float, every: float = 0.01) -> bool:
    """Ask until the condition holds, at least twice, for so many seconds; returns whether it came to hold.

    Parameters: `every`, the seconds between two looks. What the condition raises is raised.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return condition()
        time.sleep(every)
    return True
