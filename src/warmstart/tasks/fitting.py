"""One training on labelled texts: how it starts, its trainer, and its epochs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from warmstart.runs.checkpoint import State
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import Transfer, transfer_backbone
from warmstart.seeds import derive_seed
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Checkpoints
from warmstart.settings.training import Tuning
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.training.defaults import epochs_between_validations
from warmstart.training.optimizers import OptimizerSettings, build_optimizers, warmup_linear
from warmstart.training.step import LoopSettings, RecordedObjective
from warmstart.training.trainer import Trainer


@dataclass(frozen=True)
class Start:
    """How a fine-tuned model starts."""

    model: ModelConfig
    weights: Mapping[str, torch.Tensor] | None  # None: cold
    is_frozen: bool = False

    @property
    def arm(self) -> str:
        """Return the name of this start: warm, frozen or cold."""
        if self.weights is None:
            return "cold"
        return "frozen" if self.is_frozen else "warm"


def build_model(
    task: FinetuningTask, start: Start, labels: Labels, tuning: Tuning, seed: int
) -> tuple[nn.Module, Transfer | None]:
    """Return a model to fine-tune, and which of its tensors were loaded."""
    torch.manual_seed(derive_seed(seed, "weights", "classifier"))
    model = task.new_model(start.model, labels, tuning)
    transfer = transfer_backbone(start.weights, model) if start.weights is not None else None
    backbone: Any = model.backbone
    backbone.requires_grad_(not start.is_frozen)
    return model, transfer


def build_trainer(
    task: FinetuningTask,
    model: nn.Module,
    fit: Fit,
    run: RunFolder | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trainer:
    """Return a trainer of all epochs; without a run folder it keeps everything in memory."""
    model.to(fit.runtime.device)
    tuning, training = fit.tuning, task.training(model, fit)
    steps_per_epoch = fit.stream().steps_per_epoch
    steps = fit.num_epochs * steps_per_epoch
    unfreeze_steps = steps_per_epoch if tuning.unfreeze else 0
    optimizer = OptimizerSettings(
        "adamw", fit.learning_rate, tuning.weight_decay, fit.layer_decay, unfreeze_steps
    )
    return Trainer(
        model,
        training.objective,
        training.stream,
        build_optimizers(model, optimizer),
        partial(warmup_linear, warmup=tuning.warmup),
        training.evaluate,
        LoopSettings.of(
            checkpoints or Checkpoints(),
            steps=steps,
            clip=tuning.clip,
            seed=fit.seed,
            eval_every=epochs_between_validations(fit.num_epochs, tuning) * steps_per_epoch,
            log_every=steps_per_epoch,
            keeps_last=tuning.keep_epoch == "last",
        ),
        fit.runtime,
        run,
        RecordedObjective(model, training.objective, fit.runtime) if fit.is_recorded else None,
    )


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the labelled texts, and the validation scores after it."""

    epoch: int  # counts from 1
    train_loss: float
    valid_loss: float | None  # None: the task has none
    valid_accuracy: float  # or the score that selects in its place
    valid_f1: float | None
    elapsed_s: float  # since the cell's training began


def epochs_of(state: State, fit: Fit, task: FinetuningTask) -> tuple[Epoch, ...]:
    """Return the figures of each epoch that was validated."""

    def compared_score(entry: Mapping[str, float]) -> float:
        scores = {name.removeprefix("valid_"): value for name, value in entry.items()}
        return task.compared_score(scores, fit.labels)

    return tuple(
        Epoch(
            epoch=fit.epoch_of(int(entry["step"])),
            train_loss=entry["train_loss"],
            valid_loss=entry.get("valid_loss"),
            valid_accuracy=compared_score(entry),
            valid_f1=entry.get("valid_f1"),
            elapsed_s=entry["elapsed_s"],
        )
        for entry in state.evaluations
    )
