"""Who owned each document, read from a play: as data, in words, and as a picture in which no label lies on another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from lab.base.errors import LabError
from lab.notebook.variants import play_working
from lab.scenario import ownership, ownership_figure, player, step_words
from lab.scenario.grammar import Scenario
from lab.scenario.library import find_scenario
from lab.scenario.ownership import Band, Ownership
from lab.scenario.queue_state import QueueState
from lab.scenario.result import Play
from lab.server import schema
from tests.helpers import all_scenarios, mutated

WITH_LEASES = [each for each in all_scenarios() if each.state >= 5]

Seen = Callable[[str | Scenario], Ownership]


@pytest.fixture
def seen(module_database: str) -> Seen:
    """Plays a scenario, and reads from it who owned what."""
    return lambda which: ownership.ownership(_play(which, module_database))


def _play(which: str | Scenario, conninfo: str) -> Play:
    return play_working(find_scenario(which) if isinstance(which, str) else which, conninfo, {})


def _told(seen: Ownership, number: int = 1) -> list[tuple[str, str, int | None, float, float]]:
    """A document's bands: kind, owner, token, from, to; what lies between two steps as a half."""
    return [
        (band.kind, band.owner, band.token, _half(band.start), _half(band.end))
        for band in seen.bands
        if band.documento_id == number
    ]


def _half(at: float) -> float:
    return at if at == int(at) else int(at) + 0.5


def _refused(seen: Ownership) -> list[tuple[int, str, str]]:
    return [(mark.at, mark.session, str(mark.told)) for mark in seen.marks if mark.refused]


# -- bands and marks


def test_a_take_over_is_five_bands_and_four_refusals(seen: Seen) -> None:
    late = seen("06_late_writes")
    assert _told(late) == [
        ("pending", "", None, 0, 1),
        ("owned", "A", 1, 1, 1.5),
        ("late", "A", 1, 1.5, 3),
        ("pending", "", None, 3, 4),
        ("owned", "B", 2, 4, 9),  # though B bears A's name
        ("finished", "", None, 9, 12),
    ]
    assert _refused(late) == [
        (5, "A", "finish, document 1, token 1, 0 rows"),
        (6, "A", "fail, document 1, token 1, 0 rows"),
        (7, "A", "renew, document 1, token 1, 0 rows"),
        (10, "A", "fail, document 1, token 1, 0 rows"),
    ]
    (end,) = late.lease_ends
    assert (_half(end.at), ownership.span(end.time)) == (1.5, "0:30")
    assert {at: ownership.span(time) for at, time in late.clock.items()} == {0: "0:00", 2: "1:00"}
    assert (late.documents, late.idle, late.sessions) == ((1,), (2, 3, 4), ("A", "C", "B"))


def test_without_the_token_the_late_finish_is_seen_to_get_through(seen: Seen) -> None:
    edited = mutated(
        "06_late_writes",
        (
            "-- A wakes up with its result and its token, 1. How many rows does its finish change?\n",
            "-- A wakes up, and asks for its document's state only.\n",
        ),
        (
            "SELECT documento_id, status\nFROM concluir(1, 1);",
            "UPDATE fila_documentos SET status = 'concluido' WHERE documento_id = 1 AND status = 'processando'\n"
            "RETURNING documento_id, status;",
        ),
    )
    through = seen(edited)
    assert _told(through)[-1] == ("finished", "", None, 5, 12)
    assert (5, "A") not in [(at, session) for at, session, _ in _refused(through)]
    assert (9, "B", "finish, document 1, token 2, 0 rows") in _refused(through)


def test_a_lease_that_nobody_takes_back_stays_late_and_its_owner_may_go_on(seen: Seen) -> None:
    kept = seen("06_not_taken_over")
    assert _told(kept) == [
        ("pending", "", None, 0, 1),
        ("owned", "A", 1, 1, 1.5),
        ("late", "A", 1, 1.5, 4),
        ("owned", "A", 1, 4, 5.5),
        ("late", "A", 1, 5.5, 7),
        ("finished", "", None, 7, 10),
    ]
    assert _refused(kept) == []
    assert [(each.at, ownership.span(each.old), ownership.span(each.new)) for each in kept.renewals] == [
        (4, "0:30", "1:30")
    ]


