"""Generated files are in step with what they are made from."""

from __future__ import annotations

from lab.base import paths
from lab.maintain import generate


def test_what_is_generated_is_in_step() -> None:
    assert [path.relative_to(paths.ROOT).as_posix() for path in generate.changes()] == [], "./lab generate"


def test_a_file_that_is_no_longer_made_is_found_and_removed() -> None:
    left = paths.WALK / "00_gone" / "a.psql"
    left.parent.mkdir()
    try:
        left.write_text("", encoding="utf-8")
        changed = generate.changes()
        assert changed == {left: ""}
        generate.write(changed)
        assert not left.parent.exists()
    finally:
        left.unlink(missing_ok=True)
        if left.parent.exists():
            left.parent.rmdir()
