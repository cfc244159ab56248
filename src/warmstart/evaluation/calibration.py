"""Whether a classifier's probabilities are calibrated, and a temperature that improves them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.evaluation.intervals import Floats
from warmstart.evaluation.metrics import Classes, check_lengths

LARGEST = 20.0  # temperature; its inverse is the smallest
HALVINGS = 50


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """The texts whose confidence lies in (low, high]."""

    low: float
    high: float
    count: int
    confidence: float | None  # mean confidence; None when the bin is empty
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How well the confidence of a classifier matches its accuracy."""

    expected_error: float  # |confidence - accuracy| of the bins, weighted by their texts
    brier: float  # squared error of the probabilities summed over classes: 0 best, 2 worst
    bins: tuple[CalibrationBin, ...]


def calibration(truth: Classes, probabilities: ArrayLike, num_bins: int = 10) -> Calibration:
    """Compare confidence with accuracy in bins of equal width; probabilities are (texts, C)."""
    shares = np.asarray(probabilities, dtype=np.float64)
    num_texts, num_classes = shares.shape
    check_lengths(truth, shares)
    confidences = shares.max(axis=1)
    is_correct = shares.argmax(axis=1) == np.asarray(truth)
    edges = np.linspace(0, 1, num_bins + 1)
    bin_of = np.clip(np.searchsorted(edges, confidences) - 1, 0, num_bins - 1)
    bins, error = [], 0.0
    for index, (low, high) in enumerate(pairwise(edges.tolist())):
        inside = bin_of == index
        count, confidence, accurate = int(inside.sum()), None, None
        if count:
            confidence = float(confidences[inside].mean())
            accurate = float(is_correct[inside].mean())
            error += count / num_texts * abs(confidence - accurate)
        bins.append(
            CalibrationBin(
                low=low, high=high, count=count, confidence=confidence, accuracy=accurate
            )
        )
    one_hot = np.eye(num_classes)[np.asarray(truth)]
    brier = float(np.square(shares - one_hot).sum(axis=1).mean())
    return Calibration(expected_error=error, brier=brier, bins=tuple(bins))


def fit_temperature(
    truth: Classes, probabilities: Floats, is_known: NDArray[np.bool_] | None = None
) -> float:
    """Return the temperature of the lowest validation loss (Guo et al., 2017).

    The loss is convex in the inverse temperature, so its slope has one root, found by bisection.
    Targets are smoothed by Laplace's rule: a few right answers do not prove certainty.
    `is_known` (texts, C) tells which classes the model of each text was trained on; no temperature
    makes up for the others.
    """
    num_texts = len(probabilities)
    check_lengths(truth, probabilities)
    known = np.ones(probabilities.shape) if is_known is None else is_known.astype(np.float64)
    logits = np.where(known > 0, _log(probabilities), 0.0)
    rows = np.arange(num_texts), np.asarray(truth)
    targets = known.copy()
    targets[rows] *= 1 + num_texts
    targets /= targets.sum(1, keepdims=True)
    weights = known[rows][:, None]
    low, high = 1 / LARGEST, LARGEST  # of the inverse temperature
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = (weights * (_softmax(middle * logits, known) - targets) * logits).sum()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 2 / (low + high)


def at_temperature(probabilities: Floats, temperature: float) -> Floats:
    """Return the probabilities of logits divided by the temperature."""
    return _softmax(_log(probabilities) / temperature)


def _log(probabilities: Floats) -> Floats:
    return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))


def _softmax(logits: Floats, known: Floats | float = 1.0) -> Floats:
    powers = known * np.exp(logits - logits.max(1, keepdims=True))
    shares: Floats = powers / powers.sum(1, keepdims=True)
    return shares
