"""The batches that models read: frozen, typed, movable to a device."""

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ALL_ROWS = slice(None)
AnyBatch = TypeVar("AnyBatch", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """The base of all batches."""

    ids: Tensor  # (B, T)


@dataclass(frozen=True)
class PackedBatch(Batch):
    """Full rows of running text; a row may contain several documents."""

    targets: Tensor  # (B, T) the next token, IGNORE where a document ends
    documents: Tensor  # (B, T) number of each token's document within its row
    positions: Tensor  # (B, T) restarting at each document


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Whole texts, padded at the right, with their targets."""

    is_token: Tensor  # (B, T) False where padded
    targets: Tensor  # (B,) of each text, or (B, T) of each token and IGNORE where padded
    segments: Tensor  # (B, T) 1 in the second text of a pair, else 0


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Rows with masked tokens, or next-sentence pairs with masked tokens; None: does not apply."""

    masked_positions: Tensor  # (B, P) the same P for every row
    targets: Tensor  # (B, P) the original tokens, IGNORE where a row has fewer than P
    classes: Tensor | None  # (B,) 0: a positive next-sentence pair, 1: a negative one
    is_token: Tensor | None  # (B, T) False where padded
    documents: Tensor | None  # (B, T) number of each token's document within its row
    positions: Tensor | None  # (B, T) restarting at each document
    segments: Tensor | None  # (B, T) 1 in the second segment, else 0


@dataclass(frozen=True)
class Rows:
    """Rows before masking; None: does not apply."""

    ids: Ints  # (B, T)
    is_token: Flags | None = None  # (B, T) False where padded
    documents: Ints | None = None  # (B, T)
    positions: Ints | None = None  # (B, T)
    segments: Ints | None = None  # (B, T)
    classes: Ints | None = None  # (B,) 0: a positive next-sentence pair, 1: a negative one


def move(batch: AnyBatch, device: torch.device) -> AnyBatch:
    """Return the batch on another device."""
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved: dict[str, Any] = {
        name: tensor.to(device, non_blocking=True)
        for name, tensor in tensors.items()
        if tensor is not None
    }
    return replace(batch, **moved)


def pin(batch: AnyBatch) -> AnyBatch:
    """Return the batch in memory that a GPU copies from by itself."""
    if not torch.cuda.is_available():
        return batch
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    pinned: dict[str, Any] = {
        name: tensor.pin_memory()
        for name, tensor in tensors.items()
        if tensor is not None and tensor.device.type == "cpu"
    }
    return replace(batch, **pinned)


def split(batch: AnyBatch, num_parts: int) -> list[AnyBatch]:
    """Return the batch in at most so many parts of about equally many rows."""
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    parts = {name: t.chunk(num_parts) for name, t in tensors.items() if t is not None}
    return [
        replace(batch, **dict(zip(parts, rows, strict=True)))
        for rows in zip(*parts.values(), strict=True)
    ]
