"""English or Portuguese, as LAB_LANG asks."""

from __future__ import annotations

from dataclasses import dataclass

from lab.base import config


@dataclass(frozen=True)
class Text:
    """A text for the reader in both languages of the lab."""

    en: str
    pt: str

    def __str__(self) -> str:
        return self.pt if portuguese() else self.en


def portuguese() -> bool:
    """Whether the reader asked for Portuguese (LAB_LANG=pt, pt_BR, …)."""
    return (config.value("LAB_LANG") or "").lower().startswith("pt")


def say(en: str, pt: str) -> str:
    """The one of two texts that the reader asked for."""
    return str(Text(en, pt))
