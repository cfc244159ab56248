"""One optimizer step: gradients summed over the batches of a group, then the update."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart import progress
from warmstart.batching.batch import ALL_ROWS, Batch, move
from warmstart.kernels.graphs import RecordedGradients
from warmstart.runs.faults import is_out_of_memory
from warmstart.runtime import Runtime
from warmstart.training.optimizers import clip_gradients

BUCKET = 1 << 24  # gradients that processes send together: fewer wait longer, more need memory
Counts = Mapping[str, float] | Mapping[str, Tensor]  # of targets, by term


class Stream(Protocol):
    """Batches by step."""

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        """Return the batches of one optimizer step, or of a share of its rows."""


class Objective(Protocol):
    """Summed losses by term, and the counts that divide them."""

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        """Count the targets of a group, by term; the counts of parts of a group add up to its."""

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
    model: nn.Module,
    objective: Objective,
    group: Sequence[Batch],
    runtime: Runtime,
    counts: Counts | None = None,
) -> Tensor:
    """Set the gradients to those of the summed losses divided by counts; return that loss.

    Without counts, those of the group make it the mean loss over the group.
    """
    model.zero_grad()
    counts = objective.count(group) if counts is None else counts
    total = torch.zeros((), dtype=torch.float64, device=runtime.device)
    for batch in group:
        with runtime.precision():
            sums = objective(model, move(batch, runtime.device))
        loss = mean_loss(sums, counts)
        loss.backward()
        total += loss.detach()
    return total


def mean_loss(sums: Mapping[str, Tensor], counts: Counts) -> Tensor:
    """Return the sum over terms of the mean loss of each; a term without targets is zero."""
    return torch.stack([sums[term] / _divisor(counts[term]) for term in sums]).sum()


def _divisor(count: float | Tensor) -> float | Tensor:
    return count if isinstance(count, Tensor) else count or 1.0


class RecordedObjective:
    """The gradients of a group that is one batch, recorded for each shape; equal to the plain path.

    It pays where batches come in few shapes and a step is short.
    """

    def __init__(self, model: nn.Module, objective: Objective, runtime: Runtime) -> None:
        self.model, self.objective, self.runtime = model, objective, runtime
        self.gradients = RecordedGradients(model.parameters(), self._loss)
        self._type: type[Any] = Batch
        self._names: tuple[str, ...] = ()  # of its fields that are not None
        self._terms: tuple[str, ...] = ()

    @property
    def num_replayed(self) -> int:
        """Return how many groups were replayed so far."""
        return self.gradients.num_replayed

    def add_gradients(self, group: Sequence[Batch], counts: Counts | None = None) -> Tensor:
        """Set the gradients as the plain path does; return the same loss."""
        counts = self.objective.count(group) if counts is None else counts
        if len(group) != 1:
            return add_gradients(self.model, self.objective, group, self.runtime, counts)
        content = {field.name: getattr(group[0], field.name) for field in fields(group[0])}
        tensors = [tensor for tensor in content.values() if tensor is not None]
        self._type, self._terms = type(group[0]), tuple(counts)
        self._names = tuple(name for name, tensor in content.items() if tensor is not None)
        divisors = [torch.as_tensor(_divisor(count)) for count in counts.values()]
        inputs = [
            tensor.to(self.runtime.device, non_blocking=True) for tensor in (*tensors, *divisors)
        ]
        return self.gradients(*inputs, kind=self._names).double()

    def _loss(self, *inputs: Tensor) -> Tensor:
        content = dict.fromkeys(field.name for field in fields(self._type))
        divisors = inputs[len(self._names) :]
        batch = self._type(**content | dict(zip(self._names, inputs, strict=False)))
        with self.runtime.precision():
            sums = self.objective(self.model, batch)
        return mean_loss(sums, dict(zip(self._terms, divisors, strict=True)))


def update_weights(model: nn.Module, optimizers: Mapping[str, Optimizer], clip: float) -> Tensor:
    """Let the optimizers use the gradients, clipped; return their norm before that."""
    norm = clip_gradients(model, clip)
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad()
    return norm
