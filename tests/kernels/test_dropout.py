"""Dropout drops the share it should, keeps the mean, and depends on the seed alone."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from warmstart.kernels.layers import Dropout, attend, dropout

MANY = 400_000


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_share_is_dropped_and_the_mean_is_kept(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    found = dropout(torch.ones(MANY, dtype=dtype), probability)
    spread = (probability * (1 - probability) / MANY) ** 0.5
    assert abs((found == 0).double().mean().item() - probability) < 5 * spread
    kept = found[found != 0]
    assert (kept == kept[0]).all()
    assert_close(kept[0].item(), 1 / (1 - probability), rtol=5e-3, atol=0)
    assert found.dtype == dtype


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 8])
def test_neighbours_are_dropped_independently(distance: int) -> None:
    torch.manual_seed(0)
    is_dropped = (dropout(torch.ones(MANY), 0.2) == 0).double()
    both = (is_dropped[distance:] * is_dropped[:-distance]).mean().item()
    assert abs(both - 0.04) < 5 * (0.04 * 0.96 / MANY) ** 0.5


@given(st.lists(st.integers(0, 7), min_size=1, max_size=3), st.floats(0, 1))
def test_every_shape_and_probability(shape: list[int], probability: float) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    found = dropout(x, probability)
    assert found.shape == x.shape
    found.sum().backward()
    assert x.grad is not None
    assert_close(found, x * x.grad)  # the gradient is the noise
    assert found.isfinite().all()


def test_the_seed_decides_and_calls_differ() -> None:
    x = torch.ones(1000)
    torch.manual_seed(1)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(x, 0.5))
    assert not torch.equal(first, second)


def test_nothing_is_dropped_outside_of_training_or_with_probability_zero() -> None:
    x = torch.randn(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert (Dropout(1.0).train()(x) == 0).all()


@pytest.mark.parametrize("length", [5, 500])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_with_dropout_has_the_mean_of_attention_without(
    length: int, is_causal: bool
) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, length, 8, dtype=torch.float64)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    assert_close(attend(q, k, v, None, is_causal, 0.0), expected)
    mean = torch.stack([attend(q, k, v, None, is_causal, 0.1) for _ in range(200)]).mean(0)
    assert (mean - expected).abs().mean() < 0.05
