"""Keys and values kept between decoding steps.

Knows nothing about what is decoded.
"""

import torch
from torch import Tensor


class LayerCache:
    """The keys and values one attention layer has computed so far."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new positions and return all of them."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values


class Cache:
    """One `LayerCache` per block."""

    def __init__(self, depth: int) -> None:
        self.layers = [LayerCache() for _ in range(depth)]

    @property
    def length(self) -> int:
        """Return how many positions are kept."""
        keys = self.layers[0].keys
        return 0 if keys is None else keys.shape[2]

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        for layer in self.layers:
            if layer.keys is not None and layer.values is not None:
                layer.keys, layer.values = layer.keys[rows], layer.values[rows]
