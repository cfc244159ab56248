"""95% intervals by bootstrap: texts and seeds are resampled together."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from warmstart.results.summary import Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000
TAIL = 0.025  # excluded on each side
CHUNK = 2_000_000  # numbers in memory at once
FEW = 128  # up to so many patterns, drawing their counts is faster than drawing texts


def interval(values: ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of `values`, (texts,) or (seeds, texts), with its 95% interval."""
    grid = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if grid.ndim != 2 or grid.size == 0:
        raise ValueError(f"values must be (texts,) or (seeds, texts) and not empty: {grid.shape}")
    rng = np.random.default_rng(seed)
    means = np.concatenate(list(_resampled_means(_widened(grid), rng, resamples)))
    # Widening may push a resampled mean out of the range of the values.
    low, high = np.quantile(means, [TAIL, 1 - TAIL]).clip(grid.min(), grid.max())
    return Interval(mean=float(grid.mean()), low=float(low), high=float(high))


def paired_interval(
    a: ArrayLike, b: ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return mean(a) - mean(b) with its 95% interval; both (seeds, texts), correct or not.

    Both arms are resampled with the same texts and seeds: row i of `a` is paired with row i of `b`.
    An arm with a single row is paired with every row of the other.
    """
    first = np.atleast_2d(np.asarray(a, dtype=np.float64))
    second = np.atleast_2d(np.asarray(b, dtype=np.float64))
    rows = {first.shape[0], second.shape[0]} - {1}
    if first.shape[1] != second.shape[1] or len(rows) > 1:
        raise ValueError(f"arms of shapes {first.shape} and {second.shape} cannot be paired")
    return interval(first - second, seed, resamples)


def _widened(grid: Floats) -> Floats:
    """Widen the variation between seeds: resampling n of n shows only (n-1)/n of the variance."""
    num_seeds = grid.shape[0]
    if num_seeds == 1:
        return grid
    levels = grid.mean(axis=1, keepdims=True)  # (seeds, 1)
    stretch = math.sqrt(num_seeds / (num_seeds - 1)) - 1
    return np.asarray(grid + stretch * (levels - levels.mean()))


def _resampled_means(grid: Floats, rng: Generator, resamples: int) -> Iterator[Floats]:
    """Yield the means of `resamples` resampled sets of seeds and texts, a chunk at a time."""
    num_seeds, num_texts = grid.shape
    patterns, pattern_of = _patterns(grid)
    num_patterns = patterns.shape[1]
    rows = max(1, CHUNK // (num_patterns if num_patterns <= FEW else num_texts))
    even = np.full(num_seeds, 1 / num_seeds)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        texts = _draw_texts(pattern_of, num_patterns, rng, size)  # (size, patterns)
        seeds = rng.multinomial(num_seeds, even, size=size)  # (size, seeds)
        yield ((texts @ patterns.T) * seeds).sum(axis=1) / (num_seeds * num_texts)


def _patterns(grid: Floats) -> tuple[Floats, Ints]:
    """Return the distinct columns (seeds, patterns), and the pattern of each text.

    Texts with the same values for every seed are interchangeable: only their number matters.
    Patterns are in order of appearance, which does not depend on the sign of the values, so that
    swapping the arms negates the interval.
    """
    _, first, which = np.unique(grid, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return grid[:, first[order]], np.argsort(order)[which.ravel()]


def _draw_texts(pattern_of: Ints, num_patterns: int, rng: Generator, size: int) -> Ints:
    """Draw all texts with replacement, `size` times; return the count of each pattern."""
    num_texts = len(pattern_of)
    if num_patterns <= FEW:
        shares = np.bincount(pattern_of, minlength=num_patterns) / num_texts
        return rng.multinomial(num_texts, shares, size=size)
    drawn = pattern_of[rng.integers(0, num_texts, size=(size, num_texts))]
    drawn += num_patterns * np.arange(size)[:, None]  # a separate range for each resample
    return np.bincount(drawn.ravel(), minlength=size * num_patterns).reshape(size, num_patterns)
