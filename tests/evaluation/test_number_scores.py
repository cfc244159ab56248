"""Scores of numbers equal those of the libraries, and their intervals hold what they claim."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from warmstart.evaluation.intervals import Estimate, mean_interval, paired_estimate
from warmstart.evaluation.numbers import (
    conformal_margin,
    correlation,
    least_residuals,
    number_intervals,
    number_scores,
)
from warmstart.evaluation.scale import Errors

Floats = NDArray[np.float64]
MAE = Errors("MAE", "the median")


def _ratings(rng: np.random.Generator, num: int) -> tuple[Floats, Floats]:
    """Return predictions and ratings from 1 to 10, which are not normal at all."""
    truth = rng.choice([1, 2, 3, 4, 7, 8, 9, 10], num, p=[0.3, 0.1, 0.1, 0.05, 0.05, 0.1, 0.1, 0.2])
    return 0.7 * truth + rng.normal(0, 2, num) + 1, truth.astype(np.float64)


def test_scores_are_those_of_the_libraries() -> None:
    predicted, truth = _ratings(np.random.default_rng(0), 200)
    scores = number_scores(predicted, truth)
    assert scores["mae"] == pytest.approx(mean_absolute_error(truth, predicted))
    assert scores["rmse"] == pytest.approx(root_mean_squared_error(truth, predicted))
    assert scores["pearson"] == pytest.approx(stats.pearsonr(predicted, truth)[0])
    assert scores["spearman"] == pytest.approx(stats.spearmanr(predicted, truth)[0])


@pytest.mark.parametrize("constant", [0.0, 5.5, 1e9])
def test_a_constant_correlates_with_nothing(constant: float) -> None:
    assert correlation(np.full(9, constant), np.arange(9)) == 0.0


@pytest.mark.parametrize("name", ["mae", "rmse", "pearson", "spearman"])
def test_intervals_of_scores_cover(name: str) -> None:
    rng = np.random.default_rng(1)
    target = number_scores(*_ratings(rng, 200_000))[name]
    intervals = [number_intervals(*_ratings(rng, 150))[name] for _ in range(600)]
    share = np.mean([interval.low <= target <= interval.high for interval in intervals])
    assert 0.925 <= share <= 0.98
    assert all(interval.low <= interval.mean <= interval.high for interval in intervals)


@pytest.mark.parametrize("num", [9, 19, 40, 200])
@pytest.mark.parametrize("law", ["normal", "lognormal", "ratings"])
def test_nine_of_ten_new_numbers_are_inside(num: int, law: str) -> None:
    rng = np.random.default_rng(num)
    draw = {
        "normal": lambda n: rng.normal(2, 3, n),
        "lognormal": lambda n: rng.lognormal(0, 2, n),
        "ratings": lambda n: np.subtract(*_ratings(rng, n)),
    }[law]
    inside = []
    for _ in range(3000):
        residuals = draw(num + 1)
        margin = conformal_margin(residuals[1:])
        assert margin is not None
        inside.append(abs(residuals[0]) <= margin)
    error = 3 * (0.09 / len(inside)) ** 0.5
    assert 0.9 - error <= np.mean(inside) <= 0.9 + 1 / (num + 1) + error


def test_too_few_residuals_give_no_interval() -> None:
    assert least_residuals() == 9
    assert conformal_margin(np.arange(8)) is None
    assert conformal_margin([]) is None
    assert conformal_margin(np.arange(9)) == 8.0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_no_unit_changes_what_is_shown(unit: float) -> None:
    rng = np.random.default_rng(2)
    first, second = -rng.exponential(1.0, (3, 80)), -rng.exponential(1.1, (3, 80))
    found = paired_estimate(unit * first, unit * second, MAE.span)
    expected = paired_estimate(first, second, MAE.span)
    assert found.p_value() == pytest.approx(expected.p_value())
    assert mean_interval(unit * first).low == pytest.approx(unit * mean_interval(first).low)


def test_equal_arms_show_nothing() -> None:
    assert Estimate.of(np.zeros((3, 20)), span=0.0).p_value() == 1.0


def test_an_error_is_written_without_its_sign() -> None:
    assert MAE.write(-1.234) == "1.23"
    assert MAE.write_range(-1.5, -1.25) == "1.25 to 1.50"
    assert MAE.write_gain(0.0312) == "+0.0312"
    assert MAE.write_gain(-2.0) == "−2.00"
    assert MAE.size_range(-0.01, 0.25) == "−0.010 to 0.250"
    assert MAE.write(-23456.7) == "23,457"
    assert MAE.error(-0.5) == 0.5
