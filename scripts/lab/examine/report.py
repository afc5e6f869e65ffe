"""An examination for the screen and as JSON, with its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lab.base.language import portuguese, say
from lab.examine.queue_file import QueueFile
from lab.examine.verdict import IN_PORTUGUESE, Verdict

USED = ("schema", "claim", "finish", "recover", "expire")  # the blocks that a race sends


def text(queue: QueueFile, verdicts: Sequence[Verdict]) -> str:
    """The verdicts, a line each, and what was not tried."""
    lines = [str(queue.path)]
    for each in verdicts:
        word = IN_PORTUGUESE[each.word] if portuguese() else each.word
        count = say(f"{each.seen} of {each.of}", f"{each.seen} de {each.of}")
        lesson = "" if each.word == "HOLDS" else say(f" (lesson {each.lesson})", f" (lição {each.lesson})")
        lines.append(f"  {word:<11}  {each.title}: {count}; {each.why}{lesson}")
    if unused := [f"@{name}" for name in queue.blocks if name not in USED]:
        named = ", ".join(unused)
        lines.append(say(f"No race here uses {named}.", f"Nenhuma disputa aqui usa {named}."))
    lines.append(
        say(
            "This tried the races above, on small tables with two workers, and no others: what holds here may break elsewhere.",
            "Só as disputas acima foram testadas, em tabelas pequenas e com dois workers: o que resiste aqui pode falhar em outra.",
        )
    )
    return "\n".join(lines)


def as_json(queue: QueueFile, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts as data, in both languages."""
    return {"file": str(queue.path), "verdicts": [asdict(each) for each in verdicts]}
