"""Fit one classifier: the part that `finetune` and `compare` have in common.

Knows nothing about files; a run folder is optional.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batches.loader import LabelledStream
from warmstart.config.jobs import Checkpoints, Tuning
from warmstart.config.model import ModelConfig
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Classifier
from warmstart.objectives.classify import Classify, class_weights
from warmstart.recipes.build import seed_weights
from warmstart.report.runs import Epoch
from warmstart.scoring.metrics import accuracy, macro_f1
from warmstart.scoring.score import classify
from warmstart.store.folder import RunFolder
from warmstart.store.transfer import Transfer, transfer_body
from warmstart.train.optim import OptimizerSettings, build_optimizers
from warmstart.train.schedule import warmup_cosine
from warmstart.train.trainer import Evaluation, LoopSettings, State, Trainer


@dataclass(frozen=True)
class Examples:
    """Encoded texts with their classes."""

    ids: Sequence[Sequence[int]]
    classes: Sequence[int]


def build_classifier(
    shape: ModelConfig,
    num_classes: int,
    tuning: Tuning,
    seed: int,
    weights: dict[str, Tensor] | None,
    frozen: bool,
) -> tuple[Classifier, Transfer | None]:
    """Return a classifier: warm with pretrained weights, cold without, or with a frozen base."""
    seed_weights(seed, "classifier")
    model = Classifier(shape, num_classes, tuning.pooling, tuning.classifier_dropout)
    fate = transfer_body(weights, model) if weights is not None else None
    model.body.requires_grad_(not frozen)
    return model, fate


def fit_classifier(
    model: Classifier,
    train: Examples,
    valid: Examples,
    tuning: Tuning,
    rate: float,
    seed: int,
    pad: int,
    runtime: Runtime,
    title: str,
    run: RunFolder | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[Trainer, State]:
    """Train on labelled texts; the trainer then holds the best epoch's weights, or the run does."""
    model.to(runtime.device)
    size, budget = tuning.batch_size, tuning.micro_tokens
    stream = LabelledStream(train.ids, train.classes, size, budget, pad, seed)
    steps = tuning.epochs * stream.steps_per_epoch
    num_classes = model.head.output.out_features
    balanced = tuning.balance == "weights"
    weights = class_weights(list(train.classes), num_classes) if balanced else [1.0] * num_classes

    def evaluate() -> Evaluation:
        found = classify(model, valid.ids, budget, pad, runtime)
        return _judged(found, valid.classes, tuning.select)

    unfreeze = stream.steps_per_epoch if tuning.unfreeze else 0
    optimizer = OptimizerSettings("adamw", rate, tuning.weight_decay, tuning.layer_decay, unfreeze)
    cadence = checkpoints or Checkpoints()
    trainer = Trainer(
        model,
        Classify(torch.tensor(weights)),
        stream,
        build_optimizers(model, optimizer),
        warmup_cosine(steps, tuning.warmup),
        evaluate,
        LoopSettings(
            steps=steps,
            clip=tuning.clip,
            seed=seed,
            eval_every=stream.steps_per_epoch,
            log_every=stream.steps_per_epoch,
            save_every=cadence.save_every,
            save_s=60 * cadence.save_minutes,
            keep=cadence.keep,
        ),
        runtime,
        run,
    )
    return trainer, trainer.train(title)


def epochs_of(state: State) -> tuple[Epoch, ...]:
    """Return the epochs a training run went through."""
    return tuple(
        Epoch(
            epoch=number,
            train_loss=entry["train_loss"],
            valid_loss=entry["valid_loss"],
            valid_accuracy=entry["valid_accuracy"],
            valid_f1=entry["valid_f1"],
            elapsed_s=entry["elapsed_s"],
        )
        for number, entry in enumerate(state.evaluations, 1)
    )


def _judged(found: NDArray[np.float64], classes: Sequence[int], select: str) -> Evaluation:
    predicted = found.argmax(1)
    right = accuracy(classes, predicted)
    f1 = macro_f1(classes, predicted)
    nll = -float(np.log(np.maximum(found[range(len(classes)), list(classes)], 1e-12)).mean())
    figures = {"valid_loss": nll, "valid_accuracy": right, "valid_f1": f1}
    return Evaluation(right if select == "accuracy" else f1, figures, f"valid accuracy {right:.1%}")
