"""Fit one classifier: the part that `finetune` and `compare` have in common.

Knows nothing about files; a run folder is optional.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.encode import EncodedTexts
from warmstart.batching.loader import LabelledStream
from warmstart.errors import WarmstartError
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.evaluation.score import classify
from warmstart.inference.vectors import text_vectors
from warmstart.model.models import Classifier
from warmstart.objectives.classify import Classify, VectorBatch, class_weights, label_vectors
from warmstart.results.comparison import Epoch
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import IN_WORDS, Source, read_source
from warmstart.runs.transfer import Transfer, transfer_backbone
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Checkpoints, Tuning
from warmstart.training.defaults import seed_weights
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.schedules import warmup_cosine
from warmstart.training.trainer import Evaluation, LoopSettings, State, Trainer


@dataclass(frozen=True)
class Examples:
    """Encoded texts with their classes."""

    ids: Sequence[Sequence[int]]
    classes: Sequence[int]
    starts: Sequence[int] | None = None  # where the second text of each pair begins

    def subset(self, rows: Sequence[int]) -> "Examples":
        """Return these rows, in this order."""
        starts = None if self.starts is None else [self.starts[row] for row in rows]
        return Examples([self.ids[r] for r in rows], [self.classes[r] for r in rows], starts)


def examples_of(encoded: EncodedTexts, classes: Sequence[int]) -> Examples:
    """Return encoded texts with their classes."""
    return Examples(encoded.ids, classes, encoded.starts)


def read_base(path: str) -> Source:
    """Read a run that a classifier can start from."""
    source = read_source(path)
    if source.kind == "translator":
        raise WarmstartError(
            f"--from {path} is {IN_WORDS[source.kind]}; a classifier starts from a pretrained run "
            "or from another classifier"
        )
    return source


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
    fate = transfer_backbone(weights, model) if weights is not None else None
    model.backbone.requires_grad_(not frozen)
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
    stream = LabelledStream(train.ids, train.classes, size, budget, pad, seed, train.starts)
    is_frozen = not any(p.requires_grad for p in model.backbone.parameters())
    learned, chosen = (FrozenTexts(model, texts, budget, pad, runtime) for texts in (train, valid))
    steps = tuning.epochs * stream.steps_per_epoch
    num_classes = model.head.output.out_features
    balanced = tuning.balance == "weights"
    weights = class_weights(list(train.classes), num_classes) if balanced else [1.0] * num_classes

    def evaluate() -> Evaluation:
        if is_frozen:
            found = chosen.classify()
        else:
            found = classify(model, valid.ids, budget, pad, runtime, valid.starts)
        return _judged(found, valid.classes, tuning.select)

    unfreeze = stream.steps_per_epoch if tuning.unfreeze else 0
    optimizer = OptimizerSettings("adamw", rate, tuning.weight_decay, tuning.layer_decay, unfreeze)
    cadence = checkpoints or Checkpoints()
    trainer = Trainer(
        model,
        Classify(torch.tensor(weights)),
        VectorStream(stream, learned) if is_frozen else stream,
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


@dataclass
class FrozenTexts:
    """Texts as a frozen base reads them: without dropout, and once, for they never change."""

    model: Classifier
    examples: Examples
    micro_tokens: int
    pad: int
    runtime: Runtime

    @cached_property
    def vectors(self) -> Tensor:
        """Return one vector for every text (texts, D), read when first asked for."""
        model, examples = self.model, self.examples
        found = text_vectors(
            model.backbone,
            examples.ids,
            model.head.pooling,
            self.micro_tokens,
            self.pad,
            self.runtime,
            starts=examples.starts,
        )
        return found.to(self.runtime.device)

    @torch.no_grad()
    def classify(self) -> NDArray[np.float64]:
        """Return the probability of every class for every text: (texts, C)."""
        logits = label_vectors(self.model, self.vectors)
        return logits.double().softmax(-1).cpu().numpy()


@dataclass
class VectorStream:
    """The batches of a stream of texts, as vectors that a frozen base made of them."""

    stream: LabelledStream
    texts: FrozenTexts

    def group(self, step: int) -> list[VectorBatch]:
        """Return the batches of one optimizer step."""
        return [self._batch(rows) for rows in self.stream.rows(step)]

    def _batch(self, rows: list[int]) -> VectorBatch:
        classes = torch.tensor([self.stream.classes[row] for row in rows])
        return VectorBatch(torch.tensor(rows), self.texts.vectors[rows], classes)


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
