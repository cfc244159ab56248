"""The arms of a comparison: each turns one label subset and one seed into a `Cell`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from warmstart import progress
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.inference.attention_maps import text_attention
from warmstart.inference.text_predictor import TextBatches
from warmstart.model import count
from warmstart.model.models import Classifier
from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import Arm, ArmKind, Cell, Trial
from warmstart.runs.lineage import pretraining_cost
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.finetuning import Tuning
from warmstart.settings.model import ModelConfig
from warmstart.tasks import tfidf
from warmstart.tasks.classify import ClassifyTask, epochs_of
from warmstart.tasks.finetuning import Fit, Start, build_model, fit_model
from warmstart.tasks.labelled import Examples
from warmstart.training.defaults import finetuning_rate
from warmstart.training.trainer import State, Trainer

RATE_FACTORS = (1.0, 3.0, 0.3, 0.1, 1.7, 0.55, 10.0, 0.03, 5.0)  # tried in this order
TASK = ClassifyTask()
T = TypeVar("T")


@dataclass(frozen=True)
class ArmSplit:
    """One split in both forms: text for TF-IDF, ids for a Transformer."""

    texts: Sequence[str]
    examples: Examples

    @property
    def classes(self) -> Sequence[int]:
        return self.examples.targets

    def subset(self, rows: Sequence[int]) -> "ArmSplit":
        return ArmSplit([self.texts[row] for row in rows], self.examples.subset(rows))


@dataclass(frozen=True)
class Splits:
    """The texts that one cell trains on, selects by, and is scored on."""

    train: ArmSplit
    valid: ArmSplit
    test: ArmSplit | None
    attention_row: int | None = None  # of the scored texts, whose attention is recorded

    @property
    def scored(self) -> ArmSplit:
        """Return the split that the report scores: test where there is one."""
        return self.test or self.valid


@dataclass(frozen=True)
class FittedCell:
    """A trained cell."""

    cell: Cell
    value: float  # the setting that was best on validation
    attention: AttentionMap | None = None  # on the text chosen for it


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

    def settings(self, trials: int) -> list[float]:
        """Return learning rates around the default."""
        rate = self.tuning.learning_rate or finetuning_rate(self.model, self.kind)
        return [rate * factor for factor in RATE_FACTORS[:trials]]

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> FittedCell:
        """Try the values, select the best by validation, and only then read the test set."""
        tried: list[tuple[str, float]] = []
        best: tuple[Trainer, State, float] | None = None
        for value in values:
            (trainer, state), rate = train_stably(
                lambda rate: self._train(splits, rate, seed), value, self.name
            )
            tried.append((_describe_rate(rate), state.best_scores()["accuracy"]))
            if best is None or (state.best_score or 0.0) > (best[1].best_score or 0.0):
                best = trainer, state, rate
            del trainer  # frees its model before the next one is trained
        assert best is not None
        trainer, state, rate = best
        trainer.model.load_state_dict(trainer.best_weights)
        model = cast(Classifier, trainer.model.eval())
        steps = [evaluation["step"] for evaluation in state.evaluations]
        cell = Cell(
            arm=self.name,
            labels=len(splits.train.texts),
            seed=seed,
            setting=_describe_rate(rate),
            trials=_trials(tried),
            epochs=epochs_of(state),
            best_epoch=1 + steps.index(state.best_step),
            elapsed_s=state.elapsed_s,
            valid_predictions=self._predict(model, splits.valid),
            test_predictions=self._predict(model, splits.test) if splits.test else None,
        )
        return FittedCell(cell, rate, self._attention(model, splits))

    def _train(self, splits: Splits, rate: float, seed: int) -> tuple[Trainer, State]:
        fit = Fit(
            splits.train.examples,
            splits.valid.examples,
            {"classes": self.classes},
            self.tuning,
            rate,
            seed,
            self.source.tokenizer.pad,
            self.runtime,
            self.name,
        )
        weights = None if self.kind == "cold" else self.source.weights
        start = Start(self.model, weights, is_frozen=self.kind == "frozen")
        model, _ = build_model(TASK, start, fit.labels, self.tuning, seed)
        with progress.silenced():
            return fit_model(TASK, model, fit)

    def _predict(self, model: Classifier, split: ArmSplit) -> tuple[int, ...]:
        pad = self.source.tokenizer.pad
        batches = TextBatches(self.tuning.micro_tokens, pad, self.runtime)
        return tuple(TASK.outputs(model, split.examples, batches).argmax(1).tolist())

    def _attention(self, model: Classifier, splits: Splits) -> AttentionMap | None:
        if splits.attention_row is None:
            return None
        text = splits.scored.examples.subset([splits.attention_row])
        ids, segments = text.ids[0], None
        if text.starts is not None:
            segments = [int(position >= text.starts[0]) for position in range(len(ids))]
        return text_attention(model.backbone, self.source.tokenizer, ids, segments)


@dataclass(frozen=True)
class TfidfArm:
    """TF-IDF and logistic regression."""

    name: str
    tuning: Tuning

    def describe(self) -> Arm:
        """Describe the arm; its number of parameters depends on the texts."""
        return Arm(name=self.name, kind="baseline")

    def settings(self, trials: int) -> list[float]:
        """Return values of C, the inverse of regularisation."""
        return tfidf.settings(trials)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> FittedCell:
        """Try the values, select the best by validation, and only then read the test set."""
        started = time.monotonic()
        train, valid = splits.train, splits.valid
        models = tfidf.fit_baselines(train.texts, train.classes, values, self.tuning.balance)
        elapsed_s = (time.monotonic() - started) / len(values)
        predicted = [model.predict(valid.texts) for model in models]
        metric = accuracy if self.tuning.select == "accuracy" else macro_f1
        scores = [metric(valid.classes, classes) for classes in predicted]
        best = scores.index(max(scores))
        names = [f"C {value:g}" for value in values]
        accuracies = [accuracy(valid.classes, classes) for classes in predicted]
        test = models[best].predict(splits.test.texts) if splits.test else None
        cell = Cell(
            arm=self.name,
            labels=len(train.texts),
            seed=seed,
            setting=names[best],
            trials=_trials(list(zip(names, accuracies, strict=True))),
            epochs=(),
            best_epoch=0,
            elapsed_s=elapsed_s,
            valid_predictions=tuple(predicted[best]),
            test_predictions=None if test is None else tuple(test),
        )
        return FittedCell(cell, values[best])


ExperimentArm = TransformerArm | TfidfArm


def train_stably(train: Callable[[float], T], rate: float, name: str) -> tuple[T, float]:
    """Train at a rate, or at the first lower one that does not diverge; return the rate too."""
    for lowered in (rate, 0.3 * rate, 0.1 * rate):
        try:
            return train(lowered), lowered
        except DivergedError as error:
            problem = error
            progress.say(f"{name}: {_describe_rate(lowered)} diverged; trying a lower one")
    raise problem


def _describe_rate(rate: float) -> str:
    return f"learning rate {rate:.2g}"


def _trials(tried: Sequence[tuple[str, float]]) -> tuple[Trial, ...]:
    """List the settings tried; a single setting was reused, not tried."""
    if len(tried) == 1:
        return ()
    return tuple(Trial(setting=setting, valid_accuracy=score) for setting, score in tried)
