"""The environment: read here, and nowhere else.

The lab's own variables are LAB_HOME (the folder of what it makes), LAB_DSN and LAB_PGBIN (which server), LAB_PORT (of its own
one) and LAB_LANG (pt for Portuguese). A server may be named by libpq's variables, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]


def value(name: str) -> str | None:
    """What the variable is set to; None if it is not set, or empty."""
    return os.environ.get(name) or None


def is_set(name: str) -> bool:
    """Whether the variable is set, be it empty."""
    return name in os.environ


def drop(*names: str) -> None:
    """Unset these variables, for this process and for those that it starts."""
    for name in names:
        os.environ.pop(name, None)


def put(name: str, wanted: str) -> None:
    """Set the variable for this process and those that it starts."""
    os.environ[name] = wanted


def default(name: str, wanted: str) -> None:
    """Set the variable for this process and those that it starts, unless it is set."""
    os.environ.setdefault(name, wanted)


def for_process(**changes: str) -> dict[str, str]:
    """The environment for a process that the lab starts: this one's, with these changes."""
    return {**os.environ, **changes}


def for_lab_process(**changes: str) -> dict[str, str]:
    """The environment for another Python that is to find the lab: this one's, with these changes."""
    path = os.pathsep.join(filter(None, [str(SCRIPTS), value("PYTHONPATH")]))
    return for_process(PYTHONPATH=path, **changes)


@contextmanager
def changed(**changes: str | None) -> Iterator[None]:
    """Set these variables (None: unset) for as long as the block; afterwards all are as they were."""
    before = dict(os.environ)
    try:
        for name, wanted in changes.items():
            if wanted is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = wanted
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
