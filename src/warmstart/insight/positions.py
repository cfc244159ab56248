"""What a model knows of where a token stands, and how well it foresees text at each position.

Knows nothing about files or pictures.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.model.backbone import Backbone
from warmstart.model.models import LanguageModel
from warmstart.model.positions import frequencies, sinusoids
from warmstart.report.positions import Likeness, PerplexityByPosition, PositionView
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig

Array = NDArray[np.float64]
CPU = torch.device("cpu")
STRETCHES = 32  # points of the perplexity curve
ENOUGH = 8  # whole windows from which shorter ones are left out
RESAMPLES = 500
MOST_LOGITS = 1 << 25  # computed at once
MOST_TOKENS = 400_000  # read for the curve


def view_positions(
    shape: ModelConfig, backbone: Backbone | None, name: str, length: int
) -> PositionView:
    """Return vectors and likeness of a shape's positions; learned ones come from `backbone`."""
    if shape.positions == "rope":
        return _rotary(shape, name, length)
    if shape.positions == "sinusoidal":
        vectors = sinusoids(length, shape.width, CPU).numpy()
        note = (
            "The dot product of two sinusoidal positions depends on their distance alone: the mean"
            " of cos(distance × speed) over all speeds."
        )
    else:
        length = min(length, shape.max_length)
        vectors, note = _learned(shape, backbone, length)
    return PositionView(
        name=name, kind=shape.positions, vectors=vectors, likeness=likeness(vectors), note=note
    )


