"""Validation accuracy by epoch: the mean curve of each arm, and when warm reaches cold's best."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warmstart.experiments.wording import CLOSED, time_sentence
from warmstart.results.comparison import Comparison
from warmstart.results.summary import Curve, CurvePoint, TimeToAccuracy

SLACK = 1e-12  # equal accuracies may differ by rounding


def mean_curves(comparison: Comparison) -> Iterator[Curve]:
    """Average validation accuracy by epoch over the seeds of each arm that has epochs."""
    for arm, labels, cells in comparison.groups():
        points = []
        for epochs in zip(*(cell.epochs for cell in cells), strict=False):
            accuracies = np.array([epoch.valid_accuracy for epoch in epochs])
            point = CurvePoint(
                epoch=epochs[0].epoch,
                accuracy=float(accuracies.mean()),
                spread=spread(accuracies),
                lowest=float(accuracies.min()),
                highest=float(accuracies.max()),
                elapsed_s=float(np.mean([epoch.elapsed_s for epoch in epochs])),
            )
            points.append(point)
        if points:
            best = max(points, key=lambda point: point.accuracy)  # the first of equals
            yield Curve(arm=arm.name, labels=labels, points=tuple(points), best_epoch=best.epoch)


def times_to_accuracy(comparison: Comparison, curves: Sequence[Curve]) -> Iterator[TimeToAccuracy]:
    """Compare each warm arm with its cold arm, epoch by epoch."""
    arms = {arm.name: arm for arm in comparison.arms}
    for warm in curves:
        for cold in curves:
            kinds = arms[warm.arm].kind, arms[cold.arm].kind
            is_own = arms[warm.arm].cold in (None, cold.arm)
            if kinds == ("warm", "cold") and warm.labels == cold.labels and is_own:
                yield _time_to_accuracy(warm, cold, arms[warm.arm].pretrain_s)


def _time_to_accuracy(warm: Curve, cold: Curve, pretrain_s: float) -> TimeToAccuracy:
    goal = cold.best.accuracy - SLACK
    reached = next((point for point in warm.points if point.accuracy >= goal), None)
    of_cold = {point.epoch: point.accuracy for point in cold.points}
    gaps = {p.epoch: p.accuracy - of_cold[p.epoch] for p in warm.points if p.epoch in of_cold}
    last_open = max((epoch for epoch, gap in gaps.items() if gap > CLOSED + SLACK), default=0)
    time = TimeToAccuracy(
        warm=warm.arm,
        cold=cold.arm,
        labels=warm.labels,
        cold_best=cold.best.accuracy,
        cold_best_epoch=cold.best_epoch,
        cold_best_s=cold.best.elapsed_s,
        reached_epoch=reached.epoch if reached else None,
        reached_s=reached.elapsed_s if reached else None,
        reached_with_pretraining_s=reached.elapsed_s + pretrain_s if reached else None,
        gaps=gaps,
        closed_epoch=min((epoch for epoch in gaps if epoch > last_open), default=None),
    )
    return replace(time, sentence=time_sentence(time))


def spread(values: NDArray[np.float64]) -> float:
    """Return the standard deviation over seeds, 0 with one seed."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
