"""Attention by the kernels that are fastest on a machine; each computes softmax(QK'/sqrt(K))V."""

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart.kernels.dropout import dropout

# Up to this many keys, plain matrix products in bfloat16 beat the fused kernel of a CPU.
SHORT_ROW = 384
ALIGNMENT = 8  # of the width of a head, on a GPU


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, drop_rate: float
) -> Tensor:
    """Return softmax(QK'/sqrt(K))V, (B, H, T, K); a causal mask replaces `mask`."""
    is_short = q.dtype == torch.bfloat16 and k.shape[-2] <= SHORT_ROW
    if q.device.type == "cpu" and (is_short or drop_rate):
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (B, H, T, S)
        weights = masked_softmax(scores, mask, is_causal)
        return dropout(weights, drop_rate) @ v
    if q.device.type == "cuda" and q.shape[-1] % ALIGNMENT:
        return _aligned(q, k, v, mask, is_causal, drop_rate)
    return F.scaled_dot_product_attention(q, k, v, mask, drop_rate, is_causal=is_causal)


def _aligned(
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
    if mask.device.type == "cpu" and bool(mask.any(-1).all()):
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
