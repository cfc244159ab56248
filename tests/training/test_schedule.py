import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.training.optimizers import annealing, warmup_cosine, warmup_linear


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0, 0.5))
def test_rises_to_one_and_falls_to_the_floor(steps: int, warmup: float, floor: float) -> None:
    factor = warmup_cosine(steps, warmup, floor)
    factors = [factor(step) for step in range(steps)]
    peak = factors.index(max(factors))
    assert max(factors) == pytest.approx(1)
    assert all(0 < value <= 1 for value in factors)
    assert all(value >= floor - 1e-12 for value in factors[peak:])
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert factor(steps) == pytest.approx(floor if max(1, round(steps * warmup)) < steps else 1)


@given(st.integers(2, 400), st.floats(0, 0.9))
def test_a_line_rises_to_one_and_falls_to_zero(steps: int, warmup: float) -> None:
    factor = warmup_linear(steps, warmup)
    factors = [factor(step) for step in range(steps)]
    peak = factors.index(max(factors))
    assert max(factors) == pytest.approx(1)
    assert all(0 < value <= 1 for value in factors)
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert factor(steps) == 0


@pytest.mark.parametrize("warmup", [0, 0.05, 0.5])
def test_there_are_no_jumps(warmup: float) -> None:
    steps = 1000
    factor = warmup_cosine(steps, warmup)
    rising = max(1, steps * warmup)
    changes = [abs(factor(step + 1) - factor(step)) for step in range(steps)]
    assert max(changes) <= max(1 / rising, 2 / (steps - rising)) + 1e-12


def test_the_first_step_moves_and_the_rise_is_a_line() -> None:
    factor = warmup_cosine(100, 0.1)
    assert [factor(step) for step in range(10)] == pytest.approx([(s + 1) / 10 for s in range(10)])
    assert warmup_cosine(100, 0)(0) == 1
    assert warmup_cosine(1, 0.05)(0) == 1


@pytest.mark.parametrize("start", [0, 5, 10, 60, 99])
@pytest.mark.parametrize("steps", [100, 120, 400])
def test_annealing_follows_the_earlier_rates_and_then_only_falls(start: int, steps: int) -> None:
    before = warmup_cosine(100, 0.1)
    factor = annealing(before, start, steps)
    assert [factor(step) for step in range(start)] == [before(step) for step in range(start)]
    rates = [factor(step) for step in range(start, steps)]
    peak = rates.index(max(rates))
    assert peak == max(0, 9 - start)  # the warm-up is finished first
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[0] == before(start)
    assert factor(steps) == pytest.approx(0.05)
