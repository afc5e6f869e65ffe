"""What a test run says of itself is in the reader's language; the tests run in English."""

from __future__ import annotations

import os

PORTUGUESE = os.environ.get("LAB_LANG", "").lower().startswith("pt")  # before the tests' process leaves it out


def say_to_reader(en: str, pt: str) -> str:
    """The one of two texts that the one who started the tests asked for."""
    return pt if PORTUGUESE else en
