"""The picture of a play, and the plays in which one argument is changed."""

from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from lab.base.errors import LabError
from lab.notebook.variants import play_working, queue_of
from lab.scenario import grammar, player, timeline
from lab.scenario.library import find_scenario
from lab.server import schema

WORK = 0.15
PAUSE = 0.06


def test_a_wait_is_labelled_with_whom_and_ends_in_its_error(queue_database: str) -> None:
    play = play_working(find_scenario("02_lock_timeout"), queue_database, {})
    (wait,) = [segment for segment in timeline.segments(play, "B") if segment.kind == "waits"]
    assert wait.label == "waits for A, 2.0 s"
    assert 1.9 < wait.end - wait.start < 4
    error, count = timeline.marks(play, "B")
    assert (error.label, error.error) == ("55P03", True)
    assert (count.label, count.error) == ("4 pending", False)
    assert timeline.releases(play) == []  # the server ended this wait, not A


def test_a_session_keeps_its_locks_from_begin_to_commit(queue_database: str) -> None:
    play = play_working(find_scenario("03_passes"), queue_database, {"b_ends": WORK, "a_ends": 2 * WORK})
    (a,) = [segment for segment in timeline.segments(play, "A") if segment.kind == "open"]
    (b,) = [segment for segment in timeline.segments(play, "B") if segment.kind == "open"]
    assert a.start < b.start < b.end < a.end
    assert b.end - b.start >= WORK
    assert not [segment for name in "AB" for segment in timeline.segments(play, name) if segment.kind == "waits"]
    assert timeline.in_words(play) == (
        "session A: BEGIN, document 1, COMMIT; session B: BEGIN, SET, waits 2s at most, document 2, COMMIT"
    )


def test_nothing_is_kept_under_autocommit(queue_database: str) -> None:
    play = play_working(find_scenario("03_autocommit"), queue_database, {"b_asks": WORK})
    assert {segment.kind for name in "AB" for segment in timeline.segments(play, name)} == {"runs"}
    assert play["b_asks"].started - (play["a_asks"].ended or 0) >= WORK * 0.9


def test_the_commit_that_ends_a_wait_is_connected_with_it(queue_database: str) -> None:
    play = play_working(find_scenario("02_commit"), queue_database, {})
    assert [(end.step.name, waiter.step.name) for end, waiter in timeline.releases(play)] == [("a_commits", "b_asks")]


def test_waiting_makes_stairs_and_passing_makes_lanes(queue_database: str) -> None:
    waiting = play_working(queue_of(4, skip_locked=False), queue_database, _work(4))
    passing = play_working(queue_of(4, skip_locked=True), queue_database, _work(4))
    asks = [f"{name}_asks" for name in "abcd"]
    assert [waiting[step].value for step in asks] == ["1", "1", "1", "1"]
    assert [passing[step].value for step in asks] == ["1", "2", "3", "4"]
    assert [waiting[step].waited_for for step in asks] == [(), ("A",), ("B",), ("B", "C")]
    assert not any(passing[step].waited_for for step in asks)
    ends = [end.step.name for end, _ in timeline.releases(waiting)]
    assert ends == ["a_commits", "b_commits", "c_commits"]
    assert waiting.seconds >= 4 * WORK  # one after the other
    assert WORK <= passing.seconds < waiting.seconds  # side by side


def test_the_fifth_of_those_that_pass_gets_nothing(queue_database: str) -> None:
    play = play_working(queue_of(5, skip_locked=True), queue_database, {})
    assert [len(play[f"{name}_asks"].rows) for name in "abcde"] == [1, 1, 1, 1, 0]


def test_the_chain_is_no_fiction_with_skip_locked_it_does_not_form(queue_database: str) -> None:
    chain = find_scenario("03_passes").step("a_takes").sql
    text = _text_of(4).replace(chain.replace(" SKIP LOCKED", ""), chain)
    swapped = grammar.parse(text, queue_of(4, skip_locked=False).path)
    schema.build(queue_database, swapped.state)
    failure = player.play(swapped, queue_database).failure
    assert failure is not None and "no lock held it up" in failure


