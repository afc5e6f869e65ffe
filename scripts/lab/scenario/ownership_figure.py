"""The picture of who owned each document: its lane above, each session's below, steps to the right.

The axis is steps, so a column is as wide as its words need; the times written are those of the queue's clock. The card is opaque and
bordered, so that it reads the same on a dark page, and whatever a colour says stands there in words too, for print in grey.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import text_to_path

from lab.base.language import Text, say
from lab.scenario.ownership import (
    Band,
    LeaseEnd,
    Mark,
    Ownership,
    Renewal,
    Role,
    Taken,
    band_words,
    idle_words,
    outside_words,
    ownership,
    same_end,
    span,
)
from lab.scenario.result import Play
from lab.scenario.timeline import CARD, ERROR, INK, OPEN, WIDTH

# A, B, C and D, the same in every picture; they are told apart in grey by their darkness too, from each other and from the states.
OWNERS = ("#4aa3d4", "#7d1156", "#eeb921", "#2f4b9b")
PENDING, PUT_OFF, FINISHED, FAILED, PEOPLE, PAUSED = "#e3e6ea", "#f5f6f7", "#1b7f4d", "#2b2222", "#e6d8f3", "#dfe6ee"
IN_DARK = "#8a8484"  # the hatching of what was given up, which in grey is as dark as an owner
DARK = (OWNERS[1], OWNERS[3], FINISHED, FAILED)  # on these the words are white
LANE_LINE = "#b9c0c7"
FAINT, CLOCK = "#59636e", "#00734f"  # words are written in them, so they are dark enough on white
FAILURE = "#7a5200"  # an error of the work itself

SIZE = 7.6  # points
LINE = 0.128  # inches from line to line
BAND = 0.42  # inches: the least height of a band
ABOVE = 0.2  # inches above a band for when its lease ends
RIGHT = 0.18  # inches beside the lanes; on the left there is room for their names
GAP = 0.12  # inches between neighbouring words
TOP, STEPS, LEGEND_LINE = 0.12, 0.5, 0.2
ROW = 0.1  # inches: from one renewal's arrow to the next one's, below the band
# Inches: a picture wider than READABLE would have words of less than 10 px where a page is 880 px wide; then lines are wrapped.
READABLE = SIZE / 72 * 880 / 10
UNWRAPPED, WRAPPED = 99.0, 0.7
EDGE = 0.012  # inches: from a band's end to its own edge
COLUMN = 0.2  # inches: the least from step to step
CLEAR = 2.5  # points around words in which no line is drawn
MARK = 0.055  # inches: the radius of a mark

ROLES: dict[Role, Text] = {
    "worker": Text("worker", "worker"),
    "heartbeat": Text("heartbeat", "sinal de vida"),
    "operator": Text("operator", "operador"),
    "other": Text("session", "sessão"),
}


def figure(play: Play) -> Figure:
    """Draw who owned each document of a play, when, and what was refused.

    Returns a figure that belongs to no window. Raises LabError as lab.scenario.ownership.ownership does.
    """
    return _Picture(ownership(play)).draw()


@dataclass(frozen=True)
class _Lane:
    """A lane: where its line or band begins, in inches from the top, and how much room it takes."""

    top: float
    tall: float


class _Picture:
    def __init__(self, seen: Ownership) -> None:
        self.seen = seen
        self.with_document = len(seen.documents) > 1
        self.names = self._names()
        self.left = RIGHT + max(map(_wide, self.names.values())) + GAP
        self.widest = UNWRAPPED
        self.x = self._columns()
        if self.x[max(self.x)] + RIGHT > READABLE:
            self.widest = WRAPPED
            self.x = self._columns()
        self.width = max(WIDTH, self.x[max(self.x)] + RIGHT)

    # -- where things lie

    def _names(self) -> dict[str, str]:
        """What stands on the left of each lane, by the number of a document or the name of a session; "" is the outside world."""
        names = {"step": say("step", "passo"), "clock": say("queue's clock", "relógio da fila")}
        names |= {str(number): say(f"document {number}", f"documento {number}") for number in self.seen.documents}
        for session in self.seen.sessions:
            names[session] = f"{ROLES[self.seen.role(session)]} {session}"
        if self.seen.calls:
            names[""] = outside_words(self.seen)
        return names

    def _owns(self, session: str) -> bool:
        return self.seen.role(session) == "worker"

    def _columns(self) -> dict[float, float]:
        """Where each position lies, in inches: as near to the one before as the words in all lanes allow, stretched to the page."""
        stops = sorted(
            {0.0, self.seen.steps + 1.0}
            | {float(at) for at in range(1, self.seen.steps + 1)}
            | {edge for band in self.seen.bands for edge in (band.start, band.end)}
            | {each.at for each in self.seen.lease_ends}
            | {at for each in self.seen.renewals for at in (each.was, each.now) if at is not None}
        )
        wanted = list(self._wishes())
        x: dict[float, float] = {stops[0]: 0.0}
        for before, stop in pairwise(stops):
            x[stop] = x[before] + COLUMN / 2
            for start, end, room in wanted:
                if end == stop:
                    x[stop] = max(x[stop], x[start] + room)
        stretch = max(1.0, (WIDTH - self.left - RIGHT) / x[stops[-1]])
        return {stop: self.left + at * stretch for stop, at in x.items()}

    def _wishes(self) -> Iterator[tuple[float, float, float]]:
        """From which position to which how much room is wanted, in inches."""
        end = self.seen.steps + 1.0
        for step in range(self.seen.steps + 1):
            yield step, step + 1.0, COLUMN
        for band in self.seen.bands:
            yield band.start, band.end, _widest(self._words(band)) + GAP
        for number in self.seen.documents:
            yield from self._wishes_above(number, end)
        for number in self.seen.documents:
            yield from self._wishes_clear(number)
        for session in self.seen.sessions:
            marks = [mark for mark in self.seen.marks if mark.session == session]
            for mark, until in zip(marks, [*(float(each.at) for each in marks[1:]), end], strict=True):
                beside = 2 * MARK if self._calls_at(mark) else 0.0
                yield mark.at, until, self._mark_width(mark) + beside + GAP
        for call, until in zip(self.seen.calls, [*(float(each.at) for each in self.seen.calls), end][1:], strict=True):
            yield call.at, until, _wide(call.words, bold=False) + GAP
            # The arrow keeps clear of what stands in the lanes that it passes.
            passed = self.seen.sessions[self.seen.sessions.index(call.session) + 1 :]
            for mark in self.seen.marks:
                if mark.session in passed and mark.at < call.at:
                    yield mark.at, call.at, self._mark_width(mark) + MARK
        for move, following in pairwise([*sorted(self.seen.clock), end]):
            yield move, following, _wide(span(self.seen.clock[int(move)])) + GAP

    def _wishes_above(self, number: int, end: float) -> Iterator[tuple[float, float, float]]:
        labels = [(at, _wide(words)) for at, words, _ in self._above(number)]
        for (at, _), (after, width) in pairwise([(0.0, 0.0), *labels, (end, 0.0)]):
            yield at, after, width + 0.05 + GAP

    def _wishes_clear(self, number: int) -> Iterator[tuple[float, float, float]]:
        """A label ends where its bar stands, and keeps clear of the clock's lines before it."""
        for at, words, _ in self._above(number):
            line = max((move for move in self.seen.clock if move < at), default=0)
            yield line, at, _wide(words) + 0.05 + GAP

    def _calls_at(self, mark: Mark) -> bool:
        """Whether an arrow leaves the mark downwards, so that its words stand beside it."""
        return any(call.at == mark.at for call in self.seen.calls)

    def _mark_width(self, mark: Mark) -> float:
        bold = mark.refused or mark.failed
        return max((_wide(line, bold) for line in self._lines(mark)), default=0.0)

    def _above(self, number: int) -> list[tuple[float, str, str]]:
        """What stands above a document's band: where, the words, and their colour."""
        labels = []
        for ending in self._ends(number):
            words = say(f"lease ends {span(ending.time)}", f"fim do prazo {span(ending.time)}")
            if ending.maximum:
                words = say(f"maximum reached {span(ending.time)}", f"máximo atingido {span(ending.time)}")
            labels.append((ending.at, words, ERROR))
        for renewal in self._moved(number):
            assert renewal.was is not None
            labels.append((renewal.was, say(f"until {span(renewal.old)}", f"até {span(renewal.old)}"), ERROR))
        for taken in self._taken(number):
            labels.append((float(taken.at), say("taken, lease held", "tirado ainda no prazo"), ERROR))
        return sorted(labels)

    def _ends(self, number: int) -> list[LeaseEnd]:
        return [each for each in self.seen.lease_ends if each.documento_id == number]

    def _taken(self, number: int) -> list[Taken]:
        return [each for each in self.seen.taken if each.documento_id == number]

    def _moved(self, number: int) -> list[Renewal]:
        """The renewals that are seen as a bar that moves: the clock has passed the old end while the same attempt went on."""
        ends = {each.at for each in self._ends(number)}
        return [
            each
            for each in self.seen.renewals
            if each.documento_id == number
            and each.was is not None
            and each.was not in ends
            and self._holds(number, each)
        ]

    def _holds(self, number: int, renewal: Renewal) -> bool:
        lane = [band for band in self.seen.bands if band.documento_id == number]
        then = next(band for band in lane if band.start <= renewal.at < band.end)
        later = next((band for band in lane if renewal.was is not None and band.start < renewal.was <= band.end), then)
        return (later.owner, later.token) == (then.owner, then.token)

    def _words(self, band: Band) -> tuple[str, ...]:
        reached = any(
            same_end(each.time, band.until) and each.at >= band.start for each in self._ends(band.documento_id)
        )
        before = next(
            (each for each in self.seen.bands if each.documento_id == band.documento_id and each.end == band.start),
            None,
        )
        state, *more = band_words(band, before, clock_reaches=reached)
        return (state, *self._wrapped(more))

    def _lines(self, mark: Mark) -> tuple[str, ...]:
        if mark.told.kind in ("begin", "end"):
            return (mark.told.verb,)
        again = any(
            each.at == mark.at - 1 and each.session == mark.session and each.told == mark.told
            for each in self.seen.marks
        )
        if mark.told.kind == "read" and not mark.waits and again:
            return ()  # a look right after a look
        return self._wrapped(mark.told.lines(self.with_document))

    def _wrapped(self, lines: Sequence[str]) -> tuple[str, ...]:
        """The lines, broken between words where they are wider than is wanted."""
        broken: list[str] = []
        for line in lines:
            first, *words = line.split(" ")
            broken.append(first)
            for word in words:
                if _wide(f"{broken[-1]} {word}", bold=False) > self.widest and broken[-1] != "→":
                    broken.append(word)
                else:
                    broken[-1] += f" {word}"
        return tuple(broken)

    # -- drawing

    def draw(self) -> Figure:
        lanes, height = self._lanes()
        legend = self._legend_lines()
        notes = self._notes()
        tall = height + STEPS + LEGEND_LINE * (len(legend) + len(notes)) + 0.12
        drawn = Figure(figsize=(self.width, tall), dpi=100, facecolor=CARD, edgecolor=LANE_LINE, linewidth=1.5)
        axes = drawn.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, self.width)
        axes.set_ylim(tall, 0)
        axes.axis("off")
        self._clock(axes, height)
        for number in self.seen.documents:
            self._document(axes, number, lanes[str(number)])
        for session in self.seen.sessions:
            self._session(axes, session, lanes[session])
        if self.seen.calls:
            self._outside(axes, lanes)
        self._foot(axes, height + STEPS, legend, notes)
        return drawn

    def _lanes(self) -> tuple[dict[str, _Lane], float]:
        lanes: dict[str, _Lane] = {}
        top = TOP
        for number in self.seen.documents:
            top += ABOVE if self._above(number) else 0.0
            lines = max(len(self._words(band)) for band in self.seen.bands if band.documento_id == number)
            lanes[str(number)] = _Lane(top, max(BAND, lines * LINE + 0.1))
            top += lanes[str(number)].tall + 0.14 + ROW * min(2, len(self._moved(number)))
        top += 0.12
        for session in self.seen.sessions:
            lines = max(len(self._lines(mark)) for mark in self.seen.marks if mark.session == session)
            lanes[session] = _Lane(top, 0.12 + LINE * lines)
            top += lanes[session].tall + 0.16
        if self.seen.calls:
            lanes[""] = _Lane(top + 0.06, 0.22)
            top += 0.36
        return lanes, top

    def _clock(self, axes: Axes, bottom: float) -> None:
        """The axis: the steps by number, and what the queue's clock told where a step moved it."""
        for at in range(1, self.seen.steps + 1):
            _write(axes, self.x[float(at)], bottom + 0.09, str(at), FAINT, align="center")
        self._name(axes, "step", bottom + 0.09, FAINT)
        self._name(axes, "clock", bottom + 0.29, CLOCK)
        for at, time in self.seen.clock.items():
            x = self.x[float(at)]
            _write(axes, x, bottom + 0.29, span(time), CLOCK, align="left" if at == 0 else "center", bold=True)
            if at:
                axes.plot([x, x], [TOP, bottom - 0.02], color=CLOCK, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)

    def _document(self, axes: Axes, number: int, lane: _Lane) -> None:
        self._name(axes, str(number), lane.top + lane.tall / 2, INK, bold=True)
        for band in self.seen.bands:
            if band.documento_id == number:
                self._band(axes, band, lane)
        for ending in self._ends(number):
            x = self.x[ending.at]
            if ending.maximum:
                axes.plot([x, x], [lane.top - 0.07, lane.top + lane.tall + 0.07], color=INK, linewidth=6, zorder=7.8)
            axes.plot([x, x], [lane.top - 0.05, lane.top + lane.tall + 0.05], color=ERROR, linewidth=2.6, zorder=8)
        for row, renewal in enumerate(self._moved(number)):
            assert renewal.was is not None
            x = self.x[renewal.was]
            axes.plot(
                [x, x], [lane.top, lane.top + lane.tall], color=ERROR, linewidth=1.6, linestyle=(0, (1, 1.2)), zorder=7
            )
            # From the step that renewed to the new end; in two rows, for the next one may begin before this one ends.
            by, y = self.x[float(renewal.at)], lane.top + lane.tall + 0.08 + ROW * (row % 2)
            to = self.x[renewal.now] if renewal.now is not None else x + 0.3
            axes.plot([by], [y], marker="o", markersize=3.5, color=ERROR, zorder=5)
            _arrow(axes, (by, y), (to, y), ERROR)
        for taken in self._taken(number):
            _taken_sign(axes, self.x[float(taken.at)], lane.top)
        for at, words, colour in self._above(number):
            _write(axes, self.x[at] - 0.05, lane.top - 0.13, words, colour, "right", bold=True, card=True, zorder=6.5)

    def _band(self, axes: Axes, band: Band, lane: _Lane) -> None:
        x, until = self.x[band.start], self.x[band.end]
        face, edge, hatch = self._look(band)
        inside = EDGE if edge != CARD else 0.0  # or the next band would lie on its right edge
        box = Rectangle((x + inside, lane.top), until - x - 2 * inside, lane.tall, facecolor=face, edgecolor=edge)
        box.set(linewidth=0.8, zorder=3)
        if hatch:
            box.set_hatch(hatch)
        axes.add_patch(box)
        words = self._words(band)
        colour = "#ffffff" if face in DARK else INK
        top = lane.top + (lane.tall - len(words) * LINE) / 2
        room = min(_widest(words) + 0.06, until - x - 4 * EDGE)
        behind = Rectangle(((x + until - room) / 2, top - 0.01), room, len(words) * LINE + 0.02, facecolor=face)
        behind.set(zorder=7.5, linewidth=0)  # neither hatching nor a renewal's bar goes through the words
        axes.add_patch(behind)
        for row, line in enumerate(words):
            y = top + (row + 0.5) * LINE
            _write(axes, (x + until) / 2, y, line, colour, align="center", bold=row == 0)

    def _look(self, band: Band) -> tuple[str, str, str]:
        """A band's face, edge and hatching."""
        owner = self._colour(band.owner)
        return {
            "owned": (owner, CARD, ""),
            "late": (CARD, owner, "////"),
            "pending": (PENDING, CARD, ""),
            "put_off": (PUT_OFF, FAINT, ""),
            "finished": (FINISHED, CARD, ""),
            "failed": (FAILED, IN_DARK, "xx"),
            "people": (PEOPLE, FAINT, ".."),
            "paused": (PAUSED, FAINT, "||"),
            "gone": (CARD, LANE_LINE, ""),
        }[band.kind]

    def _colour(self, session: str) -> str:
        return OWNERS[(ord(session[0]) - ord("A")) % len(OWNERS)] if session else FAINT

    def _session(self, axes: Axes, session: str, lane: _Lane) -> None:
        owner = self._owns(session)
        self._name(axes, session, lane.top, INK, bold=owner)
        end = self.seen.killed.get(session)
        last = self.x[float(end)] if end else self.x[self.seen.steps + 1.0]
        axes.plot([self.left, last], [lane.top, lane.top], color=LANE_LINE, linewidth=1.0, zorder=2)
        if end:
            axes.plot([last], [lane.top], marker="|", markersize=13, markeredgewidth=2.5, color=INK, zorder=6)
            _write(axes, last + 0.07, lane.top, say("killed", "morto"), INK, bold=True)
        marks = [mark for mark in self.seen.marks if mark.session == session]
        for start, stop in self._open(marks, end):
            axes.plot(
                [self.x[start], self.x[stop]], [lane.top] * 2, color=OPEN, linewidth=5, zorder=2, solid_capstyle="butt"
            )
        for mark, following in zip(marks, [*marks[1:], None], strict=True):
            x = self.x[float(mark.at)]
            if mark.waits and following:
                box = Rectangle((x, lane.top - 0.05), self.x[float(following.at)] - x, 0.1, facecolor=CARD, zorder=3)
                box.set(hatch="////", edgecolor=FAINT, linewidth=0.8)
                axes.add_patch(box)
            hollow = mark.told.kind in ("read", "nothing", "begin", "end") or mark.waits
            if mark.refused:
                _refused_sign(axes, x, lane.top)
            elif mark.failed:
                _failed_sign(axes, x, lane.top)
            else:
                _dot(axes, x, lane.top, self._colour(session) if owner else INK, hollow=bool(hollow))
            beside = self._calls_at(mark)
            words = "\n".join(self._lines(mark))
            left = x + MARK if beside else x - MARK
            colour = ERROR if mark.refused else FAILURE if mark.failed else INK
            _write(
                axes,
                left,
                lane.top + 0.1,
                words,
                colour,
                bold=mark.refused or mark.failed,
                card=True,
                from_top=True,
                zorder=5,
            )

    def _open(self, marks: Sequence[Mark], killed: int | None) -> Iterator[tuple[float, float]]:
        """From where to where the session's transactions were open."""
        opened: int | None = None
        for mark in marks:
            if mark.told.kind == "begin":
                opened = mark.at
            elif opened is not None and (mark.told.kind == "end" or mark.told.verb == "commit"):
                yield float(opened), float(mark.at)
                opened = None
        if opened is not None:
            yield float(opened), float(killed or self.seen.steps + 1)

    def _outside(self, axes: Axes, lanes: dict[str, _Lane]) -> None:
        """The outside world: the receiver's lane, with what went out to it and what came back."""
        lane = lanes[""]
        self._name(axes, "", lane.top, INK)
        axes.plot([self.left, self.x[self.seen.steps + 1.0]], [lane.top] * 2, color=INK, linewidth=1.6, zorder=2)
        for call in self.seen.calls:
            x = self.x[float(call.at)]
            here, there = (x, lanes[call.session].top + 0.07), (x, lane.top)
            start, end = (there, here) if call.kind == "note" else (here, there)
            _arrow(axes, start, end, INK, dashed=call.kind != "effect")
            _write(axes, x - MARK, lane.top + 0.13, call.words, INK, card=True)

    def _name(self, axes: Axes, lane: str, y: float, colour: str, bold: bool = False) -> None:
        _write(axes, self.left - GAP, y, self.names[lane], colour, align="right", bold=bold)

    # -- the foot

    def _notes(self) -> list[str]:
        notes = [
            say(
                "Steps in order, as played; spacing is not to scale. Times are the queue's clock, h:mm:ss.",
                "Passos em ordem, como foram executados, fora de escala. Horários do relógio da fila, h:mm:ss.",
            )
        ]
        if self.seen.idle:
            notes.append(idle_words(self.seen))
        if self.seen.unknown:
            listed = ", ".join(map(str, self.seen.unknown))
            notes.append(say(f"Queue not readable at step {listed}.", f"Fila ilegível no passo {listed}."))
        lines = [notes[0]]
        for note in notes[1:]:
            if _wide(f"{lines[-1]} {note}") < self.width - 2 * RIGHT:
                lines[-1] += f" {note}"
            else:
                lines.append(note)
        return lines

    def _legend_lines(self) -> list[list[tuple[str, str]]]:
        """The entries of the legend, by what they explain, in lines that fit."""
        kinds = {band.kind for band in self.seen.bands}
        told = {mark.told.kind for mark in self.seen.marks}
        calls = {call.kind for call in self.seen.calls}
        moved = any(self._moved(number) for number in self.seen.documents)
        others = [session for session in self.seen.sessions if not self._owns(session)]
        listed = ", ".join(others)
        possible = [
            ("owned", "owned" in kinds, say("owned: the lease holds", "com dono: o prazo vale")),
            ("late", "late" in kinds, say("late: the lease is over", "atrasado: o prazo venceu")),
            *(
                (kind, kind in kinds, words)
                for kind, words in (
                    ("pending", say("pending: may be claimed", "pendente: pode ser reservado")),
                    ("put_off", say("put off: not before its time", "adiado: só a partir da hora")),
                    ("paused", say("paused by an operator", "pausado por um operador")),
                    ("people", say("waits for people", "aguarda pessoas")),
                    ("failed", say("given up", "encerrado com falha")),
                    ("finished", say("finished", "concluído")),
                )
            ),
            ("lease", bool(self.seen.lease_ends), say("end of the lease", "fim do prazo")),
            (
                "renewed",
                moved,
                say("end moved by a renewal, from its step on", "fim prorrogado, a partir da renovação"),
            ),
            (
                "wall",
                any(each.maximum for each in self.seen.lease_ends),
                say("maximum run time reached", "tempo máximo de execução atingido"),
            ),
            (
                "taken",
                bool(self.seen.taken),
                say("taken from its owner while the lease held", "tirado do dono ainda no prazo"),
            ),
            ("clock", len(self.seen.clock) > 1, say("the clock is moved", "o relógio é adiantado")),
            (
                "read",
                bool(told & {"read", "nothing"}),
                say("only looks, or finds nothing", "só consulta ou não acha nada"),
            ),
            (
                "other",
                bool(others),
                say(f"owns nothing in this play: {listed}", f"não é dono de nada nesta execução: {listed}"),
            ),
            (
                "refused",
                any(mark.refused for mark in self.seen.marks),
                say("refused: nothing changed", "recusado: nada mudou"),
            ),
            ("failed_step", "failed" in told, say("error of the work itself", "erro do próprio processamento")),
            ("open", "begin" in told, say("open transaction", "transação aberta")),
            ("effect", "effect" in calls, say("effect outside, as seen there", "efeito lá fora, visto lá")),
            (
                "may",
                bool(calls & {"may", "note"}),
                say(
                    "as the worker notes it: the call itself is not recorded",
                    "conforme a anotação do worker: a chamada em si não é registrada",
                ),
            ),
        ]
        entries = [(kind, words) for kind, there, words in possible if there]
        lines: list[list[tuple[str, str]]] = [[]]
        used = 0.0
        for entry in entries:
            room = 0.32 + _wide(entry[1]) + 0.2
            if lines[-1] and used + room > self.width - 2 * RIGHT:
                lines.append([])
                used = 0.0
            lines[-1].append(entry)
            used += room
        return lines

    def _foot(self, axes: Axes, top: float, legend: list[list[tuple[str, str]]], notes: list[str]) -> None:
        y = top + LEGEND_LINE / 2
        for line in legend:
            x = RIGHT
            for kind, words in line:
                self._swatch(axes, kind, x, y)
                _write(axes, x + 0.32, y, words, INK)
                x += 0.32 + _wide(words) + 0.2
            y += LEGEND_LINE
        for note in notes:
            _write(axes, RIGHT, y, note, FAINT)
            y += LEGEND_LINE

    def _swatch(self, axes: Axes, kind: str, x: float, y: float) -> None:
        owners = sorted({band.owner for band in self.seen.bands if band.kind == kind})
        middle = x + 0.13
        if kind in ("owned", "late"):
            part = 0.26 / len(owners)
            for number, owner in enumerate(owners):
                colour = self._colour(owner)
                box = Rectangle((x + number * part, y - 0.06), part, 0.12, edgecolor=colour, linewidth=0.8)
                box.set(facecolor=colour if kind == "owned" else CARD, hatch="" if kind == "owned" else "////")
                axes.add_patch(box)
        elif kind == "lease":
            axes.plot([middle] * 2, [y - 0.08, y + 0.08], color=ERROR, linewidth=2.6)
        elif kind == "wall":
            axes.plot([middle] * 2, [y - 0.08, y + 0.08], color=INK, linewidth=6)
            axes.plot([middle] * 2, [y - 0.06, y + 0.06], color=ERROR, linewidth=2.6)
        elif kind == "renewed":
            axes.plot([x + 0.26] * 2, [y - 0.08, y + 0.08], color=ERROR, linewidth=1.6, linestyle=(0, (1, 1.2)))
            axes.plot([x + 0.02], [y], marker="o", markersize=3.5, color=ERROR)
            _arrow(axes, (x + 0.02, y), (x + 0.26, y), ERROR)
        elif kind == "taken":
            _taken_sign(axes, middle, y + 0.03)
        elif kind == "clock":
            axes.plot([middle] * 2, [y - 0.09, y + 0.09], color=CLOCK, linewidth=1.1, linestyle=(0, (4, 3)))
        elif kind == "read":
            _dot(axes, middle, y, INK, hollow=True)
        elif kind == "other":
            _dot(axes, middle, y, INK)
        elif kind == "refused":
            _refused_sign(axes, middle, y)
        elif kind == "failed_step":
            _failed_sign(axes, middle, y)
        elif kind == "open":
            axes.plot([x, x + 0.26], [y, y], color=OPEN, linewidth=5, solid_capstyle="butt")
        elif kind in ("may", "effect"):
            _arrow(axes, (x + 0.01, y), (x + 0.26, y), INK, dashed=kind == "may")
        else:
            face, edge, hatch = self._look(next(band for band in self.seen.bands if band.kind == kind))
            edge = edge if edge != CARD else face
            box = Rectangle((x, y - 0.06), 0.26, 0.12, facecolor=face, edgecolor=edge, linewidth=0.8, hatch=hatch)
            axes.add_patch(box)


