"""A beam search as a picture: a column for each step, dropped paths in grey."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from warmstart.formats import shorten
from warmstart.report.html import Section, figure, table
from warmstart.report.style import FAINT, INK, styled
from warmstart.results.attention_weights import readable
from warmstart.results.model_views import BeamTree, Candidate, Status

COLUMN, ROW = 1.25, 0.42  # inches of a step and of a candidate
STEPS_IN_ROW = 6
COLOURS: dict[Status, str] = {"kept": "#d5521c", "ended": "#2166ac", "dropped": "#b4b4b4"}
MEANINGS: dict[Status, str] = {
    "kept": "kept: continues",
    "ended": "ended: a whole translation",
    "dropped": "dropped",
}


def beam_sections(tree: BeamTree) -> list[Section]:
    """Return the sections of a page about one search."""
    caption = (
        f"Each column is a step, the most probable beginning on top. Of the {2 * tree.width} best"
        f" continuations, the {tree.width} best that do not end are kept. Below each token: the"
        " probability of everything up to it. The thick line leads to the translation."
    )
    rows = [
        (ending.text, f"{ending.log_prob:.4f}", f"{len(ending.path) + 1}", f"{ending.score:.4f}")
        for ending in tree.endings
    ]
    headers = ("translation", "log-probability", "tokens", "score")
    steps = [table(("step", "candidates, best first"), _step_rows(tree), left=[1])]
    return [
        Section(title="The search", pieces=[f"{tree.sentence}.", figure(draw_beam(tree), caption)]),
        Section(title="What ended", pieces=[table(headers, rows)]),
        Section(title="Step by step", pieces=steps),
    ]


def _step_rows(tree: BeamTree) -> list[tuple[str, str]]:
    def said(candidate: Candidate) -> str:
        return f"{readable(candidate.piece)} {_share(candidate)} {candidate.status}"

    return [(str(n), "; ".join(map(said, step))) for n, step in enumerate(tree.steps, 1)]


@styled
def draw_beam(tree: BeamTree) -> Figure:
    """Draw every step of a search, in as many rows as a page is wide."""
    firsts = range(0, len(tree.steps), STEPS_IN_ROW)
    columns = min(len(tree.steps), STEPS_IN_ROW) + 1
    height = max(map(len, tree.steps))
    size = (max(4.5, COLUMN * columns), (ROW * height + 0.5) * len(firsts) + 0.9)
    drawing = Figure(figsize=size, layout="constrained")
    drawing.suptitle(f"Beam search with {tree.width} hypotheses: “{shorten(tree.source, 60)}”")
    rows = drawing.subplots(len(firsts), 1, squeeze=False)[:, 0]
    for axes, first in zip(rows, firsts, strict=True):
        axes.set_axis_off()
        axes.set_xlim(first - 0.5, first + columns - 0.5)
        axes.set_ylim(-height + 0.4, 1.2)
        _draw_steps(axes, tree, first)
    lines = [Line2D([], [], color=COLOURS[status], label=MEANINGS[status]) for status in COLOURS]
    lines.append(Line2D([], [], color=INK, linewidth=2.4, label="thick: the translation"))
    drawing.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
    return drawing


def _draw_steps(axes: Axes, tree: BeamTree, first: int) -> None:
    """Draw the steps of one row after those that they continue."""
    if first == 0:
        axes.text(0, 0, "start", ha="center", va="center", color=FAINT)
    else:
        for rank, candidate in enumerate(tree.steps[first - 1]):
            if candidate.status == "kept":
                _name(axes, tree, candidate, (first, -rank))
    for number, step in enumerate(tree.steps[first : first + STEPS_IN_ROW], first + 1):
        axes.text(number, 0.85, f"step {number}", ha="center", color=FAINT)
        before = tree.steps[number - 2] if number > 1 else ()
        ranks = {candidate.path: rank for rank, candidate in enumerate(before)}
        for rank, candidate in enumerate(step):
            parent = -ranks.get(candidate.path[:-1], 0)
            is_best = tree.is_best(candidate)
            axes.plot(
                [number - 0.64, number - 0.36],
                [parent, -rank],
                color=COLOURS[candidate.status],
                linewidth=2.4 if is_best else 0.8,
                zorder=2 if is_best else 1,
            )
            _name(axes, tree, candidate, (number, -rank))


def _name(axes: Axes, tree: BeamTree, candidate: Candidate, place: tuple[int, int]) -> None:
    x, y = place
    weight = "bold" if tree.is_best(candidate) else "normal"
    text = FAINT if candidate.status == "dropped" else INK
    name, colour = shorten(readable(candidate.piece), 11), COLOURS[candidate.status]
    axes.text(x, y + 0.04, name, ha="center", va="bottom", color=text, weight=weight, fontsize=8)
    axes.text(x, y - 0.04, _share(candidate), ha="center", va="top", color=colour, fontsize=6.5)


def _share(candidate: Candidate) -> str:
    return f"{100 * math.exp(candidate.log_prob):.2g}%"


def ending_rows(tree: BeamTree) -> Sequence[tuple[str, str]]:
    """Return each translation that ended, with its score."""
    return [(ending.text, f"{ending.score:.4f}") for ending in tree.endings]
