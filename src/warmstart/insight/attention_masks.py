"""Which tokens of a batch may attend to which, from the masks that the model itself uses."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.packing import pack
from warmstart.model.masks import causal_mask, document_mask, padding_mask
from warmstart.results.mask_picture import ALLOWED, DOCUMENT, LATER, PADDING, MaskPicture

PAD = "·"  # label of padding
CPU = torch.device("cpu")


def batch_masks(rows: Sequence[Sequence[str]], is_causal: bool, name: str) -> list[MaskPicture]:
    """Return the mask of every text of a padded batch."""
    is_token, labels = _pad(rows)
    later, padding = _later_mask(is_token.shape[1], is_causal), padding_mask(is_token)
    return [
        MaskPicture(
            title=f"{name} {row + 1}" if len(rows) > 1 else name,
            queries=labels[row],
            keys=labels[row],
            cells=_cells((PADDING, padding[row]), (LATER, later[0])),
        )
        for row in range(len(rows))
    ]


def packed_mask(
    labels: Sequence[str], ids: Sequence[int], bos: int, eos: int, is_causal: bool
) -> MaskPicture:
    """Return the mask of one packed row; each of its documents is between `bos` and `eos`."""
    batch = pack(torch.tensor([[*ids, eos]]), bos, eos)  # packing drops the last id, only a target
    later, documents = _later_mask(len(labels), is_causal), document_mask(batch.documents)
    return MaskPicture(
        title="packed row",
        queries=tuple(labels),
        keys=tuple(labels),
        cells=_cells((LATER, later[0]), (DOCUMENT, documents[0])),
    )


def cross_masks(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[MaskPicture]:
    """Return the masks with which a decoder attends to the sources of a padded batch."""
    is_source, source_labels = _pad(sources)
    is_target, target_labels = _pad(targets)
    padding, T = padding_mask(is_source), is_target.shape[1]
    return [
        MaskPicture(
            title=f"cross mask {row + 1}" if len(sources) > 1 else "cross mask",
            queries=target_labels[row],
            keys=source_labels[row],
            cells=_cells((PADDING, padding[row].expand(1, T, -1))),
        )
        for row in range(len(sources))
    ]


def _later_mask(T: int, is_causal: bool) -> Tensor:  # noqa: N803
    return causal_mask(T, T, CPU) if is_causal else torch.ones(1, 1, T, T, dtype=torch.bool)


def _pad(rows: Sequence[Sequence[str]]) -> tuple[Tensor, list[tuple[str, ...]]]:
    """Return which positions hold a token (B, T), and the labels of the padded rows."""
    longest = max(map(len, rows))
    is_token = torch.tensor([[index < len(row) for index in range(longest)] for row in rows])
    return is_token, [(*row, *[PAD] * (longest - len(row))) for row in rows]


def _cells(*masks: tuple[int, Tensor]) -> NDArray[np.int8]:
    """Return the state of each pair: allowed, or forbidden by the last mask that forbids it."""
    T, S = torch.broadcast_shapes(*(mask.shape for _, mask in masks))[-2:]
    cells = np.full((T, S), ALLOWED, dtype=np.int8)
    for reason, mask in masks:
        cells[~mask[0].expand(T, S).numpy()] = reason
    return cells
