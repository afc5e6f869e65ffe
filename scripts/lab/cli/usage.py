"""--help and usage errors in the reader's language: the command-line library knows English alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from rich.console import Console
from typer._click import Command as AnyCommand
from typer._click import Context, HelpFormatter, Parameter
from typer._click.exceptions import BadOptionUsage, BadParameter, MissingParameter, NoSuchOption, UsageError
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from lab.base.language import say

HELP_OPTIONS = ["-h", "--help"]


def told(command: Callable[..., None]) -> str:
    """What a command does, from its docstring: English, and after `@pt` Portuguese."""
    english, _, portuguese = inspect.cleandoc(command.__doc__ or "").partition("\n\n@pt ")
    return say(english, portuguese)


class Command(TyperCommand):
    """A command whose help and errors are in the reader's language."""

    allow_extra_args = True  # so that they come back to us

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        _print_help(self, ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        with _of_this_command(ctx):
            rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(say(f"This is too much: {' '.join(rest)}", f"Isto está sobrando: {' '.join(rest)}"))
        return rest


class Commands(TyperGroup):
    """The `lab` command itself: as `Command`, with the list of commands."""

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        _print_help(self, ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        with _of_this_command(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None:
            close = get_close_matches(name, self.commands)
            meant = say(f" Did you mean {close[0]}?", f" Seria {close[0]}?") if close else ""
            ctx.fail(say(f"There is no command {name}.{meant}", f"O comando {name} não existe.{meant}"))
        return super().resolve_command(ctx, args)


@contextmanager
def _of_this_command(context: Context) -> Iterator[None]:
    """A usage error knows the command in whose words it was found; the library's parser does not say it."""
    try:
        yield
    except UsageError as error:
        error.ctx = error.ctx or context
        raise


def show(error: UsageError) -> None:
    """Print a usage error, with the usage of its command and where to read more."""
    console = Console(stderr=True)
    if error.ctx is not None:
        more = f"{error.ctx.command_path} --help"
        console.print(_usage(error.ctx), highlight=False, markup=False, soft_wrap=True)
        console.print(say(f"More: {more}", f"Mais: {more}"), highlight=False, markup=False, soft_wrap=True)
    text = say("Error", "Erro")
    console.print(f"{text}: {explain(error)}", style="red", highlight=False, markup=False, soft_wrap=True)


def explain(error: UsageError) -> str:
    """What is wrong with the command line, in one sentence. Errors that commands raise themselves are told already."""
    match error:
        case MissingParameter(param=Parameter() as parameter):
            return say(f"{_name(parameter)} is missing.", f"Falta {_name(parameter)}.")
        case NoSuchOption(option_name=name, possibilities=possible):
            meant = next(iter(get_close_matches(name, possible or ())), "")
            known = say(f" Did you mean {meant}?", f" Seria {meant}?") if meant else ""
            return say(f"There is no option {name}.{known}", f"A opção {name} não existe.{known}")
        case BadOptionUsage(option_name=name, ctx=context):
            flags = [*HELP_OPTIONS, *(opt for each in _parameters(context) if _is_flag(each) for opt in each.opts)]
            if name in flags:
                return say(f"{name} takes no value.", f"{name} não aceita valor.")
            return say(f"{name} wants a value.", f"{name} pede um valor.")
        case BadParameter(param=Parameter() as parameter):
            wanted = _kind(parameter, long=True)
            given = _given(error)
            return say(
                f"{_name(parameter)} wants {wanted}, not {given}.", f"{_name(parameter)} pede {wanted}, e não {given}."
            )
    return error.message


def _print_help(command: AnyCommand, context: Context) -> None:
    """Usage, what the command does, its arguments and options, and of `lab` itself the commands."""
    from rich.padding import Padding
    from rich.table import Table

    console = Console()
    console.print(_usage(context), style="bold", highlight=False, markup=False)
    console.print()
    for paragraph in (command.help or "").split("\n\n"):
        console.print(" ".join(paragraph.split()), highlight=False, markup=False)
    sections = list(_sections(command, context))
    width = max(len(name) for _, rows in sections for name, _ in rows)
    for heading, rows in sections:
        table = Table.grid(padding=(0, 3))
        table.add_column(style="bold cyan", no_wrap=True, min_width=width)
        table.add_column()
        for name, text in rows:
            table.add_row(name.replace("[", "\\["), text.replace("[", "\\["))
        console.print()
        console.print(heading, style="bold", highlight=False, markup=False)
        console.print(Padding(table, (0, 0, 0, 2)), highlight=False)


def _sections(command: AnyCommand, context: Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The sections of a help page: a heading, and for each row its name and text."""
    parameters = _parameters(context)
    arguments = [_row(each) for each in parameters if isinstance(each, TyperArgument)]
    options = [_row(each) for each in parameters if isinstance(each, TyperOption)]
    help_row = (", ".join(HELP_OPTIONS), say("Show this page.", "Mostra esta página."))
    if arguments:
        yield say("Arguments", "Argumentos"), arguments
    yield say("Options", "Opções"), [*options, help_row]
    if isinstance(command, TyperGroup):
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, each in command.commands.items():
            first, *_ = (each.help or "").split("\n\n")
            panels.setdefault(str(getattr(each, "rich_help_panel", "")), []).append((name, " ".join(first.split())))
        yield from panels.items()


def _row(parameter: TyperArgument | TyperOption) -> tuple[str, str]:
    """How a parameter is written, and what it is for, with its limits and its default."""
    name = _name(parameter)
    if isinstance(parameter, TyperOption) and not _is_flag(parameter):
        name = f"{name} {parameter.metavar or _kind(parameter)}"
    notes = [_limits(parameter)] if parameter.metavar is None else []
    if parameter.default not in (None, False, (), []):
        notes.append(say(f"default: {parameter.default}", f"padrão: {parameter.default}"))
    told_notes = "; ".join(note for note in notes if note)
    return name, (parameter.help or "") + (f" ({told_notes})" if told_notes else "")


def _usage(context: Context) -> str:
    pieces = [say("[OPTIONS]", "[OPÇÕES]")]
    for each in _parameters(context):
        if isinstance(each, TyperArgument):
            name = _name(each)
            pieces.append(name if each.required or name.startswith("[") else f"[{name}]")
    if isinstance(context.command, TyperGroup):
        pieces.append(say("[COMMAND …]", "[COMANDO …]"))
    return f"{say('Usage', 'Uso')}: {context.command_path} {' '.join(pieces)}"


def _parameters(context: Context | None) -> Sequence[Parameter]:
    return context.command.params if context is not None else ()


def _name(parameter: Parameter) -> str:
    """The name of a parameter: of an argument as the usage shows it, of an option with its dashes."""
    if isinstance(parameter, TyperArgument):
        return parameter.metavar or (parameter.name or "").upper()
    return ", ".join(parameter.opts)


def _is_flag(parameter: Parameter) -> bool:
    return isinstance(parameter, TyperOption) and bool(parameter.is_flag)


def _kind(parameter: Parameter, long: bool = False) -> str:
    """What a parameter wants: a word for the help, or with its limits for a sentence."""
    annotation = getattr(parameter, "type_descriptor").annotation  # noqa: B009
    if annotation is int:
        word, article = say("NUMBER", "NÚMERO"), say("a whole number", "um número inteiro")
    elif annotation is float:
        word, article = say("NUMBER", "NÚMERO"), say("a number", "um número (com ponto: 1.5)")
    else:
        word, article = say("TEXT", "TEXTO"), say("a text", "um texto")
    if not long:
        return word
    limits = _limits(parameter)
    return f"{article}, {limits}" if limits else article


def _limits(parameter: Parameter) -> str:
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None and most is not None:
        return say(f"from {least} to {most}", f"de {least} a {most}")
    if least is not None:
        return say(f"at least {least}", f"no mínimo {least}")
    return ""


def _given(error: BaseException) -> str:
    """The value that did not fit, as the library's check of it tells."""
    errors: Any = getattr(error.__cause__, "errors", lambda: [])()
    return f'"{errors[0].get("input", "")}"' if errors else '""'
