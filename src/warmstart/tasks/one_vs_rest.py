"""The baselines of texts with several labels: a logistic regression for each class.

On TF-IDF, and on latent semantic analysis of the unlabelled text. As in a Transformer, one
threshold for all classes is part of the offsets; it is chosen by cross-validation inside the
training labels. Run folders are those of the classifiers of tfidf.py and lsa.py.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.runs.saved import SavedRun
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.logistic import (
    ROUGH_TOLERANCE,
    TOLERANCE,
    class_shares,
    fit_logistic,
)
from warmstart.tasks.lsa import (
    SETTINGS,
    TFIDF_C,
    LsaModel,
    LsaTask,
    fit_nested,
    join_columns,
)
from warmstart.tasks.multilabel import MultilabelTask, best_odds
from warmstart.tasks.tfidf import (
    BaselineTexts,
    CountedTexts,
    TfidfBaseline,
    TfidfModel,
    TfidfTask,
    read_features,
    refuse_misfit,
    save_baseline,
)

Floats = NDArray[np.float64]
Targets = Sequence[Sequence[int]]
FitClass = Callable[[Any, Sequence[bool]], Any]  # columns and marks -> a logistic regression
MULTILABEL = MultilabelTask()
NEVER = 30.0  # the size of the logit of a class that no text has, or every text
NUM_FOLDS = 3


@dataclass(frozen=True)
class Regressions:
    """A logistic regression for each class, under the names that scikit-learn has."""

    coef_: Floats  # (C, features)
    intercept_: Floats  # (C,)

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Return the numbers of the classes."""
        return np.arange(len(self.coef_))

    def predict_proba(self, columns: Any) -> Floats:
        """Return the probability of every class, (texts, C)."""
        logits = columns @ self.coef_.T + self.intercept_
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -NEVER, NEVER))))

    def at_odds(self, odds: float) -> "Regressions":
        """Return regressions that say 0.5 where these are at a threshold with these odds."""
        return replace(self, intercept_=self.intercept_ - np.log(odds))


def set_direction(model: Regressions, prediction: Any) -> Floats:
    """Return the mean coefficients of the log-odds of the labels that a text gets: (D,).

    Where it gets none they are those of missing the most probable class.
    """
    shares = np.array(list(prediction.probabilities.values()))
    given = np.flatnonzero(shares >= 0.5)
    direction: Floats = model.coef_[given].mean(0) if len(given) else -model.coef_[shares.argmax()]
    return direction


def fit_classes(columns: Any, targets: Targets, num_classes: int, fit: FitClass) -> Regressions:
    """Fit a regression for each class against all other texts."""
    coefficients = np.zeros((num_classes, columns.shape[1]))
    offsets = np.zeros(num_classes)
    for number in range(num_classes):
        marks = [number in of_text for of_text in targets]
        if len(set(marks)) == 1:
            offsets[number] = NEVER if marks[0] else -NEVER
        else:
            model = fit(columns, marks)
            coefficients[number], offsets[number] = model.coef_[0], model.intercept_[0]
    return Regressions(coefficients, offsets)


def average(first: Regressions, second: Regressions) -> Regressions:
    """Return the average of regressions on columns that stand side by side."""
    coefficients = np.hstack([first.coef_, second.coef_]) / 2
    return Regressions(coefficients, (first.intercept_ + second.intercept_) / 2)


def held_out_shares(
    num_rows: int, num_classes: int, predict: Callable[[NDArray[Any], NDArray[Any]], Floats]
) -> Floats:
    """Return probabilities of training texts by models that were fitted on the others."""
    folds = np.arange(num_rows) % min(NUM_FOLDS, max(num_rows, 1))
    shares = np.zeros((num_rows, num_classes))
    for fold in range(folds.max() + 1 if num_rows > 1 else 0):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        shares[outside] = predict(inside, outside)
    return shares


