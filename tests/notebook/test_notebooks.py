"""The notebooks: in step with their texts, fit to be read as they are, and run from top to bottom."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jupytext  # type: ignore[import-untyped]
import nbformat
import psycopg
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode

import lab.notebook as nb
from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import Text
from lab.drills import ablation
from lab.drills.catalogue import DrillOutcome
from lab.drills.invariants import Damage
from lab.lessons.lesson import Check, Lesson, Observed
from lab.lessons.registry import lessons
from lab.notebook import api, build
from lab.notebook.variants import play_working
from lab.scenario.library import find_scenario
from lab.scenario.result import Play
from lab.server.target import Target

TEXTS = build.texts()
PROSE_LINES = 60
CODE_COLUMNS = 97  # what fits without a bar below, in a window of 1000 pixels
WELL = DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 1.0)
TRANSLATED = {'"yes"', '"sim"', '"no"', '"não"', '"none"', '"nenhum"'}
STATES = {"pendente", "falhou", "conteudo", "sistemico"}  # what a cell may say in both languages
WHY = {"en": "**Why.**", "pt": "**Por quê.**"}
SURPRISES = {"en": "Surprises", "pt": "Surpresas"}
each_text = pytest.mark.parametrize("text", TEXTS, ids=[text.stem for text in TEXTS])
each_notebook = pytest.mark.parametrize(
    ("text", "language"),
    [(text, language) for text in TEXTS for language in build.LANGUAGES],
    ids=[f"{text.stem}-{language}" for text in TEXTS for language in build.LANGUAGES],
)


def test_every_lesson_has_its_notebook_in_both_languages() -> None:
    assert [text.stem for text in TEXTS] == [lesson.name for lesson in lessons()]
    made = {build.notebook_of(text, language) for text in TEXTS for language in build.LANGUAGES}
    assert set(build.NOTEBOOKS.glob("**/*.ipynb")) == made


@each_notebook
def test_text_and_notebook_are_in_step(text: Path, language: str) -> None:
    assert _cells(_committed(text, language)) == _cells(build.read(text, language)), "run `make notebooks`"


@each_notebook
def test_the_committed_notebook_was_run_and_says_nothing_of_the_machine(text: Path, language: str) -> None:
    notebook = _committed(text, language)
    assert notebook.metadata == build.METADATA
    assert build.was_run(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert {cell.execution_count for cell in code} == {None}
    assert any("image/png" in output.get("data", {}) for output in _outputs(notebook))
    assert not [
        output for output in _outputs(notebook) if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert not any(cell.metadata for cell in notebook.cells)
    words = re.sub(r"[A-Za-z0-9+/=\n]{500,}", "", str(_outputs(notebook)))  # without the pictures
    for machine in (str(paths.ROOT), str(Path.home()), "/tmp", "127.0.0.1", "localhost", "lab_notebook_"):
        assert machine not in words


@each_text
def test_every_core_claim_of_the_lesson_is_shown(text: Path) -> None:
    written = text.read_text(encoding="utf-8")
    for claim in _lesson(text).checks:
        assert not claim.core or f'"{claim.id}"' in written or f'"{claim.id.replace(".", "_")}"' in written, claim.id
    assert f'nb.surprises("{text.name[:2]}")' in written


@each_notebook
def test_the_prose_is_short(text: Path, language: str) -> None:
    cells = [cell for cell in build.read(text, language).cells if cell.cell_type == "markdown"]
    assert sum(bool(line.strip()) for cell in cells for line in cell.source.splitlines()) < PROSE_LINES


@each_notebook
def test_every_question_asked_wants_a_guess_and_every_guess_is_answered(text: Path, language: str) -> None:
    cells = [cell.source for cell in build.read(text, language).cells if cell.cell_type == "code"]
    assert [cell for cell in cells if "nb.ask(" in cell and "guess = ..." not in cell] == []
    code = "\n".join(cells)
    assert code.count("guess = ...") == code.count("nb.answer(")
    assert code.count("guess = ...  # ") == code.count("guess = ...")  # with what is to be guessed


@each_notebook
def test_every_section_that_shows_a_claim_says_why(text: Path, language: str) -> None:
    whole = "\n".join(cell.source for cell in build.read(text, language).cells)
    for section in re.split(r"^## ", whole, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        if title != SURPRISES[language] and re.search(r"nb\.(claim|observe|facts)\(", section):
            assert WHY[language] in section, title


@each_notebook
def test_no_line_of_code_scrolls_sideways(text: Path, language: str) -> None:
    cells = [cell for cell in build.read(text, language).cells if cell.cell_type == "code"]
    assert [line for cell in cells for line in cell.source.splitlines() if len(line) > CODE_COLUMNS] == []


@each_notebook
def test_every_label_of_a_picture_has_room(text: Path, language: str) -> None:
    assert getattr(api.CROWDED, language) not in str(_outputs(_committed(text, language)))


def test_a_lesson_that_is_pointed_to_exists_or_is_said_to_come() -> None:
    there = {int(lesson.number) for lesson in lessons()}
    texts = [*TEXTS, *paths.ROOT.glob("scripts/[0-9]*.py"), *paths.SQL.glob("**/*.sql")]
    for text in texts:
        words = text.read_text(encoding="utf-8")
        for pointer in re.finditer(
            r"(?:lessons?|liç(?:ão|ões)|\*\*Next:\*\*|\*\*A seguir:\*\*) (\d\d)\b(.{0,24})", words
        ):
            assert int(pointer[1]) in there or "to come" in pointer[2] or "por vir" in pointer[2], (
                f"{text}: {pointer[0]}"
            )


@each_notebook
def test_a_wrong_kernel_is_told_what_to_do_by_the_line_that_fails(
    text: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lab.notebook", None)  # what a Python without the lab meets
    first = next(cell for cell in build.read(text, language).cells if cell.cell_type == "code").source
    assert len(first.splitlines()) == 3
    with pytest.raises(ImportError) as caught:
        exec(first, {})
    line = first.splitlines()[caught.tb.tb_next.tb_lineno - 1] if caught.tb.tb_next else ""
    assert {"en": "Open this notebook with ./lab notebook", "pt": "Abra este notebook com ./lab notebook"}[
        language
    ] in line


@each_text
def test_every_english_cell_has_its_portuguese_twin(text: Path) -> None:
    cells = jupytext.read(text).cells
    marks = [cell.metadata.get("lang") for cell in cells]
    for number, (cell, mark) in enumerate(zip(cells, marks, strict=True)):
        if mark is None:
            assert cell.cell_type == "code", f"prose without a mark: {cell.source}"
            _holds_no_prose(cell.source)
        elif mark == "en":
            assert marks[number + 1 : number + 2] == ["pt"], f"no twin below: {cell.source}"
            _are_twins(cell, cells[number + 1])
        else:
            assert marks[number - 1] == "en", f"no twin above: {cell.source}"


@each_text
def test_the_outputs_of_one_language_are_not_those_of_the_other(text: Path) -> None:
    english, portuguese = (_committed(text, language) for language in build.LANGUAGES)
    assert [cell.cell_type for cell in english.cells] == [cell.cell_type for cell in portuguese.cells]
    shared = set(_sentences(english)) & set(_sentences(portuguese))
    assert shared == set(), "said in both"


@pytest.mark.sample(3)
@each_notebook
def test_the_notebook_runs_from_top_to_bottom_and_tells_what_the_committed_one_tells(
    text: Path, language: str, server: Target
) -> None:
    notebook = build.read(text, language)
    asyncio.run(build.execute([notebook], at_once=1))
    assert _told(notebook) == _told(_committed(text, language)), "run `make notebooks`"
    seen = "".join(str(output.get("data", {}).get("text/markdown", "")) for output in _outputs(notebook))
    assert "| **no**" not in seen and "| **não**" not in seen, "a claim did not hold"
    assert not _left_behind(server)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the helpers show, one text a display."""
    texts: list[str] = []
    monkeypatch.setattr(api, "display", lambda data, **_: texts.append(data["text/markdown"]))
    return texts


