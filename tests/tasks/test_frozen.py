"""A frozen base reads every text once, without dropout; the head learns as if it read them anew."""

from copy import deepcopy
from dataclasses import replace
from typing import cast

import torch
from torch.testing import assert_close

from warmstart.batching.batches import LabelledStream
from warmstart.data.labelled import Dataset
from warmstart.model.models import Classifier
from warmstart.runs.checkpoint import State
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.tasks.classify import ClassifyObjective, ClassifyTask
from warmstart.tasks.finetuning import Fit, Start, build_model, build_trainer
from warmstart.training.optimizers import (
    OptimizerSettings,
    build_optimizers,
    set_rates,
    warmup_linear,
)
from warmstart.training.step import train_step
from warmstart.training.trainer import Trainer

SEED, RATE = 3, 0.01
TRAIN = Dataset(
    ids=[[1, *range(3, 4 + n), 2] for n in range(1, 12)], targets=[n % 2 for n in range(11)]
)
LABELS = {"classes": ["a", "b"]}
VALID = Dataset(ids=[[1, 9, 2], [1, 4, 5, 6, 2]], targets=[0, 1])


TUNING = Tuning(epochs=3, batch_size=4, micro_tokens=24, balance="none")


def _model(shape: ModelConfig) -> Classifier:
    donor = Classifier(shape, 2, "mean")
    weights = {n: w for n, w in donor.state_dict().items() if n.startswith("backbone.")}
    model, _ = build_model(ClassifyTask(), Start(shape, weights, True), LABELS, TUNING, SEED)
    return cast(Classifier, model.double())


def _fit(model: Classifier, cpu: Runtime) -> tuple[Trainer, State]:
    fit = Fit(TRAIN, VALID, LABELS, TUNING, RATE, 1.0, SEED, 0, cpu, "frozen")
    trainer = build_trainer(ClassifyTask(), model, fit)
    return trainer, trainer.train("frozen")


def _recomputed(model: Classifier, cpu: Runtime) -> Classifier:
    """Train the head with a base that reads every text again at every step, dropout off."""
    stream = LabelledStream(TRAIN.ids, TRAIN.targets, 4, 24, 0, SEED)
    steps = 3 * stream.steps_per_epoch
    optimizers = build_optimizers(model, OptimizerSettings("adamw", RATE, TUNING.weight_decay))
    schedule = warmup_linear(steps, TUNING.warmup)
    for step in range(steps):
        model.train()
        model.backbone.eval()
        torch.manual_seed(derive_seed(SEED, "step", step))
        set_rates(optimizers, step, schedule(step))
        group = stream.group(step)
        train_step(model, ClassifyObjective(torch.ones(2)), group, optimizers, TUNING.clip, cpu)
    return model


def test_the_head_is_the_same_as_with_texts_read_again_at_each_step(
    tiny: ModelConfig, cpu: Runtime
) -> None:
    model = _model(replace(tiny, dropout=0.3))
    expected = _recomputed(deepcopy(model), cpu)
    trainer, _ = _fit(model, cpu)
    assert_close(trainer.model.state_dict(), expected.state_dict(), rtol=0, atol=1e-10)


def test_the_base_has_no_dropout_and_does_not_move(tiny: ModelConfig, cpu: Runtime) -> None:
    losses = []
    for dropout in (0.0, 0.6):
        torch.manual_seed(1)
        model = _model(replace(tiny, dropout=dropout))
        before = deepcopy(model.backbone.state_dict())
        _, state = _fit(model, cpu)
        assert_close(model.backbone.state_dict(), before, rtol=0, atol=0)
        losses.append([entry["train_loss"] for entry in state.evaluations])
    assert losses[0] == losses[1]


def test_positions_that_shorter_texts_never_reach_are_left_out(tiny: ModelConfig) -> None:
    learned = replace(tiny, positions="learned")
    weights = Classifier(learned, 2, "mean").state_dict()
    shorter = replace(learned, max_length=8)
    model, _ = build_model(ClassifyTask(), Start(shorter, weights), LABELS, TUNING, SEED)
    found = model.backbone.embed_positions.weight
    assert torch.equal(found, weights["backbone.embed_positions.weight"][:8])
