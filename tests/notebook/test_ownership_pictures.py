"""The pictures of ownership that are kept: one a lesson on the pages, those of the notebooks, each with its alt text."""

from __future__ import annotations

import json
import re

import pytest

from lab.base import config, paths
from lab.lessons.registry import lessons
from lab.notebook import api, build
from lab.notebook.variants import play_working
from lab.scenario import ownership_figure
from lab.scenario.library import find_scenario
from lab.scenario.ownership import ownership

PAGES = {"en": ("docs/ownership.md", "refused"), "pt": ("docs/pt/ownership.md", "recusad")}
MOST_BYTES = 160_000
PAGE, LEAST_PIXELS = 880, 10  # how wide a page shows a picture, and how high its words are at least


@pytest.mark.parametrize("name", build.OWNERSHIP)
def test_a_page_shows_it_and_its_alt_text_names_owners_and_refusals(name: str, module_database: str) -> None:
    play = play_working(find_scenario(name), module_database, {})
    seen = ownership(play)
    owners = {band.owner for band in seen.bands if band.owner}
    refused = {mark.session for mark in seen.marks if mark.refused or mark.failed}
    assert owners and refused
    for language, (page, word) in PAGES.items():
        picture = build.ownership_picture(name, language)
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < MOST_BYTES
        with config.changed(LAB_LANG=language):
            figure = ownership_figure.figure(play)
        assert ownership_figure.SIZE / 72 * PAGE / figure.get_figwidth() >= LEAST_PIXELS, (
            f"{picture} is too wide to read"
        )
        text = (paths.ROOT / page).read_text(encoding="utf-8")
        shown = re.search(rf'{picture.relative_to(paths.ROOT)}" alt="(.+?)">', text)
        assert shown, f"{page} does not show {picture.name}"
        assert owners | refused <= set(re.findall(r"\b[A-Z]\b", shown[1]))
        assert word in shown[1]


def test_the_lessons_of_leases_have_one_each_and_draw_their_plays_so_in_the_notebook() -> None:
    drawn = [name[:2] for name in build.OWNERSHIP]
    assert drawn == [each.number for each in lessons() if "05" <= each.number <= "10"]
    for text in build.texts():
        if text.name[:2] in drawn:
            written = text.read_text(encoding="utf-8")
            assert "nb.ownership(" in written and "nb.timeline(" not in written, text.name


def test_it_is_shown_with_its_alt_text_and_wider_where_its_words_need_it(
    module_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[dict[str, str], dict[str, dict[str, object]]]] = []
    monkeypatch.setattr(api, "display", lambda data, raw, metadata: shown.append((data, metadata)))
    for name in ("06_late_writes", "09_unknown"):
        api.ownership(play_working(find_scenario(name), module_database, {}))
    (narrow, narrow_is), (wide, wide_is) = shown
    assert narrow["text/plain"].startswith("Document 1: at first: pending; from step 1: owned by A, token 1")
    assert narrow_is["image/png"] == {"width": api.PIXELS, "alt": narrow["text/plain"]}
    assert wide_is["image/png"]["alt"] == wide["text/plain"]
    assert isinstance(width := wide_is["image/png"]["width"], int) and width > api.PIXELS


def test_in_a_notebook_its_alt_text_says_what_it_shows() -> None:
    found = 0
    for path in sorted(build.NOTEBOOKS.glob("**/[0-9]*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                words = "".join(output.get("data", {}).get("text/plain", []))
                if words.startswith(("Document 1: ", "Documento 1: ")):
                    assert output["metadata"]["image/png"]["alt"] == words
                    assert "image/png" in output["data"]
                    found += 1
    assert found >= 9  # five lessons with one or more, 07 with three, 08 with two
