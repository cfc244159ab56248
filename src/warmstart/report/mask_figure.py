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
from warmstart.results.mask_picture import MaskPicture

REASONS = ("allowed", "later token", "another document", "padding")  # by value of a cell
COLOURS = ("#d5521c", "#e9e9e6", "#b7cfe6", "#f6e7b4")
MAX_LABELS = 72  # tokens that can be named beside a mask


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
    columns = min(len(pictures), 3 if max(len(p.keys) for p in pictures) <= 24 else 2)
    rows = -(-len(pictures) // columns)
    longest = max(max(len(p.queries) / len(p.keys) for p in pictures), 0.3)
    wide = max(2.4, min(8.5 / columns, 0.24 * max(len(p.keys) for p in pictures) + 0.9))
    high = max(2.0, (wide - 0.6) * longest + 0.9)
    drawing = Figure(figsize=(wide * columns + 0.2, high * rows + 0.5), layout="constrained")
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
    drawing.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)
    return drawing


def _draw_mask(axes: Axes, picture: MaskPicture) -> None:
    T, S = picture.cells.shape
    norm = BoundaryNorm(np.arange(len(COLOURS) + 1) - 0.5, len(COLOURS))
    axes.imshow(picture.cells, cmap=ListedColormap(COLOURS), norm=norm, interpolation="nearest")
    axes.set_title(picture.title)
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if max(T, S) > MAX_LABELS:
        axes.set_xlabel("keys")
        axes.set_ylabel("queries")
        return
    size = 7.5 if max(T, S) <= 30 else 5.5
    axes.set_xticks(range(S), [shorten(t, 12) for t in picture.keys], rotation=90, fontsize=size)
    axes.set_yticks(range(T), [shorten(t, 12) for t in picture.queries], fontsize=size)
    axes.set_xticks(np.arange(0.5, S), minor=True)
    axes.set_yticks(np.arange(0.5, T), minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(True, which="minor", color="white", linewidth=0.8)
