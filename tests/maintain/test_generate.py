"""Generated files are in step with what they are made from."""

from __future__ import annotations

import pytest

from lab.base import config, paths
from lab.maintain import generate

LEFT = paths.WALK / "00_gone" / "a.psql"


@pytest.mark.parametrize("language", ["en", "pt"])
def test_what_is_generated_is_in_step_whatever_the_language_of_the_one_who_makes_it(language: str) -> None:
    with config.changed(LAB_LANG=language):
        changed = [path for path in generate.changes() if path != LEFT]  # the other test's, which may run beside
    assert [path.relative_to(paths.ROOT).as_posix() for path in changed] == [], "./lab generate"


def test_a_file_that_is_no_longer_made_is_found_and_removed() -> None:
    LEFT.parent.mkdir()
    try:
        LEFT.write_text("", encoding="utf-8")
        changed = generate.changes()
        assert changed == {LEFT: ""}
        generate.write(changed)
        assert not LEFT.parent.exists()
    finally:
        LEFT.unlink(missing_ok=True)
        if LEFT.parent.exists():
            LEFT.parent.rmdir()
