"""Attention weights as figures and as an interactive page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from warmstart.files import write_whole
from warmstart.formats import shorten
from warmstart.model.attention_weights import AttentionMap, Tokens, encode_weights, readable
from warmstart.report.html import render
from warmstart.report.style import FAINT, styled

MASKED = "#e0e1e4"
HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#ffffff", "#fde4d2", "#f5a56e", "#d5521c", "#6d2108"]
).with_extremes(bad=MASKED)
MAX_LABELS = 60  # tokens that can be named beside one head
MIN_LABEL = 3.5  # size of the smallest label that can be read, in points
MAX_COLUMNS = 12  # layers of one model beside each other
MAX_SHARED_COLUMNS = 6  # layers of all models that fit into one row
WIDTH = 7.6  # of the figure with all layers, in inches


@styled
def draw_heads(attention: AttentionMap) -> Figure:
    """Draw every head, one row for each layer."""
    layers, heads = attention.weights.shape[:2]
    num_tokens = max(len(attention.queries), len(attention.keys))
    # Wide enough for the labels of the tokens, if the page is.
    size = max(0.62, min(1.7, 7.2 / heads), min(0.075 * num_tokens, 12 / heads))
    figure = Figure(
        figsize=(size * heads + 1.5, (size + 0.15) * layers + 1.3),
        layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02),
    )
    grid = figure.subplots(layers, heads, squeeze=False)
    entropy = attention.entropy()
    label_size = min(6.5, 0.8 * 72 * size / num_tokens)
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer][head]
            weights = _visible(attention, attention.weights[layer, head])
            image = _draw_weights(axes, weights, _aspect(attention))
            axes.set_box_aspect(1)
            axes.set_title(f"{entropy[layer, head]:.1f} bits", fontsize=6, pad=2, loc="center")
            if label_size >= MIN_LABEL:
                _label_keys(axes, attention, label_size if layer == layers - 1 else 0)
                _label_queries(axes, attention, label_size if head == 0 else 0)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=7)
            if layer == layers - 1:
                axes.set_xlabel(f"head {head + 1}", fontsize=7)
    _scale(figure, image, [axes for row in grid for axes in row])
    keys, queries = _axis_names(attention)
    figure.supxlabel(keys, fontsize=8)
    figure.supylabel(queries, fontsize=8)
    figure.suptitle(f"{attention.title}.\nAbove each head: its entropy", fontsize=9)
    return figure


@styled
def draw_head(attention: AttentionMap, layer: int, head: int) -> Figure:
    """Draw one head with its tokens; layer and head count from 0."""
    T, S = len(attention.queries), len(attention.keys)
    width = max(4.2, min(9.5, 0.21 * S + 1.6))
    height = max(3.4, min(9.5, 0.21 * T + 1.3))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    weights = _visible(attention, attention.weights[layer, head])
    image = _draw_weights(axes, weights, _aspect(attention))
    if max(T, S) <= MAX_LABELS:
        size = 8 if max(T, S) <= 32 else 6
        _label_keys(axes, attention, size)
        _label_queries(axes, attention, size)
        axes.xaxis.tick_top()
    _scale(figure, image, [axes])
    keys, queries = _axis_names(attention)
    axes.set_xlabel(keys)
    axes.set_ylabel(queries)
    statistics = f"entropy {attention.entropy()[layer, head]:.2f} bits"
    distance = attention.distance()
    if distance is not None:
        statistics += f", average distance {distance[layer, head]:.1f}"
    title = f"{attention.title}.\nLayer {layer + 1}, head {head + 1}: {statistics}"
    figure.suptitle(title, fontsize=9)
    return figure


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
            _draw_weights(axes, _visible(attention, weights.mean(0)))
            axes.set_xlabel(f"layer {layer + 1}", fontsize=6.5, labelpad=3)
            if layer == 0:
                axes.set_title(shorten(name, 24), fontsize=7, pad=3, loc="left", weight="bold")
    return figure


def _labels(tokens: Tokens) -> list[str]:
    return [shorten(readable(piece), 14) for piece in tokens.pieces]


def _label_keys(axes: Axes, attention: AttentionMap, size: float) -> None:
    """Name the columns; size 0: in another panel of the same column."""
    names = _labels(attention.keys) if size else []
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size or None)
    axes.tick_params(length=0)


def _label_queries(axes: Axes, attention: AttentionMap, size: float) -> None:
    """Name the rows; size 0: in another panel of the same row."""
    names = _labels(attention.queries) if size else []
    axes.set_yticks(range(len(names)), names, fontsize=size or None)
    axes.tick_params(length=0)


def _axis_names(attention: AttentionMap) -> tuple[str, str]:
    """Say what columns and rows are, and what is grey."""
    masked = "; grey: masked, later than the query" if attention.is_causal else ""
    aim = ", each predicts the next token" if attention.part == "cross" else ""
    return f"{len(attention.keys)} keys{masked}", f"{len(attention.queries)} queries{aim}"


def _visible(
    attention: AttentionMap, weights: NDArray[np.float32]
) -> "np.ma.MaskedArray[Any, Any]":
    """Return weights (queries, keys) of which masked ones are told apart from zeros."""
    return np.ma.masked_array(weights, attention.is_masked)


def _aspect(attention: AttentionMap) -> Literal["auto", "equal"]:
    return "auto" if attention.part == "cross" else "equal"


def _draw_weights(
    axes: Axes, weights: "np.ma.MaskedArray[Any, Any]", aspect: Literal["auto", "equal"] = "equal"
) -> AxesImage:
    norm = PowerNorm(0.5, 0, 1)  # small weights are visible
    image = axes.imshow(weights, cmap=HEAT, norm=norm, aspect=aspect, interpolation="nearest")
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)
        spine.set_linewidth(0.4)
    return image


def _scale(figure: Figure, image: AxesImage, axes: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=28, pad=0.015)
    bar.outline.set_visible(False)
    bar.set_ticks([0, 0.05, 0.25, 0.5, 1], labels=["0", "5%", "25%", "50%", "100%"])
    bar.ax.tick_params(labelsize=6.5, length=0)


MAX_FINE = 2_000_000  # weights up to which each takes two bytes, not one


@dataclass(frozen=True, kw_only=True)
class AttentionPage:
    """The head of the page, and how it opens."""

    title: str
    facts: Sequence[str]  # short: model, layers, tokens
    is_joined: bool = False  # opens with words instead of pieces


def write_attention_page(page: AttentionPage, maps: Sequence[AttentionMap], path: Path) -> Path:
    """Write the page, whole or not at all."""
    return write_whole(path, attention_html(page, maps).encode())


def attention_html(page: AttentionPage, maps: Sequence[AttentionMap]) -> str:
    """Return the whole page; of several maps it opens with the last."""
    is_fine = sum(attention.weights.size for attention in maps) <= MAX_FINE
    dtype = np.uint16 if is_fine else np.uint8
    data = {"words": page.is_joined, "maps": [_map_data(attention, dtype) for attention in maps]}
    return render("attention.html", {"page": page, "data": data})


def _map_data(attention: AttentionMap, dtype: type[np.unsignedinteger[Any]]) -> dict[str, Any]:
    layers, heads, _, _ = attention.weights.shape
    return {
        "part": attention.part,
        "title": attention.title,
        "causal": attention.is_causal,
        "layers": layers,
        "heads": heads,
        "queries": _token_data(attention.queries),
        "keys": _token_data(attention.keys),
        "bytes": np.dtype(dtype).itemsize,
        "weights": encode_weights(attention.weights, dtype),
        "pieces": _statistics(attention),
        "words": _statistics(attention.joined()),
    }


def _token_data(tokens: Tokens) -> dict[str, Any]:
    return {
        "pieces": [readable(piece) for piece in tokens.pieces],
        "words": list(tokens.joined().pieces),
        "starts": tokens.starts,
    }


def _statistics(attention: AttentionMap) -> dict[str, Any]:
    arrays = {
        "entropy": attention.entropy(),
        "distance": attention.distance(),
        "itself": attention.share_at("itself"),
        "previous": attention.share_at("previous"),
        "first": attention.share_at("first"),
    }
    return {
        name: None if array is None else np.round(array, 4).tolist()
        for name, array in arrays.items()
    }
