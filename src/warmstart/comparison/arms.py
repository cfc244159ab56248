"""The arms of a comparison: each turns labelled texts, settings and a seed into trained models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.comparison.results import Arm, ArmKind
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import Selection, selections
from warmstart.errors import DivergedError, WarmstartError
from warmstart.model import count
from warmstart.model.models import Classifier
from warmstart.runs.checkpoint import State, save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun, pretraining_cost
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Balance, Tuning
from warmstart.tasks import tfidf
from warmstart.tasks.classify import ClassifyObjective, ClassifyTask, epochs_of
from warmstart.tasks.finetuning import (
    Epoch,
    Fit,
    PaddedTexts,
    Start,
    batch_outputs,
    build_model,
    build_trainer,
    padded_batches,
)
from warmstart.tasks.hub import HubModel
from warmstart.tasks.vectors import TextBatches, pack_for
from warmstart.training.defaults import compile_blocks, finetuning_layer_decay, finetuning_rate
from warmstart.training.step import Evaluation, RecordedObjective
from warmstart.training.trainer import Trainer

Floats = NDArray[np.float64]
T = TypeVar("T")
RATE_FACTORS = (1.0, 2.0, 0.5, 4.0, 0.25, 1.4, 0.7, 8.0, 0.125)  # tried in this order
LOWERED = 0.3  # a rate that diverges is multiplied by this,
MOST_LOWERED = 8  # so many times
MOST_KEPT = 1 << 22  # tokens of a split that stays on the device, padded


@dataclass(frozen=True)
class Splits:
    """The texts that one cell trains on, selects by, and is scored on."""

    train: Dataset
    valid: Dataset
    test: Dataset | None
    num_selecting: int | None = None  # validation texts counted as labels; None: not counted

    @property
    def num_labels(self) -> int:
        """Return the labels that a model of these texts takes."""
        return len(self.train) + (self.num_selecting or 0)

    @property
    def scored(self) -> Dataset:
        """Return the split that the report scores: test where there is one."""
        return self.test or self.valid

    def refitted(self) -> "Splits":
        """Return splits that also train on the texts that select; nothing is selected any more."""
        (selection,) = self.selections
        train = join_datasets([self.train, self.valid.subset(selection.selecting.tolist())])
        return replace(self, train=train, valid=self.scored, num_selecting=None)

    @cached_property
    def selections(self) -> tuple[Selection, ...]:
        """Return which validation texts select, and which are then predicted."""
        return selections(self.valid.targets, self.test is not None, self.num_selecting)


@dataclass(frozen=True)
class Saving:
    """How a model becomes a run folder."""

    task: str
    architecture: ModelConfig | None  # None: no Transformer
    parent: SavedRun | None  # the run that it started from
    write: Callable[[RunFolder], None]  # writes the weights, and what reads texts for them


@dataclass(frozen=True)
class TrainedModel:
    """A model trained with one setting, and what it said of the validation texts meanwhile."""

    value: float  # the setting; lowered if it diverged
    outputs: Sequence[Floats]  # probabilities (texts, C) after each epoch that may be kept
    epochs: tuple[Epoch, ...]  # empty without epochs
    elapsed_s: float
    predict: Callable[[Dataset], Floats]  # probabilities (texts, C), by its best epoch
    saving: Saving


class ExperimentArm(Protocol):
    """One way to get a classifier."""

    @property
    def name(self) -> str:
        """Return the name in tables."""

    @property
    def uses_device(self) -> bool:
        """Tell whether it computes on the device, rather than on a core of the CPU."""

    def describe(self) -> Arm:
        """Return what the report says of the arm."""

    def settings(self, trials: int) -> list[float]:
        """Return the settings to try, the default first."""

    def describe_setting(self, value: float) -> str:
        """Write a setting with its name."""

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Train one model with each setting."""


class RecordedTask(ClassifyTask):
    """A classifier that keeps what it says of the validation texts after each epoch."""

    def __init__(self, shared: "SharedModule") -> None:
        self.shared = shared
        self.recorded: list[Floats] = []

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Floats:
        return self.shared.outputs(cast(Classifier, model), texts, batches)

    def validate(self, model: nn.Module, outputs: NDArray[Any], fit: Fit) -> Evaluation:
        self.recorded.append(outputs)
        return super().validate(model, outputs, fit)


