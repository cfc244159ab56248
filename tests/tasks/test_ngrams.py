"""N-grams that are counted once for all subsets, against scikit-learn's own pipeline."""

import numpy as np
import pytest
from numpy.random import Generator
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from warmstart.tasks.logistic import MAX_ITERATIONS, TOLERANCE
from warmstart.tasks.tfidf import NGRAMS, BaselineTexts, CountedTexts

WORDS = [
    "a",
    "I",
    "ΣΑΣ",
    "İ",
    "été",
    "don't",
    "a.b",
    "--",
    "猫が好き",
    "42",
    "word",
    "Words",
    "🙂",
    "ﬁ",
]
GAPS = [" ", "  ", "\t", "\n", "\u00a0", "\u2028", "\x1c", ", "]


def _texts(random: Generator, num: int) -> list[str]:
    return [
        "".join(
            str(random.choice(WORDS)) + str(random.choice(GAPS)) for _ in range(random.integers(12))
        )
        for _ in range(num)
    ]


def _plain_pipeline(texts: list[str]) -> tuple[FeatureUnion, csr_matrix]:
    union = FeatureUnion(
        [
            (kind, TfidfVectorizer(**options, sublinear_tf=True, min_df=2))
            for kind, options in NGRAMS.items()
        ]
    )
    union.fit(texts)
    return union, union.transform(texts)  # fit_transform adds in another order


def _assert_same(found: csr_matrix, expected: csr_matrix) -> None:
    assert found.shape == expected.shape
    assert np.array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("seed", range(5))
def test_every_subset_has_the_features_and_the_model_of_the_plain_pipeline(seed: int) -> None:
    random = np.random.default_rng(seed)
    texts, unseen = _texts(random, 60), _texts(random, 20)
    classes, counted = random.integers(3, size=60), CountedTexts()
    for num in (60, 12, 30):
        rows = sorted(random.permutation(60)[:num], key=lambda row: (texts[row], classes[row]))
        of_rows, targets = [texts[row] for row in rows], classes[rows].tolist()
        union, columns = _plain_pipeline(of_rows)
        model = LogisticRegression(C=10.0, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
        model.fit(columns, targets)
        subset = BaselineTexts(of_rows[::-1], targets[::-1], "none", counted)
        _assert_same(subset.columns_of(of_rows), columns)
        _assert_same(subset.columns_of(unseen), union.transform(unseen))
        _assert_same(subset.features.transform(unseen), union.transform(unseen))
        assert np.array_equal(subset.fit(10.0)[0].model.coef_, model.coef_)


def test_counts_beyond_a_byte_are_kept() -> None:
    texts = ["no " * 70_000, "no " * 300 + "yes", "yes no"]
    subset = BaselineTexts(texts, [0, 1, 1], "none", CountedTexts())
    _assert_same(subset.columns_of(texts), _plain_pipeline(texts)[0].transform(texts))
