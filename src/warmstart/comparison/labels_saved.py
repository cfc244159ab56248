"""How many labels arms without pretraining need to match the best pretrained arm."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from warmstart.comparison.results import ArmKind, Comparison
from warmstart.comparison.scores import (
    SLACK,
    ArmAt,
    paired_correct,
    rank_pretrained,
    strongest_arm,
)
from warmstart.comparison.summary import ArmScore, LabelsSaved
from warmstart.evaluation.intervals import paired_estimate
from warmstart.evaluation.scale import SHARES, Scale

AccuracyByLabels = dict[int, float]  # accuracy by number of labels
FAR = 5  # times; between sizes farther apart, labels are not interpolated
End = Literal["low", "high", "both"]  # of two sizes that are far apart


def save_labels(
    comparison: Comparison, scores: Sequence[ArmScore], kinds: Sequence[ArmKind]
) -> Iterator[LabelsSaved]:
    """Yield how many labels the arms of `kinds` need to match the best pretrained arm.

    The interval holds every number of labels at which no difference from the pretrained arm would
    be shown.
    """
    unpretrained = comparison.arm_names(*kinds)
    for labels in comparison.subsets:
        pretrained = rank_pretrained(comparison, scores, labels)
        if not pretrained or not unpretrained:
            continue
        arm = pretrained[0]
        accuracy = next(s for s in scores if (s.arm, s.labels) == (arm, labels)).scored.accuracy
        mean, low, high = _curves(comparison, scores, (arm, labels), unpretrained)
        if not mean:
            continue
        yield LabelsSaved(
            arm=arm,
            labels=labels,
            accuracy=accuracy,
            unpretrained=unpretrained,
            needed=labels_needed(accuracy, mean, scale=comparison.scale),
            low=labels_needed(accuracy, high, "low", comparison.scale),
            high=labels_needed(accuracy, low, "high", comparison.scale),
            size_to_add=_size_between(accuracy, mean),
        )


def _curves(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    target: ArmAt,
    unpretrained: Sequence[str],
) -> tuple[AccuracyByLabels, AccuracyByLabels, AccuracyByLabels]:
    """Return the accuracy at each size, relative to the target's: mean and ends of its interval.

    At each size the best of the arms counts: a weak opponent must not make pretraining look good.
    """
    mean, low, high = AccuracyByLabels(), AccuracyByLabels(), AccuracyByLabels()
    goal = next(s for s in scores if (s.arm, s.labels) == target).scored.accuracy
    for size in comparison.subsets:
        arm = strongest_arm(scores, size, unpretrained)
        correct = paired_correct(comparison, (arm, size), target) if arm else None
        if correct is not None:
            estimate = paired_estimate(*correct, comparison.scale.span)
            mean[size] = goal + estimate.mean
            low[size] = mean[size] - estimate.margin()
            high[size] = mean[size] + estimate.margin()
    return mean, low, high


def _size_between(target: float, reached: AccuracyByLabels) -> int | None:
    """Return the size to add where the target lies between two that are far apart, else None.

    It is halfway between both on a logarithmic scale, in two digits.
    """
    sizes = sorted(reached)
    for before, size in pairwise(sizes):
        if reached[before] < target - SLACK <= reached[size]:
            return int(float(f"{math.sqrt(before * size):.1e}")) if size > FAR * before else None
    return None


def labels_needed(
    target: float, reached: AccuracyByLabels, end: End = "both", scale: Scale = SHARES
) -> str:
    """Write how many labels `reached` needs for `target`.

    Between two measured sizes, the logarithm of the error is interpolated linearly in that of the
    labels, as errors fall with a power of the labels. Between sizes that are far apart this says
    little, so the sizes themselves are written, or one `end` of them.
    """
    sizes = sorted(reached)
    before = sizes[0]
    if reached[before] >= target - SLACK:
        return f"≤{before:,}"
    for size in sizes[1:]:
        if reached[size] >= target - SLACK:
            if size > FAR * before:
                ends = {"low": f"{before:,}", "high": f"{size:,}"}
                return ends.get(end, " to ".join(ends.values()))
            first, wanted, last = (
                np.log(scale.error(value)) for value in (reached[before], target, reached[size])
            )
            share = (first - wanted) / (first - last) if first > last else 1.0
            return f"{round(before * (size / before) ** min(share, 1)):,}"
        before = size
    return f">{before:,}"