class SharedModule:
    """The module in which the models of an arm are trained, one after the other.

    So their steps are recorded once for all of them. A finished model is its weights, which are
    loaded again where it is used. The first model of another arm takes the place of the module.
    """

    def __init__(self) -> None:
        self._arm = ""
        self._module: Classifier | None = None
        self._recorded: RecordedObjective | None = None
        self._class_weights: list[float] = []  # of the objective that is recorded
        self._padded: dict[int, tuple[Dataset, list[PaddedTexts]]] = {}  # of the latest splits

    def begin(self, arm: "TransformerArm", model: Classifier) -> Classifier:
        """Return the module with the weights of a model that is about to be trained."""
        if self._arm == arm.name:
            return self.holding(arm, model.state_dict())
        self._arm, self._module, self._recorded = arm.name, model, None
        model.to(arm.runtime.device)
        if arm.is_compiled:
            compile_blocks(model.backbone)
        return model

    def holding(self, arm: "TransformerArm", weights: Mapping[str, Tensor]) -> Classifier:
        """Return the module with these weights; those that it had are gone."""
        assert self._module is not None, "no training has begun"
        assert self._arm == arm.name, f"{self._arm} has taken its place"
        self._module.load_state_dict(weights)
        return self._module

    def recorded(self, new: RecordedObjective) -> RecordedObjective:
        """Return what was recorded before, where the same loss is computed; else the new one."""
        class_weights = cast(ClassifyObjective, new.objective).counted.tolist()
        if self._recorded is None or class_weights != self._class_weights:
            self._recorded, self._class_weights = new, class_weights
        return self._recorded

    def outputs(self, model: Classifier, texts: Dataset, batches: TextBatches) -> Floats:
        """Return the probability of every class for every text; texts are padded once."""
        num_tokens = sum(map(len, texts.ids))
        if num_tokens > MOST_KEPT:
            return ClassifyTask().outputs(model, texts, batches)
        if id(texts) not in self._padded:
            for oldest in list(self._padded)[:-1]:  # validation and test stay
                del self._padded[oldest]
            padded = list(padded_batches(texts.ids, batches, texts.starts))
            self._padded[id(texts)] = texts, padded
        _, padded = self._padded[id(texts)]
        reader = pack_for(model, num_tokens, batches.runtime, "backbone")
        return batch_outputs(reader, padded, batches.runtime).softmax(-1).numpy()


