"""Select settings and epochs on validation texts, and predict with what was selected.

With a test set, all validation texts select. Without one, each half selects the model that predicts
the other half, so that no text is scored by a model that it helped to select. With a test set but
no validation file, and in a cross-validation, the texts that select are then trained on, too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.arms import ExperimentArm, Splits, TrainedModel
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.results import Cell, Trial, TunedArm
from warmstart.data.labelled import Dataset
from warmstart.data.splits import Rows
from warmstart.settings.training import Tuning

MARGIN_DIGITS = 4
Preference = tuple[float, float]  # the score that selects, then minus the loss


def num_tried(arm: ExperimentArm, config: CompareConfig) -> int:
    """Return how many models are trained to choose a setting, or the threshold of the answers.

    An arm with a single setting is tried, too: its score is compared with those of other arms.
    With one trial there is no choice, and a model without its threshold may answer nothing at all.
    Baselines choose theirs inside the training labels.
    """
    if config.trials > 1:
        return len(arm.settings(config.trials))
    return int(config.refits and arm.task.has_threshold and arm.uses_device)


def tune(arm: ExperimentArm, splits: Splits, config: CompareConfig, seed: int) -> TunedArm:
    """Try the settings of an arm and choose the best."""
    values, trials, temperature = arm.settings(config.trials), [], 1.0
    rows = np.unique(np.concatenate([each.selecting for each in splits.selections]))
    targets = [splits.valid.targets[row] for row in rows]
    best: list[tuple[Preference, float]] = [((-np.inf, 0.0), values[0])] * len(splits.selections)
    for model in arm.fit(splits, values, seed) if num_tried(arm, config) else ():
        for index, selection in enumerate(splits.selections):
            entry = _best_epoch(arm, model, splits, selection.selecting, config)[0], model.value
            best[index] = max(best[index], entry, key=lambda pair: pair[0])
        if best[0][1] == model.value:
            temperature = arm.task.temperature(model.outputs[-1][rows], targets)
        scores = [arm.task.scores(o[rows], targets, arm.labels) for o in model.outputs]
        best_score = max(arm.task.compared_score(score, arm.labels) for score in scores)
        setting = arm.describe_setting(model.value)
        trials.append(Trial(setting=setting, valid_accuracy=best_score))
    chosen = tuple(value for _, value in best)
    return TunedArm(
        arm=arm.name,
        labels=splits.num_labels,
        trials=tuple(trials) if config.trials > 1 else (),
        values=chosen,
        settings=tuple(map(arm.describe_setting, chosen)),
        temperature=temperature,
    )


def fit_cell(
    arm: ExperimentArm, splits: Splits, values: Sequence[float], seed: int, tuning: Tuning
) -> tuple[Cell, TrainedModel]:
    """Train with the setting of each selection; predict its texts by the epoch that it selects.

    The model that is returned does best on all validation texts.
    """
    distinct = list(dict.fromkeys(values))
    models = dict(zip(distinct, arm.fit(splits, distinct, seed), strict=True))
    predicted: list[Any] = [None] * len(splits.valid)
    for selection, value in zip(splits.selections, values, strict=True):
        _, epoch = _best_epoch(arm, models[value], splits, selection.selecting, tuning)
        outputs, rows = models[value].outputs[epoch], selection.selecting
        targets = [splits.valid.targets[row] for row in rows]
        answers = arm.task.selected_answers(outputs, rows, targets, arm.labels)
        for row in selection.predicted:
            predicted[row] = answers[row]
    predictions = {"validation": tuple(predicted)}
    model = models[values[0]]  # with a test set, the only model
    margins: tuple[float, ...] = ()
    if splits.test:
        of_test = model.predict(splits.test)
        predictions["test"] = tuple(arm.task.answers(of_test, arm.labels))
        margins = _margins(arm, of_test, splits.test)
    cell = Cell(
        arm=arm.name,
        labels=splits.num_labels,
        seed=seed,
        setting=" or ".join(arm.describe_setting(model.value) for model in models.values()),
        epochs=model.epochs,
        elapsed_s=model.elapsed_s,
        predictions=predictions,
        margins=margins,
    )
    every_row = np.arange(len(splits.valid))
    best = max(models.values(), key=lambda m: _best_epoch(arm, m, splits, every_row, tuning)[0])
    return cell, best


def refit_cell(
    arm: ExperimentArm, splits: Splits, value: float, seed: int
) -> tuple[Cell, TrainedModel]:
    """Train with a setting on all labels, and predict the test texts."""
    splits = splits.for_refit()
    (model,) = arm.fit(splits, [value], seed)
    outputs = model.predict(splits.scored)
    cell = Cell(
        arm=arm.name,
        labels=splits.num_labels,
        seed=seed,
        setting=arm.describe_setting(model.value),
        epochs=model.epochs,
        elapsed_s=model.elapsed_s,
        predictions={"test": tuple(arm.task.answers(outputs, arm.labels))},
        margins=_margins(arm, outputs, splits.scored),
    )
    return cell, model


def _margins(arm: ExperimentArm, outputs: NDArray[Any], split: Dataset) -> tuple[float, ...]:
    """Return by how much held-out outputs agree with each label; empty: the task cannot tell."""
    doubted = arm.task.doubted_labels(outputs, split.targets)
    return () if doubted is None else tuple(doubted.margins.round(MARGIN_DIGITS).tolist())


def _best_epoch(
    arm: ExperimentArm, model: TrainedModel, splits: Splits, rows: Rows, tuning: Tuning
) -> tuple[Preference, int]:
    """Return the preference and the index of the best epoch on some validation texts.

    Like the training itself, among equal scores this prefers the lowest loss once calibrated.
    """
    targets = [splits.valid.targets[row] for row in rows]
    preferences = []
    for outputs in model.outputs:
        calibrated = arm.task.calibrate(outputs[rows], targets)
        scores = arm.task.scores(calibrated, targets, arm.labels)
        score = arm.task.selection_score(scores, tuning)
        preferences.append((score, -scores.get("loss", 0.0)))
    best = max(preferences)
    return best, preferences.index(best)
