"""Faults of a machine, put into a training just before one of its steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart.batching.batches import ALL_ROWS
from warmstart.training.step import Objective, Stream
from warmstart.training.trainer import Trainer

Fault = Callable[[Trainer], None]


@dataclass
class FaultyStream:
    """A stream that puts faults into a training: each once, or whenever the step is taken."""

    stream: Stream
    trainer: Trainer
    faults: dict[int, Fault]  # by step, counted from 0
    recur: bool

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        groups = [g for o in self.trainer.optimizers.values() for g in o.param_groups]
        is_timed = not any(group["lr"] for group in groups)  # and changes nothing
        if step in self.faults and not is_timed:
            fault = self.faults[step] if self.recur else self.faults.pop(step)
            fault(self.trainer)
        return self.stream.group(step, share)


def put_faults(trainer: Trainer, faults: dict[int, Fault], recur: bool = False) -> Trainer:
    """Put faults into the steps of a trainer and return it."""
    trainer.stream = FaultyStream(trainer.stream, trainer, dict(faults), recur)
    return trainer


@dataclass
class _FaultyObjective:
    """An objective whose next loss is not a number."""

    owner: Any
    objective: Objective

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        return self.objective.count(group)

    def __call__(self, model: Any, batch: Any) -> dict[str, Tensor]:
        self.owner.objective = self.objective
        sums = self.objective(model, batch)
        return {name: value * float("nan") for name, value in sums.items()}


def spoil_loss(trainer: Trainer) -> None:
    """Make the loss of the next batch NaN."""
    owner: Any = trainer.sharded or trainer
    owner.objective = _FaultyObjective(owner, owner.objective)


def spoil_gradient(trainer: Trainer) -> None:
    """Make one number of the next gradient infinite; the loss stays finite."""
    parameter = [p for p in trainer.model.parameters() if p.requires_grad][-1]

    def spoil(grad: Tensor) -> Tensor:
        handle.remove()
        grad = grad.clone()
        grad.view(-1)[0] = float("inf")
        return grad

    handle = parameter.register_hook(spoil)


def spoil_recorded_loss(trainer: Trainer) -> None:
    """Make the loss of the next recorded step NaN."""
    _disturb_recorded(trainer, lambda loss: loss * float("nan"))


def spoil_recorded_gradient(trainer: Trainer) -> None:
    """Make one number of the gradients of the next recorded step infinite."""

    def spoil(loss: Tensor) -> Tensor:
        grads = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        grads[-1].view(-1)[0] = float("inf")
        return loss

    _disturb_recorded(trainer, spoil)


def _disturb_recorded(trainer: Trainer, change: Callable[[Tensor], Tensor]) -> None:
    recorded: Any = trainer.recorded
    compute = recorded.add_gradients

    def compute_wrongly(*given: Any) -> Tensor:
        recorded.add_gradients = compute
        return change(compute(*given))

    recorded.add_gradients = compute_wrongly


def spoil_moment(trainer: Trainer) -> None:
    """Make one number of a moment NaN, from which a weight becomes NaN."""
    _moments(trainer)[0].view(-1)[0] = float("nan")


def overflow_moment(trainer: Trainer) -> None:
    """Make one number of AdamW's second moment infinite, which no later figure shows."""
    second = [moment for moment in _moments(trainer) if bool((moment >= 0).all())]
    (second or _moments(trainer))[-1].view(-1)[0] = float("inf")


def spoil_weight(trainer: Trainer) -> None:
    """Make one weight infinite."""
    with torch.no_grad():
        next(trainer.model.parameters()).view(-1)[-1] = float("inf")


def _moments(trainer: Trainer) -> list[Tensor]:
    states = [s for o in trainer.optimizers.values() for s in o.state.values()]
    share = trainer.sharded.own_share if trainer.sharded else lambda tensor: tensor
    moments = [share(m) for state in states for m in state.values() if m.ndim]
    return [moment for moment in moments if moment.numel()]
