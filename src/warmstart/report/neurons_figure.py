"""Query-key products of one head, neuron by neuron: three heat maps and the weights they make."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from warmstart.formats import shorten
from warmstart.report.html import Section, figure, table
from warmstart.report.style import FAINT, SHADES, styled
from warmstart.results.model_views import Array, HeadProducts

HEADERS = ("key", "q·k", "q·k / √d_k", "weight")


def neuron_sections(head: HeadProducts) -> list[Section]:
    """Return the section of a page about one query."""
    caption = (
        f"Top: the query of “{head.tokens[head.query - 1]}”. Left: every key. Middle: their product"
        " in each neuron; orange adds to the score, purple takes away. A row of it sums to q·k;"
        " divided by √d_k and through softmax it becomes the weight at the right."
    )
    pieces = [f"{head.sentence}.", figure(draw_neurons(head), caption)]
    rows = table(HEADERS, neuron_rows(head))
    return [Section(title="One query, one head", pieces=[*pieces, rows])]


def neuron_rows(head: HeadProducts) -> list[tuple[str, ...]]:
    """Return a row for each key under `HEADERS`."""
    sums = head.products.sum(-1)
    return [
        (token, f"{total:+.2f}", f"{score:+.2f}", f"{weight:.1%}" if weight else "masked")
        for token, total, score, weight in zip(
            head.tokens, sums, head.scores, head.weights, strict=True
        )
    ]


@styled
def draw_neurons(head: HeadProducts) -> Figure:
    """Draw query, keys, products, scores and weights."""
    T = len(head.tokens)
    drawing = Figure(figsize=(9.2, 0.21 * T + 2.1), layout="constrained")
    grid = drawing.subplots(
        2, 4, height_ratios=[1, max(2, T)], width_ratios=[4, 4, 1, 1], squeeze=False
    )
    for axes in (grid[0][1], grid[0][2], grid[0][3]):
        axes.set_axis_off()
    _draw_numbers(grid[0][0], head.q[None], f"query “{head.tokens[head.query - 1]}” q (d_k)")
    _draw_numbers(grid[1][0], head.k, f"keys k ({T}, d_k)")
    image = _draw_numbers(grid[1][1], head.products, f"products qᵢ·kᵢ ({T}, d_k)")
    names = [shorten(token, 12) for token in head.tokens]
    grid[1][0].set_yticks(range(T), names, fontsize=7)
    for axes in (grid[1][0], grid[1][1]):
        axes.set_xlabel(f"neuron, 1 to {len(head.q)}")
    _draw_bars(grid[1][2], head.scores, "q·k / √d_k", SHADES["cold"][0])
    _draw_bars(grid[1][3], head.weights, "weight", SHADES["warm"][0])
    bar = drawing.colorbar(image, ax=grid[0][1], orientation="horizontal", fraction=0.5, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6.5, length=0)
    drawing.suptitle(f"Layer {head.layer}, head {head.head} of {shorten(head.run, 40)}")
    return drawing


def _draw_numbers(axes: Axes, numbers: Array, title: str) -> AxesImage:
    limit = float(np.abs(numbers).max()) or 1.0
    image = axes.imshow(numbers, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_title(title)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _draw_bars(axes: Axes, values: Array, title: str, colour: str) -> None:
    axes.barh(range(len(values)), values, color=colour, height=0.8)
    axes.axvline(0, color=FAINT, linewidth=0.6)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_title(title)
    axes.set_yticks([])
    axes.tick_params(labelsize=6.5)
