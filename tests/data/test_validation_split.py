"""Texts set aside to validate on, and what is said about labels before training."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.labelled import LabelledTexts, join_files
from warmstart.data.validation_split import describe_labels, set_aside
from warmstart.errors import WarmstartError

Rows = list[tuple[str, str]]


def _data(rows: Rows, file: str = "a.csv") -> LabelledTexts:
    texts, labels = zip(*rows, strict=True)
    return LabelledTexts(file, texts, labels, tuple(range(1, len(rows) + 1)))


def _rows(data: LabelledTexts) -> Rows:
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
    both = join_files([first, second])
    assert (_rows(both), both.file) == ([("a", "x"), ("b", "y"), ("c", "x")], "a.csv, b.csv")
    assert join_files([first]) is first


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
