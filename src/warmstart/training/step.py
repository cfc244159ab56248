"""One optimizer step: gradients summed over the batches of a group, then the update."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart.batching.batches import ALL_ROWS, Batch, move, pin
from warmstart.kernels.graphs import RecordedGradients
from warmstart.runs.facts import Length
from warmstart.runtime import Runtime, widest_type
from warmstart.settings.shared import Checkpoints, Tracker
from warmstart.training.optimizers import FUSED, clip_gradients

BUCKET = 1 << 24  # gradients that processes send together: fewer wait longer, more need memory
Counts = Mapping[str, float] | Mapping[str, Tensor]  # of targets, by term
MIN_INTERVAL, NUM_VALIDATIONS = 200, 20  # by default; a GPU takes 200 steps in 3 seconds


class Stream(Protocol):
    """Batches by step."""

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        """Return the batches of one optimizer step, or of a share of its rows."""


class Objective(Protocol):
    """Summed losses by term, and the counts that divide them."""

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        """Count the targets of a group by term; the counts of its parts add up to them."""

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
    total = torch.zeros((), dtype=widest_type(runtime.device), device=runtime.device)
    for batch in group:
        with runtime.precision():
            sums = objective(model, move(batch, runtime.device))
        loss = mean_loss(sums, counts)
        loss.backward()
        total += loss.detach()
    return total


def mean_loss(sums: Mapping[str, Tensor], counts: Counts) -> Tensor:
    """Add up the mean losses of all terms; a term without targets is zero."""
    return torch.stack([sums[term] / divisor(counts[term]) for term in sums]).sum()


def divisor(count: float | Tensor) -> float | Tensor:
    """Return what divides the summed losses of a term: 1 where it has no targets."""
    return count if isinstance(count, Tensor) else count or 1.0


class RecordedObjective:
    """The gradients of a group that is one batch, recorded for each shape; equal to the plain path.

    It pays where batches come in few shapes and a step is short.
    """

    def __init__(self, model: nn.Module, objective: Objective, runtime: Runtime) -> None:
        self.model, self.objective, self.runtime = model, objective, runtime
        self.gradients = RecordedGradients(model.parameters(), self._loss)
        self._type: type[Any] = Batch
        self._names: tuple[str, ...] = ()  # fields of a batch that are not None
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
        divisors = [torch.as_tensor(divisor(count)) for count in counts.values()]
        inputs = [
            tensor.to(self.runtime.device, non_blocking=True) for tensor in (*tensors, *divisors)
        ]
        loss = self.gradients(*inputs, kind=self._names)
        return loss.to(widest_type(loss.device))

    def _loss(self, *inputs: Tensor) -> Tensor:
        content = dict.fromkeys(field.name for field in fields(self._type))
        divisors = inputs[len(self._names) :]
        batch = self._type(**content | dict(zip(self._names, inputs, strict=False)))
        with self.runtime.precision():
            sums = self.objective(self.model, batch)
        return mean_loss(sums, dict(zip(self._terms, divisors, strict=True)))


def update_weights(model: nn.Module, optimizers: Mapping[str, Optimizer], clip: float) -> Tensor:
    """Clip the gradients and take a step with each optimizer; return the norm before clipping."""
    norm = clip_gradients(model, clip)
    step_optimizers(optimizers)
    return norm


def step_optimizers(optimizers: Mapping[str, Optimizer], is_skipped: Tensor | None = None) -> None:
    """Take a step with each optimizer; one that is skipped (1, else 0) changes nothing."""
    waits = is_skipped is not None and is_skipped.device.type not in FUSED  # it cannot skip a step
    for optimizer in optimizers.values():
        optimizer.found_inf = is_skipped  # type: ignore[attr-defined]
        if not (waits and is_skipped):
            optimizer.step()
        optimizer.zero_grad()


class Latch:
    """Counts the steps since the first one that was not finite, all of which change nothing.

    It stays on the device, which is waited for only where the count is read.
    """

    def __init__(self, device: torch.device) -> None:
        self.num_skipped = torch.zeros((), dtype=widest_type(device), device=device)

    def enter(self, is_fault: Tensor) -> Tensor:
        """Enter whether a step is not finite; return 1 if it must be skipped, else 0."""
        self.num_skipped += (self.num_skipped > 0) | is_fault
        return self.num_skipped.clamp(max=1).float()

    def open(self) -> int:
        """Return how many steps were skipped since the last call, and skip no more."""
        num_skipped = int(self.num_skipped)
        self.num_skipped.zero_()
        return num_skipped


class PrefetchedStream:
    """The groups of another stream, in pinned memory, which a GPU copies without being waited for.

    A group depends on its step alone, so preparing it early changes nothing.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pool = ThreadPoolExecutor(1, "prefetch")
        self.next: tuple[int, slice, Future[Sequence[Any]]] | None = None

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        """Return the batches of a step, and begin to prepare the next one."""
        is_ready = self.next is not None and self.next[:2] == (step, share)
        group = self.next[2].result() if self.next and is_ready else self._prepare(step, share)
        self.next = step + 1, share, self.pool.submit(self._prepare, step + 1, share)
        return group

    def _prepare(self, step: int, share: slice) -> Sequence[Any]:
        return [pin(batch) for batch in self.stream.group(step, share)]


def prefetch(stream: Stream, device: torch.device) -> Stream:
    """Prepare the batches of a GPU in the background; a CPU has no time to spare for that."""
    return PrefetchedStream(stream) if device.type == "cuda" else stream


@dataclass(frozen=True)
class Evaluation:
    """The result of one validation."""

    score: float  # higher is better
    figures: dict[str, float]
    note: str  # for the progress bar
    loss: float = 0.0  # among equal scores the lowest is best
    weights: Mapping[str, Tensor] = field(default_factory=dict)  # to keep in place of the model's

    def is_better_than(self, score: float | None, loss: float) -> bool:
        """Tell whether the score is higher than a former one, or as high with a lower loss."""
        return score is None or (self.score, -self.loss) > (score, -loss)


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """The cadence of a run."""

    steps: int
    clip: float
    seed: int
    eval_every: int | None  # None: by the number of steps
    log_every: int
    save_every: int
    save_s: float
    keep: int
    keeps_last: bool = False  # the last validated weights are kept, not the best
    patience: int | None = None  # validations without a better score before the run stops
    lengths: tuple[Length, ...] = ()  # every number of steps the run had; empty: `steps` alone
    track: Tracker | None = None  # what shows the metrics, besides metrics.jsonl

    def interval(self, steps: int) -> int:
        """Return the steps between two validations of a training of `steps` steps."""
        return self.eval_every or max(MIN_INTERVAL, -(-steps // NUM_VALIDATIONS))

    @classmethod
    def of(cls, checkpoints: Checkpoints, **cadence: Any) -> Self:
        """Return the cadence of a run with the checkpoints that its settings ask for."""
        return cls(
            save_every=checkpoints.save_every,
            save_s=60 * checkpoints.save_minutes,
            keep=checkpoints.keep,
            track=checkpoints.track,
            **cadence,
        )
