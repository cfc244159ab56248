"""Attention, dropout and the omission of padding, tuned for one kind of machine."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.compiler import is_compiling

# Up to this many keys, plain matrix products in bfloat16 beat the fused kernel of a CPU.
SHORT_ROW = 384
ALIGNMENT = 8  # of the width of a head, on a GPU
LEVELS = 1 << 16  # probabilities are rounded to a multiple of 1 / LEVELS
Move = Callable[[Tensor], Tensor]
ENOUGH_PADDING = 0.05  # share of a batch that is worth leaving out
MULTIPLE = 64  # of tokens that are computed: kernels are built anew for every other number


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, drop_rate: float
) -> Tensor:
    """Return softmax(QK'/sqrt(K))V, (B, H, T, K); a causal mask replaces `mask`."""
    is_short = q.dtype == torch.bfloat16 and k.shape[-2] <= SHORT_ROW
    is_plain = q.device.type == "cpu" and (is_short or drop_rate)
    if is_plain or q.device.type == "mps":
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (B, H, T, S)
        weights = masked_softmax(scores, mask, is_causal)
        return dropout(weights, drop_rate) @ v
    if q.device.type == "cuda" and q.shape[-1] % ALIGNMENT:
        return _pad_heads(q, k, v, mask, is_causal, drop_rate)
    return F.scaled_dot_product_attention(q, k, v, mask, drop_rate, is_causal=is_causal)


def _pad_heads(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, drop_rate: float
) -> Tensor:
    """Pad heads with zeros, which change no score, to a width that the fused kernels take."""
    K = q.shape[-1]
    q, k, v = (F.pad(x, (0, -K % ALIGNMENT)) for x in (q, k, v))
    mixed = F.scaled_dot_product_attention(
        q, k, v, mask, drop_rate, is_causal=is_causal, scale=K**-0.5
    )
    return mixed[..., :K]


def masked_softmax(scores: Tensor, mask: Tensor | None, is_causal: bool = False) -> Tensor:
    """Return the softmax over the allowed keys; a query without any gets zeros."""
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is None:
        return scores.softmax(-1)
    # A finite minimum instead of -inf: a query without keys then has a gradient, which is zero.
    weights = scores.masked_fill_(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    if mask.device.type == "cpu" and not is_compiling() and bool(mask.any(-1).all()):
        return weights  # every query has keys
    return weights.masked_fill(~mask, 0.0)


def attend_few_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(QK'/sqrt(K))V for few queries (B, H, W, K) of many sources.

    A boolean mask allows keys; a mask of numbers is added to the scores. On a CPU the fused kernel
    sets up more for every source than it then computes, unless each has a single query.
    """
    B, H, W, K = q.shape
    if q.device.type != "cpu" or 1 in (B, W):
        return F.scaled_dot_product_attention(q, k, v, mask)
    scores = torch.bmm(q.reshape(B * H, W, K), k.flatten(0, 1).transpose(1, 2))
    scores = scores.mul_(K**-0.5).view(B, H, W, -1)
    if mask is not None and mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -torch.inf)
    elif mask is not None:
        scores.add_(mask)
    return torch.bmm(scores.softmax(-1).flatten(0, 1), v.flatten(0, 1)).view(B, H, W, K)


class Dropout(nn.Dropout):
    """`nn.Dropout` with the fast kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries, in training only."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, probability: float) -> Tensor:
    """Set each entry to zero with this probability, and scale the others up to the same mean."""
    num_dropped = round(probability * LEVELS)  # of the levels
    if not num_dropped:
        return x
    if x.device.type != "cpu" or num_dropped == LEVELS or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    first_kept = num_dropped - LEVELS // 2
    keep = _random_16_bits(x.shape).clamp_(first_kept - 1, first_kept).sub_(first_kept - 1)
    return x * keep.to(x.dtype).mul_(LEVELS / (LEVELS - num_dropped))


def _random_16_bits(shape: torch.Size) -> Tensor:
    num = shape.numel()
    words = torch.empty(-(-num // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:num].view(shape)


class TokenGrid:
    """Where the tokens of padded rows (B, T) are: N of them, the last of which may be padding."""

    def __init__(self, is_token: Tensor) -> None:
        self.shape = is_token.shape
        is_token = is_token.flatten()
        self.num_tokens = int(is_token.sum())
        order = is_token.logical_not().to(torch.uint8).argsort(stable=True)  # tokens first
        self.places = order[: round_up(self.num_tokens)]  # (N,) in the padded rows
        numbers = is_token.cumsum(0) - 1
        self.numbers = torch.where(is_token, numbers, len(self.places))  # (B T,) N where padded

    def side_by_side(self, rows: Tensor) -> Tensor:
        """Return the tokens (1, N, ...) of padded rows (B, T, ...), filled up with zeros."""
        return _Moved.apply(rows.flatten(0, 1), self.select, self.put_back)[None]

    def in_rows(self, tokens: Tensor) -> Tensor:
        """Return padded rows (B, T, D), with zeros as padding, of tokens (1, N, D)."""
        rows = _Moved.apply(tokens[0], self.put_back, self.select)
        return rows.view(*self.shape, -1)

    def select(self, rows: Tensor) -> Tensor:
        """Return the tokens (N, D) of rows (B T, D)."""
        tokens = rows.index_select(0, self.places)
        tokens[self.num_tokens :] = 0
        return tokens

    def put_back(self, tokens: Tensor) -> Tensor:
        """Return the rows (B T, D) of tokens (N, D)."""
        return F.pad(tokens, (0, 0, 0, 1)).index_select(0, self.numbers)  # the row appended is zero


def grid_of(is_token: Tensor | None) -> TokenGrid | None:
    """Return the grid of padded rows on a CPU; None: the padding is not worth leaving out."""
    if is_token is None or is_token.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    is_worth_it = round_up(int(is_token.sum())) < (1 - ENOUGH_PADDING) * is_token.numel()
    return TokenGrid(is_token) if is_worth_it else None


def round_up(num_tokens: int) -> int:
    """Return a number of tokens rounded up to the multiple that is computed."""
    return -(-num_tokens // MULTIPLE) * MULTIPLE


class _Moved(torch.autograd.Function):
    """Moves vectors one way, and their gradients the other: faster than adding up gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Move, back: Move) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None
