"""A play as a picture: one lane a session, time to the right; who ran, who waited for whom, who kept a transaction open.

Where a step moves the lab's clock, a dashed line goes through all lanes: what it tells is the story's time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from lab.base.language import Text, say
from lab.scenario.result import Play, StepRun
from lab.scenario.step_words import counted, moves_clock

# Okabe and Ito's colours: told apart by the colour-blind. Waiting is hatched as well, an error has a cross as well.
RUNS = "#0b3c5d"
OPEN = "#9ecae8"
WAITS = "#fdecc8"
HATCH = "#e69f00"
ERROR = "#b8400c"
CLOCK = "#009e73"
INK = "#24292f"
FAINT = "#6e7781"
GRID = "#e7ebef"
CARD = "#ffffff"  # opaque, so that the picture reads the same on a dark page

WIDTH = 8.3  # inches; at 100 dots an inch it is as wide as a page of GitHub
LANE = 0.74  # inches from lane to lane
LEFT, RIGHT = 0.9, 0.25  # inches beside the lanes
TITLE, GAP, AXIS, LEGEND, NOTE = 0.36, 0.24, 0.42, 0.32, 0.28  # inches above, between and below them
STRIP = 0.2  # inches above the lanes for what the lab's clock tells
ROOM = 1.04  # the axis is longer than the play …
LABEL_SIZE = 9.0  # points
LETTER = 0.55  # the mean width of a letter, as a share of its size

# What the columns of one value say, in a reader's words.
VALUES = {
    "pendentes": Text("{} pending", "{} pendentes"),
    "documentos": Text("{} documents", "{} documentos"),
    "bloqueados": Text("{} locked", "{} bloqueados"),
    "encontrados": Text("{} found", "{} encontrados"),
    "valor": Text("amount {}", "valor {}"),
    "lock_timeout": Text("waits {} at most", "espera até {}"),
    "aceito": Text("accepted: {}", "aceito: {}"),
    "encerrado": Text("ended: {}", "encerrado: {}"),
    "portao_fechado": Text("gate closed: {}", "portão fechado: {}"),
    "a_segura_bloqueios": Text("A holds locks: {}", "A segura bloqueios: {}"),
}

Kind = Literal["runs", "waits", "open"]


@dataclass(frozen=True)
class Segment:
    """A stretch of a lane, in seconds since the play began."""

    kind: Kind
    start: float
    end: float
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """What is written at the moment (in seconds) at which a statement gave its result."""

    at: float
    label: str
    error: bool = False


@dataclass(frozen=True)
class Label:
    """Something to write at a lane, and where it begins, in units of the axis; `joined` is how many results had no room."""

    at: float
    text: str
    below: bool = False
    joined: int = 0


def timeline(*plays: Play, titles: Sequence[str] = (), note: str = "") -> Figure:
    """Draw plays one below the other, on one time axis.

    Parameters: plays, at least one; titles, one for each play, or none; note, a line at the foot (without one it says what
    the seconds are, where pauses were made or the lab's clock was moved).
    Returns a figure that belongs to no window: save it, or show it in a notebook.
    """
    note = note or _note(plays)
    lanes = [LANE * len(play.scenario.sessions) + (STRIP if moves(play) else 0) for play in plays]
    titled = TITLE if titles else 0.0
    height = sum(lanes) + len(plays) * titled + (len(plays) - 1) * GAP + AXIS + LEGEND + (NOTE if note else 0)
    figure = Figure(figsize=(WIDTH, height), dpi=100, facecolor=CARD)
    scale = _Scale.of(plays)
    top = height
    for number, (play, tall) in enumerate(zip(plays, lanes, strict=True)):
        if titles:
            figure.text(0.12 / WIDTH, (top - 0.29) / height, titles[number], size=11, weight="bold", color=INK)
        top -= titled + tall
        axes = figure.add_axes((LEFT / WIDTH, top / height, (WIDTH - LEFT - RIGHT) / WIDTH, tall / height))
        _draw(axes, play, scale, with_axis=number == len(plays) - 1)
        top -= GAP
    _legend(figure, plays, (NOTE if note else 0) / height)
    if note:
        figure.text(0.5, 0.12 / height, note, size=8.5, color=INK, ha="center")
    return figure


def segments(play: Play, session: str) -> list[Segment]:
    """The stretches of a session's lane; an open transaction lies below the statements run in it."""
    opened: float | None = None
    found: list[Segment] = []
    for run in _runs(play, session):
        ended = _end(play, run)
        if run.waiting_since is None:
            found.append(Segment("runs", run.started, ended))
        else:
            found.append(Segment("runs", run.started, run.waiting_since))
            found.append(Segment("waits", run.waiting_since, ended, _wait(run)))
        if run.command == "BEGIN":
            opened = ended
        elif opened is not None and (_closes(run) or run.outcome == "error"):  # an error gives the locks back at once
            found.append(Segment("open", opened, ended))
            opened = None
    if opened is not None:
        found.append(Segment("open", opened, play.seconds))
    return found


def marks(play: Play, session: str) -> list[Mark]:
    """What a session's statements gave: a document, a number of rows, an SQLSTATE, the end of a transaction."""
    return [
        Mark(_end(play, run), result(run), error=run.outcome == "error")
        for run in _runs(play, session)
        if run.outcome == "error" or (run.columns is not None and not moves_clock(run)) or _closes(run)
    ]


def moves(play: Play) -> list[Mark]:
    """The moments at which a step moved the lab's clock, and what it tells from then on, since the play began."""
    return [Mark(_end(play, run), result(run)) for run in play.runs.values() if moves_clock(run)]


def crowded(*plays: Play) -> int:
    """How many results have no room of their own in the picture of these plays, and share the label before them."""
    scale = _Scale.of(plays)
    rows = [scale.labels(marks(play, session)) for play in plays for session in play.scenario.sessions]
    rows += [scale.labels(moves(play), above_only=True) for play in plays]
    return sum(label.joined for row in rows for label in row)


def result(run: StepRun) -> str:
    """What a statement gave, in a word or two: `document 1`, `4 pending`, `0 rows`, `55P03`, `COMMIT`, `clock +7 min`."""
    if run.outcome == "error":
        return run.sqlstate or ""
    if moves_clock(run):
        return say("clock", "relógio") + f" +{_length(run.value or '')}"
    if run.columns is None:
        return run.command
    if len(run.rows) == 1 and run.columns[0] == "documento_id":
        return say(f"document {run.value}", f"documento {run.value}")
    if len(run.rows) == 1 and len(run.columns) == 1:
        return str(VALUES.get(run.columns[0], Text("→ {}", "→ {}"))).format(_plain(run.value))
    return counted(len(run.rows))


def releases(play: Play) -> list[tuple[StepRun, StepRun]]:
    """The waits that the end of a transaction was over with: that end, and the statement that waited."""
    ends = [run for run in play.runs.values() if _closes(run)]
    found = []
    for waiter in play.runs.values():
        if waiter.waiting_since is None or waiter.ended is None or waiter.outcome == "error":
            continue
        during = [end for end in ends if waiter.waiting_since <= end.started <= waiter.ended]
        if during:
            found.append((during[-1], waiter))
    return found


def _runs(play: Play, session: str) -> list[StepRun]:
    return [run for run in play.runs.values() if run.step.session == session]


def _end(play: Play, run: StepRun) -> float:
    return play.seconds if run.ended is None else run.ended


def _wait(run: StepRun) -> str:
    names = say(" and ", " e ").join(run.waited_for)
    seconds = f"{run.seconds:.1f}"
    return say(f"waits for {names}, {seconds} s", f"espera por {names}, {seconds.replace('.', ',')} s")


def _closes(run: StepRun) -> bool:
    return run.command in ("COMMIT", "ROLLBACK")


def _plain(value: str | None) -> str:
    """A value as the server sent it; a boolean in words."""
    return {None: say("none", "nenhum"), "t": say("yes", "sim"), "f": say("no", "não")}.get(value, value or "")


def _length(interval: str) -> str:
    """An interval as the server writes it, in a word or two: `1 day 00:11:00` is `1 d 11 min`."""
    found = re.fullmatch(r"(?:(\d+) days?)? ?(?:(\d\d):(\d\d):(\d\d))?", interval)
    if not found:
        return interval
    parts = zip(found.groups(), ("d", "h", "min", "s"), strict=True)
    return " ".join(f"{int(number)} {unit}" for number, unit in parts if number and int(number))


def _note(plays: Sequence[Play]) -> str:
    """What the seconds of the axis are worth."""
    made_up = any(play.paced for play in plays)
    if any(moves(play) for play in plays):
        clock = say("the story's time is the lab's clock.", "o tempo da história é o do relógio do laboratório.")
        if not made_up:
            return clock[0].upper() + clock[1:]
        pauses = say("The seconds are pauses made up for the picture", "Os segundos são pausas postas para a figura")
        return f"{pauses}; {clock}"
    if not made_up:
        return ""
    return say(
        "The pauses between statements are made up: they stand for work.",
        "As pausas entre os comandos são simuladas: representam o trabalho.",
    )


@dataclass(frozen=True)
class _Scale:
    """The time axis: its unit, how many there are in a second, and how many it shows."""

    unit: str
    a_second: float
    span: float

    @classmethod
    def of(cls, plays: Sequence[Play]) -> _Scale:
        seconds = max(play.seconds for play in plays)
        unit, a_second = ("s", 1.0) if seconds >= 0.5 else ("ms", 1000.0)
        scale = cls(unit, a_second, seconds * a_second * ROOM)
        # … and still longer where the last label wants it. A label takes a share of the axis, whatever that shows.
        lanes = [marks(play, session) for play in plays for session in play.scenario.sessions]
        lanes += [moves(play) for play in plays]
        wanted = [label.at / (1 - scale.share(label.text)) for lane in lanes for label in scale.labels(lane)]
        return cls(unit, a_second, max(scale.span, *wanted))

    def share(self, text: str) -> float:
        """About how wide a label is, as a share of the axis."""
        return (len(text) + 1.5) * LETTER * LABEL_SIZE / 72 / (WIDTH - LEFT - RIGHT)

    def labels(self, found: Sequence[Mark], above_only: bool = False) -> list[Label]:
        """What to write at a lane besides its errors: above it, where there is room, else below; else it joins the last one above."""
        taken = [self._stretch(self.middle(mark), mark.label, 0.5) for mark in found if mark.error]  # below the lane
        above: list[Label] = []
        below: list[Label] = []
        for mark in found:
            at = mark.at * self.a_second
            start, end = self._stretch(at, mark.label)
            if mark.error:
                continue
            if not above or self._stretch(above[-1].at, above[-1].text)[1] <= start:
                above.append(Label(at, mark.label))
            elif not above_only and not any(start < until and since < end for since, until in taken):
                below.append(Label(at, mark.label, below=True))
                taken.append((start, end))
            else:
                last = above[-1]
                above[-1] = Label(last.at, f"{last.text}, {mark.label}", joined=last.joined + 1)
        return above + below

    def middle(self, error: Mark) -> float:
        """Where the middle of an error's label is: it must not run into the sessions' names."""
        return max(error.at * self.a_second, self.share(error.label) * self.span / 2)

    def _stretch(self, at: float, text: str, before: float = 0.0) -> tuple[float, float]:
        """From where to where a label reaches, `before` as a share of it on the left."""
        width = self.share(text) * self.span
        return at - before * width, at + (1 - before) * width


def _draw(axes: Axes, play: Play, scale: _Scale, with_axis: bool) -> None:
    sessions = play.scenario.sessions
    axes.set_xlim(-0.006 * scale.span, scale.span)
    clock = scale.labels(moves(play), above_only=True)
    top = -0.6 - (STRIP / LANE if clock else 0)
    axes.set_ylim(len(sessions) - 0.4, top)
    for mark in moves(play):
        x = mark.at * scale.a_second
        axes.plot([x, x], [top, len(sessions) - 0.4], color=CLOCK, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    for label in clock:
        _write(axes, label.at, -0.6, f" {label.text}", CLOCK)
    for lane, session in enumerate(sessions):
        last = play.seconds * scale.a_second
        axes.plot([0, last], [lane, lane], color=FAINT, linewidth=0.8, linestyle=(0, (1, 3)), zorder=1)
        for segment in segments(play, session):
            _bar(axes, lane, segment, scale)
        for label in scale.labels(marks(play, session)):
            _write(axes, label.at, lane + (0.22 if label.below else -0.25), label.text, INK, below=label.below)
        for mark in marks(play, session):
            if mark.error:
                _cross(axes, mark, lane, scale)
    for end, waiter in releases(play):
        x = (end.ended or 0) * scale.a_second
        rows = [sessions.index(end.step.session), sessions.index(waiter.step.session)]
        axes.plot([x, x], rows, color=HATCH, linewidth=1.2, linestyle=(0, (2, 2)), zorder=2)
    axes.set_yticks(
        range(len(sessions)), [f"{say('session', 'sessão')} {session}" for session in sessions], size=9.5, color=INK
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", length=0, colors=FAINT, labelsize=8.5, labelbottom=with_axis)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(
        lambda value, _: say(f"{value:g}", f"{value:g}".replace(".", ",")) + f" {scale.unit}"
    )


def _write(axes: Axes, at: float, height: float, words: str, colour: str, below: bool = False) -> None:
    text = axes.text(at, height, words, size=LABEL_SIZE, color=colour, va="top" if below else "bottom", zorder=5)
    text.set_bbox({"facecolor": CARD, "edgecolor": "none", "pad": 0.5})  # no line goes through it


def _cross(axes: Axes, error: Mark, lane: int, scale: _Scale) -> None:
    axes.plot(
        [error.at * scale.a_second], [lane], marker="X", markersize=10, color=ERROR, markeredgecolor=CARD, zorder=6
    )
    text = axes.text(
        scale.middle(error), lane + 0.22, error.label, size=LABEL_SIZE, color=ERROR, weight="bold", zorder=5
    )
    text.set(horizontalalignment="center", verticalalignment="top")


def _bar(axes: Axes, lane: int, segment: Segment, scale: _Scale) -> None:
    half = {"runs": 0.2, "waits": 0.17, "open": 0.07}[segment.kind]
    start = segment.start * scale.a_second
    # A statement of less than a millisecond is to be seen among waits of seconds.
    length = max((segment.end - segment.start) * scale.a_second, scale.span * (0.005 if segment.kind == "runs" else 0))
    colour = {"runs": RUNS, "waits": WAITS, "open": OPEN}[segment.kind]
    order = {"open": 2, "waits": 3, "runs": 4}[segment.kind]
    bar = Rectangle((start, lane - half), length, 2 * half, facecolor=colour, zorder=order)
    if segment.kind == "waits":
        bar.set(hatch="////", edgecolor=HATCH, linewidth=0.8)
    axes.add_patch(bar)
    if segment.label and scale.share(segment.label) * scale.span < length:
        text = axes.text(start + length / 2, lane, segment.label, size=LABEL_SIZE, color=INK, zorder=5)
        text.set(horizontalalignment="center", verticalalignment="center_baseline")
        text.set_bbox({"facecolor": CARD, "edgecolor": "none", "pad": 1.5})


def _legend(figure: Figure, plays: Sequence[Play], bottom: float) -> None:
    runs = [run for play in plays for run in play.runs.values()]
    entries: list[Patch | Line2D] = [Patch(facecolor=RUNS, label=say("a statement runs", "comando em execução"))]
    if any(run.command == "BEGIN" for run in runs):
        words = say("transaction open: it keeps its locks", "transação aberta: segura os bloqueios")
        entries.append(Patch(facecolor=OPEN, label=words))
    if any(run.waited_for for run in runs):
        words = say("waits for a lock", "espera por um bloqueio")
        entries.append(Patch(facecolor=WAITS, edgecolor=HATCH, hatch="////", label=words))
    if any(moves(play) for play in plays):
        words = say("the lab's clock moves on", "o relógio do laboratório avança")
        entries.append(Line2D([], [], color=CLOCK, linewidth=1.2, linestyle=(0, (4, 3)), label=words))
    if any(run.outcome == "error" for run in runs):
        words = say("fails, with its SQLSTATE", "erro, com SQLSTATE")
        entries.append(Line2D([], [], color=ERROR, marker="X", markersize=8, linestyle="none", label=words))
    figure.legend(
        handles=entries,
        loc="lower center",
        bbox_to_anchor=(0.5, bottom),
        ncols=len(entries),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
        columnspacing=1.6,
    )


def in_words(play: Play) -> str:
    """A picture's content for those who cannot see it, in the reader's language."""
    name = say("session", "sessão")
    return "; ".join(f"{name} {session}: {', '.join(_told(play, session))}" for session in play.scenario.sessions)


def _told(play: Play, session: str) -> list[str]:
    words = []
    for run in _runs(play, session):
        if run.waited_for:
            words.append(_wait(run))
        words.append(result(run))
    return words
