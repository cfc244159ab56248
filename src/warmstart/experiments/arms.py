"""The arms of a comparison: each turns one label subset and one seed into a `Cell`.

Knows nothing about which subsets and seeds there are, or how arms are compared.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from warmstart import progress
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import accuracy, macro_f1
from warmstart.evaluation.score import classify
from warmstart.inference.attention_maps import text_attention
from warmstart.model.models import Classifier
from warmstart.results.attention import AttentionMap
from warmstart.results.comparison import Arm, ArmKind, Cell, Trial
from warmstart.runs.lineage import pretraining_of
from warmstart.runs.saved import Source
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.tasks import tfidf as baseline
from warmstart.tasks.classify import Examples, build_classifier, epochs_of, fit_classifier
from warmstart.training.defaults import finetuning_rate
from warmstart.training.trainer import State, Trainer

RATE_FACTORS = (1.0, 3.0, 0.3, 0.1, 1.7, 0.55, 10.0, 0.03, 5.0)  # tried in this order


@dataclass(frozen=True)
class Texts:
    """One split in both forms: text for the baseline, ids for a Transformer."""

    texts: Sequence[str]
    examples: Examples

    @property
    def classes(self) -> Sequence[int]:
        """Return the class numbers."""
        return self.examples.classes

    def subset(self, rows: Sequence[int]) -> "Texts":
        """Return these rows."""
        return Texts([self.texts[row] for row in rows], self.examples.subset(rows))


@dataclass(frozen=True)
class Splits:
    """What one cell learns from, chooses by, and is judged on."""

    train: Texts
    valid: Texts
    test: Texts | None
    watched: int | None = None  # row of the judging texts whose attention is kept

    @property
    def judge(self) -> Texts:
        """Return the texts whose figures count: test when there is one."""
        return self.test or self.valid


@dataclass(frozen=True)
class Fitted:
    """What one cell came to."""

    cell: Cell
    value: float  # the setting that was best by validation
    attention: AttentionMap | None = None  # on the watched text


class Contestant(Protocol):
    """What a comparison needs of an arm."""

    def describe(self) -> Arm:
        """Describe the arm for the report."""

    def settings(self, trials: int) -> list[float]:
        """Return the values to try on validation."""

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Fitted:
        """Try the values, keep the best by validation, only then read the test."""


@dataclass(frozen=True)
class TransformerArm:
    """A classifier on a Transformer: warm, frozen or cold."""

    name: str
    kind: ArmKind
    source: Source  # a cold arm takes its shape and tokenizer alone
    shape: ModelConfig
    num_classes: int
    tuning: Tuning
    runtime: Runtime
    cold: str | None = None  # name of the cold arm of the same shape and tokenizer

    def describe(self) -> Arm:
        """Describe the arm for the report."""
        model = self._model(seed=0)
        is_cold = self.kind == "cold"
        tokens, elapsed_s = (0, 0.0) if is_cold else pretraining_of(self.source)
        return Arm(
            name=self.name,
            kind=self.kind,
            source=None if is_cold else str(self.source.path),
            parameters=sum(p.numel() for p in model.parameters()),
            trainable=sum(p.numel() for p in model.parameters() if p.requires_grad),
            pretrain_s=elapsed_s,
            pretrain_tokens=tokens,
            cold=self.cold,
        )

    def settings(self, trials: int) -> list[float]:
        """Return learning rates around the default."""
        base = self.tuning.learning_rate or finetuning_rate(self.shape, self.kind)
        return [base * factor for factor in RATE_FACTORS[:trials]]

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Fitted:
        """Try the learning rates, keep the best by validation, only then read the test."""
        tried: list[tuple[str, float]] = []
        chosen: tuple[Trainer, State, float] | None = None  # the others need not be kept
        for value in values:
            trainer, state, rate = self._train(splits, value, seed)
            tried.append((_rate_words(rate), _best(state)))
            if chosen is None or (state.best_score or 0.0) > (chosen[1].best_score or 0.0):
                chosen = trainer, state, rate
            del trainer
        assert chosen is not None
        trainer, state, rate = chosen
        trainer.model.load_state_dict(trainer.best_weights)
        steps = [evaluation["step"] for evaluation in state.evaluations]
        cell = Cell(
            arm=self.name,
            labels=len(splits.train.texts),
            seed=seed,
            setting=_rate_words(rate),
            trials=_trials(tried),
            epochs=epochs_of(state),
            best_epoch=1 + steps.index(state.best_step),
            elapsed_s=state.elapsed_s,
            valid_predictions=self._predict(trainer, splits.valid),
            test_predictions=self._predict(trainer, splits.test) if splits.test else None,
        )
        return Fitted(cell, rate, self._attention(trainer, splits))

    def _model(self, seed: int) -> Classifier:
        weights = None if self.kind == "cold" else self.source.weights
        frozen = self.kind == "frozen"
        return build_classifier(self.shape, self.num_classes, self.tuning, seed, weights, frozen)[0]

    def _train(self, splits: Splits, rate: float, seed: int) -> tuple[Trainer, State, float]:
        """Train at a rate, or at the first lower one that does not diverge; return it too."""
        for lowered in (rate, 0.3 * rate, 0.1 * rate):
            try:
                return *self._train_at(splits, lowered, seed), lowered
            except DivergedError as error:
                fault = error
                progress.say(f"{self.name}: {_rate_words(lowered)} diverged; trying a lower one")
        raise fault

    def _train_at(self, splits: Splits, rate: float, seed: int) -> tuple[Trainer, State]:
        with progress.silenced():
            return fit_classifier(
                self._model(seed),
                splits.train.examples,
                splits.valid.examples,
                self.tuning,
                rate,
                seed,
                self.source.tokenizer.pad,
                self.runtime,
                self.name,
            )

    def _predict(self, trainer: Trainer, split: Texts) -> tuple[int, ...]:
        model = cast(Classifier, trainer.model.eval())
        budget, pad = self.tuning.micro_tokens, self.source.tokenizer.pad
        texts = split.examples
        found = classify(model, texts.ids, budget, pad, self.runtime, texts.starts)
        return tuple(int(k) for k in found.argmax(1))

    def _attention(self, trainer: Trainer, splits: Splits) -> AttentionMap | None:
        """Return where the model looks on the watched text."""
        if splits.watched is None:
            return None
        model = cast(Classifier, trainer.model.eval())
        texts = splits.judge.examples.subset([splits.watched])
        ids, segments = texts.ids[0], None
        if texts.starts is not None and model.config.segments > 1:
            segments = [int(place >= texts.starts[0]) for place in range(len(ids))]
        return text_attention(model.backbone, self.source.tokenizer, ids, segments)


@dataclass(frozen=True)
class BaselineArm:
    """TF-IDF and logistic regression."""

    name: str
    select: str

    def describe(self) -> Arm:
        """Describe the arm; it has parameters only once it has seen texts."""
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
        return baseline.settings(trials)

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Fitted:
        """Try the values of C, keep the best by validation, only then read the test."""
        began = time.monotonic()
        train, valid = splits.train, splits.valid
        models = baseline.fit_baselines(train.texts, train.classes, values)
        elapsed_s = (time.monotonic() - began) / len(values)
        predicted = [model.predict(valid.texts) for model in models]
        measure = accuracy if self.select == "accuracy" else macro_f1
        scores = [measure(valid.classes, found) for found in predicted]
        best = scores.index(max(scores))
        cell = Cell(
            arm=self.name,
            labels=len(train.texts),
            seed=seed,
            setting=_c_words(values[best]),
            trials=_trials(
                [
                    (_c_words(value), accuracy(valid.classes, found))
                    for value, found in zip(values, predicted, strict=True)
                ]
            ),
            epochs=(),
            best_epoch=0,
            elapsed_s=elapsed_s,
            valid_predictions=tuple(predicted[best]),
            test_predictions=tuple(models[best].predict(splits.test.texts))
            if splits.test
            else None,
        )
        return Fitted(cell, values[best])


def _best(state: State) -> float:
    """Return the validation accuracy at the epoch that was chosen."""
    chosen = next(e for e in state.evaluations if e["step"] == state.best_step)
    return chosen["valid_accuracy"]


def _rate_words(rate: float) -> str:
    return f"learning rate {rate:.2g}"


def _c_words(value: float) -> str:
    return f"C {value:g}"


def _trials(tried: Sequence[tuple[str, float]]) -> tuple[Trial, ...]:
    """List what was tried; one setting alone was taken over, not tried."""
    if len(tried) == 1:
        return ()
    return tuple(Trial(setting=setting, valid_accuracy=score) for setting, score in tried)
