"""Measurements as pictures: bars of a few ways, and lines over what was done; told apart without colour, spread shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from babel.numbers import format_decimal
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from lab.base.facts import LOCALES
from lab.base.language import portuguese
from lab.measure.rounds import Spread
from lab.scenario.timeline import CARD, ERROR, FAINT, GRID, HATCH, INK, OPEN, RUNS, WAITS, WIDTH

STYLES = ((ERROR, "-", "o"), (RUNS, "--", "s"), (INK, ":", "^"))


@dataclass(frozen=True)
class Panel:
    """Bars of one figure of several ways: title, unit, values by way (a Spread shows its smallest and largest); log: the axis."""

    title: str
    unit: str
    values: Mapping[str, float | Spread]
    log: bool = False


def bars(panels: Sequence[Panel], best: str = "") -> Figure:
    """Draw panels side by side, a bar for each way; the way called `best` is hatched. Each bar says its value."""
    figure = Figure(figsize=(WIDTH, 0.9 + 0.42 * max(len(panel.values) for panel in panels)), dpi=100, facecolor=CARD)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    figure.set_layout_engine("constrained")
    for axes, panel in zip(drawn, panels, strict=True):
        names = list(panel.values)
        spreads = [each if isinstance(each, Spread) else Spread(each, each, each) for each in panel.values.values()]
        medians = [each.median for each in spreads]
        errors = [[each.median - each.smallest for each in spreads], [each.largest - each.median for each in spreads]]
        made = axes.barh(names, medians, color=OPEN, edgecolor=RUNS, height=0.66)
        for name, bar in zip(names, made, strict=True):
            if name == best:
                bar.set(facecolor=WAITS, edgecolor=HATCH, hatch="////")
        if any(map(any, errors)):
            axes.errorbar(medians, names, xerr=errors, fmt="none", ecolor=INK, capsize=3, linewidth=1)
        for name, each in zip(names, spreads, strict=True):
            axes.annotate(
                _number(each.median),
                (each.largest, name),
                (6, 0),
                textcoords="offset points",
                va="center",
                size=9,
                color=INK,
            )
        axes.invert_yaxis()
        if panel.log:
            axes.set_xscale("log")
            axes.set_xlim(left=max(min(medians) / 3, 0.5), right=max(medians) * 6)
        else:
            axes.set_xlim(0, max(each.largest for each in spreads) * 1.25)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        axes.set_title(panel.title, size=10, weight="bold", color=INK, loc="left")
        axes.set_xlabel(panel.unit, size=8.5, color=FAINT)
        axes.tick_params(axis="y", length=0, labelsize=9, colors=INK)
        axes.tick_params(axis="x", labelsize=8.5, colors=FAINT)
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.spines["bottom"].set_color(FAINT)
    return figure


def lines(
    series: Mapping[str, Sequence[tuple[float, Spread]]], x: str, y: str, marks: Mapping[str, float] | None = None
) -> Figure:
    """Draw each series of points as a line of its own stroke and mark, with the smallest and largest as a band around it.

    `marks` are moments on the x axis, with their words; from the first one on the axis counts nothing.
    """
    figure = Figure(figsize=(WIDTH, 3.2), dpi=100, facecolor=CARD, layout="constrained")
    axes = figure.subplots()
    for (name, points), (colour, stroke, mark) in zip(series.items(), STYLES, strict=False):
        across = [where for where, _ in points]
        axes.fill_between(
            across,
            [each.smallest for _, each in points],
            [each.largest for _, each in points],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(
            across,
            [each.median for _, each in points],
            stroke,
            color=colour,
            marker=mark,
            markersize=5,
            linewidth=1.8,
            label=name,
        )
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    for number, (words, where) in enumerate((marks or {}).items()):
        axes.axvline(where, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            words,
            (where, 1),
            (4, -3 - 13 * number),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            va="top",
            size=9,
            color=INK,
            bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1},
        )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    counted = min((marks or {}).values(), default=float("inf"))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= counted])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axes.set_xlabel(x, size=8.5, color=FAINT)
    axes.set_ylabel(y, size=8.5, color=FAINT)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, colors=FAINT)
    axes.spines[["right", "top"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left")
    return figure


def _number(value: float) -> str:
    locale = LOCALES["pt" if portuguese() else "en"]
    return format_decimal(
        value, format="#,##0" if abs(value) >= 10 or value == int(value) else "#,##0.##", locale=locale
    )