def test_renewals_move_the_end_until_the_maximum_run_time(seen: Seen) -> None:
    longest = seen("07_maximum")
    assert [(each.at, ownership.span(each.old), ownership.span(each.new)) for each in longest.renewals] == [
        (3, "5:00", "9:00"),
        (5, "9:00", "13:00"),
        (7, "13:00", "15:00"),
    ]
    ends = [(_half(each.at), ownership.span(each.time), each.maximum) for each in longest.lease_ends]
    assert ends == [(7.5, "15:00", True)]
    assert _refused(longest) == [(9, "H", "renew, document 1, token 1, 0 rows")]
    renewed = seen("07_renewed")
    assert not renewed.lease_ends  # it was moved away in time
    assert [(_half(each.was or 0), each.now) for each in renewed.renewals] == [(3.5, None)]


def test_a_claim_inside_a_transaction_owns_nothing_before_its_commit(seen: Seen) -> None:
    born = seen("05_born_expired")
    assert _told(born, 2) == [("pending", "", None, 0, 16), ("owned", "A", None, 16, 18)]  # claimed at step 15
    # A waited for B's commit at step 5, and wrote a lease that was over by then.
    ended = [("pending", "", None, 0, 6), ("late", "A", None, 6, 17), ("pending", "", None, 17, 18)]
    assert _told(born, 1) == ended
    # Where A had written already when the queue was read after B's commit, it is A's step all the same.
    born.play.states[5] = born.play.states[6]
    assert _told(ownership.ownership(born.play), 1) == ended


def test_a_renewal_inside_a_transaction_moves_nothing_for_the_others(seen: Seen) -> None:
    inside = seen("07_inside_transaction")
    assert inside.renewals == ()
    assert [kind for kind, *_ in _told(inside)] == ["pending", "owned", "late", "pending"]


def test_a_name_written_over_by_hand_makes_another_owner_under_the_same_token(seen: Seen) -> None:
    assert [(kind, owner, token) for kind, owner, token, *_ in _told(seen("06_heartbeat_by_id"))][4:6] == [
        ("owned", "B", 2),
        ("owned", "A", 2),
    ]


def test_a_new_token_under_the_same_name_is_another_owner(seen: Seen) -> None:
    seized = mutated(
        "06_late_writes",
        (
            "SELECT documento_id, status, versao, tentativas, worker_anterior\nFROM recuperar('vigia');",
            "SELECT 1 AS um;",
        ),
        (
            "SELECT documento_id, token_reserva, versao, tentativas\nFROM reservar('worker-a');\n-- @step a_finishes",
            "UPDATE fila_documentos SET token_reserva = nextval('token_reserva_seq')\nWHERE documento_id = 1;\n"
            "-- @step a_finishes",
        ),
    )
    assert [(kind, owner, token) for kind, owner, token, *_ in _told(seen(seized))][1:4] == [
        ("owned", "A", 1),
        ("late", "A", 1),
        ("late", "B", 2),
    ]


def test_the_end_of_a_transaction_is_told_and_a_commit_that_saves_nothing_is_refused(seen: Seen) -> None:
    ends = [(mark.at, mark.told.verb) for mark in seen("06_same_moment").marks if mark.told.kind == "end"]
    assert ends == [(7, "commit"), (9, "commit")]
    assert _refused(seen("08_commit_after_error"))[-1] == (5, "A", "commit, rolled back")
    assert [mark.told.verb for mark in seen("07_inside_transaction").marks if mark.told.kind == "end"] == ["roll back"]


def test_a_failure_has_its_category_and_the_time_of_the_next_try(seen: Seen) -> None:
    sorted_out = seen("08_by_category")
    ended = [band for band in sorted_out.bands if band.documento_id == 1][-1]
    assert (ended.kind, ended.category, ended.due) == ("failed", "conteudo", None)
    (off,) = [band for band in sorted_out.bands if band.kind == "put_off"]
    assert (off.documento_id, off.category, off.start, _half(off.end)) == (2, "sistemico", 4, 5.5)
    assert off.due is not None and off.due > 60  # the tenth attempt waits for minutes
    assert off.end > max(end.at for end in sorted_out.lease_ends)  # 0:30 comes before that, in the same hour
    assert ownership.band_words(off)[0] == "put off"
    assert any(word.startswith("due at ") for word in ownership.band_words(off))


