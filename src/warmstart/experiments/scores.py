"""Score every arm of a comparison at every subset: accuracy, cost, and accuracy by epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import accuracy_interval
from warmstart.evaluation.metrics import macro_f1
from warmstart.experiments.wording import CLOSED, time_sentence
from warmstart.results.comparison import Cell, Comparison, Split
from warmstart.results.summary import ArmScore, Cost, Curve, CurvePoint, Score, TimeToAccuracy

Ints = NDArray[np.int64]
SLACK = 1e-12  # equal accuracies may differ by rounding


def score_arms(comparison: Comparison) -> Iterator[ArmScore]:
    """Score every arm at every subset, on the scored split and on validation."""
    split = comparison.scored_split
    clean = clean_rows(split)
    for arm, labels, cells in comparison.groups():
        predicted = predictions_of(comparison, cells)
        choosing = np.array([cell.predictions[comparison.choosing_split.name] for cell in cells])
        yield ArmScore(
            arm=arm.name,
            labels=labels,
            scored=_score(predicted, split),
            clean=None if clean is None else _score(predicted, split, clean),
            choosing=_score(choosing, comparison.choosing_split),
        )


def predictions_of(comparison: Comparison, cells: Sequence[Cell]) -> Ints:
    """Return the predictions on the scored split: (seeds, texts)."""
    return np.array([comparison.predictions(cell) for cell in cells])


def clean_rows(split: Split) -> Ints | None:
    """Return the rows of texts that are not shared; None when these are all, or none."""
    rows = np.setdiff1d(np.arange(len(split.classes)), np.array(split.shared, dtype=np.int64))
    return rows if 0 < len(rows) < len(split.classes) else None


def count_costs(comparison: Comparison) -> Iterator[Cost]:
    """Return the training time of each arm at each subset, without and with its pretraining."""
    for arm, labels, cells in comparison.groups():
        train_s = float(np.mean([cell.elapsed_s for cell in cells]))
        yield Cost(
            arm=arm.name,
            labels=labels,
            train_s=train_s,
            pretrain_s=arm.pretrain_s,
            total_s=train_s + arm.pretrain_s,
        )


def _score(predicted: Ints, split: Split, rows: Ints | slice = slice(None)) -> Score:
    """Score predictions, (seeds, texts), on some rows of a split."""
    classes, predicted = np.array(split.classes)[rows], predicted[:, rows]
    correct = predicted == classes
    by_seed = correct.mean(axis=1)
    return Score(
        num_texts=len(classes),
        num_seeds=len(predicted),
        accuracy=float(correct.mean()),
        spread=spread(by_seed),
        lowest=float(by_seed.min()),
        highest=float(by_seed.max()),
        interval=accuracy_interval(correct),
        f1=float(np.mean([macro_f1(classes, of_seed) for of_seed in predicted])),
    )


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
