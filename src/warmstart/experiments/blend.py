"""Blend two arms of a comparison: the average of their calibrated log-probabilities.

Both are trained anyway, so a blend costs nothing. Its weight is chosen on the validation texts that
chose the members' settings, in a cross-validation on the other folds, and never on a text that it
then predicts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warmstart.evaluation.calibration import (
    Floats,
    at_temperature,
    fit_temperature,
    log_blend,
    log_loss,
)
from warmstart.experiments.arms import Splits
from warmstart.experiments.selection import FittedCell
from warmstart.results.comparison import Arm, Cell

WEIGHTS = tuple(step / 20 for step in range(21))  # of the second arm


@dataclass(frozen=True)
class Blend:
    """Two arms that answer together."""

    name: str
    first: str  # names of the arms
    second: str

    def describe(self, arms: Sequence[Arm]) -> Arm:
        """Return what the report says of the blend: it costs what its first arm does."""
        first = next(arm for arm in arms if arm.name == self.first)
        return replace(first, name=self.name, kind="blend")

    def fit(self, first: FittedCell, second: FittedCell, splits: Splits) -> FittedCell:
        """Return the cell that two cells with the same texts and seed make."""
        a, b = first.outputs, second.outputs
        assert a is not None
        assert b is not None
        predictions = dict(first.cell.predictions)
        predicted, weights = np.zeros(len(splits.valid.classes), dtype=np.int64), []
        for selection, of_a, of_b in zip(
            splits.selections, a.validation, b.validation, strict=True
        ):
            classes = [splits.valid.classes[row] for row in selection.selecting]
            weight = choose_weight(classes, of_a[selection.selecting], of_b[selection.selecting])
            blended = log_blend(of_a[selection.predicted], of_b[selection.predicted], weight)
            predicted[selection.predicted] = blended.argmax(1)
            weights.append(weight)
        predictions["validation"] = tuple(predicted.tolist())
        if a.test is not None and b.test is not None:
            predictions["test"] = tuple(log_blend(a.test, b.test, weights[0]).argmax(1).tolist())
        return FittedCell(self._cell(first.cell, second.cell, weights, predictions))

    def cross_fit(
        self,
        first: Sequence[FittedCell],
        second: Sequence[FittedCell],
        classes: Sequence[Sequence[int]],
    ) -> Iterator[FittedCell]:
        """Yield the cell of every fold, given its true classes; the other folds calibrate it."""
        for fold in range(len(classes)):
            others = [other for other in range(len(classes)) if other != fold]
            truth = [number for other in others for number in classes[other]]
            calibrated = []  # the texts of the other folds, and of this one, by each arm
            for cells in (first, second):
                known = np.concatenate([_tested(cells[other]) for other in others])
                temperature = fit_temperature(truth, known)
                outputs = (known, _tested(cells[fold]))
                calibrated.append([at_temperature(o, temperature) for o in outputs])
            (known_a, of_a), (known_b, of_b) = calibrated
            weight = choose_weight(truth, known_a, known_b)
            predicted = log_blend(of_a, of_b, weight).argmax(1)
            cell = self._cell(
                first[fold].cell, second[fold].cell, [weight], {"test": tuple(predicted.tolist())}
            )
            yield FittedCell(cell)

    def _cell(
        self,
        first: Cell,
        second: Cell,
        weights: Sequence[float],
        predictions: dict[str, tuple[int, ...]],
    ) -> Cell:
        return replace(
            first,
            arm=self.name,
            setting=" or ".join(f"{weight:.0%} {self.second}" for weight in dict.fromkeys(weights)),
            epochs=(),
            elapsed_s=first.elapsed_s + second.elapsed_s,
            predictions=predictions,
        )


def _tested(fitted: FittedCell) -> Floats:
    assert fitted.outputs is not None
    assert fitted.outputs.test is not None
    return fitted.outputs.test


def choose_weight(classes: Sequence[int], first: Floats, second: Floats) -> float:
    """Return the weight of the second arm with the lowest loss; of equal ones, the smallest."""
    losses = [log_loss(classes, log_blend(first, second, weight)) for weight in WEIGHTS]
    return WEIGHTS[losses.index(min(losses))]
