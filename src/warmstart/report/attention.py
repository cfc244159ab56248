"""Attention weights as heat maps: one head, and the layers of several models."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from warmstart.formats import shorten
from warmstart.model.attention_weights import AttentionMap
from warmstart.report.style import FAINT, styled

MASKED = "#e0e1e4"
HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#ffffff", "#fde4d2", "#f5a56e", "#d5521c", "#6d2108"]
).with_extremes(bad=MASKED)
MAX_COLUMNS = 12  # layers of one model beside each other
MAX_SHARED_COLUMNS = 6  # layers of all models that fit into one row
WIDTH = 7.6  # of the figure with all layers, in inches


@styled
def draw_layers(maps: Mapping[str, AttentionMap]) -> Figure:
    """Draw the layers of several models, averaged over heads: in one row, or a row for each."""
    depth = max(len(attention.weights) for attention in maps.values())
    is_one_row = depth * len(maps) <= MAX_SHARED_COLUMNS
    columns = max(4, depth * len(maps)) if is_one_row else min(depth, MAX_COLUMNS)
    per_model = depth if is_one_row else -(-depth // columns) * columns  # panels
    rows, size = -(-per_model * len(maps) // columns), WIDTH / columns
    figure = Figure(figsize=(WIDTH, (size + 0.2) * rows + 0.1), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for number, (name, attention) in enumerate(maps.items()):
        for layer, weights in enumerate(attention.weights):
            axes = grid[number * per_model + layer]
            axes.set_axis_on()
            draw_weights(axes, attention, weights.mean(0))
            axes.set_xlabel(f"layer {layer + 1}", fontsize=6.5, labelpad=3)
            if layer == 0:
                axes.set_title(shorten(name, 24), fontsize=7, pad=3, loc="left", weight="bold")
    return figure


def draw_weights(
    axes: Axes,
    attention: AttentionMap,
    weights: NDArray[np.float32],
    aspect: Literal["auto", "equal"] = "equal",
) -> AxesImage:
    """Draw weights (queries, keys); masked ones are told apart from zeros."""
    visible = np.ma.masked_array(weights, attention.is_masked)
    norm = PowerNorm(0.5, 0, 1)  # small weights are visible
    image = axes.imshow(visible, cmap=HEAT, norm=norm, aspect=aspect, interpolation="nearest")
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)
        spine.set_linewidth(0.4)
    return image
