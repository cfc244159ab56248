"""Confident learning: its published definition, and what must hold of every doubt."""

import numpy as np
import pytest
from cleanlab.count import get_confident_thresholds
from cleanlab.filter import find_label_issues

from warmstart.evaluation.confident_learning import (
    class_thresholds,
    doubt_classes,
    doubt_label_sets,
    label_margins,
    likely_classes,
)


def random_case(seed: int, num: int = 60, num_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that mostly agree with labels."""
    generator = np.random.default_rng(seed)
    classes = np.concatenate([np.arange(num_classes), generator.integers(0, num_classes, num)])
    logits = generator.normal(size=(len(classes), num_classes))
    logits[np.arange(len(classes)), classes] += 1.0
    shares = np.exp(logits)
    return shares / shares.sum(1, keepdims=True), classes


def off_diagonal(shares: np.ndarray, classes: np.ndarray) -> dict[int, int]:
    """Return the likely class of rows off the diagonal, by the formula of the paper, text by text.

    Northcutt et al. (2021), equations 1 and 2: row x with label i is counted for the class
    j = argmax over {l: p(l, x) >= t(l)} of p(l, x), where t(l) is the mean of p(l, x) over label l.
    """
    num_classes = shares.shape[1]
    thresholds = [np.mean([s[j] for s, c in zip(shares, classes, strict=True) if c == j])
                  for j in range(num_classes)]  # fmt: skip
    found = {}
    for row, (of_row, label) in enumerate(zip(shares, classes, strict=True)):
        likely = [j for j in range(num_classes) if of_row[j] >= thresholds[j]]
        if likely and (best := max(likely, key=lambda j: of_row[j])) != label:
            found[row] = best
    return found


@pytest.mark.parametrize("seed", range(5))
def test_likely_classes_are_those_of_the_confident_joint(seed: int) -> None:
    shares, classes = random_case(seed)
    likely = likely_classes(shares, classes)
    expected = off_diagonal(shares, classes)
    assert {int(row): int(likely[row]) for row in np.flatnonzero(likely != classes)} == expected
    doubted = doubt_classes(shares, classes.tolist())
    contradicted = {row for row in expected if shares[row].argmax() != classes[row]}
    assert set(np.flatnonzero(doubted.is_doubted)) == contradicted
    assert all(doubted.answers[row] == expected[row] for row in contradicted)


def test_the_figures_of_a_small_case() -> None:
    """Worked out by hand; `cleanlab` 2.9 finds the same label, and ranks it first."""
    shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.1, 0.9]])
    classes = np.array([0, 0, 0, 1, 1])
    assert class_thresholds(shares, classes) == pytest.approx([1.9 / 3, 0.8])
    assert likely_classes(shares, classes).tolist() == [0, 0, 1, 1, 1]
    assert label_margins(shares, classes) == pytest.approx([0.8, 0.6, -0.6, 0.4, 0.8])
    doubted = doubt_classes(shares, classes.tolist())
    assert doubted.is_doubted.tolist() == [False, False, True, False, False]
    assert doubted.answers == [0, 0, 1, 1, 1]


def test_the_names_of_classes_do_not_matter() -> None:
    shares, classes = random_case(7)
    order = np.array([2, 0, 3, 1])
    moved = doubt_classes(shares[:, order], np.argsort(order)[classes].tolist())
    doubted = doubt_classes(shares, classes.tolist())
    assert moved.is_doubted.tolist() == doubted.is_doubted.tolist()
    assert moved.margins == pytest.approx(doubted.margins)
    assert [int(order[answer]) for answer in moved.answers] == doubted.answers


def test_a_class_without_texts_is_never_likely() -> None:
    shares, classes = np.array([[0.4, 0.6], [0.3, 0.7]]), [0, 0]
    assert not doubt_classes(shares, classes).is_doubted.any()


def test_one_label_a_text_is_a_set_of_one() -> None:
    """Two classes, of which each text has one: both forms doubt the same texts."""
    shares, classes = random_case(3, num_classes=2)
    marks = np.eye(2, dtype=bool)[classes]
    sets, single = doubt_label_sets(shares, marks), doubt_classes(shares, classes.tolist())
    assert sets.is_doubted.tolist() == single.is_doubted.tolist()
    assert sets.margins == pytest.approx(single.margins)
    assert sets.answers == [[answer] for answer in single.answers]


def test_missing_and_superfluous_labels_are_both_found() -> None:
    marks = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [1, 1]], bool)
    shares = np.where(marks, 0.9, 0.1)
    shares[4], shares[5] = (0.95, 0.05), (0.95, 0.05)  # both are likely to have the first alone
    doubted = doubt_label_sets(shares, marks)
    assert np.flatnonzero(doubted.is_doubted).tolist() == [4, 5]
    assert doubted.answers[4:] == [[0], [0]]


@pytest.mark.parametrize("seed", range(5))
def test_doubts_are_those_of_cleanlab(seed: int) -> None:
    shares, classes = random_case(seed, num=200)
    np.testing.assert_allclose(
        class_thresholds(shares, classes), get_confident_thresholds(classes, shares), atol=1e-5
    )
    # Its list of the off-diagonal of the confident joint, without labels that are most probable.
    theirs = find_label_issues(classes, shares, filter_by="confident_learning", n_jobs=1)
    assert np.flatnonzero(doubt_classes(shares, classes.tolist()).is_doubted).tolist() == (
        np.flatnonzero(theirs).tolist()
    )
