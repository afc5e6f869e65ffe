"""Sentences made from facts: each language writes numbers, lists and yes or no in its own way."""

from __future__ import annotations

import pytest

from lab.base.facts import Fact, Language, sentence
from lab.base.language import Text

FACTS = {
    "buffers": Fact(20248, "buffers"),
    "seed": Fact(20248),
    "wait": Fact(2.0, "s"),
    "claims": Fact(("1", "2"), "documents"),
    "left": Fact(False),
    "key": Fact(None),
    "passed": Fact(()),
    "reason": Fact(Text("a DOCTYPE", "um DOCTYPE")),
}


@pytest.mark.parametrize(
    ("template", "language", "told"),
    [
        ("{buffers} buffers", "en", "20,248 buffers"),
        ("{buffers} buffers", "pt", "20.248 buffers"),
        ("{seed}", "pt", "20248"),
        ("{wait:2} s", "en", "2.00 s"),
        ("{wait:2} s", "pt", "2,00 s"),
        ("{claims}", "en", "1, 2"),
        ("{claims:/ and }", "en", "1 and 2"),
        ("{left}; {key}", "en", "no; none"),
        ("{left}; {key}", "pt", "não; nenhum"),
        ("{passed}: {reason}", "en", "none: a DOCTYPE"),
        ("{passed}: {reason}", "pt", "nenhum: um DOCTYPE"),
    ],
)
def test_a_sentence_is_written_as_its_language_writes(template: str, language: Language, told: str) -> None:
    assert sentence(template, FACTS, language) == told


def test_a_sentence_names_only_facts_that_there_are() -> None:
    with pytest.raises(KeyError):
        sentence("{nothing}", FACTS, "en")
