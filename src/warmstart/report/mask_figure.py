"""Attention masks as figures: which pairs are allowed, and what forbids the others."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from warmstart.formats import shorten
from warmstart.report.html import Section, figure
from warmstart.report.style import FAINT, styled
from warmstart.results.model_views import MaskPicture

# By value of a cell.
REASONS = (
    "allowed",
    "allowed for padding, not used",
    "masked: later token",
    "masked: another document",
    "masked: padding",
)
COLOURS = ("#d5521c", "#f2c4a8", "#e9e9e6", "#b7cfe6", "#f6e7b4")
MAX_LABELS = 72  # tokens that can be named beside a mask
PANEL = 2.9  # width and height of one of several masks, in inches
CELL = 0.24  # of a token with its label
TITLE = 0.4  # height of the two lines above a mask


def mask_sections(pictures: Sequence[MaskPicture]) -> list[Section]:
    """Return the section of a page about masks."""
    caption = (
        "Each row is a query; each column is a key. "
        f"{'; '.join(picture.sentence for picture in pictures)}."
    )
    return [Section(title="Attention masks", pieces=[figure(draw_masks(pictures), caption)])]


@styled
def draw_masks(pictures: Sequence[MaskPicture]) -> Figure:
    """Draw masks beside each other, at most three in a row."""
    longest = max(max(p.cells.shape) for p in pictures)
    columns = min(len(pictures), 3 if longest <= 24 else 2)
    rows = -(-len(pictures) // columns)
    size = max(PANEL, min(9.0 / columns, CELL * longest + 1.2))  # the same for every mask
    height = (size + TITLE) * rows + 0.7
    drawing = Figure(figsize=(size * columns + 0.2, height), layout="constrained")
    grid = drawing.subplots(rows, columns, squeeze=False).flatten()
    for axes, picture in zip(grid, pictures, strict=False):
        _draw_mask(axes, picture)
    for axes in grid[len(pictures) :]:
        axes.set_axis_off()
    present = sorted({int(cell) for picture in pictures for cell in np.unique(picture.cells)})
    marks = [
        Patch(facecolor=COLOURS[reason], edgecolor=FAINT, linewidth=0.5, label=REASONS[reason])
        for reason in present
    ]
    ncols = min(len(marks), max(1, int(size * columns / 1.9)))
    drawing.legend(handles=marks, loc="outside lower center", ncols=ncols, frameon=False)
    return drawing


def _draw_mask(axes: Axes, picture: MaskPicture) -> None:
    T, S = picture.cells.shape
    norm = BoundaryNorm(np.arange(len(COLOURS) + 1) - 0.5, len(COLOURS))
    colours = ListedColormap(COLOURS)
    axes.imshow(picture.cells, cmap=colours, norm=norm, interpolation="nearest", aspect="auto")
    axes.set_box_aspect(1)  # masks of any shape have panels of one size
    num_allowed = int(picture.is_allowed.sum())
    title = f"{picture.title[0].upper()}{picture.title[1:]}"
    axes.set_title(f"{title} allows\n{num_allowed:,} of {picture.cells.size:,} pairs")
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if max(T, S) > MAX_LABELS:
        return
    size = 7.5 if max(T, S) <= 30 else 5.5
    axes.set_xticks(range(S), [shorten(t, 12) for t in picture.keys], rotation=90, fontsize=size)
    axes.set_yticks(range(T), [shorten(t, 12) for t in picture.queries], fontsize=size)
    axes.set_xticks(np.arange(0.5, S), minor=True)
    axes.set_yticks(np.arange(0.5, T), minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(True, which="minor", color="white", linewidth=0.8)
