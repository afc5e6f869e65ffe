"""What was observed, as values with units; the sentences of both languages are made from them."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from babel.numbers import format_decimal

from lab.base.language import Text, portuguese

Language = Literal["en", "pt"]
LOCALES: Mapping[Language, str] = {"en": "en_US", "pt": "pt_BR"}
WORDS: Mapping[Language, Mapping[bool | None, str]] = {
    "en": {True: "yes", False: "no", None: "none"},
    "pt": {True: "sim", False: "não", None: "nenhum"},
}

Value = bool | int | float | str | Text | None


@dataclass(frozen=True)
class Fact:
    """A value that was observed, or several of one kind, with the unit in which it is counted or measured.

    `unit` is in English and in the plural (documents, buffers, s); empty for what is no quantity: a key, a state, a seed, yes or
    no.
    """

    value: Value | tuple[Value, ...]
    unit: str = ""

    @property
    def values(self) -> tuple[Value, ...]:
        """The values, be it one; None where there are none."""
        return (self.value or (None,)) if isinstance(self.value, tuple) else (self.value,)


def sentence(template: str, facts: Mapping[str, Fact], language: Language) -> str:
    """The template with each {name} replaced by the fact of that name, as the language writes it.

    A number has as many digits after the point as {name:1} says (none without), and is grouped if it has a unit; several values
    are listed with commas, or with what stands after a slash: {name:/ of }. Yes, no and none are words.
    Raises KeyError for a name that is no fact, ValueError for a format that is neither.
    """
    return _Sentence(language).vformat(template, (), facts)


def decimal(value: float, digits: int) -> str:
    """A number with so many digits after the point, as the reader's language writes it."""
    return format_decimal(value, format=f"0.{'0' * digits}", locale=LOCALES["pt" if portuguese() else "en"])


class _Sentence(string.Formatter):
    def __init__(self, language: Language) -> None:
        self.language = language

    def format_field(self, value: object, format_spec: str) -> str:
        assert isinstance(value, Fact)
        digits, _, separator = format_spec.partition("/")
        pattern = ("#,##0" if value.unit else "0") + (f".{'0' * int(digits)}" if digits else "")
        return (separator or ", ").join(self._written(each, pattern) for each in value.values)

    def _written(self, value: Value, pattern: str) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, Text):
            return value.pt if self.language == "pt" else value.en
        if value is None or isinstance(value, bool):
            return WORDS[self.language][value]
        return format_decimal(value, format=pattern, locale=LOCALES[self.language])
