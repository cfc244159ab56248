"""Ridge regression, its regularisation chosen inside the training labels by leaving one out.

The errors of leaving each text out in turn follow from one decomposition (Golub, Heath and Wahba,
1979), so that no label is set aside and nothing is random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.settings.shared import Pooling
from warmstart.tasks.frozen import SolvedHead, standardise

Floats = NDArray[np.float64]
MOST_CHOOSING = 2000  # labels that choose a setting: more take time and change nothing
CLEARLY = 2.0  # standard errors by which a setting is better than the default
TOLERANCE = 1e-6
HEAD_STRENGTHS = (100.0, 1000.0, 10.0, 10000.0, 1.0)  # of alpha, for standardised vectors
HEAD_SETTINGS: tuple[tuple[Pooling, float], ...] = tuple(
    (pooling, alpha) for pooling in get_args(Pooling) for alpha in HEAD_STRENGTHS
)


@dataclass(frozen=True)
class Line:
    """A linear function of columns: columns @ coef + intercept."""

    coef: Floats  # (columns,)
    intercept: float

    def __call__(self, columns: Any) -> Floats:
        """Return a number for every row."""
        return np.asarray(columns @ self.coef + self.intercept)


def fit_ridge(columns: Any, numbers: Floats, alpha: float) -> Line:
    """Fit a ridge regression on dense or sparse columns; the offset is not regularised."""
    from sklearn.linear_model import Ridge
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # threads that meet after every small sum take longer
        model = Ridge(alpha=alpha, tol=TOLERANCE).fit(columns, numbers)
    return Line(np.asarray(model.coef_, np.float64), float(model.intercept_))


def choosing_rows(numbers: Floats) -> NDArray[np.int64]:
    """Return the rows that choose settings: all, or an even sample of the sorted numbers."""
    rows = np.argsort(numbers, kind="stable")
    return rows[:: -(-len(rows) // MOST_CHOOSING)]


def leave_one_out(columns: Any, numbers: Floats, alphas: Sequence[float]) -> list[Floats]:
    """Return for each alpha what regressions on all other rows predict for every row."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        directions, variances = _spectrum(columns)
    centred = numbers - numbers.mean()
    projected = directions.T @ centred
    predicted = []
    for alpha in alphas:
        shrunk = variances / (variances + alpha)
        fitted = directions @ (shrunk * projected)
        own = 1 / len(numbers) + (directions**2) @ shrunk  # the part of each row in its own fit
        residuals = (centred - fitted) / np.maximum(1 - own, 1e-9)
        predicted.append(numbers - residuals)
    return predicted


def _spectrum(columns: Any) -> tuple[Floats, Floats]:
    """Return the principal directions of rows around their mean, and the variance along each."""
    if isinstance(columns, np.ndarray) and columns.shape[1] < len(columns):
        left, sizes, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
        return left, sizes**2
    products = columns @ columns.T  # (rows, rows)
    kernel = np.asarray(products.todense() if hasattr(products, "todense") else products)
    kernel = kernel - kernel.mean(axis=0)
    kernel = kernel - kernel.mean(axis=1, keepdims=True)
    variances, directions = np.linalg.eigh(kernel)
    return directions, np.maximum(variances, 0.0)


def choose(candidates: Sequence[Floats], numbers: Floats, clearly: float = CLEARLY) -> int:
    """Return which predictions have the least squared error; the first unless clearly worse."""
    losses = [(predicted - numbers) ** 2 for predicted in candidates]
    best = int(np.argmin([loss.mean() for loss in losses]))
    gains = losses[0] - losses[best]
    return best if gains.mean() > clearly * gains.std() / len(gains) ** 0.5 else 0


@dataclass(frozen=True)
class NumberHead(SolvedHead):
    """A linear head with one output."""

    method: ClassVar[str] = "ridge regression"

    def outputs(self, vectors: Floats) -> Floats:
        """Return a number for every text, and no margin: (texts, 2)."""
        numbers = vectors @ self.weight[0] + self.bias[0]
        return np.column_stack([numbers, np.zeros(len(numbers))])

    def scale(self, mean: float, std: float) -> "NumberHead":
        """Return the head in the unit of the labels."""
        return replace(self, weight=self.weight * std, bias=self.bias * std + mean)


def solve_number_head(vectors: Mapping[Pooling, Floats], numbers: Floats) -> NumberHead:
    """Return the best head for vectors by pooling, the default first."""
    rows = choosing_rows(numbers)
    settings = [(pooling, alpha) for pooling in vectors for alpha in HEAD_STRENGTHS]
    candidates = [
        predicted
        for of_pooling in vectors.values()
        for predicted in leave_one_out(
            standardise(of_pooling)[0][rows], numbers[rows], HEAD_STRENGTHS
        )
    ]
    pooling, alpha = settings[choose(candidates, numbers[rows], clearly=0.0)]
    columns, mean, spread = standardise(vectors[pooling])
    line = fit_ridge(columns, numbers, alpha)
    weight = (line.coef / spread)[None]
    bias = np.array([line.intercept - float(weight[0] @ mean)])
    return NumberHead(HEAD_SETTINGS.index((pooling, alpha)), pooling, weight, bias)


def describe_number_head(value: float) -> str:
    """Write a setting by its number."""
    pooling, alpha = HEAD_SETTINGS[int(value)]
    return f"{pooling} pooling, alpha {alpha:g}"
