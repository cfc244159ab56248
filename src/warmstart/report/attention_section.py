"""Two models on the same text, as sections of a page: where each looks, and where they disagree.

Knows nothing about how either was trained.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warmstart.report.attention_figure import HEAT
from warmstart.report.attention_page import quantised
from warmstart.report.formats import counted, shorten
from warmstart.report.markup import Html, Section, element, figure, folded, paragraph, table
from warmstart.report.style import styled
from warmstart.results.attention import AttentionMap, Tokens, readable

SHOWN = 10  # disagreements of each kind that are not folded away
FOLDED = 100  # of each kind that are
MOST_CHARS = 400  # of a text that is shown
FLAT = 6  # layers of all arms together that fit beside each other
DEEP = 12  # layers of one arm that do
WIDTH = 7.6  # of the figure, in inches


def map_to_json(found: AttentionMap) -> dict[str, Any]:
    """Return a map as JSON values; weights are rounded to a byte each."""
    return {
        "part": found.part,
        "queries": [list(found.queries.pieces), list(found.queries.words)],
        "keys": [list(found.keys.pieces), list(found.keys.words)],
        "shape": list(found.weights.shape),
        "weights": quantised(found.weights, np.uint8),
    }


def map_from_json(data: Mapping[str, Any]) -> AttentionMap:
    """Rebuild a map from its JSON form."""
    roots = np.frombuffer(base64.b64decode(data["weights"]), np.uint8).astype(np.float32) / 255
    weights = np.square(roots).reshape(data["shape"])
    tokens = [
        Tokens(pieces=tuple(data[side][0]), words=tuple(data[side][1]))
        for side in ("queries", "keys")
    ]
    return AttentionMap(part=data["part"], queries=tokens[0], keys=tokens[1], weights=weights)


def attention_section(
    maps: Mapping[str, AttentionMap], said: Mapping[str, str], truth: str
) -> Section:
    """Show where each arm's model looks on one text; `said` is each arm's label for it."""
    joined = {arm: found.joined() for arm, found in maps.items()}
    pieces: list[Html] = [
        paragraph(
            "One text as each model reads it, in whole words. The darker a word, the more attention"
            f" it receives in the last layer. Its true label is {truth}."
        )
    ]
    for arm, found in joined.items():
        entropy = found.entropy()
        verdict = "right" if said[arm] == truth else "wrong"
        pieces.append(element("h3", f"{arm}: {said[arm]} ({verdict})"))
        pieces.append(_shaded(found))
        pieces.append(
            paragraph(
                f"Entropy of its heads: {entropy.min():.2f} to {entropy.max():.2f} bits, mean"
                f" {entropy.mean():.2f}; the lower, the fewer words a head looks at.",
                css="soft",
            )
        )
    caption = (
        "Mean over the heads of each layer; rows look, columns are looked at. Colour follows the"
        " square root of the weight. Weights say where a model looks, not why it answers so."
    )
    pieces.append(figure(draw_layers(joined), caption))
    return Section(title="Attention on one text", pieces=pieces)


def received(found: AttentionMap, layer: int = -1) -> np.ndarray:
    """Return the attention each key receives in a layer, mean over heads and rows that see it."""
    weights = found.weights[layer].astype(np.float64).mean(0)  # (queries, keys)
    return np.asarray(weights.sum(0) / np.maximum((weights > 0).sum(0), 1))


def _shaded(found: AttentionMap) -> Html:
    shares = received(found)
    most = float(shares.max()) or 1.0
    spans = [
        Html(
            f'<span style="background:rgba(213,82,28,{0.65 * share / most:.2f});'
            f'padding:.1em .2em;border-radius:3px">{escape(readable(piece))}</span>'
        )
        for piece, share in zip(found.keys.pieces, shares, strict=True)
    ]
    return paragraph(Html.joined(spans, " "))


@styled
def draw_layers(maps: Mapping[str, AttentionMap]) -> Figure:
    """Draw each arm's layers, averaged over heads: beside each other, or each arm on a new row."""
    depth = max(len(found.weights) for found in maps.values())
    is_flat = depth * len(maps) <= FLAT
    columns = max(4, depth * len(maps)) if is_flat else min(depth, DEEP)
    room = depth if is_flat else -(-depth // columns) * columns  # places of one arm
    rows, size = -(-room * len(maps) // columns), WIDTH / columns
    drawing = Figure(figsize=(WIDTH, (size + 0.2) * rows + 0.1), layout="constrained")
    grid = drawing.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for number, (arm, found) in enumerate(maps.items()):
        for layer, weights in enumerate(found.weights):
            axes = grid[number * room + layer]
            _draw_layer(axes, weights, layer)
            if layer == 0:
                axes.set_title(shorten(arm, 24), fontsize=7, pad=3, loc="left", weight="bold")
    return drawing


def _draw_layer(axes: Axes, weights: np.ndarray, layer: int) -> None:
    axes.set_axis_on()
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    mean = np.sqrt(weights.mean(0))
    axes.imshow(mean, cmap=HEAT, vmin=0, vmax=1, interpolation="nearest")
    axes.set_xlabel(f"layer {layer + 1}", fontsize=6.5, labelpad=3)


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A text that two models label differently."""

    text: str
    truth: str
    first: str  # the label one model gave
    second: str


def find_disagreements(
    texts: Sequence[str],
    truth: Sequence[int],
    first: Sequence[int],
    second: Sequence[int],
    names: Sequence[str],
) -> list[Disagreement]:
    """Return the texts on which two lists of predictions differ, in order."""
    rows = zip(texts, truth, first, second, strict=True)
    return [
        Disagreement(text=text, truth=names[true], first=names[a], second=names[b])
        for text, true, a, b in rows
        if a != b
    ]


def disagreements_section(
    found: Sequence[Disagreement], first: str, second: str, num_texts: int
) -> Section:
    """Show the texts two arms label differently: which was right, and who said what."""
    wins = [d for d in found if d.first == d.truth]
    losses = [d for d in found if d.second == d.truth]
    neither = [d for d in found if d.truth not in (d.first, d.second)]
    share = f"{len(found):,} of {counted(num_texts, 'text')}"
    pieces: list[Html] = [
        paragraph(
            f"{first} and {second} disagree on {share}: {first} alone is right on {len(wins):,},"
            f" {second} alone on {len(losses):,}, neither on {len(neither):,}."
        )
    ]
    for title, rows in (
        (f"{first} alone is right", wins),
        (f"{second} alone is right", losses),
        ("Neither is right", neither),
    ):
        if rows:
            pieces.append(element("h3", f"{title} ({len(rows):,})"))
            pieces.append(_disagreement_table(rows[:SHOWN], first, second))
        if len(rows) > SHOWN:
            rest = rows[SHOWN : SHOWN + FOLDED]
            left = f", of which the first {FOLDED:,}" if len(rows) > SHOWN + FOLDED else ""
            summary = f"{len(rows) - SHOWN:,} more{left}"
            pieces.append(folded(summary, _disagreement_table(rest, first, second)))
    return Section(title=f"Where {first} and {second} disagree", pieces=pieces)


def _disagreement_table(rows: Sequence[Disagreement], first: str, second: str) -> Html:
    cells = [(_cut(row.text), row.truth, row.first, row.second) for row in rows]
    return table(("text", "true", first, second), cells, "llll")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
