"""One optimizer step: gradients summed over the batches of a group, then the update."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart import progress
from warmstart.batching.batch import Batch, move
from warmstart.kernels.graphs import RecordedGradients
from warmstart.runs.faults import is_out_of_memory
from warmstart.runtime import Runtime
from warmstart.training.optimizers import clip_gradients


class Stream(Protocol):
    """Batches by step."""

    def group(self, step: int) -> Sequence[Any]:
        """Return the batches of one optimizer step."""


class Objective(Protocol):
    """Summed losses by term, and the counts that divide them."""

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        """Count the targets of a whole group."""

    def __call__(self, model: Any, batch: Any) -> dict[str, Tensor]:
        """Return the summed losses of one batch."""


def train_step(
    model: nn.Module,
    objective: Objective,
    group: Sequence[Batch],
    optimizers: Mapping[str, Optimizer],
    clip: float,
    runtime: Runtime,
) -> tuple[Tensor, Tensor]:
    """Take one optimizer step; return the mean loss and the gradient norm."""
    loss = add_gradients(model, objective, group, runtime)
    return loss, update_weights(model, optimizers, clip)


def in_parts(
    compute: Callable[[int], Tensor], num_parts: int, most_rows: int
) -> tuple[Tensor, int]:
    """Compute gradients in so many parts, in twice as many as often as memory runs out.

    Return the result and the number of parts that fitted.
    """
    before = num_parts
    while True:
        try:
            loss = compute(num_parts)
            break
        except (MemoryError, RuntimeError) as fault:
            if not is_out_of_memory(fault) or num_parts >= most_rows:
                raise
        torch.cuda.empty_cache()  # outside of `except`: the fault holds on to its memory
        num_parts *= 2
    if num_parts > before:
        progress.say(f"out of memory: each batch is now computed in {num_parts} parts")
    return loss, num_parts


def add_gradients(
    model: nn.Module, objective: Objective, group: Sequence[Batch], runtime: Runtime
) -> Tensor:
    """Set the gradients to those of the mean loss over a group; return that loss."""
    model.zero_grad()
    counts = objective.count(group)
    total = torch.zeros((), dtype=torch.float64, device=runtime.device)
    for batch in group:
        with runtime.precision():
            sums = objective(model, move(batch, runtime.device))
        loss = torch.stack([sums[term] / counts[term] for term in sums]).sum()
        loss.backward()
        total += loss.detach()
    return total


class RecordedObjective:
    """The gradients of a group that is one batch, recorded for each shape; equal to the plain path.

    It pays where batches come in few shapes and a step is short.
    """

    def __init__(self, model: nn.Module, objective: Objective, runtime: Runtime) -> None:
        self.model, self.objective, self.runtime = model, objective, runtime
        self.gradients = RecordedGradients(model.parameters(), self._loss)
        self._type: type[Any] = Batch

    def add_gradients(self, group: Sequence[Batch]) -> Tensor:
        """Set the gradients of the mean loss over a group; return that loss."""
        tensors = [getattr(group[0], field.name) for field in fields(group[0])]
        if len(group) > 1 or any(tensor is None for tensor in tensors):
            return add_gradients(self.model, self.objective, group, self.runtime)
        self._type = type(group[0])
        counts = torch.tensor(list(self.objective.count(group).values()))
        inputs = [
            tensor.to(self.runtime.device, non_blocking=True) for tensor in (*tensors, counts)
        ]
        return self.gradients(*inputs).double()

    def _loss(self, *inputs: Tensor) -> Tensor:
        *tensors, counts = inputs
        with self.runtime.precision():
            sums = self.objective(self.model, self._type(*tensors))
        return (torch.stack(list(sums.values())) / counts).sum()


def update_weights(model: nn.Module, optimizers: Mapping[str, Optimizer], clip: float) -> Tensor:
    """Let the optimizers use the gradients, clipped; return their norm before that."""
    norm = clip_gradients(model, clip)
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad()
    return norm
