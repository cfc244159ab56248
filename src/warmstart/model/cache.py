"""Keys and values that outlive a step: of the positions so far, and of a source.

Knows nothing about what is decoded.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

ROOM = 16  # positions that are made room for at a time
STATIC_ROOM = 64  # positions that buffers have room for at first


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

    def contiguous(self) -> "Memory":
        """Return the same with the keys of a head side by side, and its values."""
        layers = self.layers
        return Memory(
            [replace(x, keys=x.keys.contiguous(), values=x.values.contiguous()) for x in layers]
        )

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
            wider = keys.new_empty(len(self.layers), 2, N, H, room, K)
            if self._kept is not None:
                wider[..., : self.length, :] = self._kept[..., : self.length, :]
            self._kept = wider
        return self._kept

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        if self._kept is not None:
            self._kept = self._kept.index_select(2, rows)


class BeamCache:
    """The keys and values of sources that are continued in `width` rows each: written, never moved.

    A row may go on from another row of its source. Nothing is copied then: every row may look at
    all that its source has kept, and a mask leaves it its own ancestors.
    """

    def __init__(self, depth: int, width: int) -> None:
        self.depth, self.width = depth, width
        self.length = 0  # positions kept
        self.mask: Tensor | None = None  # (B, 1, W, length * W) what is added to scores
        self._kept: Tensor | None = None  # (depth, 2, B, H, room * W, K)
        self._ancestors: Tensor | None = None  # (B, W, length) each row's, position by position

    @property
    def place(self) -> int:
        """Return the position that is being written."""
        return self.length

    def append(self, index: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Append one position of a block (2, B, H, W, K); return all keys, and all values."""
        W = self.width
        if index == 0:
            self._begin(keys_values)
        assert self._kept is not None
        kept, stop = self._kept[index], self.length + 1
        kept.narrow(3, self.length * W, W).copy_(keys_values)
        if index == self.depth - 1:
            self.length = stop
        keys, values = kept.narrow(3, 0, stop * W).unbind(0)
        return keys, values  # (B, H, length * W, K)

    def select(self, rows: Tensor) -> None:
        """Go on from these rows; sources of which no row goes on leave."""
        W = self.width
        assert self._kept is not None
        sources = rows[::W] // W
        if len(sources) < self._kept.shape[2]:
            self._kept = self._kept.index_select(2, sources)
            if self._ancestors is not None:
                self._ancestors = self._ancestors[sources]
        if self._ancestors is not None:
            slots = (rows % W).view(-1, W, 1).expand(-1, -1, self.length)
            self._ancestors = self._ancestors.gather(1, slots)

    def _begin(self, keys_values: Tensor) -> None:
        """Make room for a position, and let every row look at itself."""
        _, B, H, W, K = keys_values.shape
        needed = (self.length + 1) * W
        if self._kept is None or self._kept.shape[4] < needed:
            room = -(-(self.length + 1) // ROOM) * ROOM
            wider = keys_values.new_empty(self.depth, 2, B, H, room * W, K)
            if self._kept is not None:
                wider[..., : self.length * W, :] = self._kept[..., : self.length * W, :]
            self._kept = wider
        if W > 1:
            slots = torch.arange(W)
            own = slots.view(1, W, 1).expand(B, W, 1)
            before = self._ancestors
            self._ancestors = own if before is None else torch.cat([before, own], 2)
            is_foreign = self._ancestors[..., None] != slots  # (B, W, T, W)
            mask = keys_values.new_zeros(is_foreign.shape).masked_fill_(is_foreign, float("-inf"))
            self.mask = mask.view(B, 1, W, needed)


class StaticCache:
    """The same in buffers that keep their shape and place, so that a step can be recorded.

    Every row looks at the whole room; the mask hides what is not its ancestor and what is not yet
    written.
    """

    def __init__(self, depth: int, width: int, memory: Memory) -> None:
        room = STATIC_ROOM
        like = memory.layers[0].keys
        B, H, _, K = like.shape
        self.width, self.room = width, room
        self.place = torch.zeros(1, dtype=torch.long, device=like.device)  # being written
        self.mask: Tensor | None = None  # (B, 1, W, room * W) what is added to scores
        # Zeros and not just anything: a mask does not hide what is no number.
        self._kept = like.new_zeros(depth, 2, B, H, room * width, K)
        self._ancestors = torch.zeros(B, width, room, dtype=torch.long, device=like.device)

    def __len__(self) -> int:
        """Return the number of sources."""
        return self._kept.shape[2]

    def begin(self) -> None:
        """Let every row look at itself and at its ancestors."""
        slots = torch.arange(self.width, device=self.place.device)
        B, W, room = self._ancestors.shape
        self._ancestors.index_copy_(2, self.place, slots.view(1, W, 1).expand(B, W, 1))
        is_written = torch.arange(room, device=slots.device) <= self.place
        is_seen = (self._ancestors[..., None] == slots) & is_written[:, None]  # (B, W, room, W)
        mask = self._kept.new_zeros(is_seen.shape).masked_fill_(~is_seen, float("-inf"))
        self.mask = mask.view(B, 1, W, room * W)
        self._slots = self.place * W + slots

    def append(self, index: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one position of a block (2, B, H, W, K); return all keys, and all values."""
        kept = self._kept[index]
        kept.index_copy_(3, self._slots, keys_values)
        keys, values = kept.unbind(0)
        return keys, values  # (B, H, room * W, K)

    def descend(self, sources: Tensor, slots: Tensor) -> None:
        """Let the rows of these sources go on from these rows (B', W) of the same source."""
        index = slots[:, :, None].expand(-1, -1, self.room)
        self._ancestors[sources] = self._ancestors[sources].gather(1, index)

    def moved(self, sources: Tensor, room: int) -> "StaticCache":
        """Return these sources in buffers of their own, with so much room."""
        other = copy(self)
        depth, two, _, H, size, K = self._kept.shape
        other.room, other.place = room, self.place.clone()
        other._kept = self._kept.new_zeros(depth, two, len(sources), H, room * self.width, K)
        other._kept[..., :size, :] = self._kept[:, :, sources]
        other._ancestors = self._ancestors.new_zeros(len(sources), self.width, room)
        other._ancestors[..., : self.room] = self._ancestors[sources]
        return other
