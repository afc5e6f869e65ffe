"""Who owned each document, read from a play: as data, in words, and as a picture in which no label lies on another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from lab.base.errors import LabError
from lab.notebook.variants import play_working
from lab.scenario import ownership, ownership_figure, player, step_words, timeline
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
        (5, "A", "finish, document 1, token 1, 0 rows, old token"),
        (6, "A", "report failure, document 1, token 1, 0 rows, old token"),
        (7, "A", "renew, document 1, token 1, 0 rows, old token"),
        (10, "A", "report failure, document 1, token 1, 0 rows, token void"),
    ]
    (end,) = late.lease_ends
    assert (_half(end.at), ownership.span(end.time)) == (1.5, "0:00:30")
    assert {at: ownership.span(time) for at, time in late.clock.items()} == {0: "0:00:00", 2: "0:01:00"}
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
    assert (9, "B", "finish, document 1, token 2, 0 rows, token void") in _refused(through)


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
        (4, "0:00:30", "0:01:30")
    ]


def test_renewals_move_the_end_until_the_maximum_run_time(seen: Seen) -> None:
    longest = seen("07_maximum")
    assert [(each.at, ownership.span(each.old), ownership.span(each.new)) for each in longest.renewals] == [
        (3, "0:05:00", "0:09:00"),
        (5, "0:09:00", "0:13:00"),
        (7, "0:13:00", "0:15:00"),
    ]
    ends = [(_half(each.at), ownership.span(each.time), each.maximum) for each in longest.lease_ends]
    assert ends == [(8, "0:15:00", True)]
    assert _refused(longest) == [(9, "H", "renew, document 1, token 1, 0 rows, maximum reached")]
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


def test_the_receiver_is_called_from_the_stage_on_and_its_reference_is_noted(seen: Seen) -> None:
    unknown = seen("09_unknown")
    assert [(call.at, call.session, call.kind, call.words) for call in unknown.calls] == [
        (2, "A", "may", "may have been called"),
        (8, "B", "note", "reference R-000001"),
    ]
    assert [(band.owner, band.stage) for band in unknown.bands if band.kind == "owned"] == [
        ("A", None),
        ("A", "desconhecido"),
        ("B", "desconhecido"),
        ("B", "obtido"),
    ]
    assert _refused(unknown) == [(7, "B", "finish, document 1, token 2, error 55000, result unknown")]
    refused = seen("09_late_stage")  # A's stage was refused: A may not have called
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
    assert _refused(paused)[0] == (3, "O", "pause, document 1, version 1, 0 rows, lease still held")
    assert all(band.version is None for band in seen("06_late_writes").bands)


def test_a_try_is_told_where_there_was_more_than_one_or_a_failure_ended_one(seen: Seen) -> None:
    tries = {
        number: [band.tries for band in seen("08_by_category").bands if band.documento_id == number]
        for number in (1, 2, 3)
    }
    assert tries[1] == [0, 1, 1]
    assert tries[2] == [9, 10, 10, 10, 11]
    assert set(tries[3]) == {None}
    told = [ownership.band_words(band) for band in seen("08_by_category").bands if band.documento_id == 2]
    assert [words[2] for words in told if "token" in words[1]] == ["try 10", "try 11"]
    assert told[2][-1] == "try 10: system down"


def test_an_error_of_the_work_names_its_document_and_is_no_refusal(seen: Seen) -> None:
    sorted_out = seen("08_by_category")
    assert _refused(sorted_out) == []
    failed = [(mark.at, mark.session, str(mark.told)) for mark in sorted_out.marks if mark.failed]
    assert failed == [(2, "A", "work, document 1, error 22P02, not a number")]


def test_a_workers_name_is_told_where_two_bear_it(seen: Seen) -> None:
    def names(which: str) -> list[tuple[str, str]]:
        claims = [mark for mark in seen(which).marks if mark.told.verb == "claim"]
        return [(mark.session, line) for mark in claims for line in mark.told.about]

    assert names("06_late_writes") == [("A", "as worker-a"), ("B", "as worker-a")]
    assert names("07_maximum") == []


def test_a_renewal_that_the_maximum_cut_says_for_when_it_was_asked(seen: Seen) -> None:
    longest = seen("07_maximum")
    assert [each.asked and ownership.span(each.asked) for each in longest.renewals] == [None, None, "0:17:00"]
    told = {mark.at: mark.told.notes for mark in longest.marks if mark.told.verb == "renew"}
    assert told[5] == ("0:09:00 → 0:13:00",)
    assert told[7] == ("0:13:00 → 0:15:00", "cut: asked for 0:17:00")


def test_the_same_instant_lies_at_the_same_place(seen: Seen) -> None:
    longest = seen("07_maximum")
    picture = ownership_figure._Picture(longest)
    (end,) = longest.lease_ends
    (move,) = (at for at, time in longest.clock.items() if ownership.span(time) == ownership.span(end.time))
    assert end.at == move == 8
    x = picture.x[float(move)]
    lines = [line.get_xdata() for line in ownership_figure.figure(longest.play).axes[0].lines]
    assert (
        sum(list(np.atleast_1d(line)) == [x, x] for line in lines) == 3
    )  # the clock's line, the end's bar and the maximum's


def test_a_refusal_says_why_as_far_as_the_states_tell(seen: Seen) -> None:
    def reasons(which: str) -> list[tuple[int, tuple[str, ...]]]:
        return [(mark.at, mark.told.notes) for mark in seen(which).marks if mark.refused]

    assert reasons("10_pause") == [(3, ("lease still held",)), (6, ("token void",)), (7, ("token void",))]
    assert reasons("07_only_owner")[0] == (3, ("not its token",))  # of one that was given to another document
    assert reasons("05_blanket") == [(6, ("C has it",))]
    play = seen("10_pause").play
    play.states[2] = QueueState(unknown="55P03")  # before step 3
    assert [mark.told.notes for mark in ownership.ownership(play).marks if mark.at == 3] == [()]


def test_what_was_put_back_by_hand_is_told_late_or_taken_from_a_live_lease(seen: Seen) -> None:
    blanket = seen("05_blanket")
    assert [(each.documento_id, each.at, each.owner) for each in blanket.taken] == [(2, 4, "B")]
    assert [mark.told.notes for mark in blanket.marks if mark.at == 4] == [("1: was late", "2: lease still held")]
    assert seen("06_late_writes").taken == ()  # what was recovered was late
    assert seen("09_lock_order").taken == ()  # B was let in by its owner's commit, and wrote nothing


def test_a_session_is_named_by_what_it_does_in_the_play(seen: Seen) -> None:
    def roles(which: str) -> dict[str, str]:
        return {session: seen(which).role(session) for session in seen(which).sessions}

    assert roles("05_blanket") == {"A": "worker", "B": "worker", "O": "operator", "C": "worker"}
    assert roles("06_late_writes") == {"A": "worker", "C": "other", "B": "worker"}
    assert roles("07_maximum") == {"A": "worker", "C": "other", "H": "heartbeat", "B": "worker"}
    assert roles("10_pause") == {"A": "worker", "O": "operator", "B": "worker"}
    assert roles("06_recovery_in_two_steps")["C"] == "other"  # by hand, but no operator
    assert roles("10_row_security")["O"] == "other"  # it changes the table, no document


def test_what_goes_on_in_a_lane_is_said_once(seen: Seen) -> None:
    picture = ownership_figure._Picture(seen("09_unknown"))
    assert [picture._words(band) for band in picture.seen.bands if band.kind == "owned"] == [
        ("A", "token 1", "try 1"),  # when its lease ends stands above the band
        ("A", "token 1", "result unknown"),
        ("B", "token 2", "try 2", "result unknown", "lease until 0:02:30"),
        ("B", "token 2", "result known", "R-000001"),
    ]


def test_what_the_receiver_did_is_told_with_its_way(seen: Seen) -> None:
    told = ownership.in_words(seen("09_unknown").play)
    assert "Receiver: step 2, from A: may have been called; step 8, to B: reference R-000001." in told
    told = ownership.in_words(seen("07_too_short").play)
    assert "Outside world: step" in told and ", from A: effect on 1" in told


def test_no_line_is_drawn_right_beside_words() -> None:
    figure = Figure(figsize=(3, 1), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 3), ylim=(1, 0))
    axes.axis("off")
    ownership_figure._write(axes, 1.0, 0.5, "document 2", timeline.INK, card=True)
    canvas.draw()  # type: ignore[no-untyped-call]
    box = axes.texts[0].get_window_extent()
    beside = (box.x1 + 1.5 * figure.dpi / 72) / figure.dpi  # inches: 1.5 points from the words
    axes.plot([beside, beside], [0, 1], color=ownership_figure.CLOCK, linewidth=1.1, zorder=1)
    canvas.draw()  # type: ignore[no-untyped-call]
    column = np.asarray(canvas.buffer_rgba())[:, round(beside * figure.dpi), 0]  # type: ignore[no-untyped-call]
    assert column[:20].max() < 200  # the line is there, above the words …
    assert column[int(100 - box.y1) : int(100 - box.y0)].min() > 250  # … and not beside them


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
    ("seconds", "told"),
    [(0.4, "0:00:00"), (30, "0:00:30"), (660, "0:11:00"), (3630, "1:00:30"), (90000, "1 d 1:00:00")],
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
        if mark.refused or mark.failed:
            assert f"{mark.at}, {mark.session}: {mark.told}" in words
    drawn = [text.get_text() for text in ownership_figure.figure(play).findobj(Text)]
    for word in [*drawn, words]:
        assert "_" not in word and "{" not in word, f"{word!r} names a column or a template"


def test_the_words_say_who_owned_it_and_what_was_refused(module_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play = _play("06_same_name", module_database)
    assert ownership.in_words(play) == (
        "Document 1: at first: pending; from step 1: owned by A, try 1, lease until 0:00:30; after step 1: owned by A, late, try 1; "
        "from step 3: pending; from step 4: owned by B, try 2, lease until 0:01:30; from step 5: finished. "
        "Documents 2, 3 and 4 stay pending (not drawn). Taken while the lease held: step 5, document 1. "
        "Refused: step 6, B: report failure, document 1, 0 rows, state: finished."
    )
    monkeypatch.setenv("LAB_LANG", "pt")
    assert "Recusado: passo 6, B: registrar falha, documento 1, 0 linhas, situação: concluído." in ownership.in_words(
        play
    )


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
    assert ownership.band_words(band, clock_reaches=False) == ("A", "confirming", "lease until 0:00:30")


def test_colours_are_told_apart_in_grey_and_words_are_dark_enough() -> None:
    names = ("A", "B", "C")
    owners = {name: _luminance(colour) for name, colour in zip(names, ownership_figure.OWNERS, strict=False)}
    assert _contrast(owners["C"], _luminance(ownership_figure.PENDING)) > 1.3
    assert _contrast(owners["B"], _luminance(ownership_figure.FINISHED)) > 2
    white = _luminance(timeline.CARD)
    for colour in (ownership_figure.FAINT, ownership_figure.CLOCK, timeline.ERROR, ownership_figure.FAILURE):
        assert _contrast(white, _luminance(colour)) >= 4.5
    for colour in ownership_figure.DARK:
        assert _contrast(white, _luminance(colour)) >= 4.5


def test_no_two_kinds_of_band_look_the_same_in_grey(seen: Seen) -> None:
    """Two kinds differ by their grey, by hatching, or by the edge of the one."""
    picture = ownership_figure._Picture(seen("06_late_writes"))
    kinds: set[ownership.Kind] = {*ownership.KINDS.values(), "put_off", "late"}
    looks: dict[str, tuple[str, str, str]] = {kind: picture._look(Band(1, kind, 0, 1)) for kind in kinds - {"owned"}}
    looks |= {f"owned {owner}": picture._look(Band(1, "owned", 0, 1, owner=owner)) for owner in "ABCD"}
    for (one, (face, edge, hatch)), (other, (face2, edge2, hatch2)) in combinations(looks.items(), 2):
        edged = (edge == timeline.CARD) != (edge2 == timeline.CARD)
        assert abs(_grey(face) - _grey(face2)) > 0.08 or hatch != hatch2 or edged, f"{one} looks like {other}"


def _grey(colour: str) -> float:
    """How light a colour is where it is printed or shown in grey, from 0 to 1."""
    red, green, blue = to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _luminance(colour: str) -> float:
    """The relative luminance of a colour, as the Web Content Accessibility Guidelines define it."""
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