class TfidfSets(TfidfBaseline):
    """TF-IDF with a logistic regression for each class, as a comparison fits it."""

    task = "tfidf-sets"
    description = (
        "counts of words and characters with a logistic regression for each class, without a "
        "neural network"
    )

    def __init__(self, num_classes: int, counted: CountedTexts) -> None:
        super().__init__(num_classes, "none", counted)

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline with a value of C."""
        texts, started = self._read(hashable(train)), time.monotonic()
        fit = partial(self._fit, texts, value)
        odds = self._odds(texts, partial(fit, tolerance=ROUGH_TOLERANCE))
        model = fit(np.arange(len(texts.classes))).at_odds(odds)
        kept = TfidfModel(features=texts.features, model=model)

        def outputs(rows: Dataset) -> Floats:
            return class_shares(model, texts.columns_of(rows.texts), self._num_classes)

        elapsed_s = texts.read_s + time.monotonic() - started
        return FittedBaseline(value, outputs, partial(save_baseline, kept), elapsed_s)

    def _fit(
        self, texts: BaselineTexts, c: float, rows: NDArray[Any], tolerance: float = TOLERANCE
    ) -> Regressions:
        fit = partial(fit_logistic, c=c, balance="none", tolerance=tolerance)
        return fit_classes(
            texts.columns[rows], [texts.classes[row] for row in rows], self._num_classes, fit
        )

    def _odds(self, texts: BaselineTexts, fit: Callable[[NDArray[Any]], Regressions]) -> float:
        shares = held_out_shares(
            len(texts.classes),
            self._num_classes,
            lambda inside, outside: fit(inside).predict_proba(texts.columns[outside]),
        )
        return best_odds(shares, texts.classes)


class LsaSets:
    """Latent semantic analysis with a regression for each class, as a comparison fits it."""

    task, arm = "lsa-sets", "lsa"
    description = (
        "latent semantic analysis of the unlabelled text with a logistic regression for each "
        "class, perhaps joined with TF-IDF: what the same text gives without a neural network"
    )

    def __init__(
        self, name: str, space: LatentSpace, num_classes: int, counted: CountedTexts
    ) -> None:
        self.name, self._space = name, space
        self._num_classes, self._counted = num_classes, counted
        self._latest: dict[Any, BaselineTexts] = {}
        self._vectors: dict[tuple[str, ...], Floats] = {}

    def settings(self, trials: int) -> list[float]:
        """Return the numbers of the first `trials` settings, with and without TF-IDF by turns."""
        turns = sorted(range(len(SETTINGS)), key=lambda number: number % (len(SETTINGS) // 2))
        return [float(number) for number in turns[:trials]]

    def describe_setting(self, value: float) -> str:
        """Write a setting by its number."""
        return str(SETTINGS[int(value)])

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return the seconds that it takes to count the n-grams of texts."""
        return self._counted.counting_s(texts)

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Fit the baseline with a setting."""
        texts, started = self._read(train), time.monotonic()
        vectors, is_joined = self._vectors_of(texts.texts), SETTINGS[int(value)].is_joined
        columns = join_columns(vectors, texts.columns if is_joined else None)
        fit = partial(self._fit, texts, vectors, int(value))
        shares = held_out_shares(
            len(vectors),
            self._num_classes,
            lambda inside, outside: fit(inside, ROUGH_TOLERANCE).predict_proba(columns[outside]),
        )
        model = fit(np.arange(len(vectors))).at_odds(best_odds(shares, texts.classes))
        kept = LsaModel(self._space, texts.features if is_joined else None, model)

        def outputs(rows: Dataset) -> Floats:
            tfidf = texts.columns_of(rows.texts) if is_joined else None
            joined = join_columns(self._vectors_of(rows.texts), tfidf)
            return class_shares(model, joined, self._num_classes)

        elapsed_s = texts.read_s + time.monotonic() - started
        return FittedBaseline(value, outputs, kept.save, elapsed_s)

    def _fit(
        self,
        texts: BaselineTexts,
        vectors: Floats,
        number: int,
        rows: NDArray[Any],
        tolerance: float = TOLERANCE,
    ) -> Regressions:
        setting, targets = SETTINGS[number], [texts.classes[row] for row in rows]
        nested = partial(fit_nested, c=setting.c, balance="none", tolerance=tolerance)
        model = fit_classes(vectors[rows], targets, self._num_classes, nested)
        if not setting.is_joined:
            return model
        fit = partial(fit_logistic, c=TFIDF_C, balance="none", tolerance=tolerance)
        return average(model, fit_classes(texts.columns[rows], targets, self._num_classes, fit))

    def _read(self, train: Dataset) -> BaselineTexts:
        """Return the training texts, read only if they differ from those of the latest cell."""
        data = hashable(train)
        key = tuple(sorted(zip(data.texts, data.targets, strict=True)))
        if key not in self._latest:
            self._latest = {key: BaselineTexts(data.texts, data.targets, "none", self._counted)}
        return self._latest[key]

    def _vectors_of(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, read once."""
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors[key] = self._space.vectors(texts)
        return self._vectors[key]


def hashable(train: Dataset) -> Dataset:
    """Return training texts whose targets can be part of a key."""
    return replace(train, targets=tuple(map(tuple, train.targets)))


class TfidfSetsTask(TfidfTask):
    """TF-IDF and a logistic regression for each class, as `compare` fits them."""

    name = "tfidf-sets"
    description = "a TF-IDF classifier for several labels"
    labelled = MULTILABEL
    direction = staticmethod(set_direction)

    def read_model(self, run: SavedRun) -> TfidfModel:
        arrays = {name: array.numpy() for name, array in run.weights.items()}
        with refuse_misfit(run):
            features, num_columns = read_features(run, arrays)
            model = _read_regressions(arrays, run, num_columns)
        return TfidfModel(features=features, model=model)


class LsaSetsTask(LsaTask):
    """Latent semantic analysis and a regression for each class, as `compare` fits them."""

    name = "lsa-sets"
    description = "an LSA classifier for several labels"
    labelled = MULTILABEL
    direction = staticmethod(set_direction)

    def read_regression(self, arrays: dict[str, Any], run: SavedRun, num_columns: int) -> Any:
        return _read_regressions(arrays, run, num_columns)


def _read_regressions(arrays: dict[str, Any], run: SavedRun, num_columns: int) -> Regressions:
    """Return the regressions of a run; ValueError if their shapes do not fit."""
    model, num_classes = Regressions(arrays["coef"], arrays["intercept"]), len(run.classes)
    shapes = model.coef_.shape, model.intercept_.shape
    if shapes != ((num_classes, num_columns), (num_classes,)):
        raise ValueError(f"coef and intercept have the shapes {shapes}")
    return model
