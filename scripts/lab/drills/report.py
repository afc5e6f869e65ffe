"""Drills and the defence matrix on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from rich.console import Console

from lab.base.facts import decimal, sentence
from lab.base.language import Text, say
from lab.drills.ablation import Matrix, defences, kinds, worth
from lab.drills.catalogue import Drill, DrillOutcome, hold
from lab.drills.invariants import Damage

# What random kills came to, around the facts of their outcome.
RANDOM_KILLS = Text(
    "workers {workers} at a time; killed {kills} (seed {seed}), with documents in hand {hits}, which left {orphaned}; claims"
    " {claims}, tokens {tokens}, attempts {attempts}; claims past a document in other hands {overtaking}; documents passed over"
    " while free {passed_over} (locked by a claim that a kill rolled back: {uncommitted})",
    "workers {workers} por vez; mortos {kills} (semente {seed}), com documentos em mãos {hits}, que deixaram {orphaned}; reservas"
    " {claims}, tokens {tokens}, tentativas {attempts}; reservas que passaram por um documento em outras mãos {overtaking};"
    " documentos preteridos estando livres {passed_over} (bloqueados por uma reserva que uma morte desfez: {uncommitted})",
)


def show_drills(chosen: Sequence[Drill], conninfo: str, console: Console, times: int) -> bool:
    """Hold drills so many times in a row and print what they came to, and what none of them tries.

    Returns whether all went as expected.
    """
    good = True
    for drill in chosen:
        seen = _held(drill, conninfo, console, times)
        held = sum(drill.expected(one) for one in seen)
        good &= held == times
        style = "green" if held == times else "red"
        console.print(f"{drill.name}  [{style}]{held}/{times}[/]  [bold]{drill.text}[/]", highlight=False)
        console.print(f"  {_figures(seen)}", highlight=False)
        for facts in (one.random_kills.facts for one in seen if one.random_kills):
            told = Text(sentence(RANDOM_KILLS.en, facts, "en"), sentence(RANDOM_KILLS.pt, facts, "pt"))
            console.print(f"  {told}", highlight=False)
        for fault in sorted({fault for one in seen for fault in one.faults}):
            console.print(f"  [red]{fault}[/]", highlight=False)
    not_tried = dict.fromkeys(str(each) for drill in chosen for each in drill.not_tried)
    console.print(f"[dim]{say('not tried', 'fora do teste')}: {'; '.join(not_tried)}[/]", highlight=False)
    return good


def _held(drill: Drill, conninfo: str, console: Console, times: int) -> list[DrillOutcome]:
    """The drill held so many times; on a terminal it shows how far it has come."""
    seen: list[DrillOutcome] = []
    with console.status("") as status:

        def tell(far: str) -> None:
            status.update(f"{drill.name} {len(seen) + 1}/{times}  {far}")

        for _ in range(times):
            tell("")
            seen.append(hold(drill, conninfo, tell))
    return seen


def _figures(seen: Sequence[DrillOutcome]) -> str:
    """What one drill came to, each figure with its range."""
    seconds = decimal(median(one.seconds for one in seen), 1)
    documents, effects = _range(one.documents for one in seen), _range(one.effects for one in seen)
    calls, writes = _range(one.repeated_calls for one in seen), _range(one.late_writes for one in seen)
    damaged, people = _range(one.damage.total for one in seen), _range(one.reconciliation for one in seen)
    return say(
        f"documents {documents}, effects {effects}; refused: calls {calls}, late writes {writes}; damaged {damaged};"
        f" to people {people}; {seconds} s",
        f"{documents} documentos, {effects} efeitos; recusadas: chamadas {calls}, escritas atrasadas {writes}; danificados"
        f" {damaged}; para conciliação {people}; {seconds} s",
    )


def _range(figures: Iterable[int]) -> str:
    found = sorted(set(figures))
    return str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}"


def show_matrix(matrix: Matrix, console: Console) -> bool:
    """Print the matrix; returns whether every defence kept all damage off, and was missed where it was gone."""
    for each in defences():
        row = matrix.row(each.name)
        console.print(f"[bold]{say('without', 'sem')}: {each.shown}[/]  ({each.situation})", highlight=False)
        console.print(f"  {say('with it', 'com ela')}: {_damage(row.with_it)}", highlight=False)
        console.print(f"  {say('without it', 'sem ela')}: {_damage(row.without_it)}", highlight=False)
    return worth(matrix)


def _damage(damage: Damage) -> str:
    """The documents damaged, by what went wrong."""
    found = [f"{shown} {getattr(damage, name)}" for name, shown in kinds() if getattr(damage, name)]
    return ", ".join(found) or say("nothing damaged", "nada danificado")
