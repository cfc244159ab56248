"""The cells of the baseline share what they count, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from warmstart.comparison.arms import BaselineArm, Splits
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.selection import fit_cell, tune
from warmstart.data.labelled import Dataset
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.tfidf import CountedTexts, TfidfBaseline

CONFIG = CompareConfig(from_runs=("run",), train=("t",), valid="v", out="o", trials=3)
WORDS = [f"{stem}{end}" for stem in ("ab", "cd", "ef", "gh") for end in ("", "a", "bc", "!")]


def _arm() -> BaselineArm:
    return BaselineArm(
        ClassifyTask(), {"classes": ["a", "b"]}, TfidfBaseline(2, "none", CountedTexts())
    )


@pytest.fixture
def texts() -> Dataset:
    random = np.random.default_rng(0)
    classes = random.integers(2, size=90).tolist()
    written = [" ".join(random.choice(WORDS[4 * c : 4 * c + 12], 6)) for c in classes]
    return Dataset(texts=written, targets=classes, strata=classes)


@pytest.mark.parametrize("has_test", [True, False])
def test_a_cell_is_the_same_whatever_was_counted_before(has_test: bool, texts: Dataset) -> None:
    shared = _arm()
    for fold in range(3):  # the texts that one fold trains on, another one tests
        rows = np.roll(np.arange(90), 30 * fold).tolist()
        test = texts.subset(rows[60:]) if has_test else None
        splits = Splits(texts.subset(rows[:40]), texts.subset(rows[40:60]), test)
        for num in (40, 12):
            subset = replace(splits, train=splits.train.subset(range(num)))
            alone = _arm()
            tuned = tune(shared, subset, CONFIG, 0)
            assert tuned == tune(alone, subset, CONFIG, 0)
            found, expected = (
                fit_cell(arm, subset, tuned.values, 0, CONFIG) for arm in (shared, alone)
            )
            assert found[0].predictions == expected[0].predictions
            assert np.array_equal(found[1].outputs, expected[1].outputs)
