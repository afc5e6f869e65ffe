"""Races as a picture: how many documents each session claimed, and which of them another one claimed too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lab.base.language import say
from lab.experiments.concurrent_claims import Race
from lab.scenario.timeline import CARD, FAINT, HATCH, INK, OPEN, WAITS, WIDTH


def shares(races: Mapping[str, Race]) -> Figure:
    """Draw how many documents each session of a race claimed, and how many of them another session claimed too.

    Parameter: races, by the title of their panels; at least one. Who got how many is chance, and differs from run to run.
    """
    figure = Figure(figsize=(WIDTH, 2.9), dpi=100, facecolor=CARD)
    panels = figure.subplots(1, len(races), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.08, right=0.98, top=0.87, bottom=0.3, wspace=0.08)
    for axes, (title, race) in zip(panels, races.items(), strict=True):
        sessions = range(1, len(race.by_session) + 1)
        takers = Counter(document for claims in race.by_session for document in set(claims))
        shared = [sum(takers[document] > 1 for document in claims) for claims in race.by_session]
        alone = [len(claims) - twice for claims, twice in zip(race.by_session, shared, strict=True)]
        axes.bar(sessions, alone, color=OPEN, width=0.75)
        if race.duplicates:  # bars of no height would still show their edge
            axes.bar(sessions, shared, bottom=alone, color=WAITS, edgecolor=HATCH, hatch="////", width=0.75)
        axes.set_title(title, size=10, weight="bold", color=INK, loc="left")
        axes.set_xticks(sessions)
        axes.tick_params(length=0, labelsize=8.5, colors=FAINT)
        axes.set_xlabel(say("session", "sessão"), size=8.5, color=FAINT)
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.spines["bottom"].set_color(FAINT)
    panels[0].set_ylabel(say("documents claimed", "documentos reservados"), size=8.5, color=FAINT)
    entries = [
        Patch(facecolor=OPEN, label=say("by this session only", "só por esta sessão")),
        Patch(
            facecolor=WAITS,
            edgecolor=HATCH,
            hatch="////",
            label=say("by another session too", "também por outra sessão"),
        ),
    ]
    figure.legend(handles=entries, loc="lower center", ncols=2, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure
