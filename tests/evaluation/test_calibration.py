import json
from dataclasses import asdict

import numpy as np
import pytest
from numpy.typing import NDArray

from warmstart.evaluation.calibration import at_temperature, calibration, fit_temperature

Floats = NDArray[np.float64]


def test_a_sure_and_right_classifier_is_calibrated() -> None:
    found = calibration([0, 1, 1], [[1, 0], [0, 1], [0, 1]])
    assert (found.expected_error, found.brier) == (0, 0)


def test_a_sure_and_wrong_classifier_is_not() -> None:
    found = calibration([1, 0], [[1, 0], [0, 1]])
    assert (found.expected_error, found.brier) == (1, 2)


@pytest.mark.parametrize("num_bins", [10, 15])
def test_honest_probabilities_have_little_calibration_error(num_bins: int) -> None:
    rng = np.random.default_rng(0)
    share = rng.random(20_000)
    truth = (rng.random(20_000) < share).astype(int)
    honest = calibration(truth, np.stack([1 - share, share], axis=1), num_bins)
    bold = np.clip(1.5 * share - 0.25, 0, 1)
    boastful = calibration(truth, np.stack([1 - bold, bold], axis=1), num_bins)
    assert honest.expected_error < 0.02 < 0.05 < boastful.expected_error
    assert honest.brier < boastful.brier
    assert len(honest.bins) == num_bins
    assert sum(b.count for b in honest.bins) == 20_000
    for b in honest.bins:
        assert b.confidence is None or b.low <= b.confidence <= b.high
    json.dumps(asdict(honest), allow_nan=False)


def _drawn(num_texts: int, num_classes: int = 3) -> tuple[NDArray[np.int64], Floats]:
    """Return true classes and the probabilities they were drawn from."""
    rng = np.random.default_rng(num_texts)
    shares = rng.dirichlet(np.full(num_classes, 0.7), num_texts)
    truth = (rng.random((num_texts, 1)) > shares.cumsum(1)).sum(1).clip(max=num_classes - 1)
    return truth, shares


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_of_distorted_probabilities_is_found(temperature: float) -> None:
    truth, shares = _drawn(20_000)
    distorted = at_temperature(shares, 1 / temperature)
    fitted = fit_temperature(truth, distorted)
    assert fitted == pytest.approx(temperature, rel=0.05)
    errors = [
        calibration(truth, probabilities).expected_error
        for probabilities in (distorted, at_temperature(distorted, fitted))
    ]
    assert errors[1] < 0.02
    assert errors[0] > 0.05 or temperature == 1


def test_no_temperature_near_the_fitted_one_has_a_lower_loss() -> None:
    truth, shares = _drawn(5_000)

    def loss(temperature: float) -> float:
        tempered = at_temperature(shares**2, temperature)
        return float(-np.log(tempered[np.arange(len(truth)), truth]).mean())

    fitted = fit_temperature(truth, shares**2)
    assert all(loss(fitted) <= loss(fitted * factor) + 1e-5 for factor in (0.9, 0.99, 1.01, 1.1))


def test_a_temperature_changes_no_answer_and_two_of_them_multiply() -> None:
    _, shares = _drawn(200)
    tempered = at_temperature(shares, 2.5)
    assert (tempered.argmax(1) == shares.argmax(1)).all()
    assert tempered.sum(1) == pytest.approx(1)
    np.testing.assert_allclose(at_temperature(tempered, 0.4), shares, atol=1e-12)


@pytest.mark.parametrize("num_texts", [4, 40, 400])
def test_few_right_answers_prove_no_certainty(num_texts: int) -> None:
    truth = np.arange(num_texts) % 2
    shares = np.where(np.eye(2)[truth] == 1, 0.9, 0.1)
    confidence = at_temperature(shares, fit_temperature(truth, shares)).max()
    assert confidence == pytest.approx((num_texts + 1) / (num_texts + 2), abs=1e-4)


@pytest.mark.parametrize("shares", [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
def test_certainty_right_or_wrong_has_a_finite_temperature(shares: list[list[float]]) -> None:
    fitted = fit_temperature([0, 1], np.array(shares))
    assert 0.05 <= fitted <= 20
    assert np.isfinite(at_temperature(np.array(shares), fitted)).all()


def test_classes_that_a_model_has_never_seen_change_no_temperature() -> None:
    """A class of one text is in no other fold: zero for it says nothing about certainty."""
    generator = np.random.default_rng(0)
    shares = generator.dirichlet(np.ones(3), size=40)
    truth = [int(generator.choice(3, p=row)) for row in shares]
    with_unknown = np.concatenate([shares, np.zeros((40, 1))], axis=1)
    with_unknown = np.concatenate([with_unknown, [[1.0, 0.0, 0.0, 0.0]]])
    is_known = np.ones(with_unknown.shape, bool)
    is_known[:, 3] = False
    fitted = fit_temperature([*truth, 3], with_unknown, is_known)
    assert fitted == pytest.approx(fit_temperature(truth, shares), rel=0.05)
    assert fit_temperature([*truth, 3], with_unknown) > 2 * fitted
