"""Multi-head attention, softmax(QK'/sqrt(K))V: within a sequence, and from target to source."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warmstart.kernels.documents import attend_documents
from warmstart.kernels.layers import TokenGrid, attend, masked_softmax
from warmstart.runtime import widest_type

CAPACITY_STEP = 16  # positions by which a full buffer grows


def attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Return softmax(QK'/sqrt(K)): the weights (B, H, T, S) of every query over the keys."""
    K = q.shape[-1]
    scores = (q * K**-0.5) @ k.transpose(-2, -1)  # (B, H, T, S)
    return masked_softmax(scores, mask, is_causal)


@dataclass(frozen=True)
class AttentionContext:
    """What the attention layers of a stack share; None where absent."""

    mask: Tensor | None = None  # broadcasts to (B, H, T, S); True where a query sees a key
    is_causal: bool = False  # a position sees itself and what precedes it; `mask` is then None
    cos_sin: Tensor | None = None  # (2, B, 1, T, K / 2) of rotary positions
    cache: "KeyValueCache | None" = None
    is_scaled: bool = True  # False: scores are not divided by sqrt(K), to see what that is for
    attention_weights: list[Tensor] | None = None  # receives each layer's weights (B, H, T, S)
    grid: TokenGrid | None = None  # where tokens that are side by side, (1, N, D), belong
    bounds: Tensor | None = None  # of documents, each attended within by itself: no mask


class _Attention(nn.Module):
    """What self-attention and cross-attention have in common: mixing values by weights."""

    def __init__(self, heads: int, dropout: float, layer: int) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout  # of attention weights
        self.layer = layer  # its number in a key/value cache

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        """Return softmax(QK'/sqrt(K))V with its heads side by side: (B, T, D)."""
        mask, is_causal = context.mask, context.is_causal
        if not context.is_scaled:
            q = q * q.shape[-1] ** 0.5  # undoes the division
        if context.attention_weights is not None:
            context.attention_weights.append(attention_weights(q, k, mask, is_causal))
        dropout = self.dropout if self.training else 0.0
        if context.bounds is None:
            mixed = attend(q, k, v, mask, is_causal, dropout)  # (B, H, T, K)
        else:
            mixed = attend_documents(q, k, v, context.bounds, is_causal)
        return mixed.transpose(1, 2).flatten(2)


class MultiHeadAttention(_Attention):
    """Queries, keys and values from one sequence."""

    def __init__(
        self, width: int, heads: int, dropout: float, biases: bool, layer: int = 0
    ) -> None:
        super().__init__(heads, dropout, layer)
        self.project = nn.Linear(width, 3 * width, bias=biases)  # queries, keys, values
        self.output = nn.Linear(width, width, bias=biases)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        """Attend within x (B, T, D)."""
        context = context or AttentionContext()
        q, k, v = self.queries_keys_values(x, context)
        if context.cache is not None:
            k, v = context.cache.append(self.layer, k, v)  # (B, H, S, K)
        mixed = self._mix(q, k, v, context)
        return self.output(mixed if context.grid is None else context.grid.side_by_side(mixed))

    def queries_keys_values(self, x: Tensor, context: AttentionContext) -> tuple[Tensor, ...]:
        """Return Q, K and V of every head, rotated by their positions: each (B, H, T, K)."""
        projected = self.project(x)
        if context.grid is not None:
            projected = context.grid.in_rows(projected)
        q, k, v = _split_heads(projected, 3, self.heads)
        if context.cos_sin is not None:
            q, k = apply_rope(q, context.cos_sin), apply_rope(k, context.cos_sin)
        return q, k, v


class CrossAttention(_Attention):
    """Queries from the target, keys and values from the source."""

    def __init__(
        self, width: int, heads: int, dropout: float, biases: bool, layer: int = 0
    ) -> None:
        super().__init__(heads, dropout, layer)
        self.query = nn.Linear(width, width, bias=biases)
        self.project = nn.Linear(width, 2 * width, bias=biases)  # keys, values
        self.output = nn.Linear(width, width, bias=biases)

    def forward(self, x: Tensor, source: Tensor, context: AttentionContext) -> Tensor:
        """Attend from x (N, T, D) to the source (B, S, D); N / B neighbouring rows share a row."""
        k, v = self._cached_keys_values(source, context.cache)  # (B, H, S, K)
        B, N = k.shape[0], x.shape[0]
        # No query sees another one, so all rows of a source can be queries of a single row.
        q = self.query(x).view(B, N // B * x.shape[1], self.heads, -1).transpose(1, 2)
        return self.output(self._mix(q, k, v, context).view(x.shape))

    def keys_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, K) of the source."""
        keys, values = _split_heads(self.project(source), 2, self.heads)
        return keys, values

    def _cached_keys_values(
        self, source: Tensor, cache: "KeyValueCache | None"
    ) -> tuple[Tensor, Tensor]:
        """Return keys and values of the source, with a cache computed at the first step only."""
        if cache is None:
            return self.keys_values(source)
        if self.layer not in cache.source:
            cache.source[self.layer] = self.keys_values(source)
        return cache.source[self.layer]


def _split_heads(projected: Tensor, num: int, heads: int) -> tuple[Tensor, ...]:
    """Cut (B, T, num · D) into `num` tensors of (B, H, T, K)."""
    B, T, _ = projected.shape
    return projected.view(B, T, num, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def apply_rope(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotate each pair of dimensions (k, k + K / 2) by the angle of its position."""
    cos, sin = cos_sin
    first, second = x.chunk(2, -1)
    rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return rotated.to(x.dtype)


def causal_mask(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """Let a position see itself and what precedes it; queries are the last of the keys."""
    square = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return square.tril(num_keys - num_queries)[None, None]  # (1, 1, T, S)


def padding_mask(is_token: Tensor) -> Tensor:
    """Let every position see the tokens of its own row, but no padding."""
    B, S = is_token.shape
    return is_token.view(B, 1, 1, S)


def window_mask(num: int, window: int, device: torch.device) -> Tensor:
    """Let a position see as many positions on each side as the window has."""
    positions = torch.arange(num, device=device)
    return ((positions[:, None] - positions).abs() <= window)[None, None]  # (1, 1, T, T)


def document_mask(documents: Tensor) -> Tensor:
    """Let a position see its own document only; each row holds document numbers."""
    B, T = documents.shape
    return documents.view(B, 1, T, 1) == documents.view(B, 1, 1, T)  # (B, 1, T, T)


def frequencies(num: int, device: torch.device, base: float = 10_000.0) -> Tensor:
    """Return angular frequencies that fall from 1 towards 1 / base."""
    steps = torch.arange(num, dtype=widest_type(device), device=device)
    return base ** (-steps / num)  # (num,)


def sinusoids(length: int, width: int, device: torch.device) -> Tensor:
    """Return sin in even columns and cos in odd ones, as the 2017 paper writes them."""
    positions = torch.arange(length, dtype=widest_type(device), device=device)
    angles = positions[:, None] * frequencies(width // 2, device)  # (T, D / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)  # (T, D)


def rope_cos_sin(positions: Tensor, width_per_head: int, base: float = 10_000.0) -> Tensor:
    """Return cos and sin of each position's angle at each frequency: (2, B, 1, T, K / 2)."""
    speeds = frequencies(width_per_head // 2, positions.device, base)
    angles = positions[:, None, :, None] * speeds
    return torch.stack([angles.cos(), angles.sin()]).float()


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
        """Return how many rows the cache holds."""
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
        if layer == self.depth - 1:  # all layers have the new positions now
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
        """Return the buffer with room for at least `num_positions`."""
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
