"""Multi-head attention, softmax(QK'/sqrt(K))V: within a sequence, and from target to source."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warmstart.kernels.fast_attention import attend, masked_softmax
from warmstart.kernels.token_grid import TokenGrid
from warmstart.model.cache import KeyValueCache


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
    cache: KeyValueCache | None = None
    is_scaled: bool = True  # False: scores are not divided by sqrt(K), to see what that is for
    attention_weights: list[Tensor] | None = None  # receives each layer's weights (B, H, T, S)
    grid: TokenGrid | None = None  # where tokens that are side by side, (1, N, D), belong


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
        mixed = attend(q, k, v, mask, is_causal, dropout)  # (B, H, T, K)
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
        self, source: Tensor, cache: KeyValueCache | None
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
