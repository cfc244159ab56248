"""The arms of a comparison: each turns labelled texts, settings and a seed into trained models."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, TypeVar, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.comparison.results import Arm, ArmKind
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import HALVING_SEED, Selection, nested_rows, selections
from warmstart.errors import DamagedStateError, DivergedError, WarmstartError
from warmstart.model.models import Classifier
from warmstart.runs.checkpoint import State, save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun, pretraining_cost
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline, FittedBaseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.tasks.fitting import Epoch, Start, build_model, build_trainer, epochs_of
from warmstart.tasks.frozen import FrozenVectors, SolvedHead
from warmstart.tasks.hub import HubModel
from warmstart.tasks.logistic import CHOSEN_INSIDE
from warmstart.tasks.task import num_parameters
from warmstart.tasks.vectors import KeptBatches, TextBatches, backbone_of
from warmstart.training.defaults import compile_blocks, finetuning_layer_decay, finetuning_rate
from warmstart.training.step import RecordedObjective
from warmstart.training.trainer import MAX_REPEATS, Trainer

T = TypeVar("T")
RATE_FACTORS = (1.0, 2.0, 0.5, 4.0, 0.25, 1.4, 0.7, 8.0, 0.125)  # tried in this order
LOWERED = 0.3  # factor for a learning rate that diverges
MOST_WATCHED = 400  # scored texts that every epoch of a refitted model is measured on
MOST_LOWERED = 8  # rates tried before an arm is given up
DESCRIPTIONS: Mapping[ArmKind, str] = {
    "warm": "starts from the pretrained model and trains all of it on the labels",
    "frozen": "the same start, but only the new head is trained",
    "cold": "the same model with random weights, trained on the labels only",
    "self": "starts from the pretrained model and learns, besides the labels, those that it, "
    "further fine-tunings and LSA give to unlabelled texts",
}


@dataclass(frozen=True)
class Splits:
    """The texts that one cell trains on, selects by, and is scored on."""

    train: Dataset
    valid: Dataset
    test: Dataset | None
    num_selecting: int | None = None  # validation texts counted as labels; None: not counted
    temperature: float | None = None  # that calibrates the model; None: by the validation texts

    @property
    def num_labels(self) -> int:
        """Return the number of labels that training and selection take."""
        return len(self.train) + (self.num_selecting or 0)

    @property
    def scored(self) -> Dataset:
        """Return the split that the report scores: test where there is one."""
        return self.test or self.valid

    def for_refit(self) -> "Splits":
        """Return splits that also train on the validation texts that selected the setting.

        Some of the texts that are scored show what each epoch learns; they choose nothing.
        """
        (selection,) = self.selections
        train = join_datasets([self.train, self.valid.subset(selection.selecting.tolist())])
        rows = sorted(nested_rows(self.scored.strata, HALVING_SEED)[:MOST_WATCHED])
        return replace(self, train=train, valid=self.scored.subset(rows), num_selecting=None)

    @cached_property
    def selections(self) -> tuple[Selection, ...]:
        """Return which validation texts select a model, and which texts it then predicts."""
        return selections(self.valid.strata, self.test is not None, self.num_selecting)


@dataclass(frozen=True)
class Saving:
    """How a model becomes a run folder."""

    task: str
    architecture: ModelConfig | None  # None: no Transformer
    parent: SavedRun | None  # the run that the model started from
    write: Callable[[RunFolder], None]  # writes the weights, and the tokenizer if it has one
    settings: Mapping[str, Any] = field(default_factory=dict)  # other than those of the comparison


@dataclass(frozen=True)
class TrainedModel:
    """A model trained with one setting, with its outputs on the validation texts."""

    value: float  # the setting; lowered if the training diverged
    outputs: Sequence[NDArray[Any]]  # as the task defines them, after each epoch that may be kept
    epochs: tuple[Epoch, ...]  # empty without epochs
    elapsed_s: float
    predict: Callable[[Dataset], NDArray[Any]]  # outputs on texts, by the epoch that is kept
    saving: Saving


class ExperimentArm(Protocol):
    """One way to get a model."""

    @property
    def task(self) -> FinetuningTask:
        """Return the task, which scores the outputs of the arm's models."""

    @property
    def labels(self) -> Labels:
        """Return what the task recorded about the labels."""

    @property
    def name(self) -> str:
        """Return the arm's name in tables."""

    @property
    def uses_device(self) -> bool:
        """Tell whether the arm computes on the device, rather than on a core of the CPU."""

    def describe(self) -> Arm:
        """Return what the report says of the arm."""

    def settings(self, trials: int) -> list[float]:
        """Return the settings to try, the default first."""

    def describe_setting(self, value: float) -> str:
        """Write a setting with its name."""

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Train one model with each setting."""


class SharedModule:
    """The module in which the models of an arm are trained, one after the other.

    Thus their steps are recorded once for all of them. A finished model is its weights, which are
    loaded again where it is used. The first model of another arm replaces the module.
    """

    def __init__(self) -> None:
        self._arm = ""
        self._module: nn.Module | None = None
        self._recorded: RecordedObjective | None = None
        self.kept = KeptBatches()

    def begin(self, arm: "TransformerArm", model: nn.Module) -> nn.Module:
        """Return the module with the weights of a model that is about to be trained."""
        if self._arm == arm.name:
            return self.load(arm, model.state_dict())
        self._arm, self._module, self._recorded = arm.name, model, None
        model.to(arm.runtime.device)
        if arm.is_compiled:
            compile_blocks(backbone_of(model))
        return model

    def load(self, arm: "TransformerArm", weights: Mapping[str, Tensor]) -> nn.Module:
        """Load weights into the module and return it; its earlier weights are lost."""
        assert self._module is not None, "no training has begun"
        assert self._arm == arm.name, f"{self._arm} has taken its place"
        self._module.load_state_dict(weights)
        return self._module

    def share_recording(self, new: RecordedObjective) -> RecordedObjective:
        """Return the earlier recorded objective if it computes the same loss, else the new one."""
        if self._recorded is None or new.objective != self._recorded.objective:
            self._recorded = new
        return self._recorded


@dataclass(frozen=True)
class TransformerArm:
    """A Transformer with the head of a task: warm, frozen or cold."""

    name: str
    kind: ArmKind
    source: SavedRun  # a cold arm only takes its architecture and tokenizer
    model: ModelConfig
    task: FinetuningTask
    labels: Labels
    tuning: Tuning
    runtime: Runtime
    cold: str | None = None  # name of the cold arm with the same architecture and tokenizer
    uses_device: ClassVar[bool] = True
    is_compiled: bool = False  # whether the blocks are compiled
    shared: SharedModule = field(default_factory=SharedModule, compare=False)

    def describe(self) -> Arm:
        is_cold = self.kind == "cold"
        tokens, elapsed_s = (0, 0.0) if is_cold else pretraining_cost(self.source)
        with torch.device("meta"):  # only sizes
            model = self.task.new_model(self.model, self.labels, self.tuning)
        num_backbone, num_all = num_parameters(backbone_of(model)), num_parameters(model)
        return Arm(
            name=self.name,
            kind=self.kind,
            description=DESCRIPTIONS[self.kind],
            source=None if is_cold else str(self.source.path),
            parameters=num_all,
            trainable=num_all - num_backbone if self.kind == "frozen" else num_all,
            pretrain_s=elapsed_s,
            pretrain_tokens=tokens,
            cold=self.cold,
        )

    @property
    def start(self) -> str:
        """Return how the arm's models start, which decides on their learning rates."""
        return self.kind

    @property
    def hub_model(self) -> HubModel:
        """Return what an export of the arm's model depends on."""
        return HubModel(
            model=self.model,
            task=self.task,
            pooling=self.tuning.pooling,
            num_classes=self.task.num_outputs(self.labels),
        )

    def settings(self, trials: int) -> list[float]:
        """Return learning rates around the default."""
        rate = self.tuning.learning_rate or finetuning_rate(self.model, self.start)
        return [rate * factor for factor in RATE_FACTORS[:trials]]

    def describe_setting(self, value: float) -> str:
        return f"learning rate {value:.2g}"

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Train one model at each learning rate; a rate that diverges is lowered."""
        for value in values:
            (outputs, trainer, state), rate = train_stably(
                partial(self._train, splits, seed), value, self.name
            )
            weights = trainer.best_weights
            yield TrainedModel(
                rate,
                outputs if self.tuning.keep_epoch == "best" else outputs[-1:],
                epochs_of(state, self._fit(splits, seed, rate), self.task),
                state.elapsed_s,
                partial(self._predict, weights),
                Saving(
                    self.task.name,
                    self.model,
                    None if self.kind == "cold" else self.source,
                    partial(self._save, weights),
                ),
            )
            del trainer, weights  # frees the weights before the next model is trained

    def _train(
        self, splits: Splits, seed: int, rate: float
    ) -> tuple[list[NDArray[Any]], Trainer, State]:
        """Train a model; return its outputs on validation after each epoch, trainer and state."""
        outputs: list[NDArray[Any]] = []
        trainer = self.trainer(splits, seed, rate, outputs.append)
        with progress.silence():
            return outputs, trainer, trainer.train(self.name)

    def _fit(self, splits: Splits, seed: int, rate: float) -> Fit:
        return Fit(
            self.task.training_rows(splits.train, self.labels, self.model.max_length),
            splits.valid,
            self.labels,
            self.tuning,
            rate,
            self.tuning.layer_decay or self.task.layer_decay or finetuning_layer_decay(self.start),
            seed,
            self.source.tokenizer.pad,
            self.runtime,
            self.name,
            self.shared.kept,
            temperature=splits.temperature,
        )

    def trainer(
        self,
        splits: Splits,
        seed: int,
        rate: float,
        watch: Callable[[NDArray[Any]], None] | None = None,
    ) -> Trainer:
        """Return the trainer of one model."""
        fit = replace(self._fit(splits, seed, rate), watch=watch)
        weights = None if self.kind == "cold" else self.source.weights
        start = Start(self.model, weights, is_frozen=self.kind == "frozen")
        model, _ = build_model(self.task, start, self.labels, self.tuning, seed)
        trainer = build_trainer(self.task, self.shared.begin(self, model), fit)
        if trainer.recorded is not None:
            trainer.recorded = self.shared.share_recording(trainer.recorded)
        return trainer

    def _predict(self, weights: Mapping[str, Tensor], split: Dataset) -> NDArray[Any]:
        model = self.shared.load(self, weights).eval()
        pad = self.source.tokenizer.pad
        batches = TextBatches(self.tuning.micro_tokens, pad, self.runtime, kept=self.shared.kept)
        return self.task.outputs(model, split, batches)

    def _save(self, weights: Mapping[str, Tensor], folder: RunFolder) -> None:
        self.source.tokenizer.save(folder.path)
        save_weights(folder.weights_file, dict(weights))


@dataclass(frozen=True)
class FrozenArm(TransformerArm):
    """A frozen Transformer whose head is solved for, as a regression on its vectors."""

    vectors: FrozenVectors = field(default_factory=FrozenVectors, compare=False)

    @property
    def poolings(self) -> tuple[Pooling, ...]:
        """Return the poolings to try: that of --pooling, and one that can be exported as well."""
        usual: Pooling = "last" if self.model.is_causal else "cls"
        problem = replace(self.hub_model, pooling=usual).problem
        other = usual if problem in (None, self.hub_model.problem) else self.tuning.pooling
        return tuple(dict.fromkeys((self.tuning.pooling, "mean", other)))

    def settings(self, trials: int) -> list[float]:
        """Return one value: whatever is tried is tried inside the training labels."""
        return [CHOSEN_INSIDE]

    def describe_setting(self, value: float) -> str:
        return "by cross-validation" if value == CHOSEN_INSIDE else self.task.describe_head(value)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Solve for the head; no seed is used."""
        for _ in values:
            started = time.monotonic()
            fit = self._fit(splits, seed, 0.0)
            start = Start(self.model, self.source.weights, is_frozen=True)
            built, _ = build_model(self.task, start, self.labels, self.tuning, seed)
            model = cast(Classifier, self.shared.begin(self, built))
            head = self.task.solve_head(model, fit, self.poolings, self.vectors)
            elapsed_s = time.monotonic() - started
            outputs = head.outputs(self.vectors.of(model, splits.valid, fit.batches, head.pooling))
            evaluation = self.task.validate(model, outputs, fit)
            weights = {**model.state_dict(), **evaluation.weights}
            kept = {name: tensor.clone() for name, tensor in weights.items()}
            saving = Saving(
                self.task.name,
                self.model,
                self.source,
                partial(self._save, kept),
                {"pooling": head.pooling},
            )
            predict = partial(self._predict_solved, kept, head)
            yield TrainedModel(float(head.number), [outputs], (), elapsed_s, predict, saving)

    def _predict_solved(
        self, weights: Mapping[str, Tensor], head: SolvedHead, split: Dataset
    ) -> NDArray[Any]:
        model = cast(Classifier, self.shared.load(self, weights))
        batches = TextBatches(self.tuning.micro_tokens, self.source.tokenizer.pad, self.runtime)
        return head.outputs(self.vectors.of(model, split, batches, head.pooling))


