"""The batches a model reads: frozen, typed, movable to a device.

Knows nothing about files or models.
"""

from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from torch import Tensor

IGNORE = -100  # a target that counts for nothing

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


def move(batch: AnyBatch, device: torch.device) -> AnyBatch:
    """Return the batch on another device."""
    moved = {
        field.name: getattr(batch, field.name).to(device, non_blocking=True)
        for field in fields(batch)
    }
    return replace(batch, **moved)