@pytest.mark.parametrize("sessions", [1, 13])
def test_a_queue_of_a_size_that_no_picture_holds_is_refused(sessions: int) -> None:
    with pytest.raises(LabError, match="2 to 12 sessions"):
        queue_of(sessions, skip_locked=True)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_nothing_is_too_short_to_be_seen_and_no_label_lies_on_another(
    language: str, queue_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_LANG", language)
    plays = [
        play_working(find_scenario("02_lock_timeout"), queue_database, {}),
        play_working(find_scenario("02_balance_waits"), queue_database, {"a_spends": WORK}),
        play_working(find_scenario("04_work_outside"), queue_database, {"a_finishes": WORK}),
        play_working(find_scenario("09_unknown"), queue_database, {}, pause=PAUSE),
        play_working(find_scenario("08_one_retry"), queue_database, {}, pause=PAUSE),
    ]
    for shown in ([plays[0], plays[1]], *([play] for play in plays[1:])):
        figure = timeline.timeline(*shown, titles=["a title"] * len(shown), note="a note")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        width, height = canvas.get_width_height()
        for words in figure.legends[0].get_texts():
            assert words.get_window_extent().x0 > 0 and words.get_window_extent().x1 < width, words.get_text()
        for axes in figure.axes:
            assert all(_pixels(axes, bar) >= 3 for bar in axes.patches if isinstance(bar, Rectangle) and _dark(bar))
            boxes = [text.get_window_extent() for text in axes.findobj(_is_label)]
            assert all(min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
            assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_a_move_of_the_labs_clock_is_a_line_and_no_result_of_its_session(queue_database: str) -> None:
    play = play_working(find_scenario("07_renewed"), queue_database, {}, pause=PAUSE)
    assert [move.label for move in timeline.moves(play)] == ["clock +4 min", "clock +7 min"]
    assert [mark.label for mark in timeline.marks(play, "C")] == ["0 rows", "document 1"]
    assert "session C: clock +4 min, clock +7 min, 0 rows, document 1" in timeline.in_words(play)
    figure = timeline.timeline(play)
    (axes,) = figure.axes
    dashed = [line.get_path().get_extents() for line in axes.lines if line.get_color() == timeline.CLOCK]
    assert [line.ymin < 0 and line.ymax > 3 for line in dashed] == [True, True]  # through all four lanes
    assert "the story's time is the lab's clock" in figure.texts[-1].get_text()


@pytest.mark.parametrize(
    ("told", "length"),
    [
        ("00:07:00", "7 min"),
        ("1 day", "1 d"),
        ("1 day 00:11:00", "1 d 11 min"),
        ("01:00:30", "1 h 30 s"),
        ("-00:01:00", "-00:01:00"),
    ],
)
def test_what_the_clock_tells_is_short(told: str, length: str) -> None:
    assert timeline._length(told) == length


def test_with_pauses_each_result_stands_at_its_own_statement(queue_database: str) -> None:
    paused = play_working(find_scenario("10_pause"), queue_database, {}, pause=PAUSE)
    hurried = play_working(find_scenario("10_pause"), queue_database, {"a_finishes": 1.0})
    assert timeline.crowded(paused) == 0
    assert timeline.crowded(hurried) > 0
    scale = timeline._Scale.of([paused])
    for session in "AOB":
        marks = timeline.marks(paused, session)
        labels = sorted(scale.labels(marks), key=lambda label: label.at)
        assert [(label.at, label.text) for label in labels] == [
            (mark.at * scale.a_second, mark.label) for mark in marks
        ]


def _work(sessions: int) -> dict[str, float]:
    return {f"{name}_commits": WORK for name in "abcdefghijkl"[:sessions]}


def _text_of(sessions: int) -> str:
    """The text of the chain, as it was parsed."""
    lines = ["-- A chain.", "-- @pt Uma corrente."]
    for action in queue_of(sessions, skip_locked=False).actions:
        if isinstance(action, grammar.Step):
            blocks = f" blocks {action.blocks}" if action.blocks else ""
            lines += [f"-- @step {action.name} {action.session}{blocks}", action.sql]
        else:
            lines.append(f"-- @ends {action.step}")
    return "\n".join(lines)


def _pixels(axes: Axes, bar: Rectangle) -> float:
    left, right = axes.transData.transform([(bar.get_x(), 0), (bar.get_x() + bar.get_width(), 0)])[:, 0]
    return float(right - left)


def _dark(bar: Rectangle) -> bool:
    return bar.get_zorder() == 4


def _is_label(artist: object) -> bool:
    return (
        isinstance(artist, Text) and bool(artist.get_text()) and artist.get_visible() and artist.get_fontsize() == 9.0
    )


def test_no_picture_names_a_column(queue_database: str) -> None:
    """A result of one value says what it is in words; what has none of its own stands alone."""
    shown = {
        which: timeline.in_words(play_working(find_scenario(which), queue_database, {}))
        for which in ("03_passes", "03_report", "04_stranger_lock", "05_frozen_now")
    }
    assert "waits 2s at most" in shown["03_passes"]
    assert "4 documents" in shown["03_report"]
    assert "gate closed: yes" in shown["04_stranger_lock"]
    assert [words for words in shown.values() if "_" in words] == []


def test_a_picture_speaks_portuguese(queue_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LANG", "pt")
    play = play_working(find_scenario("02_lock_timeout"), queue_database, {})
    assert timeline.in_words(play).startswith("sessão A: ")
    assert "espera por A, 2,0 s, 55P03, 4 pendentes" in timeline.in_words(play)
    legend = [text.get_text() for text in timeline.timeline(play).legends[0].get_texts()]
    assert legend == [
        "comando em execução",
        "transação aberta: segura os bloqueios",
        "espera por um bloqueio",
        "erro, com SQLSTATE",
    ]
