"""The vectors of a model's positions, and how similar two positions are."""

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.model.backbone import Backbone
from warmstart.model.positions import frequencies, sinusoids
from warmstart.results.position_view import PositionSimilarity, PositionView
from warmstart.settings.model import ModelConfig

CPU = torch.device("cpu")
SINUSOIDAL_NOTE = (
    "The dot product of two sinusoidal positions depends only on their distance: it is the mean of"
    " cos(distance × frequency) over all frequencies."
)
ROTARY_NOTE = (
    "Query and key are rotated by an angle that grows with position, so their product depends only"
    " on the distance. Drawn: the mean score, over random queries, of a query with a key equal to"
    " it, relative to the score at distance 0."
)
UNTRAINED_NOTE = (
    "Not trained: learned positions start as random numbers, and no two are similar. Name a run to"
    " see what training made of them."
)
LEARNED_NOTE = (
    "The band shows the least and the most similar of all pairs at that distance: the similarity of"
    " learned positions need not depend only on the distance."
)


def view_positions(
    shape: ModelConfig, backbone: Backbone | None, name: str, length: int
) -> PositionView:
    """Return the vectors of positions and their similarity; learned ones come from `backbone`."""
    if shape.positions == "rope":
        return _view_rotary(shape, name, length)
    if shape.positions == "sinusoidal":
        vectors, note = sinusoids(length, shape.width, CPU).numpy(), SINUSOIDAL_NOTE
    elif shape.positions != "learned":
        raise WarmstartError(f"{name}: there is no picture of {shape.positions} positions")
    elif backbone is None:
        size = (min(length, shape.max_length), shape.width)
        random = torch.randn(size, generator=torch.Generator().manual_seed(0))
        vectors, note = 0.02 * random.double().numpy(), UNTRAINED_NOTE
    else:
        weight = backbone.embed_positions.weight[:length]
        vectors, note = weight.detach().double().cpu().numpy(), LEARNED_NOTE
    return PositionView(
        name=name, kind=shape.positions, vectors=vectors, similarity=similarity(vectors), note=note
    )


def similarity(vectors: NDArray[np.float64]) -> PositionSimilarity:
    """Compare all pairs of positions by distance, relative to a position with itself."""
    T = len(vectors)
    products = vectors @ vectors.T / np.square(vectors).sum(1).mean()  # (T, T)
    by_distance = [np.diagonal(products, distance) for distance in range(T - max(1, T // 8))]
    return PositionSimilarity(
        distances=np.arange(len(by_distance), dtype=np.float64),
        mean=np.array([values.mean() for values in by_distance]),
        low=np.array([values.min() for values in by_distance]),
        high=np.array([values.max() for values in by_distance]),
        by_start={p: products[p, p:][: len(by_distance)] for p in (0, T // 4, T // 2)},
    )


def _view_rotary(shape: ModelConfig, name: str, length: int) -> PositionView:
    speeds = frequencies(shape.width // shape.heads // 2, CPU, shape.rope_base).numpy()
    distances = np.arange(length, dtype=np.float64)
    cosines = np.cos(distances[:, None] * speeds)  # (T, K / 2)
    mean = cosines.mean(1)
    alike = PositionSimilarity(distances=distances, mean=mean, low=mean, high=mean)
    return PositionView(name=name, kind="rope", vectors=cosines, similarity=alike, note=ROTARY_NOTE)
