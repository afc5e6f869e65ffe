"""What goes wrong in a cell, in a sentence: a wrong argument, a wrong name, an error of the server."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

import psycopg
from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from lab.base.errors import LabError
from lab.base.language import say
from lab.scenario.transcript import condition

P = ParamSpec("P")
T = TypeVar("T")


def checking_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which for arguments that it does not take raises a LabError that names those it takes."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*values: P.args, **named: P.kwargs) -> T:
        try:
            signature.bind(*values, **named)
        except TypeError:
            raise LabError(_what_it_takes(function.__name__, signature, len(values), set(named))) from None
        return function(*values, **named)

    return called


def instead_of_tracebacks() -> None:
    """In a notebook, show the lab's own errors and the server's as their sentence; any other error keeps its traceback."""
    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((LabError, psycopg.Error), _show)


def told(error: Exception) -> str:
    """The sentence of an error; one of the server begins with its SQLSTATE."""
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return f"{error.sqlstate} ({condition(error.sqlstate)}): {error.diag.message_primary}"
    return str(error).strip()


def _show(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: Exception,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    sentence = [told(error)]
    shell._showtraceback(kind, error, sentence)  # what the kernel sends to the page, and Run All stops at
    return sentence


def _what_it_takes(name: str, signature: inspect.Signature, given: int, named: set[str]) -> str:
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    takes = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    unknown = sorted(named - {each.name for each in parameters})
    missing = [
        each.name
        for each in parameters
        if each.default is each.empty
        and each.kind is each.POSITIONAL_OR_KEYWORD
        and each.name not in {*named, *positional[:given]}
    ]
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
        what = say(f"nb.{name} has no argument {unknown[0]}", f"nb.{name} não tem o argumento {unknown[0]}")
    elif missing:
        what = say(f"nb.{name} needs {missing[0]}", f"nb.{name} precisa de {missing[0]}")
    else:
        what = say(f"nb.{name} was given too many arguments", f"nb.{name} recebeu argumentos demais")
    return say(f"{what}; it takes: nb.{name}({takes}).", f"{what}; ele aceita: nb.{name}({takes}).")
