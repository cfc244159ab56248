"""95% intervals of accuracies and their differences, over the choice of texts and of seeds.

The variance of a mean over seeds and texts has two parts: how much seeds differ, estimated from few
of them, and what makes a text easy or hard for every seed, estimated from many texts. Several
pretrainings of one recipe add a third part. Each part has its own quantile of Student's t; their
squares add up. `benchmarks/coverage.py` measures how often such intervals hold the truth.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95
LEAST_P = 1e-12  # smaller p-values are not told apart


@dataclass(frozen=True)
class Estimate:
    """The mean of values (pretrainings, seeds, texts), with the parts of its variance."""

    mean: float
    num_pretrainings: int
    num_seeds: int
    num_texts: int
    pretraining_variance: float  # of the mean, because pretrainings differ; 0 with one of them
    seed_variance: float  # of the mean, because seeds differ; 0 with one seed
    text_variance: float  # of the mean, because texts differ for all seeds alike
    span: float = 1.0  # the largest value there can be; 0: there is no such limit

    @classmethod
    def of(cls, values: ArrayLike, span: float = 1.0) -> "Estimate":
        """Estimate from (texts,), (seeds, texts) or (pretrainings, seeds, texts)."""
        grid = _grid(values)
        P, S, T = grid.shape
        pretraining_variance = float(grid.mean(axis=(1, 2)).var(ddof=1)) / P if P > 1 else 0.0
        seed_variance = float(grid.mean(axis=(0, 2)).var(ddof=1)) / S if S > 1 else 0.0
        # A few texts with equal values prove little: the variance is at least that of two more
        # texts, one for and one against (the adjustment of Bonett and Price).
        least = 2 * (span / (T + 2)) ** 2
        text_variance = max(_shared_variance(grid.reshape(P * S, T)) / T, least)
        mean = float(grid.mean())
        return cls(mean, P, S, T, pretraining_variance, seed_variance, text_variance, span)

    def margin(self, level: float = LEVEL) -> float:
        """Return half the width of the symmetric interval."""
        parts = (
            (self.num_pretrainings, self.pretraining_variance),
            (self.num_seeds, self.seed_variance),
            (self.num_texts, self.text_variance),
        )
        return float(np.sqrt(sum(_quantile(num, level) ** 2 * part for num, part in parts)))

    def p_value(self) -> float:
        """Return one minus the level at which the interval just reaches zero."""
        from scipy.optimize import brentq  # when needed: it takes long

        def excess(p: float) -> float:
            return self.margin(1 - p) - abs(self.mean)

        if self.mean == 0:
            return 1.0
        return float(brentq(excess, LEAST_P, 1.0)) if excess(LEAST_P) > 0 else LEAST_P


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float

    def negate(self) -> "Interval":
        return Interval(mean=-self.mean, low=-self.high, high=-self.low)


def accuracy_interval(correct: ArrayLike) -> Interval:
    """Return the share of correct answers with its 95% interval; for shapes, see `Estimate.of`.

    Wilson's form of the interval: inside 0 and 1, and no single point when all answers are correct.
    """
    estimate = Estimate.of(correct)
    mean, spread = estimate.mean, estimate.mean * (1 - estimate.mean)
    if spread > 0:
        width = estimate.margin() ** 2 / spread
    else:
        width = _quantile(estimate.num_texts, LEVEL) ** 2 / estimate.num_texts
    centre = (mean + width / 2) / (1 + width)
    margin = float(np.sqrt(width * spread + width**2 / 4)) / (1 + width)
    return Interval(mean=mean, low=max(centre - margin, 0.0), high=min(centre + margin, 1.0))


def mean_interval(values: ArrayLike) -> Interval:
    """Return the mean of values that have no limits with its 95% interval."""
    return symmetric_interval(Estimate.of(values, span=0.0))


def paired_estimate(a: ArrayLike, b: ArrayLike, span: float = 1.0) -> Estimate:
    """Estimate mean(a) - mean(b); both ([pretrainings,] seeds, texts), correct or not.

    Row i of `a` is paired with row i of `b`; an arm with one seed, or one pretraining, is paired
    with all of the other.
    """
    first, second = _grid(a), _grid(b)
    sizes = zip(first.shape[:2], second.shape[:2], strict=True)
    is_paired = all(1 in pair or pair[0] == pair[1] for pair in sizes)
    if first.shape[2] != second.shape[2] or not is_paired:
        raise ValueError(f"arms of shapes {first.shape} and {second.shape} cannot be paired")
    return Estimate.of(first - second, span)


def paired_interval(a: ArrayLike, b: ArrayLike) -> Interval:
    """Return mean(a) - mean(b) with its 95% interval; see `paired_estimate`."""
    return symmetric_interval(paired_estimate(a, b))


def symmetric_interval(estimate: Estimate, level: float = LEVEL) -> Interval:
    """Return the interval of an estimated mean or difference, by default at 95%."""
    mean, margin, limit = estimate.mean, estimate.margin(level), estimate.span or inf
    return Interval(mean=mean, low=max(mean - margin, -limit), high=min(mean + margin, limit))


def adjust_by_holm(p_values: list[float]) -> list[float]:
    """Return p-values that hold for all of them together, by Holm's step-down rule."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        largest = max(largest, min((len(p_values) - rank) * p_values[index], 1.0))
        adjusted[index] = largest
    return adjusted


def _grid(values: ArrayLike) -> Floats:
    """Return values as (pretrainings, seeds, texts)."""
    grid = np.asarray(values, dtype=np.float64)
    if not 1 <= grid.ndim <= 3 or grid.size == 0:
        raise ValueError(
            "values must be (texts,), (seeds, texts) or (pretrainings, seeds, texts), not empty: "
            f"{grid.shape}"
        )
    return grid.reshape((1,) * (3 - grid.ndim) + grid.shape)


def _shared_variance(grid: Floats) -> float:
    """Return the variance over texts that all seeds share: the mean covariance of two seeds."""
    S, T = grid.shape
    if T == 1:
        return 0.0
    covariance = np.atleast_2d(np.cov(grid))  # (S, S)
    is_pair = ~np.eye(S, dtype=bool) if S > 1 else np.ones((1, 1), dtype=bool)
    return float(covariance[is_pair].mean())


def _quantile(number: int, level: float) -> float:
    """Return the two-sided quantile of Student's t for a mean of `number` values."""
    from scipy.special import stdtrit  # when needed: it takes long

    return float(stdtrit(max(number - 1, 1), (1 + level) / 2))
