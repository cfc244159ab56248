"""Select settings and epochs on validation texts, and predict with what was selected.

With a test set, all validation texts select. Without one, each half selects the model that predicts
the other half, so that no text is scored by a model that it helped to select. In a cross-validation
the texts that select the setting are then trained on, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warmstart.comparison.arms import ExperimentArm, Floats, Splits, TrainedModel
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.results import Arm, Cell, Trial, TunedArm
from warmstart.data.splits import Rows
from warmstart.evaluation.calibration import at_temperature, fit_temperature, log_blend, log_loss
from warmstart.model.attention_weights import AttentionMap
from warmstart.settings.training import Tuning
from warmstart.tasks.classify import ClassifyTask

Preference = tuple[float, float]  # the score that selects, then minus the loss


@dataclass(frozen=True)
class CellOutputs:
    """Probabilities (texts, C) of the selected models, calibrated on the texts that select."""

    validation: tuple[Floats, ...]  # one for each selection; none: `test` is not calibrated
    test: Floats | None


@dataclass(frozen=True)
class FittedCell:
    """A trained cell."""

    cell: Cell
    outputs: CellOutputs | None = None  # where they are blended
    attention: AttentionMap | None = None  # on the text chosen for it
    model: TrainedModel | None = None  # until it is saved; the best on all validation texts


def tune(arm: ExperimentArm, splits: Splits, config: CompareConfig, seed: int) -> TunedArm:
    """Try the settings of an arm; a single one is used as it is."""
    values, trials = arm.settings(config.trials), []
    best: list[tuple[Preference, float]] = [((-np.inf, 0.0), values[0])] * len(splits.selections)
    for model in arm.fit(splits, values, seed) if len(values) > 1 else ():
        for index, selection in enumerate(splits.selections):
            entry = _best_epoch(model, splits, selection.selecting, config)[0], model.value
            best[index] = max(best[index], entry, key=lambda pair: pair[0])
        shares = [np.mean(o.argmax(1) == np.array(splits.valid.classes)) for o in model.outputs]
        trial = Trial(setting=arm.describe_setting(model.value), valid_accuracy=float(max(shares)))
        trials.append(trial)
    chosen = tuple(value for _, value in best)
    return TunedArm(
        arm=arm.name,
        labels=splits.num_labels,
        trials=tuple(trials),
        values=chosen,
        settings=tuple(map(arm.describe_setting, chosen)),
    )


def fit_cell(
    arm: ExperimentArm, splits: Splits, values: Sequence[float], seed: int, tuning: Tuning
) -> FittedCell:
    """Train with the setting of each selection, and predict its texts by the epoch it selects."""
    distinct = list(dict.fromkeys(values))
    models = dict(zip(distinct, arm.fit(splits, distinct, seed), strict=True))
    predicted = np.zeros(len(splits.valid.classes), dtype=np.int64)
    calibrated, temperatures = [], []
    for selection, value in zip(splits.selections, values, strict=True):
        _, epoch = _best_epoch(models[value], splits, selection.selecting, tuning)
        outputs = models[value].outputs[epoch]
        predicted[selection.predicted] = outputs[selection.predicted].argmax(1)
        temperatures.append(_temperature(outputs, splits, selection.selecting))
        calibrated.append(at_temperature(outputs, temperatures[-1]))
    predictions, tested = {"validation": tuple(predicted.tolist())}, None
    model = models[values[0]]  # the only one where there is a test set
    if splits.test:
        outputs = model.predict(splits.test)
        predictions["test"] = tuple(outputs.argmax(1).tolist())
        tested = at_temperature(outputs, temperatures[0])
    cell = Cell(
        arm=arm.name,
        labels=splits.num_labels,
        seed=seed,
        setting=" or ".join(arm.describe_setting(model.value) for model in models.values()),
        epochs=model.epochs,
        elapsed_s=model.elapsed_s,
        predictions=predictions,
    )
    every_row = np.arange(len(splits.valid.classes))
    best = max(models.values(), key=lambda m: _best_epoch(m, splits, every_row, tuning)[0])
    return FittedCell(cell, CellOutputs(tuple(calibrated), tested), model.attention(), best)


def refit_cell(arm: ExperimentArm, splits: Splits, value: float, seed: int) -> FittedCell:
    """Train with a setting on all labels, and predict the test texts."""
    splits = splits.refitted()
    (model,) = arm.fit(splits, [value], seed)
    outputs = model.predict(splits.scored)
    cell = Cell(
        arm=arm.name,
        labels=splits.num_labels,
        seed=seed,
        setting=arm.describe_setting(model.value),
        epochs=model.epochs,
        elapsed_s=model.elapsed_s,
        predictions={"test": tuple(outputs.argmax(1).tolist())},
    )
    return FittedCell(cell, CellOutputs((), outputs), model.attention(), model)


def _temperature(outputs: Floats, splits: Splits, rows: Rows) -> float:
    return fit_temperature([splits.valid.classes[row] for row in rows], outputs[rows])


def _best_epoch(
    model: TrainedModel, splits: Splits, rows: Rows, tuning: Tuning
) -> tuple[Preference, int]:
    """Return how good the best epoch is on some validation texts, and its index.

    Like the training itself, among equal scores this prefers the lowest loss once calibrated.
    """
    classes = [splits.valid.classes[row] for row in rows]
    preferences = []
    for outputs in model.outputs:
        temperature = _temperature(outputs, splits, rows)
        scores = ClassifyTask().scores(at_temperature(outputs[rows], temperature), classes, {})
        preferences.append((ClassifyTask().selection_score(scores, tuning), -scores["loss"]))
    best = max(preferences)
    return best, preferences.index(best)


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
