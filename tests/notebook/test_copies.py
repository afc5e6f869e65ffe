"""`./lab notebook`: private copies, so that saving leaves the checkout as it is; an index with progress; nothing but the address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base import config, paths
from lab.lessons import registry
from lab.lessons.lesson import Observed
from lab.notebook import api, build, copies


@pytest.fixture(params=["en", "pt"])
def language(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A language of the lab's, and a private folder of the test's own."""
    monkeypatch.setenv("LAB_LANG", request.param)
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return str(request.param)


def test_copies_are_those_of_the_language_and_hold_no_answers(language: str, tmp_path: Path) -> None:
    index = copies.prepare()
    assert index.parent == tmp_path / "notebooks" / language
    for text in build.texts():
        original = build.notebook_of(text, language)
        copy = _read(index.with_name(original.name))
        assert [cell["source"] for cell in copy["cells"]] == [cell["source"] for cell in _read(original)["cells"]]
        assert not any(cell.get("outputs") for cell in copy["cells"])


def test_a_saved_copy_is_kept_until_a_fresh_one_is_wanted(language: str) -> None:
    copy = copies.prepare().with_name("06_token.ipynb")
    changed = _read(copy)
    changed["cells"][4]["source"] = "mine"
    copy.write_text(json.dumps(changed), encoding="utf-8")
    copies.prepare()
    assert _read(copy) == changed
    copies.prepare(fresh=True)
    assert _read(copy) != changed


def test_the_index_tells_which_checks_were_run_in_a_copy_and_held(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = copies.prepare()
    ids = [check.id for check in registry.find("06").checks]
    copies.note(ids[0], True)  # run elsewhere: in the checkout, or by a test
    assert _row() == ""
    monkeypatch.chdir(index.parent)
    copies.note(ids[0], True)
    copies.note(ids[1], None)
    assert _row() == {"en": f"1 of {len(ids)}, all held", "pt": f"1 de {len(ids)}, todas conferem"}[language]
    copies.note(ids[1], False)
    told = {"en": f"2 of {len(ids)}, **1 did not hold**", "pt": f"2 de {len(ids)}, **1 não confere**"}
    assert _row() == told[language]
    copies.prepare()
    assert told[language] in json.dumps(_read(index), ensure_ascii=False)
    copies.prepare(fresh=True)
    assert _row() == ""


def test_a_check_that_is_shown_in_a_copy_counts(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copies.prepare().parent)
    monkeypatch.setattr(api, "display", lambda data, **_: None)
    monkeypatch.setattr(api, "stage", lambda: None)
    check = replace(registry.find_check("06.truth_table"), observe=lambda _: Observed(True, "seen", "visto"))
    monkeypatch.setattr("lab.lessons.registry.find_check", lambda _: check)
    api.observe("06.truth_table")
    assert _row().startswith("1 ")


def test_a_newer_edition_is_told(language: str) -> None:
    copy = copies.prepare().with_name("06_token.ipynb")
    older = _read(copy)
    older["metadata"]["queue_lab"]["edition"] = "older"
    copy.write_text(json.dumps(older), encoding="utf-8")
    assert "./lab notebook --fresh" in _row()
    assert "--fresh" not in _row("05")


@pytest.mark.thorough
def test_jupyter_prints_its_address_alone_and_saving_leaves_the_checkout_clean(language: str, tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab")
    foreign = tmp_path / "foreign" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    (foreign / "kernel.json").write_text(json.dumps({"argv": ["false"], "display_name": "x", "language": "python"}))
    before = _git_status()
    with _jupyter(tmp_path, JUPYTER_PATH=str(foreign.parents[1]), LAB_LANG=language) as (server, address):
        page, _, token = address.partition("?token=")
        root = page.partition("/lab/")[0]
        assert page.endswith("/lab/tree/index.ipynb") and token
        kernels = _ask(f"{root}/api/kernelspecs", token)["kernelspecs"]
        assert list(kernels) == ["python3"]
        assert kernels["python3"]["spec"]["argv"][1:3] == ["-m", "ipykernel_launcher"]
        settings = _ask(f"{root}/lab/api/settings/@jupyterlab/apputils-extension:notification", token)
        assert settings["settings"] == {"fetchNews": "false"}
        notebook = _ask(f"{root}/api/contents/06_token.ipynb", token)
        notebook["content"]["cells"][0]["source"] = "saved"
        _ask(f"{root}/api/contents/06_token.ipynb", token, {"type": "notebook", "content": notebook["content"]})
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=30)
    assert (out, err, server.returncode) == ("", "", 0)
    assert _read(tmp_path / "notebooks" / language / "06_token.ipynb")["cells"][0]["source"] == ["saved"]
    assert _git_status() == before


@contextmanager
def _jupyter(home: Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`./lab notebook` without a browser, and the address that it printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "lab", "notebook", "--no-browser", f"--port={port}"],
        env=config.for_lab_process(LAB_HOME=str(home), **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server, server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


def _ask(address: str, token: str, body: object = None) -> dict[str, Any]:
    request = urllib.request.Request(
        address,
        data=None if body is None else json.dumps(body).encode(),
        method="GET" if body is None else "PUT",
        headers={"Authorization": f"token {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _row(number: str = "06") -> str:
    """What the index says of a lesson's checks."""
    line = next(line for line in copies.table().splitlines() if line.startswith(f"| [{number}_"))
    return line.split("|")[3].strip()


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _git_status() -> str:
    seen = subprocess.run(["git", "status", "--porcelain"], cwd=paths.ROOT, capture_output=True, text=True, check=False)
    return seen.stdout if seen.returncode == 0 else os.devnull
