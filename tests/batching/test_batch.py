import dataclasses

import pytest
import torch

from warmstart.batching.batches import LabelledBatch, move
from warmstart.batching.packing import pack


def test_move_keeps_type_and_values() -> None:
    batch = pack(torch.tensor([[1, 5, 2]]), 1, 2)
    moved = move(batch, torch.device("cpu"))
    assert type(moved) is type(batch)
    for name, tensor in vars(batch).items():
        assert torch.equal(getattr(moved, name), tensor)
    away = move(batch, torch.device("meta"))
    assert all(tensor.is_meta for tensor in vars(away).values())
    assert not batch.ids.is_meta


def test_batches_are_frozen() -> None:
    ids = torch.tensor([[1]])
    batch = LabelledBatch(ids, ids > 0, ids[0], ids)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.ids = ids  # type: ignore[misc]
