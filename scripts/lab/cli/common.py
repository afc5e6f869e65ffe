"""What the commands share: the server in use, a stage on it, progress on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from lab.base.errors import LabError
from lab.base.language import say

if TYPE_CHECKING:
    from lab.lessons.lesson import Check, CheckResult
    from lab.scenario.stage import Stage
    from lab.server.target import Target


@contextmanager
def use_server(console: Console, quiet: bool = False) -> Iterator[Target]:
    """The server in use. One that this command started is stopped again on ^C, unless another lab has come to use it."""
    from lab.server import schema
    from lab.server.target import open_target

    target = open_target()
    if target.embedded:
        with suppress(LabError):  # a schema that the reader typed himself is there, and stays
            if schema.state(target.conninfo) is None:
                schema.build(target.conninfo, 1)  # so that the database one plays in by hand is never empty
    if not quiet:
        console.print(target.headline(), highlight=False, markup=False, soft_wrap=not console.is_terminal)
    try:
        yield target
    except BaseException as error:
        if was_interrupted(error) and target.embedded and target.started and not target.started.was_running:
            target.embedded.down_if_alone()
        raise


@contextmanager
def use_stage(target: Target, load: bool = False) -> Iterator[Stage]:
    """A database of one's own on the target, to play in."""
    from lab.scenario.stage import Stage

    with target.database() as conninfo:
        yield Stage(
            conninfo,
            superuser=target.superuser,
            embedded=target.embedded is not None,
            load=load or target.embedded is not None,
            full=load,
        )


@contextmanager
def show_progress(console: Console, quiet: bool) -> Iterator[Any]:
    """What to call before and after each check: on a terminal it shows the check that is being run."""
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("") as status:

        def progress(check: Check, result: CheckResult | None) -> None:
            status.update(f"{check.id}  {check.text}" if result is None else "")

        yield progress


def none_of(word: str, known: Iterable[str]) -> str:
    """The sentence for a word that is none of those known."""
    names = ", ".join(known)
    return say(f"{word} is none of {names}.", f"{word} não é nenhum destes: {names}.")


def confirm(question: str) -> bool:
    """Whether the reader says yes; anything else, and the end of the input, is no."""
    try:
        answer = input(f"{question} {say('[y/N]', '[s/N]')}: ")
    except EOFError:
        print()
        return False
    return answer.strip().lower()[:1] in ("y", "s")


def was_interrupted(error: BaseException | None) -> bool:
    """Whether ^C is behind it; what was being cleaned up then may have failed in its turn."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | typer.Abort):
            return True
        error = error.__context__
    return False
