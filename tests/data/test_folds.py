"""Folds of a cross-validation: every text once, copies together, classes in proportion."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.copies import group_copies
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.folds import Folds, split_folds
from warmstart.data.labelled import LabelledTexts
from warmstart.data.overlap import find_matches
from warmstart.errors import WarmstartError

WORDS = [f"word{number}" for number in range(400)]


def _data(texts: list[str], labels: list[str]) -> LabelledTexts:
    return LabelledTexts("a.tsv", tuple(texts), tuple(labels), tuple(range(1, len(texts) + 1)))


def _split(texts: list[str], labels: list[str], num_folds: int = 3, seed: int = 0) -> Folds:
    return split_folds(_data(texts, labels), texts, num_folds, seed)


def _sentences(num: int, seed: int = 0) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=30)) for _ in range(num)]


@st.composite
def _with_copies(draw: st.DrawFn) -> list[str]:
    """Draw texts of which some are copies, parts or mixtures of others."""
    texts = _sentences(24)
    for _ in range(draw(st.integers(0, 12))):
        first, second = (draw(st.sampled_from(texts)).split() for _ in range(2))
        end = draw(st.integers(0, len(first)))
        texts.append(" ".join([*first[:end], *second[end:]]).upper() or "nothing")
    return texts


@given(_with_copies(), st.integers(2, 5), st.integers(0, 3))
def test_no_text_occurs_in_another_fold_exactly_or_nearly(
    texts: list[str], num_folds: int, seed: int
) -> None:
    labels = ["ab"[row % 2] for row in range(len(texts))]
    for fold in _split(texts, labels, num_folds, seed).folds:
        rest = fingerprints_of(texts[row] for row in fold.train + fold.valid)
        tested = fingerprints_of(texts[row] for row in fold.test)
        assert not find_matches(tested, rest).both.any()


@given(_with_copies())
def test_groups_hold_every_row_once_and_do_not_depend_on_the_order(texts: list[str]) -> None:
    groups = group_copies(fingerprints_of(texts))
    assert sorted(row for rows in groups for row in rows) == list(range(len(texts)))
    order = Random(1).sample(range(len(texts)), len(texts))
    shuffled = group_copies(fingerprints_of(texts[row] for row in order))
    assert {frozenset(rows) for rows in groups} == {
        frozenset(order[row] for row in rows) for rows in shuffled
    }


def test_texts_that_share_a_phrase_are_no_copies() -> None:
    phrase = "this is what every one of these reviews begins with "
    texts = [phrase + text for text in _sentences(20)]
    assert len(group_copies(fingerprints_of(texts))) == 20


@given(
    counts=st.lists(st.integers(2, 40), min_size=2, max_size=4),
    num_folds=st.integers(2, 7),
    seed=st.integers(0, 3),
)
def test_every_row_is_tested_once_and_classes_are_in_proportion(
    counts: list[int], num_folds: int, seed: int
) -> None:
    labels = [f"class {number}" for number, count in enumerate(counts) for _ in range(count)]
    texts = [f"text {row}" for row in range(len(labels))]
    if len(texts) < num_folds or max(counts) < 4:
        return
    folds = _split(texts, labels, num_folds, seed).folds
    assert sorted(row for fold in folds for row in fold.test) == list(range(len(texts)))
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    for label in set(labels):
        own = [sum(labels[row] == label for row in fold.test) for fold in folds]
        assert max(own) - min(own) <= 1
    for fold in folds:
        assert sorted(fold.train + fold.valid + fold.test) == list(range(len(texts)))
        assert {labels[row] for row in fold.train} == set(labels)


def test_folds_follow_the_texts_and_the_seed_not_the_order() -> None:
    texts = [f"text {row}" for row in range(60)]
    rows = [(text, "ab"[number % 2]) for number, text in enumerate(texts)]

    def contents(rows: list[tuple[str, str]], seed: int) -> list[set[str]]:
        split = _split([text for text, _ in rows], [label for _, label in rows], 4, seed)
        return [{rows[row][0] for row in fold.test} for fold in split.folds]

    shuffled = Random(1).sample(rows, len(rows))
    assert contents(shuffled, 0) == contents(rows, 0)
    assert contents(rows, 1) != contents(rows, 0)


def test_every_text_is_trained_on_in_some_fold() -> None:
    texts = [f"text {row}" for row in range(200)]
    folds = _split(texts, ["ab"[row % 2] for row in range(200)], 5).folds
    trained = Counter(row for fold in folds for row in fold.train)
    assert set(trained) == set(range(200))
    assert np.mean([len(fold.valid) / 160 for fold in folds]) == pytest.approx(0.2)


def test_copies_are_counted() -> None:
    texts = [*(f"text {row}" for row in range(20)), "TEXT 3!", "text 4"]
    assert _split(texts, ["a", "b"] * 11).num_copies == 4


@pytest.mark.parametrize(
    ("texts", "labels", "complaint"),
    [
        (["one", "two", "three", "THREE"], "abab", "--folds 4 is too many: a.tsv has only 3 texts"),
        ([f"text {n}" for n in range(9)], "aaaaaaaab", "1 text with the label 'b', all in one"),
        (
            ["so", *(f"text {n}" for n in range(8)), "So"],
            "baaaaaaaab",
            "2 texts with the label 'b'",
        ),
    ],
)
def test_texts_that_cannot_be_split_are_refused(
    texts: list[str], labels: str, complaint: str
) -> None:
    with pytest.raises(WarmstartError) as refused:
        _split(texts, list(labels), 4)
    assert complaint in str(refused.value)
