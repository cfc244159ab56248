"""The estimator of scikit-learn: its conventions, and use as scikit-learn's tools use it."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from command_line import World, read_labelled_rows
from warmstart import Classifier

# docs/python.md lists these, and the checks that pass.
SHAPE = "a text has no features to count, and no text is a matrix: the wrapper below answers"
NUMBERS = "a text is no number: the wrapper below answers"
EXEMPT = {
    **dict.fromkeys(("check_n_features_in", "check_n_features_in_after_fitting"), SHAPE),
    **dict.fromkeys(("check_fit1d", "check_fit2d_1sample", "check_fit2d_1feature"), SHAPE),
    **dict.fromkeys(("check_fit2d_predict1d", "check_estimators_partial_fit_n_features"), SHAPE),
    **dict.fromkeys(("check_estimator_sparse_tag", "check_estimator_sparse_array"), NUMBERS),
    **dict.fromkeys(("check_estimator_sparse_matrix", "check_array_api_input"), NUMBERS),
    **dict.fromkeys(("check_estimators_dtypes", "check_dtype_object"), NUMBERS),
    **dict.fromkeys(("check_complex_data", "check_estimators_nan_inf"), NUMBERS),
    **dict.fromkeys(("check_readonly_memmap_input", "check_positive_only_tag_during_fit"), NUMBERS),
    **dict.fromkeys(("check_f_contiguous_array_estimator",), NUMBERS),
}


class NumberRows(Classifier):
    """Writes each row of numbers as a text: scikit-learn's checks give numbers."""

    def fit(self, X: Any, y: Any) -> "NumberRows":  # noqa: N803
        super().fit(_as_texts(validate_data(self, X)), y)
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        return super().predict_proba(_as_texts(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.one_d_array = tags.input_tags.string = False
        return tags


def _as_texts(rows: Any) -> list[str]:
    return [" ".join(f"c{i}v{value:.1f}" for i, value in enumerate(row)) for row in rows]


@pytest.fixture
def texts(world: World) -> tuple[list[str], list[str]]:
    labels, texts = zip(*read_labelled_rows(world.train), strict=True)
    return list(texts), list(labels)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn's own arrays
@pytest.mark.parametrize("is_warm", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_conventions_of_scikit_learn_hold(is_warm: bool, masked: Path) -> None:
    estimator = NumberRows(masked, frozen=True, threads=1) if is_warm else NumberRows()
    checks = check_estimator(estimator, expected_failed_checks=EXEMPT, on_fail=None, on_skip=None)
    statuses = {check["check_name"]: check["status"] for check in checks}
    names = statuses.keys() - EXEMPT.keys()
    assert {name for name in names if statuses[name] != "passed"} == set()
    page = (Path(__file__).parents[1] / "docs/python.md").read_text()
    documented = set(re.findall(r"`(check_\w+)`", page)) - {"check_estimator"}
    assert documented == statuses.keys() | EXEMPT.keys()


@pytest.mark.parametrize("settings", [{}, {"epochs": 2}, {"frozen": True}])
def test_it_learns_predicts_and_is_pickled(
    settings: dict[str, Any], texts: tuple[list[str], list[str]], masked: Path
) -> None:
    from_run = masked if settings else None
    estimator = Classifier(from_run, **settings, **({"threads": 1} if settings else {}))
    shares = estimator.fit(*texts).predict_proba(texts[0])
    assert estimator.classes_.tolist() == ["negative", "positive"]
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert set(estimator.predict(texts[0])) <= set(estimator.classes_)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_proba(texts[0]), shares)
    np.testing.assert_array_equal(clone(estimator).fit(*texts).predict_proba(texts[0]), shares)


def test_it_searches_validates_and_joins_a_pipeline(
    texts: tuple[list[str], list[str]], masked: Path
) -> None:
    frame, labels = pd.DataFrame({"text": texts[0], "id": 1}), np.array(texts[1])
    column = make_column_transformer(("passthrough", ["text"]))
    pipeline = make_pipeline(column, Classifier(masked, epochs=1, threads=1))
    rates = {"classifier__learning_rate": [1e-4, 1e-3]}
    search = GridSearchCV(pipeline, rates, cv=2, error_score="raise").fit(frame, labels)
    assert search.predict(frame).shape == (len(frame),)
    scores = cross_val_score(Classifier(), frame["text"], labels, cv=3, error_score="raise")
    assert scores.mean() > 0.6


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pd.DataFrame])
def test_texts_come_in_any_column(
    kind: Callable[[Any], Any], texts: tuple[list[str], list[str]]
) -> None:
    expected = Classifier().fit(*texts).predict_proba(texts[0])
    estimator = Classifier().fit(kind(texts[0]), pd.Series(texts[1]))
    np.testing.assert_array_equal(estimator.predict_proba(kind(texts[0])), expected)


TWO = ["a b", "c d"]


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        ("one text", ["x"], "X is one text"),
        (["a", None], ["x", "y"], r"X\[1\] is None, not a string"),
        (pd.DataFrame({"a": TWO, "b": TWO}), ["x", "y"], r"give one column of texts"),
        (TWO, ["x", "x"], "y has one class"),
        (TWO, ["x"], "inconsistent numbers of samples"),
        (TWO, [0.5, 1.5], "Unknown label type"),
        (TWO, None, "requires y"),
        (TWO, ["x", None], r"y\[1\] is None: 1 text of 2 without a label"),
        (
            TWO * 2,
            pd.Series(["x", float("nan"), "y", float("nan")]),
            r"y\[1\] is nan: 2 texts of 4",
        ),
    ],
)
def test_what_cannot_be_learned_is_a_value_error(x: Any, y: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Classifier().fit(x, y)


def test_settings_are_checked_when_it_learns(masked: Path) -> None:
    with pytest.raises(ValueError, match="epochs has no effect without from_run"):
        Classifier(epochs=3).fit(TWO, ["x", "y"])
    with pytest.raises(ValueError, match="X has too few texts"):
        Classifier(masked).fit(TWO, ["x", "y"])
    with pytest.raises(ValueError, match=r"^epochs=0 is not allowed"):
        Classifier(masked, epochs=0).fit(TWO * 9, ["x", "y"] * 9)
    with pytest.raises(NotFittedError):
        Classifier().predict(TWO)
