"""The query-key products of one head, neuron by neuron."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.look.commands import LookNeuronsConfig
from warmstart.model.attention import AttentionContext, MultiHeadAttention, attention_weights
from warmstart.model.attention_weights import readable
from warmstart.model.backbone import Backbone
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, SHADES, save_image, styled
from warmstart.tasks.registry import load_transformer
from warmstart.tasks.text_model import TransformerModel

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HeadProducts(Drawn):
    """One query against every key of a text, neuron by neuron."""

    run: str
    layer: int  # from 1, as users count
    head: int
    query: int  # position, from 1
    tokens: tuple[str, ...]
    q: Array  # (K,)
    k: Array  # (keys, K)
    divisor: float  # of the sums: the root of K
    weights: Array  # (keys,) after softmax; zero where masked

    @property
    def products(self) -> Array:
        """Return what each neuron adds to each score, before the division: (keys, K)."""
        return self.q * self.k

    @property
    def scores(self) -> Array:
        """Return the scores before softmax: (keys,)."""
        return self.products.sum(-1) / self.divisor

    @property
    def sentence(self) -> str:
        """Return which key wins and by which neuron, without a full stop."""
        key = int(self.weights.argmax())
        neuron = int(self.products[key].argmax())
        return (
            f"layer {self.layer}, head {self.head}: {self.tokens[self.query - 1]!r} attends most to"
            f" {self.tokens[key]!r} ({self.weights[key]:.0%}); neuron {neuron + 1} of {len(self.q)}"
            f" adds most to that score ({self.products[key, neuron] / self.divisor:+.2f} of"
            f" {self.scores[key]:+.2f})"
        )

    def table(self) -> Table:
        """Return headers, and a row for each key."""
        keys = zip(self.tokens, self.products.sum(-1), self.scores, self.weights, strict=True)
        rows = [
            (token, f"{total:+.2f}", f"{score:+.2f}", f"{weight:.1%}" if weight else "masked")
            for token, total, score, weight in keys
        ]
        return ("key", "q·k", "q·k / √d_k", "weight"), rows

    @styled
    def draw(self) -> Figure:
        """Draw query, keys, products, scores and weights."""
        T = len(self.tokens)
        drawing = Figure(figsize=(9.2, 0.21 * T + 2.1), layout="constrained")
        grid = drawing.subplots(
            2, 4, height_ratios=[1, max(2, T)], width_ratios=[4, 4, 1, 1], squeeze=False
        )
        for axes in (grid[0][1], grid[0][2], grid[0][3]):
            axes.set_axis_off()
        _draw_numbers(grid[0][0], self.q[None], f"query “{self.tokens[self.query - 1]}” q (d_k)")
        _draw_numbers(grid[1][0], self.k, f"keys k ({T}, d_k)")
        image = _draw_numbers(grid[1][1], self.products, f"products qᵢ·kᵢ ({T}, d_k)")
        names = [shorten(token, 12) for token in self.tokens]
        grid[1][0].set_yticks(range(T), names, fontsize=7)
        for axes in (grid[1][0], grid[1][1]):
            axes.set_xlabel(f"neuron, 1 to {len(self.q)}")
        _draw_bars(grid[1][2], self.scores, "q·k / √d_k", SHADES["cold"][0])
        _draw_bars(grid[1][3], self.weights, "weight", SHADES["warm"][0])
        bar = drawing.colorbar(
            image, ax=grid[0][1], orientation="horizontal", fraction=0.5, aspect=30
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=6.5, length=0)
        drawing.suptitle(f"Layer {self.layer}, head {self.head} of {shorten(self.run, 40)}")
        return drawing


def look_neurons(config: LookNeuronsConfig) -> HeadProducts:
    """Show how one head compares one token with all others, neuron by neuron."""
    model = load_transformer(config.run, config)
    head = head_products(model, config, model.text_reader(config.pieces)(config.text))
    save_image(head.draw(), Path(config.out))
    return head


@torch.inference_mode()
def head_products(model: TransformerModel, config: LookNeuronsConfig, text: str) -> HeadProducts:
    """Return the products of one query with every key, in one head of one layer."""
    ids, backbone = model.ids_of(text), model.backbone
    depth, heads = backbone.config.depth, backbone.config.heads
    query = config.query or len(ids)
    limits = (("--layer", config.layer, depth), ("--head", config.head, heads))
    for flag, value, most in (*limits, ("--query", query, len(ids))):
        if value > most:
            raise WarmstartError(f"{flag} {value} is too large: there are {most}")
    attend, x, context = _inputs(backbone, config.layer - 1, ids)
    q, k, _ = attend.queries_keys_values(x, context)  # each (1, H, T, K)
    divisor = q.shape[-1] ** 0.5 if context.is_scaled else 1.0
    scaled = q * (q.shape[-1] ** 0.5 / divisor)
    weights = attention_weights(scaled, k, context.mask, context.is_causal)

    def numbers(tensor: Tensor) -> Any:
        return tensor[0, config.head - 1].double().cpu().numpy()

    return HeadProducts(
        run=config.run,
        layer=config.layer,
        head=config.head,
        query=query,
        tokens=tuple(map(readable, model.tokenizer.labels(ids))),
        q=numbers(q)[query - 1],
        k=numbers(k),
        divisor=divisor,
        weights=numbers(weights)[query - 1],
    )


def _inputs(
    backbone: Backbone, layer: int, ids: list[int]
) -> tuple[MultiHeadAttention, Tensor, AttentionContext]:
    """Return the attention of one layer, and the inputs it receives for a text."""
    attend = backbone.blocks[layer].attend
    assert isinstance(attend, MultiHeadAttention)
    received: list[tuple[Any, ...]] = []
    hook = attend.register_forward_pre_hook(lambda _, inputs: received.append(inputs))
    try:
        backbone(torch.tensor([ids], device=next(backbone.parameters()).device))
    finally:
        hook.remove()
    x, context = received[0]
    return attend, x, context


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
