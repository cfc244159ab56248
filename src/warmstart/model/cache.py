"""Keys and values that outlive a step: of the positions so far, and of a source.

Knows nothing about what is decoded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

ROOM = 16  # positions that are made room for at a time


class LayerCache:
    """The keys and values one attention layer has computed so far."""

    def __init__(self, cache: "Cache", index: int) -> None:
        self.cache, self.index = cache, index

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new positions (N, H, T, K) and return all of them."""
        kept = self.cache.room_for(keys)[self.index]  # (2, N, H, room, K)
        start = self.cache.length
        stop = start + keys.shape[2]
        kept[0, :, :, start:stop], kept[1, :, :, start:stop] = keys, values
        if self.index == len(self.cache.layers) - 1:  # every layer has seen them
            self.cache.length = stop
        return kept[0, :, :, :stop], kept[1, :, :, :stop]


@dataclass(frozen=True)
class LayerMemory:
    """The source as one cross-attention layer sees it."""

    keys: Tensor  # (B, H, S, K)
    values: Tensor
    mask: Tensor | None  # (B, 1, 1, S) True where a token stands
    keep: list[Tensor] | None = None  # receives attention weights (B, H, T, S)


@dataclass(frozen=True)
class Memory:
    """The source as a decoder sees it: one `LayerMemory` per block."""

    layers: list[LayerMemory]

    def __iter__(self) -> Iterator[LayerMemory]:
        return iter(self.layers)

    def select(self, rows: Tensor) -> "Memory":
        """Return the memory of these sources, in this order."""
        mask = self.layers[0].mask
        mask = None if mask is None else mask[rows]
        return Memory(
            [LayerMemory(one.keys[rows], one.values[rows], mask, one.keep) for one in self.layers]
        )


class Cache:
    """The keys and values of all blocks in one tensor, so that rows are chosen in one go."""

    def __init__(self, depth: int) -> None:
        self.layers = [LayerCache(self, index) for index in range(depth)]
        self.length = 0  # positions kept
        self._kept: Tensor | None = None  # (depth, 2, N, H, room, K)

    def room_for(self, keys: Tensor) -> Tensor:
        """Return what is kept, with room for these new positions (N, H, T, K)."""
        N, H, T, K = keys.shape
        needed = self.length + T
        if self._kept is None or self._kept.shape[4] < needed:
            room = -(-needed // ROOM) * ROOM
            wider = keys.new_zeros(len(self.layers), 2, N, H, room, K)
            if self._kept is not None:
                wider[..., : self.length, :] = self._kept[..., : self.length, :]
            self._kept = wider
        return self._kept

    def append(self, index: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Append one position's keys and values (N, 2, H, 1, K) of a block; return all of them."""
        start, stop = self.length, self.length + 1
        whole = self.room_for(keys_values[:, 0]) if index == 0 or self._kept is None else self._kept
        kept = whole[index]  # (2, N, H, room, K)
        kept[:, :, :, start:stop] = keys_values.transpose(0, 1)
        if index == len(self.layers) - 1:
            self.length = stop
        keys, values = kept[:, :, :, :stop].unbind(0)
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        if self._kept is not None:
            self._kept = self._kept.index_select(2, rows)
