"""Pad texts of different lengths to one batch, within a budget of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import LabelledBatch
from warmstart.kernels.loss import IGNORE


def budgeted(
    rows: Iterable[int], texts: Sequence[Sequence[int]], micro_tokens: int
) -> Iterator[list[int]]:
    """Sort rows by length and cut them into batches of at most `micro_tokens`, padding included."""
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: len(texts[row])):
        if batch and (len(batch) + 1) * len(texts[row]) > micro_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(texts: Sequence[Sequence[int] | NDArray[np.int32]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids (B, T) padded at the right, and which of them are tokens."""
    lengths = np.array([len(text) for text in texts])
    is_token = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(is_token.shape, pad, dtype=np.int64)
    ids[is_token] = np.concatenate([np.asarray(text) for text in texts])
    return torch.from_numpy(ids), torch.from_numpy(is_token)


def pad_texts(
    texts: Sequence[Sequence[int]],
    targets: Sequence[Any],
    rows: Sequence[int],
    pad: int,
    starts: Sequence[int] | None = None,
) -> LabelledBatch:
    """Return these rows as one batch, padded to the longest.

    A target is a number, or a list of integers with one for each token of its text. `starts` says
    where the second text of each pair begins.
    """
    ids, is_token = padded([texts[row] for row in rows], pad)
    segments = torch.zeros_like(ids)
    if starts is not None:
        begins = torch.tensor([starts[row] for row in rows])
        segments = ((torch.arange(ids.shape[1]) >= begins[:, None]) & is_token).long()
    return LabelledBatch(ids, is_token, _stacked([targets[row] for row in rows]), segments)


def _stacked(targets: Sequence[Any]) -> Tensor:
    """Return numbers as (B,), lists as (B, T) padded with IGNORE."""
    if isinstance(targets[0], Sequence):
        return padded(targets, IGNORE)[0]
    return torch.tensor(targets)
