"""Attention within the documents of packed rows, on a GPU: no mask of (B, 1, T, T).

Rows lie side by side as one sequence of B T tokens. `bounds` says where its documents begin, and
ends with B T; bounds that are not needed repeat that end, so that batches have the same shapes.
"""

from typing import cast

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)
OLDEST = 8  # compute capability, that of the A100
ALIGNMENT, WIDEST = 8, 256  # widths of a head that the kernel takes


def splits_documents(device: torch.device, width_per_head: int) -> bool:
    """Tell whether `attend_documents` computes here: in 16 bits, on a recent GPU."""
    if device.type != "cuda" or width_per_head % ALIGNMENT or width_per_head > WIDEST:
        return False
    is_half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") in HALF
    return is_half and torch.cuda.get_device_properties(device).major >= OLDEST


def attend_documents(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, is_causal: bool) -> Tensor:
    """Return softmax(QK'/sqrt(K))V, (B, H, T, K), where a query sees the keys of its document."""
    from torch.nn.attention.varlen import varlen_attn  # takes a second to import

    B, _, T, _ = q.shape
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # (B T, H, K)
    window = (-1, 0) if is_causal else (-1, -1)
    mixed = cast(Tensor, varlen_attn(q, k, v, bounds, bounds, T, T, window_size=window))
    return mixed.unflatten(0, (B, T)).transpose(1, 2)


def text_bounds(is_token: Tensor) -> Tensor:
    """Return bounds of texts padded at the right (B, T): the padding of a row is a document."""
    B, T = is_token.shape
    starts = torch.arange(0, B * T, T, device=is_token.device)
    bounds = torch.stack([starts, starts + is_token.sum(1)], 1).flatten()  # (2 B,)
    return torch.cat([bounds, bounds.new_full((1,), B * T)]).int()
