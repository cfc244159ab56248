"""Attention weights of a text, as a page or a figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine

from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.formats import quantity, shorten
from warmstart.look.commands import LookAttentionConfig
from warmstart.model.attention_weights import AttentionMap, Tokens, encode_weights, readable
from warmstart.report.attention import draw_weights
from warmstart.report.html import Shown, image, render
from warmstart.report.style import save_image, styled
from warmstart.tasks.registry import load_transformer
from warmstart.tasks.text_model import TransformerModel
from warmstart.tokenization.tokenizer import Tokenizer, text_reader

MAX_LABELS = 60  # tokens that can be named beside one head
MIN_LABEL = 3.5  # size of the smallest label that can be read, in points
MAX_FINE = 2_000_000  # weights up to which each takes two bytes of the page, not one


@dataclass(frozen=True)
class AttentionResult(Shown):
    """Attention weights by part of the model, and the file that shows them."""

    out: Path
    maps: dict[str, AttentionMap]

    def pieces(self) -> list[str]:
        if _is_page(self.out):
            page = self.out.read_text(encoding="utf-8")
            return [render("frame.html", {"page": page, "name": self.out.name}, "warmstart.look")]
        return [image(self.out.read_bytes(), self.out.suffix.lower())]


def look_attention(config: LookAttentionConfig) -> AttentionResult:
    """Show where a model attends in your own text, in every layer and head."""
    model = load_transformer(config.run, config)
    text = config.text if config.source is None else config.source
    if text is None:
        raise WarmstartError("--text is missing (for a translator, --source): the text to read")

    def prepare(text: str | None, tokenizer: Tokenizer) -> str | None:
        return None if text is None else text_reader(tokenizer, config.pieces, model.name)(text)

    target, own = prepare(config.target, model.target_tokenizer), model.tokenizer
    maps = model.attention(prepare(text, own) or "", prepare(config.text2, own), target)
    out = Path(config.out)
    if _is_page(out):
        write_whole(out, _page(model, config, maps).encode())
    else:
        save_image(_draw(config, maps), out)
    return AttentionResult(out, maps)


def _is_page(path: Path) -> bool:
    return path.suffix.lower() == ".html"


def _page(
    model: TransformerModel, config: LookAttentionConfig, maps: dict[str, AttentionMap]
) -> str:
    last = list(maps.values())[-1]
    layers, heads = last.weights.shape[:2]
    tokens = quantity(len(last.keys), "token")
    if last.part == "cross":
        tokens += f" → {len(last.queries):,}"
    facts = [model.description, f"{layers} × {heads} layers and heads", tokens]
    if last.part == "cross" and config.target is None:
        facts.append("target: the model's own translation, by greedy search")
    return attention_html(f"Attention of {model.name}", facts, list(maps.values()), config.words)


def _draw(config: LookAttentionConfig, maps: dict[str, AttentionMap]) -> Figure:
    part = config.part or list(maps)[-1]
    if part not in maps:
        raise WarmstartError(f"--part {part} is not in this model, which has {', '.join(maps)}")
    attention = maps[part].by_word() if config.words else maps[part]
    layers, heads = attention.weights.shape[:2]
    for flag, value, most in (("--layer", config.layer, layers), ("--head", config.head, heads)):
        if value is not None and value > most:
            raise WarmstartError(f"{flag} {value} is not in this model, which has {most}")
    if (config.layer is None) != (config.head is None):
        raise WarmstartError("--layer and --head go together: give both, or none for every head")
    if config.layer is None or config.head is None:
        return draw_heads(attention)
    return draw_head(attention, config.layer - 1, config.head - 1)


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
            weights = attention.weights[layer, head]
            image = draw_weights(axes, attention, weights, _aspect(attention))
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
    weights = attention.weights[layer, head]
    image = draw_weights(axes, attention, weights, _aspect(attention))
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


def _labels(tokens: Tokens) -> list[str]:
    return [shorten(readable(piece), 14) for piece in tokens.pieces]


def _label_keys(axes: Axes, attention: AttentionMap, size: float) -> None:
    """Label the columns; size 0: another panel of the same column has the labels."""
    names = _labels(attention.keys) if size else []
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size or None)
    axes.tick_params(length=0)


def _label_queries(axes: Axes, attention: AttentionMap, size: float) -> None:
    """Label the rows; size 0: another panel of the same row has the labels."""
    names = _labels(attention.queries) if size else []
    axes.set_yticks(range(len(names)), names, fontsize=size or None)
    axes.tick_params(length=0)


def _axis_names(attention: AttentionMap) -> tuple[str, str]:
    """Return what to write beside columns and rows: what they are, and what is grey."""
    masked = "; grey: masked, later than the query" if attention.is_causal else ""
    aim = ", each predicts the next token" if attention.part == "cross" else ""
    return f"{len(attention.keys)} keys{masked}", f"{len(attention.queries)} queries{aim}"


def _aspect(attention: AttentionMap) -> Literal["auto", "equal"]:
    return "auto" if attention.part == "cross" else "equal"


def _scale(figure: Figure, image: AxesImage, axes: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=28, pad=0.015)
    bar.outline.set_visible(False)
    bar.set_ticks([0, 0.05, 0.25, 0.5, 1], labels=["0", "5%", "25%", "50%", "100%"])
    bar.ax.tick_params(labelsize=6.5, length=0)


def attention_html(
    title: str, facts: Sequence[str], maps: Sequence[AttentionMap], is_joined: bool = False
) -> str:
    """Return the whole page; it opens with the last map, of words if `is_joined`."""
    is_fine = sum(attention.weights.size for attention in maps) <= MAX_FINE
    dtype = np.uint16 if is_fine else np.uint8
    data = {"words": is_joined, "maps": [_map_data(attention, dtype) for attention in maps]}
    return render(
        "attention.html", {"title": title, "facts": facts, "data": data}, "warmstart.look"
    )


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
        "words": _statistics(attention.by_word()),
    }


def _token_data(tokens: Tokens) -> dict[str, Any]:
    return {
        "pieces": [readable(piece) for piece in tokens.pieces],
        "words": list(tokens.by_word().pieces),
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
