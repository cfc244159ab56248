import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from warmstart.evaluation.metrics import accuracy, class_scores, language_scores, macro_f1

answers = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(answers)
def test_scores_agree_with_their_confusion_matrix(rows: list[tuple[int, int]]) -> None:
    truth, predicted = [t for t, _ in rows], [p for _, p in rows]
    scores = class_scores(truth, predicted, ["a", "b", "c", "d"])
    confusion = np.array(scores.confusion)
    assert confusion.sum() == scores.num_texts == len(rows)
    assert [c.support for c in scores.classes] == confusion.sum(axis=1).tolist()
    assert scores.accuracy == pytest.approx(np.trace(confusion) / len(rows))
    assert scores.accuracy == pytest.approx(accuracy_score(truth, predicted))
    for index, row in enumerate(scores.classes):
        hits, given_ = confusion[index, index], confusion[:, index].sum()
        assert row.precision == pytest.approx(hits / given_ if given_ else 0)
        assert row.recall == pytest.approx(hits / row.support if row.support else 0)
    json.dumps(asdict(scores), allow_nan=False)


@given(answers)
def test_macro_f1_is_that_of_scikit_learn(rows: list[tuple[int, int]]) -> None:
    truth, predicted = zip(*rows, strict=True)
    theirs = f1_score(truth, predicted, average="macro", zero_division=0.0)
    assert macro_f1(truth, predicted) == pytest.approx(theirs)


def test_macro_f1_leaves_out_classes_nobody_mentions() -> None:
    assert macro_f1([0, 2], [0, 2]) == 1
    assert class_scores([0, 2], [0, 2], ["a", "b", "c"]).macro_f1 == 1


def test_macro_f1_punishes_naming_only_the_majority() -> None:
    truth = [0] * 9 + [1]
    assert accuracy(truth, [0] * 10) == pytest.approx(0.9)
    assert macro_f1(truth, [0] * 10) < 0.5


@pytest.mark.parametrize(("truth", "predicted"), [([], []), ([0, 1], [0])])
def test_lists_that_do_not_match_are_refused(truth: list[int], predicted: list[int]) -> None:
    with pytest.raises(ValueError, match=f"{len(truth)} true classes and {len(predicted)}"):
        accuracy(truth, predicted)


def test_a_uniform_model_has_its_vocabulary_as_perplexity() -> None:
    scores = language_scores(nll_sum=30 * math.log(64), num_tokens=30, num_bytes=90)
    assert scores.perplexity == pytest.approx(64)
    assert scores.bits_per_byte == pytest.approx(30 * 6 / 90)


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        language_scores(0.0, 0, 10)
