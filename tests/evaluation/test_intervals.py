import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from warmstart.evaluation.intervals import Interval, interval, paired_interval

QUICK = 500  # resamples

arms = st.tuples(st.integers(1, 4), st.integers(1, 30)).flatmap(
    lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape))
)


def flips(seeds: int, texts: int, share: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((seeds, texts)) < share


@settings(deadline=None, max_examples=50)
@given(arms)
def test_identical_arms_do_not_differ(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, _ = pair
    assert paired_interval(a, a, resamples=QUICK) == Interval(mean=0, low=0, high=0)


@settings(deadline=None, max_examples=50)
@given(arms)
def test_swapping_arms_negates_the_interval(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    there, back = paired_interval(a, b, resamples=QUICK), paired_interval(b, a, resamples=QUICK)
    assert there.mean == pytest.approx(-back.mean, abs=1e-12)
    assert there.low == pytest.approx(-back.high, abs=1e-12)
    assert there.high == pytest.approx(-back.low, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(arms)
def test_accuracies_stay_within_their_range(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, _ = pair
    found = interval(a, resamples=QUICK)
    assert 0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1
    assert found.mean == pytest.approx(a.mean())


def test_the_same_input_gives_the_same_interval() -> None:
    a, b = flips(3, 200, 0.8), flips(3, 200, 0.7, seed=1)
    assert paired_interval(a, b) == paired_interval(a, b)
    assert paired_interval(a, b) != paired_interval(a, b, seed=1)


def test_fewer_texts_and_fewer_seeds_widen_the_interval() -> None:
    def width(seeds: int, texts: int) -> float:
        found = interval(flips(seeds, texts, 0.8), resamples=2000)
        return found.high - found.low

    assert width(1, 50) > 1.5 * width(1, 200) > 2 * width(1, 1000)
    assert width(1, 400) > width(4, 400)


def test_seeds_that_disagree_widen_the_interval() -> None:
    steady = np.stack([flips(1, 400, 0.8, seed)[0] for seed in range(3)])
    shaky = np.stack([flips(1, 400, share)[0] for share in (0.6, 0.8, 1.0)])
    narrow, wide = interval(steady), interval(shaky)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_one_deterministic_row_stands_against_every_seed() -> None:
    a, b = flips(3, 300, 0.8), flips(1, 300, 0.7, seed=1)
    assert paired_interval(a, b) == paired_interval(a, np.repeat(b, 3, axis=0))


def test_pairing_removes_what_both_arms_find_hard() -> None:
    hard = flips(1, 500, 0.7)
    better = hard | flips(1, 500, 0.05, seed=1)
    paired = paired_interval(better, hard)
    alone = interval(better)
    assert paired.low > 0
    assert paired.high - paired.low < alone.high - alone.low


def test_many_kinds_of_text_are_drawn_like_few() -> None:
    values = np.random.default_rng(0).random(1000)
    found = interval(values)
    margin = 1.96 * values.std() / np.sqrt(len(values))
    assert found.low == pytest.approx(values.mean() - margin, abs=0.1 * margin)
    assert found.high == pytest.approx(values.mean() + margin, abs=0.1 * margin)


@pytest.mark.parametrize(("seeds", "seed_noise"), [(1, 0.0), (4, 0.02)])
def test_about_95_in_100_intervals_hold_the_truth(seeds: int, seed_noise: float) -> None:
    rng = np.random.default_rng(0)
    hits, rounds = 0, 300
    for _ in range(rounds):
        luck = rng.normal(0, seed_noise, (2, seeds, 1))
        ease = rng.random(200)
        a = ease < 0.80 + luck[0]  # what one seed finds hard, the others find hard too
        b = ease < 0.75 + luck[1]
        found = paired_interval(a, b, resamples=QUICK)
        hits += found.low <= 0.05 <= found.high
    assert 0.88 <= hits / rounds <= 0.99


@pytest.mark.parametrize(("a", "b"), [((2, 5), (3, 5)), ((1, 1), (1, 5))])
def test_arms_that_cannot_be_paired_are_refused(a: tuple[int, int], b: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_interval(np.ones(a), np.ones(b))


def test_no_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="not empty"):
        interval([])
