"""Attention maps as still pictures for papers: every head at a glance, or one in full.

Knows nothing about models.
"""

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine

from warmstart.report.formats import shorten
from warmstart.report.style import FAINT, styled
from warmstart.results.attention import TITLES, AttentionMap, Tokens, readable

HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#ffffff", "#fde4d2", "#f5a56e", "#d5521c", "#6d2108"]
)
MOST_LABELS = 60  # tokens that can be named beside one head


@styled
def draw_heads(found: AttentionMap) -> Figure:
    """Draw every layer and head, layers downwards."""
    layers, heads = found.weights.shape[:2]
    size = max(0.62, min(1.7, 7.2 / heads))
    shape = len(found.queries) / len(found.keys)
    figure = Figure(
        figsize=(size * heads + 0.9, size * shape * layers + 0.9),
        layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02),
    )
    grid = figure.subplots(layers, heads, squeeze=False)
    entropy = found.entropy()
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer][head]
            image = _image(axes, found, layer, head)
            axes.set_title(f"{entropy[layer, head]:.1f} bits", fontsize=6, pad=2, loc="center")
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=7)
            if layer == layers - 1:
                axes.set_xlabel(f"head {head + 1}", fontsize=7)
    _scale(figure, image, [axes for row in grid for axes in row])
    figure.suptitle(f"{TITLES[found.part]}: weights, and entropy of each head", fontsize=9)
    return figure


@styled
def draw_head(found: AttentionMap, layer: int, head: int) -> Figure:
    """Draw one head with its tokens; layer and head count from 0."""
    T, S = len(found.queries), len(found.keys)
    width = max(4.2, min(9.5, 0.21 * S + 1.6))
    height = max(3.4, min(9.5, 0.21 * T + 1.3))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    image = _image(axes, found, layer, head)
    if max(T, S) <= MOST_LABELS:
        size = 8 if max(T, S) <= 32 else 6
        axes.set_xticks(range(S), labels_of(found.keys), rotation=90, fontsize=size)
        axes.set_yticks(range(T), labels_of(found.queries), fontsize=size)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
    else:
        axes.set_xlabel(f"{S} tokens that are looked at")
        axes.set_ylabel(f"{T} tokens that look")
    _scale(figure, image, [axes])
    figures = f"entropy {found.entropy()[layer, head]:.2f} bits"
    distance = found.distance()
    if distance is not None:
        figures += f", average distance {distance[layer, head]:.1f}"
    figure.suptitle(f"Layer {layer + 1}, head {head + 1}: {figures}", fontsize=9)
    return figure


def labels_of(tokens: Tokens) -> list[str]:
    """Return tokens as short labels."""
    return [shorten(readable(piece), 14) for piece in tokens.pieces]


def _image(axes: Axes, found: AttentionMap, layer: int, head: int) -> AxesImage:
    image = axes.imshow(
        found.weights[layer, head],
        cmap=HEAT,
        norm=PowerNorm(0.5, 0, 1),  # weak weights can be seen
        aspect="auto" if found.part == "cross" else "equal",
        interpolation="nearest",
    )
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