def test_a_document_that_waits_for_its_time_is_not_said_to_stay_pending(seen: Seen) -> None:
    view = seen("10_one_view")
    assert view.idle == ()
    assert [kind for kind, *_ in _told(view, 8)] == ["put_off"]


def test_the_receiver_is_called_from_the_stage_on_and_answers_with_its_reference(seen: Seen) -> None:
    unknown = seen("09_unknown")
    assert [(call.at, call.session, call.kind, call.words) for call in unknown.calls] == [
        (2, "A", "may", "may be called"),
        (8, "B", "answer", "R-000001"),
    ]
    assert [(band.owner, band.stage) for band in unknown.bands if band.kind == "owned"] == [
        ("A", None),
        ("A", "desconhecido"),
        ("B", "desconhecido"),
        ("B", "obtido"),
    ]
    assert _refused(unknown) == [(7, "B", "finish, document 1, token 2, error 55000")]
    refused = seen("09_late_stage")  # A's stage was refused: no call of A may be out
    assert [(call.at, call.session) for call in refused.calls] == [(7, "B")]


def test_an_effect_is_an_arrow_of_the_session_that_had_it(seen: Seen) -> None:
    assert [(call.session, call.kind) for call in seen("07_too_short").calls] == [("A", "effect"), ("B", "effect")]


def test_operators_go_by_versions(seen: Seen) -> None:
    paused = seen("10_pause")
    assert [(band.kind, band.version) for band in paused.bands if band.documento_id == 1] == [
        ("pending", 0),
        ("owned", 1),
        ("late", 1),
        ("paused", 2),
        ("pending", 3),
        ("owned", 4),
    ]
    assert _refused(paused)[0] == (3, "O", "pause, document 1, version 1, 0 rows")
    assert all(band.version is None for band in seen("06_late_writes").bands)


def test_a_killed_session_is_seen_to_end(seen: Seen) -> None:
    assert seen("08_crash").killed == {"A": 2, "B": 7}


def test_what_finds_nothing_is_no_refusal(seen: Seen) -> None:
    marks = {mark.at: mark for mark in seen("05_recover").marks}
    assert (marks[5].told.kind, marks[5].refused) == ("nothing", False)


def test_where_the_queue_could_not_be_read_the_last_state_goes_on_and_the_picture_says_so(module_database: str) -> None:
    play = _play("06_late_writes", module_database)
    play.states[8] = QueueState(unknown="55P03")
    read = ownership.ownership(play)
    assert read.unknown == (8,)
    assert _told(read)[4] == ("owned", "B", 2, 4, 9)
    texts = [text.get_text() for text in ownership_figure.figure(play).findobj(Text)]
    assert any("not readable at step 8" in text for text in texts)


def test_a_play_that_was_not_observed_or_has_no_leases_says_what_to_do(module_database: str) -> None:
    which = find_scenario("06_same_moment")
    schema.build(module_database, which.state)
    with pytest.raises(LabError, match=r"nb\.play"):
        ownership.ownership(player.play(which, module_database))
    with pytest.raises(LabError, match=r"nb\.timeline"):
        ownership.ownership(_play("04_claim", module_database))


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0:00"), (30, "0:30"), (660, "11:00"), (3630, "1:00:30"), (90000, "1 d 1:00:00")]
)
def test_the_queues_clock_is_told_like_a_clock(seconds: float, told: str) -> None:
    assert ownership.span(seconds) == told


# -- in words, and drawn