@pytest.mark.parametrize(
    ("guess", "seen", "told"),
    [
        ("padrao/nfe-0001", "padrao/NFE-0001", "**padrao/NFE-0001** (you guessed it"),
        ("R-4711", "padrao/NFE-0001", "**padrao/NFE-0001** (your guess: R-4711)"),
        (..., 4, "**4** (no guess yet"),
        ("3, 4", "3 4", "**3 4** (you guessed it"),
        ("não", "f", "**no** (you guessed it"),
        ("nenhum", None, "**none** (you guessed it"),
        ("sim", True, "**yes** (you guessed it"),
        ("yes", False, "**no** (your guess: yes)"),
    ],
)
def test_what_was_seen_is_shown_as_it_came(guess: object, seen: object, told: str, shown: list[str]) -> None:
    nb.answer(guess, seen)
    assert told in shown[0]


@pytest.fixture
def recovered(queue_database: str) -> Play:
    """A play of the recovery."""
    return play_working(find_scenario("05_recover"), queue_database, {})


def test_a_claim_is_judged_by_the_play_that_was_given(recovered: Play, shown: list[str]) -> None:
    nb.claim("05_recover", recovered)
    assert shown[0].endswith("| yes |")
    recovered.runs["b_finishes"].rows = ()  # B, which was left alone, lost its document after all
    nb.claim("05_recover", recovered)
    assert "| **no**: " in shown[1]


