from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from warmstart.evaluation.intervals import (
    LEVEL,
    Interval,
    accuracy_interval,
    adjust_by_holm,
    paired_estimate,
    paired_interval,
)

arms = st.tuples(st.integers(1, 4), st.integers(1, 30)).flatmap(
    lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape))
)


def flips(seeds: int, texts: int, share: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((seeds, texts)) < share


def width(found: Interval) -> float:
    return found.high - found.low


@settings(deadline=None, max_examples=50)
@given(arms)
def test_identical_arms_do_not_differ(pair: tuple[np.ndarray, np.ndarray]) -> None:
    found = paired_interval(pair[0], pair[0])
    assert found.mean == 0
    assert found.low == -found.high < 0


@settings(deadline=None, max_examples=50)
@given(arms)
def test_swapping_arms_negates_the_interval(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    there, back = paired_interval(a, b), paired_interval(b, a).negate()
    assert (there.mean, there.low, there.high) == pytest.approx((back.mean, back.low, back.high))


@settings(deadline=None, max_examples=50)
@given(arms)
def test_accuracies_stay_within_their_range(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, _ = pair
    found = accuracy_interval(a)
    assert 0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1
    assert found.mean == pytest.approx(a.mean())


@pytest.mark.parametrize("num_texts", [2, 24, 400])
def test_a_perfect_score_is_not_certain(num_texts: int) -> None:
    assert accuracy_interval(np.ones((3, num_texts))).low < 1 - 1 / num_texts
    assert accuracy_interval(np.zeros(num_texts)).high > 1 / num_texts


@pytest.mark.parametrize(("num_texts", "is_shown"), [(1, False), (2, False), (24, True)])
def test_a_few_unanimous_texts_prove_nothing(num_texts: int, is_shown: bool) -> None:
    found = paired_interval(np.ones(num_texts), np.zeros(num_texts))
    assert (found.low > 0) == is_shown


def test_fewer_texts_and_fewer_seeds_widen_the_interval() -> None:
    def of(seeds: int, texts: int) -> float:
        return width(accuracy_interval(flips(seeds, texts, 0.8)))

    assert of(1, 50) > 1.5 * of(1, 200) > 2 * of(1, 1000)
    assert of(2, 400) > of(3, 400) > of(5, 400)


def test_seeds_that_disagree_widen_the_interval() -> None:
    steady = np.stack([flips(1, 400, 0.8, seed)[0] for seed in range(3)])
    shaky = np.stack([flips(1, 400, share)[0] for share in (0.6, 0.8, 1.0)])
    assert width(accuracy_interval(shaky)) > 2 * width(accuracy_interval(steady))


def test_one_deterministic_row_stands_against_every_seed() -> None:
    a, b = flips(3, 300, 0.8), flips(1, 300, 0.7, seed=1)
    assert paired_interval(a, b) == paired_interval(a, np.repeat(b, 3, axis=0))


def test_pairing_removes_what_both_arms_find_hard() -> None:
    hard = flips(1, 500, 0.7)
    better = hard | flips(1, 500, 0.05, seed=1)
    paired = paired_interval(better, hard)
    assert paired.low > 0
    assert width(paired) < width(accuracy_interval(better))


def test_one_seed_and_many_texts_are_the_textbook_interval() -> None:
    a, b = flips(1, 2000, 0.8), flips(1, 2000, 0.7, seed=1)
    difference = a.astype(float) - b
    found = paired_interval(a, b)
    margin = 1.96 * difference.std(ddof=1) / np.sqrt(2000)
    assert found.low == pytest.approx(difference.mean() - margin, abs=0.01 * margin)
    assert found.high == pytest.approx(difference.mean() + margin, abs=0.01 * margin)


def coverage(seeds: int, spread: float, rounds: int = 500) -> tuple[float, float]:
    """Return how many intervals hold the true accuracy, and the true difference of two arms."""
    rng, held = np.random.default_rng(0), np.zeros(2)
    for _ in range(rounds):
        ease = np.sqrt(0.6) * rng.standard_normal(500)  # what one seed finds hard, others do too
        own = np.sqrt(0.4) * rng.standard_normal((2, seeds, 500))
        luck = rng.normal(0, spread, (2, seeds, 1))
        a, b = ease + own < ndtri(np.array([0.85, 0.80])[:, None, None] + luck)
        for index, (found, truth) in enumerate(
            [(accuracy_interval(a), 0.85), (paired_interval(a, b), 0.05)]
        ):
            held[index] += found.low <= truth <= found.high
    return tuple(held / rounds)


@pytest.mark.parametrize(("seeds", "spread"), list(product((2, 3, 5), (0.0, 0.02, 0.04))))
def test_95_in_100_intervals_hold_the_truth_however_few_the_seeds(
    seeds: int, spread: float
) -> None:
    noise = 0.02  # two standard errors of 500 rounds
    for share in coverage(seeds, spread):
        assert share >= 0.93 - noise
        assert share <= 0.97 + noise or seeds < 5


@pytest.mark.parametrize(("num", "lowest"), [(1, 0.75), (2, 0.93), (3, 0.93)])
def test_several_pretrainings_bring_their_own_chance_into_the_interval(
    num: int, lowest: float
) -> None:
    rng, held, rounds = np.random.default_rng(0), 0, 300
    for _ in range(rounds):
        luck = rng.normal(0, 0.009, (num, 1, 1)) + rng.normal(0, 0.01, (num, 5, 1))
        first = rng.random((num, 5, 2000)) < 0.85 + luck
        interval = paired_interval(first, rng.random((5, 2000)) < 0.85)
        held += interval.low <= 0 <= interval.high
    assert held / rounds >= lowest
    assert (held / rounds < 0.93) == (num == 1)  # one pretraining hides that others differ


@settings(deadline=None, max_examples=50)
@given(arms)
def test_the_interval_at_the_level_of_the_p_value_just_reaches_zero(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    found = paired_estimate(*pair)
    p = found.p_value()
    assert 0 < p <= 1
    if 1e-9 < p < 1:
        assert found.margin(1 - p) == pytest.approx(abs(found.mean), rel=1e-3)
    assert (p < 1 - LEVEL) == (abs(found.mean) > found.margin())


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    assert adjust_by_holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert adjust_by_holm([0.6, 0.9]) == [1.0, 1.0]
    assert adjust_by_holm([0.02]) == [0.02]
    assert adjust_by_holm([]) == []


@pytest.mark.parametrize(("a", "b"), [((2, 5), (3, 5)), ((1, 1), (1, 5)), ((2, 1, 5), (3, 1, 5))])
def test_arms_that_cannot_be_paired_are_refused(a: tuple[int, int], b: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_interval(np.ones(a), np.ones(b))


def test_no_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="not empty"):
        accuracy_interval([])
