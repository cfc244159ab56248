"""Trainers small enough to run to their end, be disturbed, and run again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
import torch

from model_scores import causal_scores, class_probabilities
from warmstart.batching.batches import ALL_ROWS, LabelledStream
from warmstart.batching.packing import PackedStream, RunningText, read_packed_rows
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.causal import CausalObjective
from warmstart.tasks.classify import ClassifyObjective
from warmstart.tasks.vectors import TextBatches
from warmstart.training.optimizers import OptimizerSettings, build_optimizers, warmup_cosine
from warmstart.training.step import Evaluation, LoopSettings, RecordedObjective, Stream
from warmstart.training.trainer import Trainer

LOOP = LoopSettings(
    steps=8, clip=1.0, seed=0, eval_every=3, log_every=1, save_every=2, save_s=1e9, keep=2
)
Build = Callable[[RunFolder | None], Trainer]
BuildOnDevice = Callable[[RunFolder | None, Runtime], Trainer]


@dataclass
class Disturbed:
    """A stream that something happens to before one of its steps."""

    stream: Stream
    at: int
    happening: Callable[[], object]

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        if step == self.at:
            self.happening()
        return self.stream.group(step, share)


def _language_trainer(
    shape: ModelConfig, run: RunFolder | None, cpu: Runtime, kind: Literal["adamw", "muon"]
) -> Trainer:
    torch.manual_seed(5)
    model = LanguageModel(replace(shape, dropout=0.3))
    ids = np.random.Generator(np.random.PCG64(3)).integers(1, 23, 400).astype(np.uint16)
    stream = PackedStream(RunningText(ids, 8, 1, 2), rows_per_step=4, rows_per_batch=3, seed=0)

    def evaluate() -> Evaluation:
        text = RunningText(ids[:60], 8, 1, 2)
        loss = causal_scores(model, read_packed_rows(text, 4), cpu).loss
        return Evaluation(-loss, {"valid_loss": loss}, "")

    optimizers = build_optimizers(model, OptimizerSettings(kind, 1e-2, 0.1))
    schedule = partial(warmup_cosine, warmup=0.2)
    return Trainer(model, CausalObjective(), stream, optimizers, schedule, evaluate, LOOP, cpu, run)


def _label_trainer(
    shape: ModelConfig, run: RunFolder | None, cpu: Runtime, unfreeze: int
) -> Trainer:
    torch.manual_seed(5)
    model = Classifier(replace(shape, dropout=0.3), 2, "mean", dropout=0.3)
    rng = np.random.Generator(np.random.PCG64(3))
    texts = [rng.integers(1, 23, size).tolist() for size in range(2, 14)]
    classes = [len(text) % 2 for text in texts]
    stream = LabelledStream(texts, classes, batch_size=4, micro_tokens=30, pad=0, seed=0)

    def evaluate() -> Evaluation:
        outputs = class_probabilities(model, texts, TextBatches(50, 0, cpu))
        right = float((outputs.argmax(1) == classes).mean())
        return Evaluation(right, {"valid_accuracy": right}, "")

    settings = OptimizerSettings("adamw", 1e-2, 0.1, layer_decay=0.8, unfreeze_steps=unfreeze)
    optimizers = build_optimizers(model, settings)
    schedule = partial(warmup_cosine, warmup=0.2)
    objective = ClassifyObjective(torch.tensor([1.0, 2.0]))
    return Trainer(model, objective, stream, optimizers, schedule, evaluate, LOOP, cpu, run)


@pytest.fixture(scope="module", params=["adamw", "muon", "classifier", "unfreezing"])
def build(request: pytest.FixtureRequest, tiny: ModelConfig, cpu: Runtime) -> Build:
    """Return a function that builds one and the same trainer, for any folder."""
    if request.param in ("adamw", "muon"):
        return lambda run: _language_trainer(tiny, run, cpu, request.param)
    return lambda run: _label_trainer(tiny, run, cpu, 2 if request.param == "unfreezing" else 0)


@pytest.fixture(scope="session")
def build_lm(tiny: ModelConfig, cpu: Runtime) -> Build:
    return lambda run: _language_trainer(tiny, run, cpu, "adamw")


@pytest.fixture(scope="session")
def build_recorded() -> BuildOnDevice:
    """Return a function that builds a trainer whose steps a GPU replays, for any folder."""
    return _recorded_trainer


def _recorded_trainer(run: RunFolder | None, runtime: Runtime) -> Trainer:
    torch.manual_seed(0)
    model = LanguageModel(replace(PRESETS["tiny"], vocab_size=50, max_length=32))
    model.to(runtime.device)
    stream = PackedStream(RunningText(np.arange(900) % 40 + 5, 32, bos=0, eos=2), 4, 4, seed=0)
    trainer = Trainer(
        model,
        CausalObjective(),
        stream,
        build_optimizers(model, OptimizerSettings("muon", 1e-3, 0.1)),
        partial(warmup_cosine, warmup=0.2),
        lambda: Evaluation(0.0, {}, ""),
        replace(LOOP, steps=16, eval_every=8, log_every=8, save_every=8, keep=1),
        runtime,
        run,
        recorded=RecordedObjective(model, CausalObjective(), runtime),
    )
    trainer.looks_each_step = False
    return trainer


@pytest.fixture(scope="module")
def reference(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Return a trainer that ran to its end without a break."""
    trainer = build(RunFolder(tmp_path_factory.mktemp("reference")))
    trainer.train("reference")
    return trainer


@pytest.fixture(scope="session")
def disturbed() -> Callable[[Trainer, int, Callable[[], object]], Trainer]:
    """Return a function that lets something happen before a trainer's step."""

    def disturb(trainer: Trainer, at: int, happening: Callable[[], object]) -> Trainer:
        trainer.stream = Disturbed(trainer.stream, at, happening)
        return trainer

    return disturb