def test_a_claim_of_a_time_is_judged_by_the_time_that_passed(queue_database: str, shown: list[str]) -> None:
    passes = play_working(find_scenario("03_passes"), queue_database, {})
    passes["b_asks"].ended = passes["b_asks"].started + 2  # no transcript tells that
    nb.claim("03_passes", passes)
    assert "| **no**: " in shown[0]


def test_a_play_of_something_else_says_nothing_about_a_claim(recovered: Play) -> None:
    with pytest.raises(LabError, match="A play of 05_recover says nothing about the claim of 05_blanket"):
        nb.claim("05_blanket", recovered)


@pytest.mark.parametrize(
    ("damaged", "verdict"), [(WELL, "| yes |"), (replace(WELL, effects=5, damage=Damage(duplicates=1)), "| **no**: ")]
)
def test_a_claim_is_judged_by_the_drills_that_were_held(damaged: DrillOutcome, verdict: str, shown: list[str]) -> None:
    names = ("kill_before_commit", "kill_after_claim", "kill_before_call", "kill_after_call")
    nb.claim("09.killed_workers", dict.fromkeys(names, WELL) | {"kill_after_call": damaged})
    assert verdict in shown[0]
    with pytest.raises(LabError, match="needs the drill kill_after_call"):
        nb.claim("09.killed_workers", dict.fromkeys(names[:3], WELL))


def test_some_defences_can_refute_the_matrix_and_cannot_prove_it(shown: list[str]) -> None:
    kept = ablation.recorded()
    key = kept.row("key")
    for matrix in (kept, ablation.Matrix((key,)), ablation.Matrix((replace(key, without_it=Damage()),))):
        nb.claim("09.defence_matrix", matrix)
    whole, one, harmless = shown
    assert "| yes |" in whole
    assert f"| not decided: 1 of {len(kept.rows)} defences tried, as recorded |" in one
    assert "| **no**: " in harmless


def test_slow_surprises_are_run_when_asked_for_and_named_when_not(
    monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    ran = []

    def observing(name: str) -> Callable[[object], Observed]:
        def observe(_: object) -> Observed:
            ran.append(name)
            return Observed(True, name, name)

        return observe

    words = Text("words", "palavras")
    lesson = Lesson("09_effects.py", minutes=1, question=words, answer=words, psql_only=words)
    lesson.checks = [
        Check(f"09.{name}", Text(name, name), False, observing(name), slow=name == "slow") for name in ("quick", "slow")
    ]
    monkeypatch.setattr("lab.lessons.registry.find", lambda _: lesson)
    monkeypatch.setattr(api, "stage", lambda: None)
    nb.surprises("09")
    assert ran == ["quick"]
    assert 'nb.surprises("09", everything=True)' in shown[-1]
    assert "- slow" in shown[-1]
    nb.surprises("09", everything=True)
    assert ran == ["quick", "quick", "slow"]


def test_nobody_waited_is_no_column(recovered: Play) -> None:
    assert "waited for" not in nb.events(recovered).columns


def test_somebody_waited_is_a_column(queue_database: str) -> None:
    waited = nb.events(play_working(find_scenario("02_commit"), queue_database, {}))
    assert "A" in set(waited["waited for"])


def test_a_cell_that_was_interrupted_leaves_the_notebook_usable(server: Target) -> None:
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    manager.start_kernel(
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "scripts")}, extra_arguments=["--log-level=ERROR"]
    )
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=30)
        assert _run(client, 'import lab.notebook as nb; nb.play("03_passes")') == "ok"
        waiting = client.execute('nb.play("02_rollback", work={"a_gives_up": 15})')
        time.sleep(2)
        manager.interrupt_kernel()
        assert _reply(client, waiting) == {"status": "error", "ename": "KeyboardInterrupt"}
        assert _run(client, 'assert nb.play("03_passes")["b_asks"].value == "2"') == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert not _left_behind(server)


