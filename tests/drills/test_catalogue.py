"""The drills that there are, and how their outcome is judged and reported."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lab.base import paths
from lab.base.errors import LabError
from lab.drills import catalogue, report
from lab.drills.catalogue import DrillOutcome
from lab.drills.invariants import Damage


def test_exactly_once_wants_every_document_finished() -> None:
    good = DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 0.0)
    assert catalogue.exactly_once(good)
    for spoilt in (replace(good, finished=3), replace(good, effects=3), replace(good, damage=Damage(stuck=1))):
        assert not catalogue.exactly_once(spoilt)


def test_every_drill_is_held_by_a_claim() -> None:
    text = (paths.ROOT / "scripts" / "09_effects.py").read_text(encoding="utf-8")
    names = [each.name for each in catalogue.drills()]
    assert [name for name in names if f'"{name}"' not in text and f"catalogue.{name.upper()}" not in text] == []


def test_a_drill_that_does_not_exist_is_named() -> None:
    with pytest.raises(LabError, match="There is no drill kill_all; there are kill_before_commit"):
        catalogue.find("kill_all")


def test_what_the_drills_do_not_try_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "hold", lambda *_: DrillOutcome(4, 4, 4, 0, 0, 0, Damage(), (), 0.0))
    shown = Console(file=io.StringIO(), width=1000)
    report.show_drills(catalogue.drills(), "", shown, times=1)
    *_, last = shown.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert last.startswith("not tried: several workers killed at once; a machine that loses power; ")
    assert all(last.count(str(each)) == 1 for each_drill in catalogue.drills() for each in each_drill.not_tried)
    assert shown.file.getvalue().count("not tried") == 1  # type: ignore[attr-defined]