def train_stably(train: Callable[[float], T], rate: float, name: str) -> tuple[T, float]:
    """Train at a rate, or at the first lower one that does not diverge; return the rate too.

    Weights that are damaged once are no fault of the rate: the training is repeated.
    """
    for _ in range(MOST_LOWERED):
        for _ in range(MAX_REPEATS):
            try:
                return train(rate), rate
            except DamagedStateError as error:
                progress.say(f"{name}: {error}; training it again")
            except DivergedError:
                break
        progress.say(f"{name}: learning rate {rate:.2g} diverged; trying a lower one")
        rate *= LOWERED
    raise WarmstartError(
        f"{name} diverges even at learning rate {rate / LOWERED:.2g}; leave it out with --arms"
    )


@dataclass(frozen=True)
class BaselineArm:
    """A simple model that a Transformer has to beat."""

    task: FinetuningTask
    labels: Labels
    baseline: Baseline
    parent: SavedRun | None = None  # the run whose text it has seen
    uses_device: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.baseline.name

    def describe(self) -> Arm:
        """Describe the arm without its number of parameters, which depends on the texts."""
        return Arm(name=self.name, kind="baseline", description=self.baseline.description)

    def settings(self, trials: int) -> list[float]:
        return self.baseline.settings(trials)

    def describe_setting(self, value: float) -> str:
        return self.baseline.describe_setting(value)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        """Fit one baseline with each setting; no seed is used."""
        for value in values:
            fitted = self.baseline.fit(splits.train, value)
            outputs = [fitted.outputs(splits.valid)]
            saving = Saving(self.baseline.task, None, self.parent, fitted.save)
            predict = partial(self._predict, fitted)
            yield TrainedModel(fitted.value, outputs, (), fitted.elapsed_s, predict, saving)

    def _predict(self, fitted: FittedBaseline, split: Dataset) -> NDArray[Any]:
        return fitted.outputs(split)