def likeness(vectors: Array) -> Likeness:
    """Compare every pair of positions by distance, in units of a position with itself."""
    T = len(vectors)
    products = vectors @ vectors.T / np.square(vectors).sum(1).mean()  # (T, T)
    apart = [np.diagonal(products, distance) for distance in range(T - max(1, T // 8))]
    return Likeness(
        distances=np.arange(len(apart), dtype=np.float64),
        mean=np.array([values.mean() for values in apart]),
        low=np.array([values.min() for values in apart]),
        high=np.array([values.max() for values in apart]),
    )


def _rotary(shape: ModelConfig, name: str, length: int) -> PositionView:
    speeds = frequencies(shape.width // shape.heads // 2, CPU, shape.rope_base).numpy()
    turned = np.cos(np.arange(length)[:, None] * speeds)  # (T, K / 2)
    mean = turned.mean(1)
    note = (
        "Query and key are turned by an angle that grows with position, so that their product"
        " depends on the distance alone. Drawn: the mean score, over random queries, of a query"
        " with a key equal to it, in units of the score at distance 0."
    )
    found = Likeness(distances=np.arange(length, dtype=np.float64), mean=mean, low=mean, high=mean)
    return PositionView(name=name, kind="rope", vectors=turned, likeness=found, note=note)


def _learned(shape: ModelConfig, backbone: Backbone | None, length: int) -> tuple[Array, str]:
    if backbone is None:
        drawn = torch.randn(length, shape.width, generator=torch.Generator().manual_seed(0))
        note = (
            "Not trained: learned positions start as random numbers, of which no two are alike."
            " Name a run to see what training made of them."
        )
        return 0.02 * drawn.double().numpy(), note
    trained = backbone.embed_positions.weight[:length].detach().double().cpu().numpy()
    note = (
        "The band reaches from the least to the most alike of all pairs that far apart: learned"
        " positions need not depend on the distance alone."
    )
    return trained, note


def windows_of(documents: Sequence[Sequence[int]], length: int) -> tuple[list[list[int]], str]:
    """Cut documents into windows of `length` + 1 tokens, and say which were taken."""
    size = length + 1
    cut = [
        list(ids[start : start + size])
        for ids in documents
        for start in range(0, len(ids), size)
        if len(ids) - start > 1
    ]
    whole = [window for window in cut if len(window) == size]
    if len(whole) >= ENOUGH:
        return whole, "Every position is averaged over the same windows of text."
    if not cut:
        raise WarmstartError("--test holds no text of two or more tokens")
    return cut, (
        f"Only {len(whole)} windows are {length:,} tokens long, so shorter texts count too: late"
        " positions are averaged over other texts than early ones."
    )


def reach(shape: ModelConfig, past: float) -> tuple[int, str]:
    """Return up to which position a model can be asked, and why no further."""
    if shape.positions == "learned":
        return shape.max_length, (
            f"Learned positions end at the trained length: there is no vector for position"
            f" {shape.max_length:,}, so the curve stops there."
        )
    return max(2, int(shape.max_length * past)), ""


def perplexity_by_position(
    model: LanguageModel, windows: Sequence[Sequence[int]], length: int, runtime: Runtime
) -> PerplexityByPosition:
    """Score windows of text and average by stretch of positions."""
    backbone, trained = model.backbone, model.config.max_length
    if model.config.positions == "sinusoidal" and length > trained:
        table = sinusoids(length, model.config.width, runtime.device).float()
        backbone.register_buffer("sinusoids", table, persistent=False)
    losses = _losses(model, windows[: max(1, MOST_TOKENS // length)], length, runtime)
    edges = np.unique(np.linspace(0, length, min(STRETCHES, length) + 1).round().astype(int))
    # A stretch never spans the trained length, where the curve may jump.
    edges = np.unique([*edges, min(trained, length)])
    stretches = [losses[:, a:b] for a, b in pairwise(edges)]
    sums = np.stack([np.nansum(part, 1) for part in stretches], 1)  # (windows, stretches)
    counts = np.stack([np.isfinite(part).sum(1) for part in stretches], 1)
    used = counts.sum(0) >= 2
    mean, low, high = _intervals(sums[:, used], counts[:, used])
    return PerplexityByPosition(
        positions=((edges[:-1] + edges[1:] - 1) / 2)[used],
        perplexity=np.exp(mean),
        low=np.exp(low),
        high=np.exp(high),
        tokens=counts.sum(0)[used],
        trained_length=trained,
        num_windows=len(losses),
        notes=(),
    )


def with_notes(curve: PerplexityByPosition, *notes: str) -> PerplexityByPosition:
    """Return the curve with what a reader must know."""
    return replace(curve, notes=tuple(note for note in notes if note))


@torch.inference_mode()
def _losses(
    model: LanguageModel, windows: Sequence[Sequence[int]], length: int, runtime: Runtime
) -> Array:
    """Return the loss of the token after each position: (windows, length), NaN where none is."""
    found = np.full((len(windows), length), np.nan)
    size = max(1, MOST_LOGITS // (length * model.config.vocab_size))
    with progress.bar("reading text", len(windows), "window") as bar:
        for start in range(0, len(windows), size):
            group = windows[start : start + size]
            longest = max(map(len, group))
            ids = torch.zeros(len(group), longest, dtype=torch.long)  # (B, T + 1)
            for row, window in zip(ids, group, strict=True):
                row[: len(window)] = torch.tensor(window)
            ids = ids.to(runtime.device)
            with runtime.precision():
                logits = model(ids[:, :-1])  # (B, T, V); what is padded comes last and is not seen
            loss = F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")
            for place, (window, row) in enumerate(zip(group, loss, strict=True), start):
                num = len(window) - 1
                found[place, :num] = row[:num].double().cpu().numpy()
            bar.advance(len(group))
    return found


def _intervals(sums: Array, counts: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """Return each stretch's mean loss and its 95% interval over windows drawn anew."""
    W = len(sums)
    rng = np.random.Generator(np.random.PCG64(0))
    drawn = rng.multinomial(W, np.full(W, 1 / W), RESAMPLES).astype(np.float64)
    totals = drawn @ counts  # (resamples, stretches)
    means = np.where(totals > 0, (drawn @ sums) / np.maximum(totals, 1), np.nan)
    low, high = np.nanquantile(means, [0.025, 0.975], axis=0)
    return sums.sum(0) / counts.sum(0), low, high
