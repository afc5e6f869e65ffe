"""Where things lie: the checkout, and the private folder of what the lab makes for itself."""

from __future__ import annotations

import sys
from pathlib import Path

from lab.base import config

ROOT = Path(__file__).resolve().parents[3]
SQL = ROOT / "sql"
PROTOCOL = SQL / "protocol"
DATA = ROOT / "data"
WALK = ROOT / "walk"
EXPECTED = DATA / "expected"
OBSERVED = DATA / "observed"
DOCUMENTS = DATA / "documents"


def home() -> Path:
    """The folder of what the lab makes for itself: the virtual environment, the server's data, sockets.

    Returns LAB_HOME if it is set; otherwise the folder that holds the virtual environment in use, since the launcher chose it
    (a notebook's kernel knows only the environment); otherwise `.lab` in the checkout.
    """
    if chosen := config.value("LAB_HOME"):
        return Path(chosen).resolve()
    prefix = Path(sys.prefix)
    if prefix.name == "venv" and (prefix / "queue-lab").exists():
        return prefix.parent
    return ROOT / ".lab"
