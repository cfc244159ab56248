"""How many labels do arms without pretraining need to match a pretrained one?"""

from collections.abc import Iterator, Sequence

from warmstart.evaluation.intervals import paired_estimate
from warmstart.experiments.curves import SLACK
from warmstart.experiments.differences import paired_correct
from warmstart.results.comparison import ArmKind, Comparison
from warmstart.results.summary import ArmScore, LabelsSaved, preferred_arms

Curve = dict[int, float]  # accuracy by number of labels


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
