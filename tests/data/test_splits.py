"""Splits of labelled texts: a share to validate on, and folds."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.copies import find_matches, group_copies
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import Fold, describe_labels, set_aside, split_folds
from warmstart.errors import WarmstartError

Rows = list[tuple[str, str]]


def _data(rows: Rows, file: str = "a.csv") -> Dataset:
    texts, labels = zip(*rows, strict=True)
    return Dataset(file, texts, labels, tuple(range(1, len(rows) + 1)))


def _rows(data: Dataset) -> Rows:
    return list(zip(data.texts, data.labels, strict=True))


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("xyz")), min_size=6))
def test_every_row_is_on_one_side_and_copies_are_on_the_same(rows: Rows) -> None:
    data = _data([*rows, *((f"more {n}", "x") for n in range(10))])
    train, valid = set_aside(data)
    assert Counter(_rows(train)) + Counter(_rows(valid)) == Counter(_rows(data))
    assert not set(train.texts) & set(valid.texts)
    assert set(valid.labels) <= set(train.labels)


@pytest.mark.parametrize(("num_rare", "num_valid"), [(1, 0), (2, 1), (6, 3), (10, 5), (100, 20)])
def test_every_class_gives_its_share_or_a_handful(num_rare: int, num_valid: int) -> None:
    common = [(f"common {n}", "common") for n in range(400)]
    rare = [(f"rare {n}", "rare") for n in range(num_rare)]
    _, valid = set_aside(_data([*common, *rare]))
    assert Counter(valid.labels) == Counter({"common": 80, "rare": num_valid})


def test_of_many_texts_no_more_are_set_aside_than_choose_well() -> None:
    train, valid = set_aside(_data([(f"text {n}", "ab"[n % 2]) for n in range(12_000)]))
    assert (len(train), Counter(valid.labels)) == (10_000, Counter(a=1_000, b=1_000))


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = [(f"text {n}", "ab"[n % 2]) for n in range(60)]
    _, valid = set_aside(_data(rows))
    shuffled = Random(1).sample(rows, len(rows))
    assert set(_rows(set_aside(_data(shuffled))[1])) == set(_rows(valid))


def test_too_few_texts_to_set_aside() -> None:
    with pytest.raises(WarmstartError, match=r"too few texts \(2\) .* --valid"):
        set_aside(_data([("a", "x"), ("b", "y")]))


def test_several_files_are_read_one_after_the_other() -> None:
    first, second = _data([("a", "x")]), _data([("b", "y"), ("c", "x")], "b.csv")
    both = join_datasets([first, second])
    assert (_rows(both), both.file) == ([("a", "x"), ("b", "y"), ("c", "x")], "a.csv, b.csv")
    assert join_datasets([first]) is first


def test_unusual_labels_are_pointed_out() -> None:
    texts = _data([("a", "Pos"), ("b", "pos"), ("c", "pos"), ("d", "neg"), ("e", "neg")])
    notes = describe_labels(texts, _data([("f", "neg")], "b.csv"))
    assert notes == [
        "a.csv: only one text with the label 'Pos'",
        "b.csv: no text with the label 'Pos', 'pos' to validate on",
        "the labels 'Pos' (1) and 'pos' (2) differ only in case or spaces, but are two classes",
    ]
    usual = _data([("a", "x"), ("b", "y")] * 2)
    assert describe_labels(usual, usual) == []


WORDS = [f"word{number}" for number in range(400)]


def _labelled(texts: list[str], labels: list[str]) -> Dataset:
    return Dataset("a.tsv", tuple(texts), tuple(labels), tuple(range(1, len(texts) + 1)))


def _split(
    texts: list[str], labels: list[str], num_folds: int = 3, seed: int = 0
) -> tuple[tuple[Fold, ...], int]:
    return split_folds(_labelled(texts, labels), texts, num_folds, seed)


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
    for fold in _split(texts, labels, num_folds, seed)[0]:
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
    folds, _ = _split(texts, labels, num_folds, seed)
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
        folds, _ = _split([text for text, _ in rows], [label for _, label in rows], 4, seed)
        return [{rows[row][0] for row in fold.test} for fold in folds]

    shuffled = Random(1).sample(rows, len(rows))
    assert contents(shuffled, 0) == contents(rows, 0)
    assert contents(rows, 1) != contents(rows, 0)


def test_every_text_is_trained_on_in_some_fold() -> None:
    texts = [f"text {row}" for row in range(200)]
    folds, _ = _split(texts, ["ab"[row % 2] for row in range(200)], 5)
    trained = Counter(row for fold in folds for row in fold.train)
    assert set(trained) == set(range(200))
    assert np.mean([len(fold.valid) / 160 for fold in folds]) == pytest.approx(0.2)


def test_copies_are_counted() -> None:
    texts = [*(f"text {row}" for row in range(20)), "TEXT 3!", "text 4"]
    assert _split(texts, ["a", "b"] * 11)[1] == 4


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
