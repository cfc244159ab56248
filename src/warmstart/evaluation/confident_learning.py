"""Labels that held-out probabilities contradict: confident learning (Northcutt et al., 2021).

Probabilities are those of models that did not see the label. A class is likely for a text if its
probability is at least the mean that it has among the texts labelled so: a model that is timid
about a class is held to less than one that is sure of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class DoubtedLabels:
    """What held-out outputs say of the label of every text."""

    is_doubted: Bools  # (N,)
    margins: Floats  # (N,) from 1, sure of the label, to -1, sure of another
    answers: Sequence[Any]  # the label that is likely instead; the label itself if not doubted


def class_thresholds(shares: Floats, classes: Ints) -> Floats:
    """Return the mean probability of each class among the texts labelled so, (C,).

    A class without a text is never likely.
    """
    own = shares[np.arange(len(classes)), classes]
    counts = np.bincount(classes, minlength=shares.shape[1])
    sums = np.bincount(classes, own, minlength=shares.shape[1])
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)


def likely_classes(shares: Floats, classes: Ints) -> Ints:
    """Return the likely class of every text, (N,): of several the most probable, of none its label.

    Counted by label and likely class, these are the confident joint.
    """
    is_likely = shares >= class_thresholds(shares, classes)
    best = np.where(is_likely, shares, -1.0).argmax(axis=1)
    return np.where(is_likely.any(axis=1), best, classes)


def label_margins(shares: Floats, classes: Ints) -> Floats:
    """Return the probability of each label minus that of the most probable other class, (N,)."""
    rows, others = np.arange(len(classes)), shares.copy()
    others[rows, classes] = -np.inf
    margins: Floats = shares[rows, classes] - others.max(axis=1)
    return margins


def doubt_classes(shares: Floats, classes: Sequence[int]) -> DoubtedLabels:
    """Tell which labels are doubted: another class is likely, and the label is not the first."""
    labels = np.asarray(classes, np.int64)
    likely, margins = likely_classes(shares, labels), label_margins(shares, labels)
    is_doubted = (likely != labels) & (margins < 0)
    return DoubtedLabels(is_doubted, margins, np.where(is_doubted, likely, labels).tolist())


def doubt_label_sets(shares: Floats, marks: Bools) -> DoubtedLabels:
    """Tell which sets of labels are doubted: a label that is there, or one that is missing.

    Every class is asked by itself whether texts have it; answers are sets with what is doubted
    turned round, margins those of the class that is doubted most.
    """
    of_classes = [
        doubt_classes(
            np.stack([1 - shares[:, k], shares[:, k]], axis=1), marks[:, k].astype(int).tolist()
        )
        for k in range(shares.shape[1])
    ]
    is_wrong = np.stack([of_class.is_doubted for of_class in of_classes], axis=1)  # (N, C)
    margins = np.stack([of_class.margins for of_class in of_classes], axis=1).min(axis=1)
    answers = [np.flatnonzero(row).tolist() for row in marks ^ is_wrong]
    return DoubtedLabels(np.logical_or.reduce(is_wrong, axis=1), margins, answers)
