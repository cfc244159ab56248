"""Memory that runs out makes the parts of a step smaller, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from warmstart.batching.batches import split
from warmstart.batching.packing import pack
from warmstart.runs.checkpoint import load_latest
from warmstart.runs.folder import RunFolder
from warmstart.training.step import Objective
from warmstart.training.trainer import Trainer

Build = Callable[[RunFolder | None], Trainer]
FAULTS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
    MemoryError(),
]


@dataclass
class Cramped:
    """An objective on a machine that has room for few rows; the backward pass was begun before."""

    objective: Objective
    fault: Exception
    most_rows: int

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        return self.objective.count(group)

    def __call__(self, model: Any, batch: Any) -> dict[str, Tensor]:
        sums = self.objective(model, batch)
        if len(batch.ids) > self.most_rows:
            torch.stack(list(sums.values())).sum().backward()  # leaves gradients behind
            raise self.fault
        return sums


def _without_dropout(trainer: Trainer) -> Trainer:
    for module in trainer.model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # type: ignore[assignment]
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return trainer


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("most_rows", [1, 2])
def test_smaller_parts_give_the_same_weights(
    build: Build, tmp_path: Path, fault: Exception, most_rows: int
) -> None:
    reference, trainer = (_without_dropout(build(None)) for _ in range(2))
    reference.train("whole")
    trainer.run = RunFolder(tmp_path)
    trainer.objective = Cramped(trainer.objective, fault, most_rows)
    trainer.train("in parts")
    assert_close(trainer.model.state_dict(), reference.model.state_dict(), rtol=0, atol=2e-3)
    assert trainer.state.num_parts > 1
    checkpoint, _ = load_latest(trainer.run)
    assert checkpoint is not None
    assert checkpoint.state.num_parts == trainer.state.num_parts  # a resumed run starts there


def test_a_single_row_that_does_not_fit_is_an_error(build_lm: Build) -> None:
    trainer = build_lm(None)
    trainer.objective = Cramped(trainer.objective, FAULTS[0], most_rows=0)
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train("run")


def test_other_faults_are_not_taken_for_memory(build_lm: Build) -> None:
    trainer = build_lm(None)
    trainer.objective = Cramped(trainer.objective, RuntimeError("a bug"), most_rows=0)
    with pytest.raises(RuntimeError, match="a bug"):
        trainer.train("run")


@pytest.mark.parametrize("num_parts", [1, 2, 3, 5, 8])
def test_parts_hold_every_row_once_in_order(num_parts: int) -> None:
    batch = pack(torch.arange(5 * 4).reshape(5, 4), 1, 2)
    parts = split(batch, num_parts)
    assert len(parts) <= num_parts
    for name, tensor in vars(batch).items():
        if tensor is None:
            continue
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), tensor)
