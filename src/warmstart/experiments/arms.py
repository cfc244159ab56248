"""The arms of a comparison: each turns one label subset and one seed into a `Cell`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from warmstart import progress
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.inference.attention_maps import text_attention
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


@dataclass(frozen=True)
class SplitTexts:
    """One split in both forms: text for TF-IDF, ids for a Transformer."""

    texts: Sequence[str]
    examples: Examples

    @property
    def classes(self) -> Sequence[int]:
        """Return the class numbers."""
        return self.examples.targets

    def subset(self, rows: Sequence[int]) -> "SplitTexts":
        """Return these rows."""
        return SplitTexts([self.texts[row] for row in rows], self.examples.subset(rows))


@dataclass(frozen=True)
class Splits:
    """What one cell trains on, chooses by, and is scored on."""

    train: SplitTexts
    valid: SplitTexts
    test: SplitTexts | None
    attention_row: int | None = None  # of the scored texts, whose attention is recorded

    @property
    def scored(self) -> SplitTexts:
        """Return the texts that are reported: test when there is one."""
        return self.test or self.valid


@dataclass(frozen=True)
class FittedCell:
    """A trained cell."""

    cell: Cell
    value: float  # the setting that was best on validation
    attention: AttentionMap | None = None  # on the text chosen for it


class ExperimentArm(Protocol):
    """What a comparison needs of an arm."""

    def describe(self) -> Arm:
        """Describe the arm for the report."""

    def settings(self, trials: int) -> list[float]:
        """Return the values to try on validation."""

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> FittedCell:
        """Try the values, keep the best by validation, only then read the test."""


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

    @property
    def task(self) -> ClassifyTask:
        """Return what is trained."""
        return ClassifyTask()

    @property
    def start(self) -> Start:
        """Return how a model of this arm starts."""
        weights = None if self.kind == "cold" else self.source.weights
        return Start(self.model, weights, self.kind == "frozen")

    def describe(self) -> Arm:
        """Describe the arm for the report."""
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
        """Try the learning rates, keep the best by validation, only then read the test."""
        tried: list[tuple[str, float]] = []
        best: tuple[Trainer, State, float] | None = None  # the others need not be kept
        for value in values:
            trainer, state, rate = self._train(splits, value, seed)
            tried.append((_describe_rate(rate), state.best_scores()["accuracy"]))
            if best is None or (state.best_score or 0.0) > (best[1].best_score or 0.0):
                best = trainer, state, rate
            del trainer
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
            valid_predictions=self._predict(model, splits, splits.valid),
            test_predictions=self._predict(model, splits, splits.test) if splits.test else None,
        )
        return FittedCell(cell, rate, self._attention(model, splits))

    def _train(self, splits: Splits, rate: float, seed: int) -> tuple[Trainer, State, float]:
        """Train at a rate, or at the first lower one that does not diverge; return it too."""
        for lowered in (rate, 0.3 * rate, 0.1 * rate):
            try:
                return *self._train_at(splits, lowered, seed), lowered
            except DivergedError as error:
                problem = error
                progress.say(f"{self.name}: {_describe_rate(lowered)} diverged; trying a lower one")
        raise problem

    def _train_at(self, splits: Splits, rate: float, seed: int) -> tuple[Trainer, State]:
        fit = replace(self._fit(splits), learning_rate=rate, seed=seed)
        model, _ = build_model(self.task, self.start, fit.labels, self.tuning, seed)
        with progress.silenced():
            return fit_model(self.task, model, fit)

    def _fit(self, splits: Splits) -> Fit:
        return Fit(
            splits.train.examples,
            splits.valid.examples,
            {"classes": self.classes},
            self.tuning,
            learning_rate=0.0,
            seed=0,
            pad=self.source.tokenizer.pad,
            runtime=self.runtime,
            title=self.name,
        )

    def _predict(self, model: Classifier, splits: Splits, texts: SplitTexts) -> tuple[int, ...]:
        outputs = self.task.outputs(model, texts.examples, self._fit(splits).batches)
        return tuple(int(number) for number in outputs.argmax(1))

    def _attention(self, model: Classifier, splits: Splits) -> AttentionMap | None:
        """Return the attention of the model on the text chosen for it."""
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
    select: str

    def describe(self) -> Arm:
        """Describe the arm; its number of parameters depends on the texts."""
        return Arm(
            name=self.name,
            kind="baseline",
            source=None,
            parameters=0,
            trainable=0,
            pretrain_s=0.0,
            pretrain_tokens=0,
        )

    def settings(self, trials: int) -> list[float]:
        """Return values of C, the inverse of regularisation."""
        return tfidf.settings(trials)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> FittedCell:
        """Try the values of C, keep the best by validation, only then read the test."""
        started = time.monotonic()
        train, valid = splits.train, splits.valid
        models = tfidf.fit_baselines(train.texts, train.classes, values)
        elapsed_s = (time.monotonic() - started) / len(values)
        predicted = [model.predict(valid.texts) for model in models]
        metric = accuracy if self.select == "accuracy" else macro_f1
        scores = [metric(valid.classes, classes) for classes in predicted]
        best = scores.index(max(scores))
        tried = [
            (f"C {value:g}", accuracy(valid.classes, classes))
            for value, classes in zip(values, predicted, strict=True)
        ]
        cell = Cell(
            arm=self.name,
            labels=len(train.texts),
            seed=seed,
            setting=f"C {values[best]:g}",
            trials=_trials(tried),
            epochs=(),
            best_epoch=0,
            elapsed_s=elapsed_s,
            valid_predictions=tuple(predicted[best]),
            test_predictions=tuple(models[best].predict(splits.test.texts))
            if splits.test
            else None,
        )
        return FittedCell(cell, values[best])


def _describe_rate(rate: float) -> str:
    return f"learning rate {rate:.2g}"


def _trials(tried: Sequence[tuple[str, float]]) -> tuple[Trial, ...]:
    """List what was tried; a single setting was taken over, not tried."""
    if len(tried) == 1:
        return ()
    return tuple(Trial(setting=setting, valid_accuracy=score) for setting, score in tried)
