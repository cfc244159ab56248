"""Position encodings as figures and as a page: vectors, similarity, perplexity by position."""

from collections.abc import Callable
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from warmstart.formats import counted
from warmstart.report.html import Section, figure, folded, table
from warmstart.report.style import FAINT, INK, WIDTH, new_axes, styled
from warmstart.results.model_views import PerplexityByPosition, PositionView

WARM, COLD = "#d5521c", "#2166ac"
MARKERS = "ox+"  # of single positions

COLUMNS = {
    "sinusoidal": "column of the vector: sines and cosines of decreasing frequency",
    "learned": "column of the learned vector",
    "rope": "pair of columns: cosine of its rotation angle",
}


@styled
def draw_positions(view: PositionView) -> Figure:
    """Draw everything in one figure, for PNG and SVG."""
    rows = 2 + (view.curve is not None)
    drawing = Figure(figsize=(WIDTH, 3.4 * rows), layout="constrained")
    grid = drawing.subplots(rows, 1)
    _vectors(grid[0], view)
    _similarity(grid[1], view)
    if view.curve is not None:
        _curve(grid[2], view.curve)
    return drawing


def _vectors(axes: Axes, view: PositionView) -> None:
    most = float(np.abs(view.vectors).max()) or 1.0
    image = axes.imshow(
        view.vectors, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest"
    )
    axes.grid(False)
    axes.set_ylabel("position")
    axes.set_xlabel(COLUMNS[view.kind])
    axes.set_title(f"{view.name}: {view.kind} positions")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=24, pad=0.015)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0)


def _similarity(axes: Axes, view: PositionView) -> None:
    distances, low, high = view.similarity.distances, view.similarity.low, view.similarity.high
    axes.axhline(0, color=FAINT, linewidth=0.7)
    if float((high - low).max()) > 1e-6:
        axes.fill_between(distances, low, high, color=WARM, alpha=0.16, lw=0)
    axes.plot(distances, view.similarity.mean, color=WARM, label="mean over all positions")
    starts = sorted(view.similarity.by_start.items())
    for number, (start, values) in enumerate(starts):  # turns, so that equal ones stay visible
        turns = slice(number, None, len(starts))
        where = distances[: len(values)][turns], values[turns]
        axes.plot(*where, MARKERS[number], color=INK, markersize=4, label=f"from position {start}")
    if starts:
        axes.legend(frameon=False)
    axes.set_xlim(0, float(distances[-1]))
    axes.set_xlabel("distance in tokens")
    axes.set_ylabel("mean score" if view.kind == "rope" else "dot product, relative")
    what = "rotated query · key" if view.kind == "rope" else "two positions, 1 at distance 0"
    axes.set_title(f"Similarity against distance: {what}")


def _curve(axes: Axes, curve: PerplexityByPosition) -> None:
    axes.fill_between(curve.positions, curve.low, curve.high, color=COLD, alpha=0.16, lw=0)
    axes.plot(curve.positions, curve.perplexity, color=COLD, marker="o", markersize=2.5)
    axes.set_yscale("log")
    axes.axvline(curve.trained_length, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(
        f"trained length {curve.trained_length:,}",
        (curve.trained_length, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -9),
        textcoords="offset points",
        ha="right",
        fontsize=7.5,
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:,.3g}")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.set_xlabel("position of the token in its window")
    axes.set_ylabel("perplexity of the next token")
    axes.set_title("Perplexity by position, with 95% intervals over windows of text")


def position_sections(view: PositionView) -> list[Section]:
    """Return the sections of a page about positions."""
    by_row = "Each row is a position; each column is one component of its vector."
    sections = [
        Section(title="Vectors", pieces=[_figure(3.9, partial(_vectors, view=view), by_row)]),
        Section(
            title="Similarity", pieces=[_figure(3.1, partial(_similarity, view=view), view.note)]
        ),
    ]
    if view.curve is None:
        return sections
    curve = view.curve
    caption = (
        f"Mean over {counted(curve.num_windows, 'window')} of text. A window begins at position 0;"
        " its first tokens are hard to predict because there is little context before them."
    )
    rows = [
        (f"{position:,.0f}", f"{ppl:,.2f}", f"{low:,.2f} to {high:,.2f}", f"{tokens:,}")
        for position, ppl, low, high, tokens in zip(
            curve.positions, curve.perplexity, curve.low, curve.high, curve.tokens, strict=True
        )
    ]
    grid = table(("around position", "perplexity", "95% interval", "tokens"), rows)
    drawn = _figure(3.3, partial(_curve, curve=curve), caption)
    pieces = [drawn, *curve.notes, folded("Table", grid)]
    return [*sections, Section(title="Perplexity by position", pieces=pieces)]


@styled
def _figure(height: float, draw: Callable[[Axes], None], caption: str) -> Markup:
    drawing, axes = new_axes(height)
    draw(axes)
    return figure(drawing, caption)
