"""The key/value cache: what attention has computed in earlier steps of decoding."""

from torch import Tensor

CAPACITY_STEP = 16  # positions by which a full buffer grows


class KeyValueCache:
    """Keys and values of all layers: of the positions so far, and of the source.

    `source` holds those of the encoder output, (B, H, S, K) by layer, for a decoder; neighbouring
    rows that continue the same source share them.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.length = 0  # positions held
        self.source: dict[int, tuple[Tensor, Tensor]] = {}
        self._buffer: Tensor | None = None  # (depth, 2, N, H, capacity, K)

    @property
    def num_rows(self) -> int:
        """Return how many rows it holds."""
        return 0 if self._buffer is None else self._buffer.shape[2]

    @property
    def held(self) -> Tensor:
        """Return all keys and values: (depth, 2, N, H, length, K)."""
        assert self._buffer is not None, "nothing has been read"
        return self._buffer[..., : self.length, :]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions (N, H, T, K) of a layer and return all of its keys and values."""
        start, stop = self.length, self.length + keys.shape[2]
        buffer = self._grown(keys, stop)[layer]  # (2, N, H, capacity, K)
        buffer[0, :, :, start:stop], buffer[1, :, :, start:stop] = keys, values
        if layer == self.depth - 1:  # all layers have them now
            self.length = stop
        return buffer[0, :, :, :stop], buffer[1, :, :, :stop]

    def select(self, rows: Tensor) -> None:
        """Continue these rows, those of a source together; drop the sources that have finished."""
        if self._buffer is None:
            return
        rows = rows.to(self._buffer.device)
        if self.source:
            num_sources = len(self.source[0][0])
            sources = sources_of(rows, self._buffer.shape[2] // num_sources)
            if len(sources) < num_sources:
                self.source = {
                    layer: (keys[sources], values[sources])
                    for layer, (keys, values) in self.source.items()
                }
        self._buffer = self._buffer.index_select(2, rows)

    def _grown(self, keys: Tensor, num_positions: int) -> Tensor:
        """Return the buffer with room for so many positions."""
        if self._buffer is None or self._buffer.shape[4] < num_positions:
            N, H, _, K = keys.shape
            capacity = -(-num_positions // CAPACITY_STEP) * CAPACITY_STEP
            larger = keys.new_empty(self.depth, 2, N, H, capacity, K)
            if self._buffer is not None:
                larger[..., : self.length, :] = self._buffer[..., : self.length, :]
            self._buffer = larger
        return self._buffer


def sources_of(rows: Tensor, width: int) -> Tensor:
    """Return the source of every `width` neighbouring rows, which continue the same one."""
    return rows[::width] // width
