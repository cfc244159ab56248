"""The batches a model reads: frozen, typed, movable to a device.

Knows nothing about files or models.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

AnyBatch = TypeVar("AnyBatch", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Base of all batches."""

    ids: Tensor  # (B, T)


@dataclass(frozen=True)
class PackedBatch(Batch):
    """Full rows of running text; several documents may share a row."""

    targets: Tensor  # (B, T) the next token, IGNORE where a document ends
    documents: Tensor  # (B, T) number of each token's document within its row
    positions: Tensor  # (B, T) restarting at each document


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Whole texts, padded at the right, with their classes."""

    is_token: Tensor  # (B, T) False where padded
    classes: Tensor  # (B,)
    segments: Tensor  # (B, T) 1 in the second text of a pair, else 0


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Rows with hidden tokens to restore, perhaps of two segments; what is None is absent."""

    places: Tensor  # (B, P) where tokens were hidden; the same P for every row
    targets: Tensor  # (B, P) what stood there, IGNORE where fewer were hidden
    classes: Tensor | None  # (B,) 0: the second segment follows the first, 1: it does not
    is_token: Tensor | None  # (B, T) False where padded
    documents: Tensor | None  # (B, T) number of each token's document within its row
    positions: Tensor | None  # (B, T) restarting at each document
    segments: Tensor | None  # (B, T) 1 in the second segment, else 0


def move(batch: AnyBatch, device: torch.device) -> AnyBatch:
    """Return the batch on another device."""
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved: dict[str, Any] = {
        name: None if tensor is None else tensor.to(device, non_blocking=True)
        for name, tensor in tensors.items()
    }
    return replace(batch, **moved)
