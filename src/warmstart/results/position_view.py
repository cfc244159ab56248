"""What a model's position encoding looks like, and how well it predicts at each position."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PositionSimilarity:
    """Similarity of two positions by the distance between them; 1 at distance 0."""

    distances: Array
    mean: Array
    low: Array  # over all pairs at that distance
    high: Array
    by_start: Mapping[int, Array] = field(default_factory=dict)  # from single positions onwards


@dataclass(frozen=True, kw_only=True)
class PerplexityByPosition:
    """How well a language model predicts the token after each position."""

    positions: Array  # middle of each range of positions
    perplexity: Array
    low: Array  # 95% interval over windows of text
    high: Array
    tokens: NDArray[np.int64]  # predicted in each range
    trained_length: int
    num_windows: int
    notes: tuple[str, ...]  # what a reader must know


@dataclass(frozen=True, kw_only=True)
class PositionView:
    """The position encoding of a model."""

    name: str  # preset or run
    kind: str  # sinusoidal, learned or rope
    vectors: Array  # (positions, columns) between -1 and 1
    similarity: PositionSimilarity
    note: str
    curve: PerplexityByPosition | None = None
