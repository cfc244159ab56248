"""Compare arms on the same texts and seeds: differences, and how many labels pretraining saves."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import paired_estimate, paired_interval, symmetric_interval
from warmstart.experiments.scores import SLACK, clean_rows, predictions_of
from warmstart.experiments.wording import difference_sentence
from warmstart.formats import unsigned_points as points
from warmstart.results.comparison import ArmKind, Comparison
from warmstart.results.summary import (
    ArmScore,
    Difference,
    Interval,
    LabelsSaved,
    Outcome,
    preferred_arms,
)

Bools = NDArray[np.bool_]
ArmAt = tuple[str, int]  # the name of an arm, and its number of labels

Curve = dict[int, float]  # accuracy by number of labels


def compare_arms(comparison: Comparison) -> Iterator[Difference]:
    """Compare pretrained arms with others at every subset."""
    for labels in comparison.subsets:
        for first, second in _pairs(comparison):
            difference = compare_pair(comparison, first, second, labels)
            if difference is not None:
                yield difference


def compare_pair(comparison: Comparison, first: str, second: str, labels: int) -> Difference | None:
    """Compare two arms at one subset; None when one of them was not run there."""
    correct = paired_correct(comparison, (first, labels), (second, labels))
    if correct is None:
        return None
    a, b = correct
    estimate, clean = paired_estimate(a, b), None
    interval = symmetric_interval(estimate)
    outcome = outcome_of(interval)
    sentence = difference_sentence(first, second, outcome, interval)
    rows = clean_rows(comparison.scored_split)
    if rows is not None:
        clean = paired_interval(a[:, rows], b[:, rows])
        if outcome_of(clean) != outcome:
            limits = f"{points(clean.low)} to {points(clean.high)} points"
            sentence += f"; without shared texts, the 95% interval is {limits}"
    return Difference(
        first=first,
        second=second,
        labels=labels,
        interval=interval,
        p_value=estimate.p_value(),
        outcome=outcome,
        clean=clean,
        sentence=sentence,
    )


def paired_correct(
    comparison: Comparison, first: ArmAt, second: ArmAt
) -> tuple[Bools, Bools] | None:
    """Return which answers of two arms are correct, (seeds, texts), paired by seed.

    An arm with one seed is paired with every seed of the other. None when there is no pair.
    """
    cells = [comparison.cells_of(*arm) for arm in (first, second)]
    if all(len(of_arm) > 1 for of_arm in cells):
        common = set.intersection(*({cell.seed for cell in of_arm} for of_arm in cells))
        cells = [[cell for cell in of_arm if cell.seed in common] for of_arm in cells]
    if not all(cells):
        return None
    classes = np.array(comparison.scored_split.classes)
    a, b = (predictions_of(comparison, of_arm) == classes for of_arm in cells)
    return a, b


def outcome_of(difference: Interval) -> Outcome:
    """Return what an interval of a difference shows: nothing when it touches zero."""
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "none"


def _pairs(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield each pretrained arm with its opponents, and each blend with its members.

    Warm arms are also compared with their frozen arm and with each other.
    """
    for blend in comparison.arm_names("blend"):
        for member in comparison.members(blend):
            yield blend, member
    for index, first in enumerate(comparison.arms):
        if first.name not in comparison.pretrained:
            continue
        for other, second in enumerate(comparison.arms):
            is_compared = second.name in comparison.opponents(first.name)
            if first.kind == "warm":
                is_own_frozen = second.kind == "frozen" and second.source == first.source
                is_compared |= is_own_frozen or (second.kind == "warm" and other > index)
            if is_compared:
                yield first.name, second.name


def save_labels(
    comparison: Comparison, scores: Sequence[ArmScore], kinds: Sequence[ArmKind]
) -> Iterator[LabelsSaved]:
    """Return how many labels the arms of `kinds` need to match the best pretrained arm.

    The interval holds every number of labels at which no difference from the pretrained arm would
    be shown.
    """
    unpretrained = comparison.arm_names(*kinds)
    for labels in comparison.subsets:
        arm = next((a for a in preferred_arms(scores, labels) if a in comparison.pretrained), None)
        if arm is None or not unpretrained:
            continue
        accuracy = next(s for s in scores if (s.arm, s.labels) == (arm, labels)).scored.accuracy
        mean, low, high = _curves(comparison, scores, (arm, labels), unpretrained)
        yield LabelsSaved(
            arm=arm,
            labels=labels,
            accuracy=accuracy,
            unpretrained=unpretrained,
            needed=labels_needed(0.0, mean),
            low=labels_needed(0.0, high),
            high=labels_needed(0.0, low),
        )


def _curves(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    target: tuple[str, int],
    unpretrained: Sequence[str],
) -> tuple[Curve, Curve, Curve]:
    """Return accuracy minus the target's at each size: the mean and both ends of its interval.

    At each size, the arm that validation prefers counts.
    """
    mean, low, high = Curve(), Curve(), Curve()
    for size in comparison.subsets:
        arm = next((a for a in preferred_arms(scores, size) if a in unpretrained), None)
        correct = paired_correct(comparison, (arm, size), target) if arm else None
        if correct is not None:
            estimate = paired_estimate(*correct)
            mean[size] = estimate.mean
            low[size] = estimate.mean - estimate.margin()
            high[size] = estimate.mean + estimate.margin()
    return mean, low, high


def labels_needed(target: float, reached: Curve) -> str:
    """Write how many labels `reached` needs for `target`.

    Between two measured sizes, accuracy is interpolated linearly in the logarithm of the labels.
    """
    sizes = sorted(reached)
    before = sizes[0]
    if reached[before] >= target - SLACK:
        return f"≤{before:,}"
    for size in sizes[1:]:
        if reached[size] >= target - SLACK:
            share = (target - reached[before]) / (reached[size] - reached[before])
            return f"{round(before * (size / before) ** min(share, 1)):,}"
        before = size
    return f">{before:,}"