@pytest.mark.sample(8)
@pytest.mark.parametrize("which", WITH_LEASES, ids=lambda each: each.name)
def test_every_scenario_can_be_drawn_with_room_for_every_label_in_both_languages(
    which: Scenario, module_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = _play(which, module_database)
    for language in ("en", "pt"):
        monkeypatch.setenv("LAB_LANG", language)
        _check_labels(play)
        _check_bands(play)
        _check_words(play)


def _check_labels(play: Play) -> None:
    figure = ownership_figure.figure(play)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    width, height = canvas.get_width_height()
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
    boxes = {text: _box(text) for text in texts}
    for text, box in boxes.items():
        x0, y0, x1, y1 = box
        assert min(x0, y0) >= 0 and x1 <= width and y1 <= height, f"{text.get_text()!r} leaves the picture"
    for one, other in combinations(texts, 2):
        (a0, b0, a1, b1), (c0, d0, c1, d1) = boxes[one], boxes[other]
        apart = a1 <= c0 or c1 <= a0 or b1 <= d0 or d1 <= b0
        assert apart, f"{one.get_text()!r} lies on {other.get_text()!r}"


def _check_bands(play: Play) -> None:
    """Each band holds its owner's name, or its state, within its own edges."""
    figure = ownership_figure.figure(play)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    bars = [bar.get_window_extent() for bar in figure.axes[0].patches if isinstance(bar, Rectangle) and bar.zorder == 3]
    for band in ownership.ownership(play).bands:
        said = ownership.band_words(band)[0]
        held = [
            bar
            for bar in bars
            for text in texts
            if text.get_text() == said and bar.x0 <= _box(text)[0] and _box(text)[2] <= bar.x1
            if bar.y0 <= _box(text)[1] and _box(text)[3] <= bar.y1
        ]
        assert held, f"{said} stands in no band"


def _box(text: Text) -> tuple[float, float, float, float]:
    box = text.get_window_extent()
    return box.x0 + 0.5, box.y0 + 0.5, box.x1 - 0.5, box.y1 - 0.5  # what only touches lies on nothing


def _check_words(play: Play) -> None:
    """What is told to those who cannot see it names every owner and every refusal, and no column."""
    read, words = ownership.ownership(play), ownership.in_words(play)
    for band in read.bands:
        assert " ".join(ownership.band_words(band)[:1]) in words
        assert band.owner != "?"
    for mark in read.marks:
        if mark.refused:
            assert f"{mark.at}, {mark.session}: {mark.told}" in words
    drawn = [text.get_text() for text in ownership_figure.figure(play).findobj(Text)]
    for word in [*drawn, words]:
        assert "_" not in word and "{" not in word, f"{word!r} names a column or a template"


def test_the_words_say_who_owned_it_and_what_was_refused(module_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play = _play("06_same_name", module_database)
    assert ownership.in_words(play) == (
        "Document 1: at first: pending; from step 1: owned by A, lease until 0:30; after step 1: owned by A, late; "
        "from step 3: pending; from step 4: owned by B, lease until 1:30; from step 5: finished. "
        "Documents 2, 3, 4 stay pending: no lanes. Refused or failed: step 6, B: fail, document 1, 0 rows."
    )
    monkeypatch.setenv("LAB_LANG", "pt")
    assert "Recusado ou com erro: passo 6, B: falhar, documento 1, 0 linhas." in ownership.in_words(play)


def test_an_owner_has_the_same_colour_in_its_band_and_at_its_marks(module_database: str) -> None:
    axes = ownership_figure.figure(_play("06_late_writes", module_database)).axes[0]
    faces = {to_hex(patch.get_facecolor()) for patch in axes.patches}
    marks = {line.get_markerfacecolor() for line in axes.lines}
    for colour in ownership_figure.OWNERS[:2]:  # A's and B's
        assert colour in marks
        assert colour in faces


def test_whatever_the_protocol_writes_as_a_state_a_stage_or_a_category_has_words() -> None:
    assert set(ownership.KINDS) == set(step_words.STATUS)
    assert set(step_words.CATEGORY) == {"conteudo", "sistemico", "conexao", "impasse", "queda"}
    band = Band(1, "owned", 0, 1, owner="A", stage="confirmando", until=30.0)
    assert ownership.band_words(band, clock_reaches=False) == ("A", "confirming", "until 0:30")
