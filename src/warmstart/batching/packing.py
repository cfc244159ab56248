"""Turn running text into full rows with positions and document numbers.

A document is the text between its first and its last special token.
"""

import torch
from torch import Tensor

from warmstart.batching.batch import PackedBatch
from warmstart.kernels.loss import IGNORE


def pack(rows: Tensor, bos: int, eos: int) -> PackedBatch:
    """Split rows of T + 1 running tokens into inputs and next-token targets."""
    B, T = rows.shape[0], rows.shape[1] - 1
    # bos opens a document only after eos: the two may be the same token.
    is_start = torch.zeros_like(rows, dtype=torch.bool)
    is_start[:, 1:] = (rows[:, 1:] == bos) & (rows[:, :-1] == eos)
    targets = rows[:, 1:].masked_fill(is_start[:, 1:], IGNORE)
    is_start = is_start[:, :T]
    index = torch.arange(T, device=rows.device).expand(B, T)
    starts = index.masked_fill(~is_start, 0).cummax(1).values
    return PackedBatch(rows[:, :T], targets, is_start.cumsum(1), index - starts)
