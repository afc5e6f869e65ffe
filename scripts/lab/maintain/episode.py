"""The statements of the written episode beside the lab's: data/episode.sql in the episode's order, data/episode.csv where each is."""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass

from lab.base import paths, sql_text
from lab.base.language import Text
from lab.scenario import library


@dataclass(frozen=True)
class Compared:
    """A statement of the episode and the lab's.

    `where` is the lab's script, or its scenario and step; `why` the reason of a difference, empty if the two are the same but for
    white space and the case of keywords and types.
    """

    name: str
    title: Text
    where: str
    episode: str
    lab: str
    why: Text

    @property
    def same(self) -> bool:
        return sql_text.same(self.episode, self.lab)


def statements() -> list[Compared]:
    """All statements of the episode, in its order. Raises LabError if a place that data/episode.csv names is not there."""
    written = sql_text.statements((paths.DATA / "episode.sql").read_text(encoding="utf-8"))
    by_name = {each.comment.splitlines()[-1].removeprefix("-- "): f"{each.text};" for each in written}
    with (paths.DATA / "episode.csv").open(encoding="utf-8", newline="") as file:
        return [
            Compared(
                row["statement"],
                Text(row["en"], row["pt"]),
                row["where"],
                by_name[row["statement"]],
                _of_the_lab(row["where"], by_name[row["statement"]]),
                Text(row["differs_en"], row["differs_pt"]),
            )
            for row in csv.DictReader(file)
        ]


def page(language: str) -> str:
    """Each statement beside the lab's, in Markdown; where the two are the same it stands once."""
    return "\n\n".join(_section(number, each, language) for number, each in enumerate(statements(), start=1))


def _section(number: int, each: Compared, language: str) -> str:
    portuguese = language == "pt"
    file, _, step = each.where.partition(" ")
    place = f"`{file}`" if not step else f"`{file}`, {'passo' if portuguese else 'step'} `{step}`"
    said = (
        (
            "igual, exceto por espaços e por maiúsculas e minúsculas"
            if portuguese
            else "the same but for white space and case"
        )
        if each.same
        else (each.why.pt if portuguese else each.why.en)
    )
    head = f"### {number}. {each.title.pt if portuguese else each.title.en}\n\n{place}: {said}"
    blocks = (
        [each.lab]
        if each.same
        else [
            f"-- {'episódio' if portuguese else 'episode'}\n{each.episode}",
            f"-- {'laboratório' if portuguese else 'lab'}\n{each.lab}",
        ]
    )
    return "\n\n".join([head, *(f"```sql\n{block}\n```" for block in blocks)])


def _of_the_lab(where: str, episode: str) -> str:
    """The lab's statement: that step, or the statement of that script that is most like the episode's."""
    name, _, step = where.partition(" ")
    if step:
        return library.find_scenario(name).step(step).sql
    script = sql_text.statements((paths.ROOT / name).read_text(encoding="utf-8"))
    likeness = {f"{each.text};": difflib.SequenceMatcher(None, each.plain, episode).ratio() for each in script}
    return max(likeness, key=lambda text: likeness[text])
