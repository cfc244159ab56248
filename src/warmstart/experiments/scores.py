"""Score every arm of a comparison at every subset, and count what its training cost."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import accuracy_interval
from warmstart.evaluation.metrics import macro_f1
from warmstart.experiments.curves import spread
from warmstart.results.comparison import Cell, Comparison, Split
from warmstart.results.summary import ArmScore, Cost, Score

Ints = NDArray[np.int64]


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
