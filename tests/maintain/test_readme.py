"""README.md, LEIAME.md and docs/ say what the lab does: made parts are in step, what they name exists, and both languages agree."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from typer.main import get_command

from lab.base import paths
from lab.cli.app import MAINTAINERS, command_line
from lab.lessons import registry
from lab.maintain import generate
from lab.scenario import library

README, LEIAME = paths.ROOT / "README.md", paths.ROOT / "LEIAME.md"
DOCS = sorted((paths.ROOT / "docs").glob("*.md"))
TWINS = [(README, LEIAME), *((page, page.parent / "pt" / page.name) for page in DOCS)]
PAGES = [page for pair in TWINS for page in pair]
COMMANDS = get_command(command_line()).commands  # type: ignore[attr-defined]
FIRST_SCREEN = 45  # lines


def named(page: Path) -> str:
    return page.relative_to(paths.ROOT).as_posix()


def commands(page: Path) -> list[str]:
    """Every `./lab …` of a page, from its command to the end of the line or of the code."""
    return re.findall(r"\./lab ([a-z][^`|\n>#)]*)", page.read_text(encoding="utf-8"))


def checks(page: Path) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d\d\.[a-z]\w+", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shape(page: Path) -> dict[str, object]:
    """What a page has in common with its twin: which headings, tables, items and code it has, and what it names in them."""
    text = page.read_text(encoding="utf-8")
    return {
        "headings": re.findall(r"^#+ ", text, re.MULTILINE),
        "columns of the tables": [line.count("---") for line in re.findall(r"^\| ---.*$", text, re.MULTILINE)],
        "rows of the tables": len(re.findall(r"^\|", text, re.MULTILINE)),
        "paragraphs": len(re.split(r"\n{2,}", text.strip())),
        "items": len(re.findall(r"^- ", text, re.MULTILINE)),
        "links": len(re.findall(r"\]\(", text)),
        "blocks of code": len(re.findall(r"^```\w", text, re.MULTILINE)),
        "commands": sorted({command.split()[0] for command in commands(page)}),
        "checks": sorted(checks(page)),
        "made parts": re.findall(r"outl\((\w+\.\w+)\(\"", text),  # those in a language
    }


# Made parts


def test_made_parts_are_in_step() -> None:
    assert {README, LEIAME} < set(generate.pages())
    assert [named(page) for page in generate.changes() if page.suffix == ".md"] == [], "./lab generate"


# What pages name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_and_option_named_exists(page: Path) -> None:
    for command in commands(page):
        name, *words = command.split()
        assert name in COMMANDS
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, command


@pytest.mark.parametrize("page", [README, LEIAME], ids=named)
def test_every_command_for_readers_is_named_on_the_first_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    readers = [name for name, command in COMMANDS.items() if command.rich_help_panel != MAINTAINERS.en]
    assert [name for name in readers if f"`{name}`" not in text and f"./lab {name}" not in text] == []


def test_every_check_named_exists() -> None:
    known = {check.id for each in registry.lessons() for check in each.checks}
    told = {page: checks(page) for page in PAGES}
    assert {named(page): wrong for page, names in told.items() if (wrong := names - known)} == {}
    assert len(set().union(*told.values())) > 20


@pytest.mark.parametrize("page", [page for page in PAGES if page.name == "article.md"], ids=named)
def test_each_difference_from_the_article_names_a_check_that_refines_or_contradicts_it(page: Path) -> None:
    with (paths.DATA / "coverage.csv").open(encoding="utf-8", newline="") as file:
        article = [row for row in csv.DictReader(file) if row["source"] == "article"]
    differing = {
        state: {row["check"] for row in article if row["state"] == state} for state in ("refined", "contradicted")
    }
    _, _, *rows = re.findall(r"^\| .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    told = [set(row.split("|")[-2].strip().split(", ")) for row in rows]
    assert told
    assert [names for names in told if not names & set().union(*differing.values())] == []
    assert differing["contradicted"] <= set().union(*told)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_scenario_and_file_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    scenarios = set(re.findall(r"\./lab (?:step|walk) ((?:\d\d_\w+ ?)+)", text))
    for name in " ".join(scenarios).split():
        assert library.find_scenario(name).name == name
    files = re.findall(r"(?<![\w./])(?:sql|walk|notebooks|data|docs|scripts|tests)/[\w./*\[\]-]+\.\w+", text)
    assert [file for file in files if "NN" not in file and not list(paths.ROOT.glob(file))] == []


@pytest.mark.parametrize("page", [*PAGES, paths.ROOT / "CONTRIBUTING.md"], ids=named)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", page.read_text(encoding="utf-8")):
        file, _, heading = "".join(link).partition("#")
        to = page.parent / file if file else page
        assert to.exists(), link
        assert not heading or heading in anchors(to), link


@pytest.mark.parametrize("first", [README, LEIAME], ids=named)
def test_every_page_is_linked_from_the_first_one_of_its_language(first: Path) -> None:
    folder = "docs/" if first is README else "docs/pt/"
    linked = set(re.findall(rf"\(({folder}[\w-]+\.md)", first.read_text(encoding="utf-8")))
    assert linked == {named(page) for page in PAGES if named(page.parent) + "/" == folder}


# What the first screen says


@pytest.mark.parametrize("page", [README, LEIAME], ids=named)
def test_the_first_screen_says_how_to_run_it_and_where_to_go_next(page: Path) -> None:
    screen = "\n".join(page.read_text(encoding="utf-8").splitlines()[:FIRST_SCREEN])
    for said in ("git clone", "\n./lab ", "✓", "notebooks/images/", "./lab walk", "./lab notebook", "./lab protocol"):
        assert said in screen


# Two languages


@pytest.mark.parametrize(("english", "portuguese"), TWINS, ids=[named(page) for page, _ in TWINS])
def test_a_page_has_a_twin_in_portuguese_of_the_same_shape(english: Path, portuguese: Path) -> None:
    assert shape(portuguese) == shape(english)


def test_no_portuguese_page_is_without_its_english_one() -> None:
    assert {page.name for page in (paths.ROOT / "docs" / "pt").iterdir()} == {page.name for page in DOCS}


def test_the_portuguese_glossary_tells_the_same_names_as_the_english_one() -> None:
    def rows(page: Path) -> set[tuple[str, str]]:
        return set(re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", page.read_text(encoding="utf-8"), re.MULTILINE))

    with (paths.DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        known = {(row["pt"], row["en"].replace("_", " ")) for row in csv.DictReader(file)}
    english, portuguese = (rows(paths.ROOT / "docs" / folder / "glossary.md") for folder in ("", "pt"))
    assert english and english == portuguese <= known
