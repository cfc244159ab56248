"""Join the cells of a cross-validation: no text is predicted by a model that saw its fold."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from warmstart.data.folds import Fold
from warmstart.experiments.selection import FittedCell
from warmstart.results.comparison import Epoch


def join_folds(fitted: Sequence[FittedCell], folds: Sequence[Fold]) -> list[FittedCell]:
    """Return one cell for each arm, subset and seed, of those of every fold in order."""
    return [_join(of_folds, folds) for of_folds in cells_by_key(fitted).values()]


def cells_by_key(fitted: Sequence[FittedCell]) -> dict[tuple[str, int, int], list[FittedCell]]:
    """Return the cells of each arm, subset and seed: one, or one for each fold in order."""
    cells: dict[tuple[str, int, int], list[FittedCell]] = defaultdict(list)
    for one in fitted:
        cells[one.cell.arm, one.cell.labels, one.cell.seed].append(one)
    return cells


def _join(fitted: Sequence[FittedCell], folds: Sequence[Fold]) -> FittedCell:
    cells = [one.cell for one in fitted]
    predicted = np.zeros(sum(len(fold.test) for fold in folds), np.int64)
    for cell, fold in zip(cells, folds, strict=True):
        predicted[fold.test] = cell.predictions["test"]
    joined = replace(
        cells[0],
        setting=" or ".join(dict.fromkeys(cell.setting for cell in cells)),
        epochs=tuple(map(_mean, zip(*(cell.epochs for cell in cells), strict=False))),
        elapsed_s=float(np.mean([cell.elapsed_s for cell in cells])),
        predictions={"cross-validation": tuple(predicted.tolist())},
    )
    attention = next((one.attention for one in fitted if one.attention is not None), None)
    return FittedCell(joined, attention=attention)


def _mean(epochs: Sequence[Epoch]) -> Epoch:
    """Return the mean over folds of what was measured after one epoch."""
    return Epoch(
        epoch=epochs[0].epoch,
        train_loss=float(np.mean([epoch.train_loss for epoch in epochs])),
        valid_loss=float(np.mean([epoch.valid_loss for epoch in epochs])),
        valid_accuracy=float(np.mean([epoch.valid_accuracy for epoch in epochs])),
        valid_f1=float(np.mean([epoch.valid_f1 for epoch in epochs])),
        elapsed_s=float(np.mean([epoch.elapsed_s for epoch in epochs])),
    )
