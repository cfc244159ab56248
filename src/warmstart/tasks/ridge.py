"""The baselines of numbers: ridge regression on TF-IDF, and on latent semantic analysis.

Regularisation, whether TF-IDF joins, and the margin of the intervals come from leaving out each
training text in turn. Run folders are those of the classifiers of tfidf.py and lsa.py.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.evaluation.numbers import conformal_margin
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.tasks.baseline import FittedBaseline
from warmstart.tasks.latent_semantics import SPACE_FILE, LatentSpace, read_space
from warmstart.tasks.linear import LinearTask
from warmstart.tasks.logistic import CHOSEN_INSIDE
from warmstart.tasks.lsa import (
    DIMENSIONS,
    FEW_LABELS,
    LsaPredictor,
    feature_word_weights,
    join_columns,
)
from warmstart.tasks.regress import RegressTask, with_margin
from warmstart.tasks.ridge_regression import (
    Line,
    choose,
    choosing_rows,
    fit_ridge,
    leave_one_out,
)
from warmstart.tasks.tfidf import (
    BaselineTexts,
    CountedTexts,
    read_features,
    refuse_misfit,
    save_features,
)

if TYPE_CHECKING:
    from sklearn.pipeline import FeatureUnion

Floats = NDArray[np.float64]
REGRESS = RegressTask()
TFIDF_STRENGTHS = (0.3, 1.0, 0.1, 0.03, 3.0, 0.01)  # of alpha, the default first
LSA_STRENGTHS = (10.0, 100.0, 1.0, 1000.0)  # for dimensions of variance one
LSA_SETTINGS = tuple((alpha, is_joined) for is_joined in (False, True) for alpha in LSA_STRENGTHS)


@dataclass(frozen=True)
class RidgeModel:
    """A fitted baseline: texts in, numbers out."""

    model: Line
    margin: float  # of the interval of a number; 0: too few labels for one
    tfidf: "FeatureUnion | None" = None
    space: LatentSpace | None = None

    def outputs(self, texts: Sequence[str], num_classes: int) -> Floats:
        """Return a number for every text with its margin, (texts, 2)."""
        if not len(texts):
            return np.zeros((0, 2))
        tfidf = None if self.tfidf is None else self.tfidf.transform(texts)
        vectors = None if self.space is None else self.space.vectors(texts)
        columns = tfidf if vectors is None else join_columns(vectors, tfidf)
        return with_margin(self.model(columns), self.margin)

    def word_weights(self, texts: Sequence[str], directions: Iterable[Floats]) -> Iterator[Floats]:
        """Yield what each word of a text contributes to coefficients times features: (words,)."""
        return feature_word_weights(self.space, self.tfidf, texts, directions)

    def save(self, run: RunFolder) -> None:
        """Write the dimensions, and the regression with what it needs of TF-IDF."""
        if self.space is not None:
            self.space.save(run.path / SPACE_FILE)
        arrays = {} if self.tfidf is None else save_features(self.tfidf, run)
        arrays |= {"coef": self.model.coef, "intercept": np.array([self.model.intercept])}
        arrays["margin"] = np.array([self.margin])
        save_weights(run.weights_file, {n: torch.tensor(array) for n, array in arrays.items()})


class TfidfRidge:
    """Ridge regression on TF-IDF, as a comparison fits it."""

    name, task, arm = "tf-idf", "tfidf-numbers", "tfidf"
    description = "counts of words and characters with ridge regression, without a neural network"

    def __init__(self, counted: CountedTexts) -> None:
        self._counted = counted
        self._latest: dict[tuple[tuple[str, float], ...], BaselineTexts] = {}
        self._fitted: dict[float, FittedBaseline] = {}  # on the latest texts, by setting

    def settings(self, trials: int) -> list[float]:
        """Return one value: whatever is tried is tried inside the training labels."""
        return [CHOSEN_INSIDE]

    def describe_setting(self, value: float) -> str:
        """Write a setting by its number."""
        if value == CHOSEN_INSIDE:
            return "by leaving one out"
        return f"alpha {TFIDF_STRENGTHS[int(value)]:g}"

    def reading_s(self, texts: Sequence[str]) -> float:
        """Return the seconds that it takes to count the n-grams of texts."""
        return self._counted.counting_s(texts)

    def fit(self, train: Dataset, value: float) -> FittedBaseline:
        """Choose a setting inside the training labels, and fit with it, once for the same texts."""
        texts = self._read(train)
        if value not in self._fitted:
            self._fitted[value] = self._fit(texts, value)
        return self._fitted[value]

    def _fit(self, texts: BaselineTexts, value: float) -> FittedBaseline:
        started, numbers = time.monotonic(), np.array(texts.classes, np.float64)
        rows = choosing_rows(numbers)
        candidates = leave_one_out(texts.columns[rows], numbers[rows], TFIDF_STRENGTHS)
        number = choose(candidates, numbers[rows]) if value == CHOSEN_INSIDE else int(value)
        line = fit_ridge(texts.columns, numbers, TFIDF_STRENGTHS[number])
        margin = conformal_margin(candidates[number] - numbers[rows]) or 0.0
        model = RidgeModel(line, margin, texts.features)

        def outputs(rows: Dataset) -> Floats:
            return with_margin(line(texts.columns_of(rows.texts)), margin)

        elapsed_s = texts.read_s + time.monotonic() - started
        return FittedBaseline(float(number), outputs, model.save, elapsed_s)

    def _read(self, train: Dataset) -> BaselineTexts:
        """Return the training texts, read only if they differ from those of the latest cell."""
        key = tuple(sorted(zip(train.texts, train.targets, strict=True)))
        if key not in self._latest:
            self._latest = {key: BaselineTexts(train.texts, train.targets, "none", self._counted)}
            self._fitted = {}
        return self._latest[key]


class LsaRidge(TfidfRidge):
    """Ridge regression on latent semantic analysis, as a comparison fits it."""

    task, arm = "lsa-numbers", "lsa"
    description = (
        "latent semantic analysis of the unlabelled text with ridge regression, perhaps joined "
        "with TF-IDF: what the same text gives in seconds, without a neural network"
    )

    def __init__(self, name: str, space: LatentSpace, counted: CountedTexts) -> None:
        super().__init__(counted)
        self.name, self._space = name, space
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def describe_setting(self, value: float) -> str:
        """Write a setting by its number."""
        if value == CHOSEN_INSIDE:
            return "by leaving one out"
        alpha, is_joined = LSA_SETTINGS[int(value)]
        return f"alpha {alpha:g}{', with TF-IDF' if is_joined else ''}"

    def _fit(self, texts: BaselineTexts, value: float) -> FittedBaseline:
        started, numbers = time.monotonic(), np.array(texts.classes, np.float64)
        vectors = self._vectors_of(texts.texts)
        rows = choosing_rows(numbers)
        alone = nested_leave_one_out(vectors[rows], numbers[rows])
        tfidf = leave_one_out(texts.columns[rows], numbers[rows], TFIDF_STRENGTHS)
        best = choose(tfidf, numbers[rows])
        candidates = [*alone, *((predicted + tfidf[best]) / 2 for predicted in alone)]
        number = choose(candidates, numbers[rows]) if value == CHOSEN_INSIDE else int(value)
        alpha, is_joined = LSA_SETTINGS[number]
        line = fit_nested_ridge(vectors, numbers, alpha)
        if is_joined:
            line = _average(line, fit_ridge(texts.columns, numbers, TFIDF_STRENGTHS[best]))
        margin = conformal_margin(candidates[number] - numbers[rows]) or 0.0
        model = RidgeModel(line, margin, texts.features if is_joined else None, self._space)

        def outputs(rows: Dataset) -> Floats:
            tfidf = texts.columns_of(rows.texts) if is_joined else None
            return with_margin(line(join_columns(self._vectors_of(rows.texts), tfidf)), margin)

        elapsed_s = texts.read_s + time.monotonic() - started
        return FittedBaseline(float(number), outputs, model.save, elapsed_s)

    def _vectors_of(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts; each text is read once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = self._space.vectors(new).astype(np.float32)
            self._vectors.update(zip(new, vectors, strict=True))
        rows = [self._vectors[text] for text in texts]
        return np.array(rows, np.float64).reshape(len(rows), self._space.num_dimensions)


def _sizes(vectors: Floats) -> list[int]:
    """Return the numbers of dimensions whose regressions are averaged, as of a classifier."""
    most = min(max(FEW_LABELS, len(vectors)), vectors.shape[1])
    return [size for size in DIMENSIONS if size <= most] or [vectors.shape[1]]


def nested_leave_one_out(vectors: Floats, numbers: Floats) -> list[Floats]:
    """Return for each alpha what the averaged regressions on all other rows predict."""
    by_size = [
        leave_one_out(np.ascontiguousarray(vectors[:, :size]), numbers, LSA_STRENGTHS)
        for size in _sizes(vectors)
    ]
    return [np.mean(of_alpha, axis=0) for of_alpha in zip(*by_size, strict=True)]


def fit_nested_ridge(vectors: Floats, numbers: Floats, alpha: float) -> Line:
    """Average regressions on the first dimensions: 8, 16, 32 and so on."""
    lines = [fit_ridge(vectors[:, :size], numbers, alpha) for size in _sizes(vectors)]
    coef = np.zeros(vectors.shape[1])
    for line in lines:
        coef[: len(line.coef)] += line.coef / len(lines)
    return Line(coef, float(np.mean([line.intercept for line in lines])))


def _average(first: Line, second: Line) -> Line:
    """Return the average of regressions on columns that stand side by side."""
    coef = np.concatenate([first.coef, second.coef]) / 2
    return Line(coef, (first.intercept + second.intercept) / 2)


def number_direction(model: Line, prediction: Any) -> Floats:
    """Return the coefficients of the number: (D,)."""
    return model.coef


class TfidfNumbersTask(LinearTask):
    """TF-IDF and ridge regression, as `compare` fits them."""

    name = "tfidf-numbers"
    description = "a TF-IDF regression model"
    labelled = REGRESS
    direction = staticmethod(number_direction)

    def read_model(self, run: SavedRun) -> RidgeModel:
        return _read_model(run, None)


class LsaNumbersTask(LinearTask):
    """Latent semantic analysis and ridge regression, as `compare` fits them."""

    name = "lsa-numbers"
    description = "an LSA regression model"
    labelled = REGRESS
    predictor = LsaPredictor
    direction = staticmethod(number_direction)

    def read_model(self, run: SavedRun) -> RidgeModel:
        return _read_model(run, read_space(run.folder.path / SPACE_FILE))


def _read_model(run: SavedRun, space: LatentSpace | None) -> RidgeModel:
    """Return the regression of a run; refuse parts that do not fit together."""
    arrays = {name: array.numpy() for name, array in run.weights.items()}
    with refuse_misfit(run):
        has_tfidf = any(name.endswith(".idf") for name in arrays)
        tfidf, num_columns = read_features(run, arrays) if has_tfidf else (None, 0)
        num_columns += space.num_dimensions if space else 0
        coef, intercept, margin = (arrays[name] for name in ("coef", "intercept", "margin"))
        shapes = coef.shape, intercept.shape, margin.shape
        if shapes != ((num_columns,), (1,), (1,)):
            raise ValueError(f"coef, intercept and margin have the shapes {shapes}")
    return RidgeModel(Line(coef, float(intercept[0])), float(margin[0]), tfidf, space)