def test_the_picture_of_the_readme_is_there_and_light() -> None:
    assert build.PICTURE.read_bytes().startswith(b"\x89PNG")
    assert build.PICTURE.stat().st_size < 150_000


def _committed(text: Path, language: str) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(build.notebook_of(text, language), as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def _cells(notebook: NotebookNode) -> list[tuple[str, str, str]]:
    return [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells]


def _outputs(notebook: NotebookNode) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def _told(notebook: NotebookNode) -> list[str]:
    """The SQL, questions and claims that the notebook shows: not what was seen, nor where."""
    shown = [output.get("data", {}).get("text/markdown", "") for output in _outputs(notebook)]
    seen = ("Seen: ", "Visto: ", "| claim", "| afirmação", "| step", "| passo", "*PostgreSQL")
    return [text for text in shown if text and not text.startswith(seen)]


def _are_twins(english: NotebookNode, portuguese: NotebookNode) -> None:
    """Fails unless both have the same code but for its texts, or the same headings, paragraphs, tables and quoted code."""
    assert english.cell_type == portuguese.cell_type
    if english.cell_type == "code":
        assert _without_words(english.source) == _without_words(portuguese.source)
        return
    assert english.source != portuguese.source
    assert _shape(english.source) == _shape(portuguese.source)
    quoted = [Counter(re.findall(r"`([^`]+)`", cell.source)) for cell in (english, portuguese)]
    assert {word for words in quoted for word in words if quoted[0][word] != quoted[1][word]} <= TRANSLATED


def _shape(prose: str) -> list[str]:
    """What its paragraphs begin with: the depth of a heading, `**` of a bold word, the bars of each row of a table; empty for others."""
    begun = re.split(r"\n\n|\n(?=\|)|(?<=\n)(?=#)", re.sub(r"(?m)^(#.*)\n", r"\1\n\n", prose))
    bars = [f"|{part.count('|')}" if part.startswith("|") else "" for part in begun if part.strip()]
    marks = [part[: len(part) - len(part.lstrip("#*"))] for part in begun if part.strip()]
    return [*bars, *marks]


def _without_words(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def _holds_no_prose(code: str) -> None:
    """Fails if code for both languages says something in one of them: only names, SQL and comments in both."""
    for comment in re.findall(r"(?m)# (.+)$", code):
        assert " | " in comment, f"said in one language: {comment}"
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = re.findall(r"[a-zà-ú]{3,}", re.sub(r"\w*[_(]\w*", "", node.value))
            assert len(words) < 4 or re.search(r"\b(SELECT|AND|TRUNCATE|REVOKE|FROM)\b", node.value), node.value


def _sentences(notebook: NotebookNode) -> list[str]:
    """What the outputs say in words: lines outside of SQL with four words or more, and the headings of tables with two."""
    said: list[str] = []
    for output in _outputs(notebook):
        data = output.get("data", {})
        prose = re.sub(r"(?s)```.*?```", "", data.get("text/markdown", ""))
        cells = re.split(r"[|\n]", re.sub(r"`[^`]*`", "", prose))
        said += [cell for cell in cells if len(set(re.findall(r"[A-Za-zÀ-ú]{2,}", cell)) - STATES) >= 4]
        headings = re.findall(r"<th>(.*?)</th>", data.get("text/html", ""))
        said += [heading for heading in headings if re.fullmatch(r"[A-Za-zÀ-ú]{2,}( [A-Za-zÀ-ú]{2,})+", heading)]
        said += re.findall(r".*[a-z]{2,} [a-z]{2,}.*", output.get("text", ""))
    return said


def _lesson(text: Path) -> Lesson:
    return next(lesson for lesson in lessons() if lesson.name == text.stem)


def _left_behind(server: Target) -> list[str]:
    """Databases of notebooks whose kernels have ended."""
    with psycopg.connect(server.conninfo) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lab_notebook_%'").fetchall()
    return [name for (name,) in rows]


def _run(client: BlockingKernelClient, code: str) -> str:
    return str(_reply(client, client.execute(code))["status"])


def _reply(client: BlockingKernelClient, message: str) -> dict[str, str]:
    while True:
        reply = client.get_shell_msg(timeout=30)
        if reply["parent_header"].get("msg_id") == message:
            return {key: value for key, value in reply["content"].items() if key in ("status", "ename")}