def _dot(axes: Axes, x: float, y: float, colour: str, hollow: bool = False) -> None:
    """What a session did; hollow, where it changed nothing."""
    edge = INK if colour in (INK, OWNERS[2]) else colour
    axes.plot(
        [x], [y], marker="o", markersize=7, markerfacecolor=CARD if hollow else colour, markeredgecolor=edge, zorder=6
    )


def _refused_sign(axes: Axes, x: float, y: float) -> None:
    axes.plot([x], [y], marker="X", markersize=9, color=ERROR, markeredgecolor=CARD, zorder=6)


def _failed_sign(axes: Axes, x: float, y: float) -> None:
    axes.plot(
        [x], [y], marker="^", markersize=8, markerfacecolor=CARD, markeredgecolor=FAILURE, markeredgewidth=1.8, zorder=6
    )


def _taken_sign(axes: Axes, x: float, y: float) -> None:
    axes.plot([x], [y], marker="v", markersize=8, color=ERROR, markeredgecolor=CARD, zorder=8)


def _wide(words: str, bold: bool = True) -> float:
    """How wide words are, in inches."""
    font = FontProperties(size=SIZE, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return float(width) / 72


def _widest(words: Sequence[str]) -> float:
    """How wide a band's words are, of which the first line is bold."""
    return max(_wide(line, bold=row == 0) for row, line in enumerate(words))


def _write(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    colour: str,
    align: str = "left",
    bold: bool = False,
    card: bool = False,
    from_top: bool = False,
    zorder: float = 9,
) -> None:
    text = axes.text(x, y, words, size=SIZE, color=colour, weight="bold" if bold else "normal", zorder=zorder)
    text.set(horizontalalignment=align, verticalalignment="top" if from_top else "center_baseline", parse_math=False)
    if card:
        text.set_bbox({"facecolor": CARD, "edgecolor": "none", "pad": CLEAR})  # no line goes through it or touches it


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, dashed: bool = False) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=9,
            color=colour,
            linewidth=1.3,
            linestyle=(0, (3, 2)) if dashed else "-",
            shrinkA=0,
            shrinkB=0,
            zorder=4,
        )
    )