@dataclass(frozen=True)
class TransformerArm:
    """A classifier on a Transformer: warm, frozen or cold."""

    name: str
    kind: ArmKind
    source: SavedRun  # a cold arm only takes its architecture and tokenizer
    model: ModelConfig
    classes: tuple[str, ...]
    tuning: Tuning
    runtime: Runtime
    cold: str | None = None  # name of the cold arm with the same architecture and tokenizer
    uses_device: ClassVar[bool] = True
    is_compiled: bool = False  # enough models are trained to repay it
    shared: SharedModule = field(default_factory=SharedModule, compare=False)

    def describe(self) -> Arm:
        is_cold = self.kind == "cold"
        tokens, elapsed_s = (0, 0.0) if is_cold else pretraining_cost(self.source)
        head = count.count_classification_head(self.model, len(self.classes))
        num_head = sum(layer.count for layer in head)
        num_backbone = sum(layer.count for layer in count.count_backbone(self.model))
        return Arm(
            name=self.name,
            kind=self.kind,
            source=None if is_cold else str(self.source.path),
            parameters=num_backbone + num_head,
            trainable=num_head if self.kind == "frozen" else num_backbone + num_head,
            pretrain_s=elapsed_s,
            pretrain_tokens=tokens,
            cold=self.cold,
        )

    @property
    def hub_model(self) -> HubModel:
        """Return what an export of its model depends on."""
        return HubModel(
            model=self.model,
            task=ClassifyTask(),
            pooling=self.tuning.pooling,
            num_classes=len(self.classes),
        )

    def settings(self, trials: int) -> list[float]:
        """Return learning rates around the default."""
        rate = self.tuning.learning_rate or finetuning_rate(self.model, self.kind)
        return [rate * factor for factor in RATE_FACTORS[:trials]]

    def describe_setting(self, value: float) -> str:
        return f"learning rate {value:.2g}"

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Train one model at each learning rate; one that diverges is lowered."""
        for value in values:
            (task, trainer, state), rate = train_stably(
                partial(self._train, splits, seed), value, self.name
            )
            weights = trainer.best_weights
            yield TrainedModel(
                rate,
                task.recorded if self.tuning.keep_epoch == "best" else task.recorded[-1:],
                epochs_of(state, self._fit(splits, seed, rate)),
                state.elapsed_s,
                partial(self._predict, weights),
                Saving(
                    ClassifyTask.name,
                    self.model,
                    None if self.kind == "cold" else self.source,
                    partial(self._save, weights),
                ),
            )
            del trainer, weights  # frees them before the next one is trained

    def _train(self, splits: Splits, seed: int, rate: float) -> tuple[RecordedTask, Trainer, State]:
        task = RecordedTask(self.shared)
        trainer = self.trainer(task, splits, seed, rate)
        with progress.silenced():
            return task, trainer, trainer.train(self.name)

    def _fit(self, splits: Splits, seed: int, rate: float) -> Fit:
        return Fit(
            splits.train,
            splits.valid,
            {"classes": self.classes},
            self.tuning,
            rate,
            self.tuning.layer_decay or finetuning_layer_decay(self.kind),
            seed,
            self.source.tokenizer.pad,
            self.runtime,
            self.name,
        )

    def trainer(self, task: ClassifyTask, splits: Splits, seed: int, rate: float) -> Trainer:
        """Return the trainer of one model."""
        fit = self._fit(splits, seed, rate)
        weights = None if self.kind == "cold" else self.source.weights
        start = Start(self.model, weights, is_frozen=self.kind == "frozen")
        model, _ = build_model(task, start, fit.labels, self.tuning, seed)
        trainer = build_trainer(task, self.shared.begin(self, cast(Classifier, model)), fit)
        if trainer.recorded is not None:
            trainer.recorded = self.shared.recorded(trainer.recorded)
        return trainer

    def _predict(self, weights: Mapping[str, Tensor], split: Dataset) -> Floats:
        model = self.shared.holding(self, weights).eval()
        pad = self.source.tokenizer.pad
        batches = TextBatches(self.tuning.micro_tokens, pad, self.runtime)
        return self.shared.outputs(model, split, batches)

    def _save(self, weights: Mapping[str, Tensor], folder: RunFolder) -> None:
        self.source.tokenizer.save(folder.path)
        save_weights(folder.weights_file, dict(weights))


def train_stably(train: Callable[[float], T], rate: float, name: str) -> tuple[T, float]:
    """Train at a rate, or at the first lower one that does not diverge; return the rate too."""
    for _ in range(MOST_LOWERED):
        try:
            return train(rate), rate
        except DivergedError:
            progress.say(f"{name}: learning rate {rate:.2g} diverged; trying a lower one")
            rate *= LOWERED
    raise WarmstartError(
        f"{name} diverges even at learning rate {rate / LOWERED:.2g}; leave it out with --arms"
    )


@dataclass(frozen=True)
class TfidfArm:
    """TF-IDF and logistic regression."""

    name: str
    num_classes: int
    balance: Balance
    counted: tfidf.CountedTexts = field(default_factory=tfidf.CountedTexts)
    uses_device: ClassVar[bool] = False
    latest: dict[tuple[tuple[str, int], ...], tfidf.BaselineTexts] = field(default_factory=dict)

    def describe(self) -> Arm:
        """Describe the arm; its number of parameters depends on the texts."""
        return Arm(name=self.name, kind="baseline")

    def settings(self, trials: int) -> list[float]:
        """Return values of C, the inverse of regularisation."""
        return tfidf.settings(trials)

    def describe_setting(self, value: float) -> str:
        return f"C {value:g}"

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Fit one baseline with each value of C; no seed is used."""
        texts = self._read(splits.train)
        for value in values:
            model, elapsed_s = texts.fit(value)
            predict = partial(self._predict, model, texts)
            outputs = [predict(splits.valid)]
            saving = Saving(tfidf.TfidfTask.name, None, None, partial(tfidf.save_baseline, model))
            yield TrainedModel(value, outputs, (), elapsed_s, predict, saving)

    def _read(self, train: Dataset) -> tfidf.BaselineTexts:
        """Return the training texts; those of the latest cell, where these are the same."""
        key = tuple(sorted(zip(train.texts, train.targets, strict=True)))
        if key not in self.latest:
            self.latest.clear()
            self.latest[key] = tfidf.BaselineTexts(
                train.texts, train.targets, self.balance, self.counted
            )
        return self.latest[key]

    def _predict(self, model: tfidf.Baseline, texts: tfidf.BaselineTexts, split: Dataset) -> Floats:
        return model.column_probabilities(texts.columns_of(split.texts), self.num_classes)
