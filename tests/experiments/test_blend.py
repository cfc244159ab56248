"""Blends: two arms that answer together, with a weight that no predicted text helps to choose."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from product import MACHINE, World, read, run, succeed
from warmstart.comparison.arms import ArmSplit, Splits
from warmstart.comparison.results import Cell
from warmstart.comparison.selection import Blend, CellOutputs, FittedCell, choose_weight
from warmstart.tasks.labelled_data import Examples

CLASSES = [0, 1] * 10
BLEND = Blend("blend", "warm", "tf-idf")
COMMAND = (
    f"compare --from {{base}} --train {{train}} --valid {{valid}} --seeds 0,1 --trials 1 "
    f"--epochs 2 {MACHINE} -o out"
)


def _answers(is_right: Sequence[bool], share: float = 0.9) -> np.ndarray:
    right = np.eye(2)[CLASSES]
    return np.where(np.array(is_right)[:, None], right, 1 - right) * (2 * share - 1) + 1 - share


def _split(classes: Sequence[int]) -> ArmSplit:
    return ArmSplit(["text"] * len(classes), Examples([()] * len(classes), classes))


def _fitted(validation: Sequence[np.ndarray], test: np.ndarray | None = None) -> FittedCell:
    predictions = {"validation": (0,) * len(CLASSES)}
    if test is not None:
        predictions["test"] = (0,) * len(test)
    cell = Cell(
        arm="warm",
        labels=2,
        seed=0,
        setting="",
        epochs=(),
        elapsed_s=1.0,
        predictions=predictions,
    )
    return FittedCell(cell, CellOutputs(tuple(validation), test))


def _accuracy(predicted: Sequence[int]) -> float:
    return float(np.mean(np.array(predicted) == CLASSES))


def test_the_weight_goes_to_the_arm_that_is_right() -> None:
    right, wrong = _answers([True] * 20), _answers([False] * 20)
    assert choose_weight(CLASSES, right, wrong) == 0
    assert choose_weight(CLASSES, wrong, right) == 1
    assert choose_weight(CLASSES, right, right) == 0


def test_two_arms_that_are_wrong_in_different_places_are_better_together() -> None:
    rng = np.random.default_rng(0)
    doubts = [rng.uniform(-0.5, 1.0, 20) for _ in range(2)]
    first, second = (
        np.where(
            np.eye(2, dtype=bool)[CLASSES], *(0.5 + sign * doubt[:, None] / 2.1 for sign in (1, -1))
        )
        for doubt in doubts
    )
    fitted = [_fitted([arm], arm) for arm in (first, second)]
    cell = BLEND.fit(*fitted, Splits(_split([0, 1]), _split(CLASSES), _split(CLASSES))).cell
    alone = [_accuracy(arm.argmax(1).tolist()) for arm in (first, second)]
    assert _accuracy(cell.predictions["test"]) >= max(alone)
    assert (cell.arm, cell.elapsed_s, cell.epochs) == ("blend", 2.0, ())


def test_no_text_chooses_the_weight_that_it_is_predicted_with() -> None:
    splits = Splits(_split([0, 1]), _split(CLASSES), None)
    halves = [np.isin(np.arange(20), selection.selecting) for selection in splits.selections]
    # Each arm is right on one half only. Chosen on all texts, a weight would get half of them.
    first, second = (_fitted([_answers(half)] * 2) for half in halves)
    assert _accuracy(BLEND.fit(first, second, splits).cell.predictions["validation"]) == 0


def test_the_other_folds_choose_the_weight_of_a_fold() -> None:
    # Each arm is right on one fold only: weights chosen on the fold itself would be right on both.
    right, wrong = _answers([True] * 20), _answers([False] * 20)
    first = [_fitted([], right), _fitted([], wrong)]
    second = [_fitted([], wrong), _fitted([], right)]
    for fitted in BLEND.cross_fit(first, second, [CLASSES, CLASSES]):
        assert _accuracy(fitted.cell.predictions["test"]) == 0
        assert set(fitted.cell.predictions) == {"test"}


def _cells(folder: Path) -> dict[tuple[str, int], Any]:
    return {
        (cell["arm"], cell["seed"]): cell["predictions"]
        for cell in read(folder / "results.json")["cells"]
    }


@pytest.mark.parametrize("scored", ["", "--test {test}", "--folds 3"])
def test_a_blend_is_compared_with_its_members_and_changes_no_other_arm(
    scored: str, world: World, base: Path, here: Path
) -> None:
    places = {**vars(world), "base": base}
    ran = succeed(f"{COMMAND} {scored} --arms warm,tfidf,blend", **places)
    blended, result = _cells(here / "out"), read(here / "out/results.json")
    pairs = {(d["first"], d["second"]) for d in result["summary"]["differences"]}
    assert {("blend", "warm"), ("blend", "tf-idf"), ("warm", "tf-idf")} == pairs
    assert "between blend and warm" in ran.out or "blend beats" in ran.out or "loses" in ran.out
    assert "blend" in (here / "out/report.html").read_text(encoding="utf-8")
    (here / "out/results.json").unlink()
    succeed(f"{COMMAND} {scored} --arms warm,tfidf,blend --resume", **places)
    assert _cells(here / "out") == blended
    plain = f"{COMMAND} {scored} --arms warm,tfidf".replace("-o out", "-o plain")
    succeed(plain, **places)
    assert {k: p for k, p in blended.items() if k[0] != "blend"} == _cells(here / "plain")
    assert not (here / "out/models/blend").exists()


def test_a_damaged_cell_is_named(world: World, base: Path, here: Path) -> None:
    command = f"{COMMAND} --arms warm,tfidf,blend"
    succeed(command, **vars(world), base=base)
    (here / "out/results.json").unlink()
    file = here / "out/cells/1-baseline-48-0.json"
    content = read(file)
    content["outputs"]["validation"][0].pop()
    file.write_text(json.dumps(content), encoding="utf-8")
    ran = run(f"{command} --resume", **vars(world), base=base)
    assert ran.code == 2
    assert "1-baseline-48-0.json is damaged (it has probabilities of other texts)" in ran.said
    content["cell"]["seed"] += 1
    file.write_text(json.dumps(content), encoding="utf-8")
    ran = run(f"{command} --resume", **vars(world), base=base)
    assert ran.code == 2
    assert "1-baseline-48-0.json is damaged (it is another cell)" in ran.said


def test_a_blend_needs_its_members(world: World, base: Path, here: Path) -> None:
    ran = run(f"{COMMAND} --arms warm,blend", **vars(world), base=base)
    assert ran.code == 2
    assert "--arms warm,blend: blend is warm and tfidf together" in ran.said
    assert not (here / "out").exists()
