"""95% intervals by bootstrap: texts and seeds are drawn again together, ten thousand times.

Plain arrays in, intervals out; knows nothing about arms, labels or models.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from warmstart.results.summary import Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000
TAIL = 0.025  # left out on each side
CHUNK = 2_000_000  # numbers held at once, so that many texts cost time and not memory
FEW = 128  # kinds of text up to which drawing their counts is quicker than drawing texts


def interval(values: ArrayLike, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of `values`, (texts,) or (seeds, texts), with its 95% interval."""
    grid = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if grid.ndim != 2 or grid.size == 0:
        raise ValueError(f"values must be (texts,) or (seeds, texts) and not empty: {grid.shape}")
    rng = np.random.default_rng(seed)
    means = np.concatenate(list(_resampled_means(_widened(grid), rng, resamples)))
    # A mean never leaves the range of its values, which widening might otherwise allow.
    low, high = np.quantile(means, [TAIL, 1 - TAIL]).clip(grid.min(), grid.max())
    return Interval(mean=float(grid.mean()), low=float(low), high=float(high))


def paired_interval(
    a: ArrayLike, b: ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return mean(a) - mean(b) with its 95% interval; both (seeds, texts), right or wrong.

    The same texts are drawn for both arms, and the same seeds: row i of `a` belongs with row i of
    `b`. An arm of one row stands against every row of the other.
    """
    first = np.atleast_2d(np.asarray(a, dtype=np.float64))
    second = np.atleast_2d(np.asarray(b, dtype=np.float64))
    rows = {first.shape[0], second.shape[0]} - {1}
    if first.shape[1] != second.shape[1] or len(rows) > 1:
        raise ValueError(f"arms of shapes {first.shape} and {second.shape} cannot be paired")
    return interval(first - second, seed, resamples)


def _widened(grid: Floats) -> Floats:
    """Stretch the differences between seeds, of which drawing n from n shows (n-1)/n."""
    num_seeds = grid.shape[0]
    if num_seeds == 1:
        return grid
    levels = grid.mean(axis=1, keepdims=True)  # (seeds, 1)
    stretch = math.sqrt(num_seeds / (num_seeds - 1)) - 1
    return np.asarray(grid + stretch * (levels - levels.mean()))


def _resampled_means(grid: Floats, rng: Generator, resamples: int) -> Iterator[Floats]:
    """Yield the means of `resamples` drawings of seeds and texts, a chunk at a time."""
    num_seeds, num_texts = grid.shape
    kinds, members = _kinds(grid)
    num_kinds = kinds.shape[1]
    rows = max(1, CHUNK // (num_kinds if num_kinds <= FEW else num_texts))
    even = np.full(num_seeds, 1 / num_seeds)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        texts = _draw_texts(members, num_kinds, rng, size)  # (size, kinds)
        seeds = rng.multinomial(num_seeds, even, size=size)  # (size, seeds)
        yield ((texts @ kinds.T) * seeds).sum(axis=1) / (num_seeds * num_texts)


def _kinds(grid: Floats) -> tuple[Floats, Ints]:
    """Return the different columns (seeds, kinds), and which of them each text shows.

    Texts that every seed answers alike are interchangeable: only their number matters. Kinds come
    in order of appearance, which negation leaves alone, so swapping arms negates the interval.
    """
    _, first, which = np.unique(grid, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return grid[:, first[order]], np.argsort(order)[which.ravel()]


def _draw_texts(members: Ints, num_kinds: int, rng: Generator, size: int) -> Ints:
    """Draw as many texts as there are, `size` times; return how many of each kind came up."""
    num_texts = len(members)
    if num_kinds <= FEW:
        shares = np.bincount(members, minlength=num_kinds) / num_texts
        return rng.multinomial(num_texts, shares, size=size)
    drawn = members[rng.integers(0, num_texts, size=(size, num_texts))]
    drawn += num_kinds * np.arange(size)[:, None]  # one range of numbers for each drawing
    return np.bincount(drawn.ravel(), minlength=size * num_kinds).reshape(size, num_kinds)
