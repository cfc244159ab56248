"""Who may look at whom in a real batch, and why not: from the masks the model itself uses.

Knows nothing about pictures.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.packing import pack
from warmstart.model.masks import causal_mask, document_mask, padding_mask
from warmstart.report.masks import DOCUMENT, LATER, MAY_LOOK, PADDING, MaskPicture

PAD = "·"  # how padding is written
CPU = torch.device("cpu")


def batch_masks(rows: Sequence[Sequence[str]], is_causal: bool, name: str) -> list[MaskPicture]:
    """Return the mask of every text of a padded batch."""
    is_token, tokens = _padded(rows)
    T = is_token.shape[1]
    later = causal_mask(T, T, CPU) if is_causal else torch.ones(1, 1, T, T, dtype=torch.bool)
    seen = padding_mask(is_token)
    return [
        MaskPicture(
            title=f"{name} {place + 1}" if len(rows) > 1 else name,
            queries=labels,
            keys=labels,
            cells=_cells((PADDING, seen[place]), (LATER, later[0])),
        )
        for place, labels in enumerate(tokens)
    ]


def packed_mask(
    row: Sequence[str], ids: Sequence[int], marks: tuple[int, int], is_causal: bool
) -> MaskPicture:
    """Return the mask of one row in which documents stand behind each other, between `marks`."""
    bos, eos = marks
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)  # packing drops the last, a target alone
    T = len(row)
    later = causal_mask(T, T, CPU) if is_causal else torch.ones(1, 1, T, T, dtype=torch.bool)
    own = document_mask(batch.documents)
    return MaskPicture(
        title="packed row",
        queries=tuple(row),
        keys=tuple(row),
        cells=_cells((LATER, later[0]), (DOCUMENT, own[0])),
    )


def cross_masks(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[MaskPicture]:
    """Return how a decoder may look at the sources of a padded batch."""
    is_source, below = _padded(sources)
    is_target, above = _padded(targets)
    seen = padding_mask(is_source)
    T = is_target.shape[1]
    return [
        MaskPicture(
            title=f"cross mask {place + 1}" if len(sources) > 1 else "cross mask",
            queries=above[place],
            keys=below[place],
            cells=_cells((PADDING, seen[place].expand(1, T, -1))),
        )
        for place in range(len(sources))
    ]


def _padded(rows: Sequence[Sequence[str]]) -> tuple[Tensor, list[tuple[str, ...]]]:
    """Return which places hold a token (B, T), and every row filled up at the right."""
    longest = max(map(len, rows))
    is_token = torch.tensor([[place < len(row) for place in range(longest)] for row in rows])
    return is_token, [(*row, *[PAD] * (longest - len(row))) for row in rows]


def _cells(*masks: tuple[int, Tensor]) -> NDArray[np.int8]:
    """Return what each cell is: free, or forbidden by the last of the masks that forbid it."""
    T, S = torch.broadcast_shapes(*(mask.shape for _, mask in masks))[-2:]
    cells = np.full((T, S), MAY_LOOK, dtype=np.int8)
    for reason, mask in masks:
        cells[~mask[0].expand(T, S).numpy()] = reason
    return cells
