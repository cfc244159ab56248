"""Multi-head attention; the only place scores are computed.

Knows nothing about what a mask stands for.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.model.cache import LayerCache, LayerMemory

SHORT = 384  # up to this many keys a CPU is faster in bfloat16 with plain matrix products


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, dropout: float
) -> Tensor:
    """Mix values (B, H, S, K) by attention weights, with whichever kernels are fastest."""
    if q.device.type == "cpu" and q.dtype == torch.bfloat16 and k.shape[-2] <= SHORT:
        weights = attention_weights(q, k, _full_mask(mask, is_causal, q, k))
        return F.dropout(weights, dropout) @ v if dropout else weights @ v
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=is_causal)


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(QK'/sqrt(K)) where allowed; a row with nothing to look at is all zero."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (B, H, T, S)
    if mask is None:
        return scores.softmax(-1)
    # A finite floor in place of -inf: a row without keys then has a gradient, which is zero.
    floor = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, floor).softmax(-1).masked_fill(~mask, 0.0)


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turn each pair of halves by its angle: rotary positions. `turn` is (2, B, 1, T, K / 2)."""
    cos, sin = turn
    first, second = x.chunk(2, -1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return turned.to(x.dtype)


class MultiHeadAttention(nn.Module):
    """Softmax(QK'/sqrt(K))V in several heads, through PyTorch's fused kernels."""

    def __init__(self, width: int, heads: int, dropout: float, biases: bool) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.project = nn.Linear(width, 3 * width, bias=biases)  # queries, keys, values
        self.output = nn.Linear(width, width, bias=biases)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        turn: Tensor | None = None,
        cache: LayerCache | None = None,
        keep: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend within x; weights (B, H, T, S) are appended to `keep` when it is given."""
        B, T, D = x.shape
        q, k, v = self._split(self.project(x)).unbind(0)  # each (B, H, T, K)
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        if cache is not None:
            k, v = cache.extend(k, v)
        if keep is not None:
            keep.append(attention_weights(q, k, _full_mask(mask, is_causal, q, k)))
        dropout = self.dropout if self.training else 0.0
        mixed = attend(q, k, v, mask, is_causal, dropout)
        return self.output(mixed.transpose(1, 2).reshape(B, T, D))

    def _split(self, projected: Tensor) -> Tensor:
        B, T, _ = projected.shape
        return projected.view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # (3, B, H, T, K)


class CrossAttention(nn.Module):
    """Queries from the target, keys and values from the source."""

    def __init__(self, width: int, heads: int, dropout: float, biases: bool) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width, bias=biases)
        self.project = nn.Linear(width, 2 * width, bias=biases)  # keys, values
        self.output = nn.Linear(width, width, bias=biases)

    def remember(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, K) of a source (B, S, D): once for all queries."""
        B, S, _ = source.shape
        projected = self.project(source).view(B, S, 2, self.heads, -1)
        keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
        return keys, values

    def forward(self, x: Tensor, memory: LayerMemory) -> Tensor:
        """Attend to the source; its N / B neighbouring rows of x (N, T, D) share each source."""
        N, T, D = x.shape
        B = len(memory.keys)
        # No query sees another, so that the rows of one source can be queries of one row.
        q = self.query(x).view(B, N // B * T, self.heads, -1).transpose(1, 2)  # (B, H, T', K)
        if memory.keep is not None:
            memory.keep.append(attention_weights(q, memory.keys, memory.mask))
        dropout = self.dropout if self.training else 0.0
        mixed = attend(q, memory.keys, memory.values, memory.mask, False, dropout)
        return self.output(mixed.transpose(1, 2).reshape(N, T, D))


def _full_mask(mask: Tensor | None, is_causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    if not is_causal:
        return mask
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
