"""The scores of one query in one head, as sums over its neurons."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HeadProducts:
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
