"""Scores of predicted numbers with 95% intervals, and intervals of the numbers themselves."""

from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.evaluation.intervals import LEVEL, Interval, mean_interval

Floats = NDArray[np.float64]
COVERAGE = 0.9  # of the interval of a predicted number


def number_scores(predicted: ArrayLike, truth: ArrayLike) -> dict[str, float]:
    """Return errors in the unit of the numbers, and correlations; 0 if either is constant."""
    errors = np.asarray(predicted, np.float64) - np.asarray(truth, np.float64)
    return {
        "mae": float(np.abs(errors).mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "pearson": correlation(predicted, truth),
        "spearman": correlation(ranks(predicted), ranks(truth)),
    }


def number_intervals(predicted: ArrayLike, truth: ArrayLike) -> dict[str, Interval]:
    """Return the 95% interval of every score, over the choice of texts."""
    errors = np.asarray(predicted, np.float64) - np.asarray(truth, np.float64)
    squares = mean_interval(errors**2)
    low, mean, high = (max(end, 0.0) ** 0.5 for end in (squares.low, squares.mean, squares.high))
    return {
        "mae": mean_interval(np.abs(errors)),
        "rmse": Interval(mean=mean, low=low, high=high),
        "pearson": _pearson_interval(predicted, truth),
        "spearman": _spearman_interval(predicted, truth),
    }


def ranks(values: ArrayLike) -> Floats:
    """Return ranks from 1; equal values share the mean of theirs."""
    from scipy.stats import rankdata  # when needed: it takes long

    return np.asarray(rankdata(np.asarray(values)), np.float64)


def correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return Pearson's correlation; 0 if either side is constant."""
    a, b = _standardise(first), _standardise(second)
    return float(np.clip((a * b).mean(), -1.0, 1.0)) if a.any() and b.any() else 0.0


def _standardise(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, np.float64)
    centred = numbers - numbers.mean()
    spread = centred.std()
    return centred / spread if spread > 1e-12 * np.abs(numbers).max() else np.zeros_like(numbers)


def _pearson_interval(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return the interval by how much each text moves the correlation: no normal law is assumed."""
    a, b, r = _standardise(first), _standardise(second), correlation(first, second)
    influence = a * b - r * (a**2 + b**2) / 2
    return _fisher_interval(r, float(influence.std() / max(1 - r**2, 1e-12)), len(a))


def _spearman_interval(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return the same for ranks, where a text also moves the ranks of the others."""
    a, b = _standardise(ranks(first)), _standardise(ranks(second))
    r, x, y = correlation(a, b), np.asarray(first), np.asarray(second)
    together = a * b + _rank_shift(x, b) + _rank_shift(y, a)
    alone = [own**2 + 2 * _rank_shift(values, own) for values, own in ((x, a), (y, b))]
    influence = together - r * (alone[0] + alone[1]) / 2
    return _fisher_interval(r, float(influence.std() / max(1 - r**2, 1e-12)), len(a))


def _rank_shift(values: Floats, others: Floats) -> Floats:
    """Return how much one more text of each value moves the sum of `others` through their ranks."""
    distinct, numbers = np.unique(values, return_inverse=True)
    sums = np.bincount(numbers, others, len(distinct))
    above = sums[::-1].cumsum()[::-1] - sums / 2  # of the larger values, and half of equal ones
    moved: Floats = above[numbers] / max(float(ranks(values).std()), 1e-12)
    return moved


def _fisher_interval(r: float, spread: float, num_texts: int) -> Interval:
    """Return the interval of a correlation, symmetric on Fisher's scale."""
    from scipy.special import stdtrit  # when needed: it takes long

    if num_texts < 4:
        return Interval(mean=r, low=-1.0, high=1.0)
    quantile = float(stdtrit(num_texts - 2, (1 + LEVEL) / 2))
    centre = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    margin = quantile * spread / (num_texts - 3) ** 0.5
    low, high = np.tanh(centre - margin), np.tanh(centre + margin)
    return Interval(mean=r, low=float(min(low, r)), high=float(max(high, r)))


def conformal_margin(residuals: ArrayLike, coverage: float = COVERAGE) -> float | None:
    """Return what to add and subtract so that an interval holds a new number; None: too few.

    Split conformal prediction: if the new text is like those of the residuals, its number is inside
    with at least this probability, whatever the model and the law of its errors.
    """
    sizes = np.sort(np.abs(np.asarray(residuals, np.float64)))
    rank = ceil((len(sizes) + 1) * coverage - 1e-9)
    return float(sizes[rank - 1]) if rank <= len(sizes) else None


def least_residuals(coverage: float = COVERAGE) -> int:
    """Return the number of residuals from which on there is an interval."""
    return ceil(coverage / (1 - coverage) - 1e-9)
