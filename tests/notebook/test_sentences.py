"""What goes wrong in a cell is told in a sentence that names what there is, in the notebook's language, without a traceback."""

from __future__ import annotations

import asyncio

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import lab.notebook as nb
from lab.base import config
from lab.base.errors import LabError
from lab.server.target import Target

# What is typed, and what each language says to it.
WRONG = {
    'nb.ask("06_same_name", "a_finnishes")': (
        "06_same_name has no step a_finnishes; its steps: a_claims, ",
        "06_same_name não tem o passo a_finnishes; os que há: a_claims, ",
    ),
    'nb.play("06_same_name", works={})': (
        "nb.play has no argument works; it takes: nb.play(name, work=None, pause=0.0).",
        "nb.play não tem o argumento works; ele aceita: nb.play(name, work=None, pause=0.0).",
    ),
    "nb.table()": ("nb.table needs played; it takes", "nb.table precisa de played; ele aceita"),
    'nb.begin("06", "en", 3)': ("nb.begin was given too many arguments", "nb.begin recebeu argumentos demais"),
    'nb.begin("06", lang="fr")': ("lang is en or pt, not fr.", "lang é en ou pt, não fr."),
    'nb.play("06_same_name", work={"b_clams": 1})': ("has no step b_clams", "não tem o passo b_clams"),
    'nb.play("01_duplicate_key")["z"]': ("01_duplicate_key has no step z", "01_duplicate_key não tem o passo z"),
    'nb.play("01_duplicate_key")["a_processes"].column("id")': (
        "step a_processes returned no column id; its columns: documento_id, worker_id, tentativas",
        "o passo a_processes não devolveu a coluna id; as que há: documento_id, worker_id, tentativas",
    ),
    'nb.play("06_nothing")': ("There is no scenario 06_nothing", "Não há cenário 06_nothing"),
    'nb.compete(claim="skip")': ("claim is one of skip_locked, ", "claim é um destes: skip_locked, "),
    'nb.script("reset.sql", "DELETE")': (
        "No statement of reset.sql begins with DELETE",
        "Nenhum comando de reset.sql começa com DELETE",
    ),
    'nb.query("SELEC 1")': ("42601 (syntax_error): ", "42601 (syntax_error): "),
    "nb.queue_up(sessions=40)": ("The picture holds 2 to 12 sessions, not 40.", "Na figura cabem de 2 a 12 sessões"),
}


@pytest.mark.parametrize("language", ["en", "pt"])
def test_what_goes_wrong_is_told_in_a_sentence(language: str, server: Target) -> None:
    cells = [f'import lab.notebook as nb\n\nnb.begin("06", lang="{language}")', *WRONG]
    errors = _errors(cells)
    assert list(errors) == list(WRONG)
    for wrong, both in WRONG.items():
        told = errors[wrong]
        assert both[language == "pt"] in told, wrong
        assert "\n" not in told and "Traceback" not in told and "File " not in told, wrong


def test_an_error_of_the_readers_own_keeps_its_traceback(server: Target) -> None:
    errors = _errors(["import lab.notebook as nb", "1 / 0"])
    assert "ZeroDivisionError" in errors["1 / 0"] and "Traceback" in errors["1 / 0"]


def test_a_notebook_speaks_the_language_that_begin_names_else_that_of_lab_lang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("lab.notebook.api.display", lambda data, **_: shown.append(data.get("text/markdown", "")))
    monkeypatch.setattr("lab.notebook.api.stage", lambda: None)
    opened = type("Opened", (), {"version": "17.10", "embedded": object()})()
    monkeypatch.setattr("lab.notebook.api._opened", lambda: (opened, None))
    monkeypatch.setenv("LAB_LANG", "pt")
    nb.begin("06")
    nb.begin("06", lang="en")
    nb.answer(..., 1)
    assert "O que impede A" in shown[1] and "What keeps A" in shown[3]
    assert shown[4] == "Seen: **1** (no guess yet)"


def test_arguments_that_fit_are_passed_on() -> None:
    with pytest.raises(LabError, match="no scenario 06_nothing"):
        nb.play("06_nothing", pause=0.1)


def _errors(sources: list[str]) -> dict[str, str]:
    """What a kernel shows for each of these cells that fails."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])  # type: ignore[no-untyped-call]
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = NotebookClient(notebook, km=manager, timeout=60, allow_errors=True, extra_arguments=["--log-level=ERROR"])
    asyncio.run(client.async_execute(cleanup_kc=True, env=config.for_lab_process()))
    return {
        cell.source: "\n".join(output.traceback)
        for cell in notebook.cells
        for output in cell.outputs
        if output.output_type == "error"
    }
