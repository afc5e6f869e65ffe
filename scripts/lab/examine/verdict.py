"""What a trial came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.base.language import Text

Word = Literal["HOLDS", "BREAKS", "WAITS", "NOT TRIED"]
IN_PORTUGUESE: dict[Word, str] = {
    "HOLDS": "RESISTE", "BREAKS": "FALHA", "WAITS": "ESPERA", "NOT TRIED": "NÃO TESTADO"
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """A trial's verdict: `seen` is the number that says it, `of` out of how many, `lesson` the one that cures it."""

    trial: str
    title: Text
    word: Word
    seen: int
    of: int
    why: Text
    lesson: str
