"""Settings and epochs are selected on texts that do not score them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from warmstart.comparison.arms import Saving, Splits, TrainedModel
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.results import Arm
from warmstart.comparison.selection import fit_cell, tune
from warmstart.data.labelled import Dataset
from warmstart.evaluation.calibration import fit_temperature
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.finetuning import Labels

CLASSES = [0, 1] * 10
CONFIG = CompareConfig(from_runs=("run",), train=("t",), valid="v", out="o", trials=2)


def split(classes: Sequence[int]) -> Dataset:
    return Dataset(texts=["text"] * len(classes), targets=classes, strata=classes)


def splits(has_test: bool = False) -> Splits:
    return Splits(split([0, 1]), split(CLASSES), split([0, 1, 0]) if has_test else None)


def answers(is_right: np.ndarray, share: float = 0.9) -> np.ndarray:
    """Return probabilities that answer some texts right."""
    answer = np.where(is_right, CLASSES, 1 - np.array(CLASSES))
    return np.where(np.eye(2, dtype=bool)[answer], share, 1 - share)


def zeros(split: Dataset) -> np.ndarray:
    return np.eye(2)[[0] * len(split.texts)]


@dataclass(frozen=True)
class ToyArm:
    """An arm whose answers are known: those of each epoch, by setting."""

    outputs: dict[float, list[np.ndarray]]
    name: str = "toy"
    task: ClassifyTask = ClassifyTask()
    labels: Labels = field(default_factory=lambda: {"classes": ["a", "b"]})
    uses_device: ClassVar[bool] = False

    def describe(self) -> Arm:
        return Arm(name=self.name, kind="warm")

    def settings(self, trials: int) -> list[float]:
        return list(self.outputs)[:trials]

    def describe_setting(self, value: float) -> str:
        return f"setting {value:g}"

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        for value in values:
            saving = Saving("toy", None, None, lambda folder: None)
            yield TrainedModel(value, self.outputs[value], (), 1.0, zeros, saving)


def right_on(rows: np.ndarray) -> np.ndarray:
    return np.isin(np.arange(len(CLASSES)), rows)


def accuracy(predictions: Sequence[int]) -> float:
    return float(np.mean(np.array(predictions) == CLASSES))


@pytest.fixture
def halves() -> tuple[np.ndarray, np.ndarray]:
    first, second = splits().selections
    return first.selecting, second.selecting


def test_an_epoch_that_is_good_by_luck_on_one_half_scores_on_the_other(
    halves: tuple[np.ndarray, np.ndarray],
) -> None:
    lucky = [answers(right_on(half)) for half in halves]
    cell, _ = fit_cell(ToyArm({1.0: lucky}), splits(), (1.0, 1.0), 0, CONFIG)
    assert accuracy(cell.predictions["validation"]) == 0  # selected on all texts it would be a half
    assert "test" not in cell.predictions


def test_each_half_has_the_setting_that_the_other_half_prefers(
    halves: tuple[np.ndarray, np.ndarray],
) -> None:
    arm = ToyArm({float(n): [answers(right_on(half))] for n, half in enumerate(halves)})
    tuned = tune(arm, splits(), CONFIG, -1)
    assert tuned.values == (0.0, 1.0)
    cell, _ = fit_cell(arm, splits(), tuned.values, 0, CONFIG)
    assert accuracy(cell.predictions["validation"]) == 0
    assert cell.setting == "setting 0 or setting 1"


def test_a_real_difference_is_found_by_both_halves() -> None:
    poor = right_on(np.arange(4))
    arm = ToyArm({1.0: [answers(poor)], 3.0: [answers(~poor)]})
    tuned = tune(arm, splits(), CONFIG, -1)
    assert tuned.values == (3.0, 3.0)
    assert [trial.valid_accuracy for trial in tuned.trials] == [0.2, 0.8]
    assert tuned.temperature == fit_temperature(CLASSES, answers(~poor)) != 1


def test_with_a_test_set_one_setting_is_selected_on_all_texts(
    halves: tuple[np.ndarray, np.ndarray],
) -> None:
    arm = ToyArm({1.0: [answers(right_on(halves[0]))], 3.0: [answers(right_on(np.arange(11)))]})
    tuned = tune(arm, splits(has_test=True), CONFIG, -1)
    assert tuned.values == (3.0,)
    cell, _ = fit_cell(arm, splits(has_test=True), tuned.values, 0, CONFIG)
    assert cell.predictions["test"] == (0, 0, 0)


def test_only_texts_that_select_score_a_trial() -> None:
    given = replace(splits(has_test=True), num_selecting=4)
    rows = given.selections[0].selecting
    arm = ToyArm({1.0: [answers(right_on(rows))], 3.0: [answers(~right_on(rows))]})
    tuned = tune(arm, given, CONFIG, -1)
    assert [trial.valid_accuracy for trial in tuned.trials] == [1, 0]


def test_equal_accuracies_are_told_apart_by_the_loss() -> None:
    right = right_on(np.arange(10))
    doubtful = np.where(right[:, None], answers(right, 0.9), answers(right, 0.6))
    arm = ToyArm({1.0: [answers(right)], 3.0: [doubtful]})
    assert tune(arm, splits(has_test=True), CONFIG, -1).values == (3.0,)


def test_a_score_does_not_profit_from_the_number_of_looks() -> None:
    rng = np.random.default_rng(0)
    fitted = {True: [], False: []}
    for _ in range(30):
        guesses = [answers(rng.random(len(CLASSES)) < 0.5) for _ in range(24)]
        for has_test, scores in fitted.items():
            given = splits(has_test)
            values = (1.0,) * len(given.selections)
            cell, _ = fit_cell(ToyArm({1.0: guesses}), given, values, 0, CONFIG)
            scores.append(accuracy(cell.predictions["validation"]))
    assert abs(np.mean(fitted[False]) - 0.5) < 0.05  # cross-fitted
    assert np.mean(fitted[True]) > 0.65  # what selected is then not what is scored
