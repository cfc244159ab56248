"""Latent semantic analysis of unlabelled text with logistic regression: the baseline to beat.

Like a pretrained model it has seen the unlabelled text, and it takes seconds. Regularisation, and
whether TF-IDF joins, are chosen inside the training labels. A run of this kind has no Transformer:
lsa.safetensors has the dimensions, model.safetensors the regression.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat, tee
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import Pooling
from warmstart.settings.training import Balance
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.explaining import WordNumbers, share_out
from warmstart.tasks.latent_semantics import SPACE_FILE, LatentSpace, placed_units, read_space
from warmstart.tasks.linear import LinearPredictor, LinearTask
from warmstart.tasks.logistic import (
    CHOSEN_INSIDE,
    ROUGH_TOLERANCE,
    TOLERANCE,
    FitRows,
    PredictRows,
    check_classes,
    class_shares,
    fit_logistic,
    folds_of,
    rebuild_logistic,
)
from warmstart.tasks.text_model import checks_keywords, list_texts
from warmstart.tasks.tfidf import (
    BaselineTexts,
    CountedTexts,
    read_features,
    refuse_misfit,
    save_features,
    save_regression,
    tfidf_word_weights,
)

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion

Floats = NDArray[np.float64]
Ints = NDArray[Any]


DIMENSIONS = (8, 16, 32, 64, 128, 256)  # that regressions use, whose average predicts
FEW_LABELS = 32  # up to which as many dimensions are used
TFIDF_C = 10.0


@dataclass(frozen=True)
class LsaSetting:
    """How strongly the dimensions are regularised, and whether TF-IDF joins."""

    c: float  # of the dimensions, whose variance is one
    is_joined: bool = False  # with a regression on TF-IDF, half and half

    def __str__(self) -> str:
        return f"C {self.c:g}{', with TF-IDF' if self.is_joined else ''}"


SETTINGS = (  # the first unless another is clearly better
    *(LsaSetting(c) for c in (0.3, 0.1, 1.0)),
    *(LsaSetting(c, is_joined=True) for c in (0.3, 0.1, 1.0)),
)


@dataclass(frozen=True)
class LsaModel:
    """A fitted baseline: texts in, classes out."""

    space: LatentSpace
    tfidf: "FeatureUnion | None"
    model: "LogisticRegression"

    def outputs(self, texts: Sequence[str], num_classes: int) -> Floats:
        """Return the probability of every class, (texts, C)."""
        if not len(texts):
            return np.zeros((0, num_classes))
        tfidf = None if self.tfidf is None else self.tfidf.transform(texts)
        return class_shares(self.model, join_columns(self.space.vectors(texts), tfidf), num_classes)

    def word_weights(self, texts: Sequence[str], directions: Iterable[Floats]) -> Iterator[Floats]:
        """Yield what each word of a text contributes to coefficients times features: (words,)."""
        return feature_word_weights(self.space, self.tfidf, texts, directions)

    def save(self, run: RunFolder) -> None:
        """Write the dimensions, and the regression with what it needs of TF-IDF."""
        self.space.save(run.path / SPACE_FILE)
        arrays = {} if self.tfidf is None else save_features(self.tfidf, run)
        save_regression(self.model, arrays, run)


def join_columns(vectors: Floats, tfidf: Any | None) -> Any:
    """Return dimensions and TF-IDF side by side."""
    from scipy.sparse import csr_array, hstack

    return vectors if tfidf is None else hstack([csr_array(vectors), tfidf], "csr")


class LsaBaseline:
    """The baseline of a comparison, given an analysis of unlabelled text."""

    task = arm = "lsa"
    description = (
        "latent semantic analysis of the unlabelled text with logistic regression, perhaps joined "
        "with TF-IDF: what the same text gives in seconds, without a neural network"
    )

    def __init__(
        self,
        name: str,
        space: LatentSpace,
        num_classes: int,
        balance: Balance,
        counted: CountedTexts,
    ) -> None:
        self.name, self._space = name, space
        self._num_classes, self._balance = num_classes, balance
        self._counted = counted
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._latest: dict[tuple[tuple[str, int], ...], BaselineTexts] = {}

    def settings(self, trials: int) -> list[float]:
        """Return one value: whatever is tried is tried inside the training labels."""
        return [CHOSEN_INSIDE]

    def describe_setting(self, value: float) -> str:
        """Write a setting by its number."""
        return "by cross-validation" if value == CHOSEN_INSIDE else str(SETTINGS[int(value)])

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Choose a setting by cross-validation inside the training labels, and fit with it."""
        texts, started = self._read(train), time.monotonic()
        vectors = self._vectors_of(texts.texts)
        number = self._choose(texts, vectors) if value == CHOSEN_INSIDE else int(value)
        fitted = self._fit(texts, vectors, SETTINGS[number])

        def outputs(rows: Dataset) -> Floats:
            tfidf = None if fitted.tfidf is None else texts.columns_of(rows.texts)
            columns = join_columns(self._vectors_of(rows.texts), tfidf)
            return class_shares(fitted.model, columns, self._num_classes)

        elapsed_s = texts.read_s + time.monotonic() - started
        return FittedBaseline(float(number), outputs, fitted.save, elapsed_s)

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return the seconds that it takes to count the n-grams of texts."""
        return self._counted.counting_s(texts)

    def _choose(self, texts: BaselineTexts, vectors: Floats) -> int:
        """Return the number of the setting to use."""
        folds = folds_of(texts.classes)
        if folds is None:
            return 0
        truth = np.asarray(texts.classes)
        strengths = dict.fromkeys(setting.c for setting in SETTINGS)
        alone = {c: folds.predict(self._fits(vectors, truth, c)) for c in strengths}
        tfidf = folds.predict(self._fits_tfidf(texts, truth))
        shares = [
            _average(alone[setting.c], tfidf) if setting.is_joined else alone[setting.c]
            for setting in SETTINGS
        ]
        return folds.choose(shares)

    def _fits(self, vectors: Floats, truth: Ints, c: float) -> FitRows:
        def fit(inside: Ints) -> PredictRows:
            model = fit_nested(vectors[inside], truth[inside], c, self._balance, ROUGH_TOLERANCE)
            return lambda outside: class_shares(model, vectors[outside], int(truth.max()) + 1)

        return fit

    def _fits_tfidf(self, texts: BaselineTexts, truth: Ints) -> FitRows:
        def fit(inside: Ints) -> PredictRows:
            columns = texts.columns
            model = fit_logistic(
                columns[inside], truth[inside], TFIDF_C, self._balance, ROUGH_TOLERANCE
            )
            return lambda outside: class_shares(model, columns[outside], int(truth.max()) + 1)

        return fit

    def _fit(self, texts: BaselineTexts, vectors: Floats, setting: LsaSetting) -> LsaModel:
        model = fit_nested(vectors, texts.classes, setting.c, self._balance)
        if not setting.is_joined:
            return LsaModel(self._space, None, model)
        tfidf = fit_logistic(texts.columns, texts.classes, TFIDF_C, self._balance)
        coefficients = np.hstack([model.coef_, tfidf.coef_]) / 2
        offsets = (model.intercept_ + tfidf.intercept_) / 2
        joined = _regression(coefficients, offsets, model.classes_)
        return LsaModel(self._space, texts.features, joined)

    def _read(self, train: Dataset) -> BaselineTexts:
        """Return the training texts, read only if they differ from those of the latest cell."""
        key = tuple(sorted(zip(train.texts, train.targets, strict=True)))
        if key not in self._latest:
            self._latest = {
                key: BaselineTexts(train.texts, train.targets, self._balance, self._counted)
            }
        return self._latest[key]

    def _vectors_of(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts; each text is read once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = self._space.vectors(new).astype(np.float32)
            self._vectors.update(zip(new, vectors, strict=True))
        rows = [self._vectors[text] for text in texts]
        return np.array(rows, np.float64).reshape(len(rows), self._space.num_dimensions)


def fit_nested(
    vectors: Floats,
    classes: Sequence[int] | Ints,
    c: float,
    balance: Balance,
    tolerance: float = TOLERANCE,
) -> "LogisticRegression":
    """Average regressions on the first dimensions: 8, 16, 32 and so on, up to the labels' number.

    The average is a regression, too. It needs no choice of a number of dimensions, which few labels
    cannot make.
    """
    most = max(FEW_LABELS, len(vectors))
    sizes = [size for size in DIMENSIONS if size <= min(most, vectors.shape[1])]
    models = [
        fit_logistic(vectors[:, :size], classes, c, balance, tolerance)
        for size in sizes or [vectors.shape[1]]
    ]
    mean = np.zeros((len(models[0].coef_), vectors.shape[1]))
    for model in models:
        mean[:, : model.coef_.shape[1]] += model.coef_ / len(models)
    offsets = np.mean([model.intercept_ for model in models], axis=0)
    return _regression(mean, offsets, models[0].classes_)


def _regression(coefficients: Floats, offsets: Floats, classes: Ints) -> "LogisticRegression":
    arrays = {"coef": coefficients, "intercept": offsets, "classes": classes}
    return rebuild_logistic(arrays, coefficients.shape[1])


def _average(first: Floats, second: Floats) -> Floats:
    """Return the geometric mean of probabilities, as averaged logits give it."""
    shares = np.sqrt(first * second)
    total = shares.sum(axis=1, keepdims=True)
    averaged: Floats = np.where(total > 0, shares / np.maximum(total, 1e-300), first)
    return averaged


def feature_word_weights(
    space: LatentSpace | None,
    tfidf: "FeatureUnion | None",
    texts: Sequence[str],
    directions: Iterable[Floats],
) -> Iterator[Floats]:
    """Yield, of each text, what dimensions, and after them n-grams, contribute: (words,)."""
    size, zero = 0 if space is None else space.num_dimensions, np.zeros(1)
    of_space, others = tee(directions)
    of_tfidf = (direction[size:] for direction in others)
    more = repeat(zero) if tfidf is None else tfidf_word_weights(tfidf, texts, of_tfidf)
    for text, direction, of_grams in zip(texts, of_space, more, strict=False):
        of_units = zero if space is None else _divide(space, text, direction[:size])
        yield of_units + of_grams


def _divide(space: LatentSpace, text: str, direction: Floats) -> Floats:
    """Divide what the units of a text contribute between the words that they cover: (words,)."""
    numbers = WordNumbers(text)
    occurrences = ((unit, tuple(map(numbers, places))) for unit, places in placed_units(text))
    return share_out(space.contributions(text, direction), occurrences, len(numbers.words))


@dataclass(frozen=True, kw_only=True)
class LsaPredictor(LinearPredictor):
    """A saved baseline in use; it embeds texts, too."""

    linear: LsaModel

    @property
    def width(self) -> int:
        """Return the number of dimensions of a vector."""
        return self.linear.space.num_dimensions

    @checks_keywords
    def embed(
        self,
        texts: Iterable[str],
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
    ) -> NDArray[np.float32]:
        """Return one vector for every text: (texts, D); it has no layers, and one pooling."""
        if layer is not None or pooling != "mean":
            raise WarmstartError(f"{self.name} is {self.description}: leave out layer and pooling")
        vectors = self.linear.space.vectors(list_texts("embed", "texts", texts))
        if normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)


class LsaTask(LinearTask):
    """Latent semantic analysis and logistic regression, as `compare` fits them."""

    name = "lsa"
    description = "an LSA classifier"
    predictor = LsaPredictor

    def read_model(self, run: SavedRun) -> LsaModel:
        space = read_space(run.folder.path / SPACE_FILE)
        arrays = {name: array.numpy() for name, array in run.weights.items()}
        with refuse_misfit(run):
            is_joined = any(name.endswith(".idf") for name in arrays)
            tfidf, num_columns = read_features(run, arrays) if is_joined else (None, 0)
            model = self.read_regression(arrays, run, space.num_dimensions + num_columns)
        return LsaModel(space, tfidf, model)

    def read_regression(self, arrays: dict[str, Any], run: SavedRun, num_columns: int) -> Any:
        """Return the regression on so many columns; ValueError if it does not fit them."""
        model = rebuild_logistic(arrays, num_columns)
        check_classes(model, run)
        return model
