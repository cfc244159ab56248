"""Fast layers: dropout by seed alone; padding that is left out changes nothing at the tokens."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from shapes import any_architecture
from warmstart.kernels.layers import (
    Dropout,
    TokenGrid,
    attend,
    dropout,
    grid_of,
    masked_softmax,
)
from warmstart.model.backbone import Backbone, Layout, recompute_activations
from warmstart.model.models import Translator
from warmstart.settings.model import ModelConfig

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


LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=6)


def tokens_of(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@given(LENGTHS)
def test_tokens_go_side_by_side_and_back(lengths: list[int]) -> None:
    is_token = tokens_of(lengths)
    rows = torch.randn(*is_token.shape, 3, dtype=torch.float64)
    grid = TokenGrid(is_token)
    tokens = grid.side_by_side(rows)
    assert torch.equal(tokens[0, : sum(lengths)], rows[is_token])
    assert not tokens[0, sum(lengths) :].any()
    assert tokens.shape[1] % 64 == 0 or tokens.shape[1] == is_token.numel()
    assert torch.equal(grid.in_rows(tokens), rows * is_token[..., None])


def test_gradients_are_exact() -> None:
    grid = TokenGrid(tokens_of([40, 1, 33]))  # 74 tokens, computed as 120
    rows = torch.randn(3, 40, 2, dtype=torch.float64, requires_grad=True)
    tokens = torch.randn(1, 120, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(grid.side_by_side, (rows,))
    assert torch.autograd.gradcheck(grid.in_rows, (tokens,))


@given(any_architecture(max_length=st.just(40)), LENGTHS)
def test_a_backbone_computes_the_same_without_padding(
    config: ModelConfig, lengths: list[int]
) -> None:
    config = replace(config, dropout=0.0, attention="bidirectional")
    backbone = Backbone(config).double()
    is_token = tokens_of(lengths)
    ids = torch.randint(config.vocab_size, is_token.shape)
    segments = torch.randint(max(1, config.segments), is_token.shape)
    weights = torch.randn(*is_token.shape, config.width, dtype=torch.float64) * is_token[..., None]
    found: list[Any] = []
    for skips_padding in (False, True):
        backbone.zero_grad()
        layout = Layout(is_token, segments=segments, skips_padding=skips_padding)
        hidden = backbone(ids, layout) * is_token[..., None]
        (hidden * weights).sum().backward()
        used = {name: p.grad for name, p in backbone.named_parameters() if p.grad is not None}
        found.append((hidden, used))
    assert_close(found[0], found[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("words", [{}, {"local_window": 3, "global_every": 2}])
def test_windows_and_recomputed_blocks(words: dict[str, Any], tiny: ModelConfig) -> None:
    config = replace(tiny, attention="bidirectional", positions="rope", **words)
    backbone = Backbone(config).double()
    is_token = tokens_of([30, 2, 25, 4])
    ids = torch.randint(config.vocab_size, is_token.shape)
    plain = backbone(ids, Layout(is_token))
    recompute_activations(backbone)
    skipped = backbone(ids, Layout(is_token, skips_padding=True))
    assert_close(skipped, plain * is_token[..., None])
    skipped.sum().backward()


def test_a_translator_encodes_the_same(tiny: ModelConfig) -> None:
    model = Translator(replace(tiny, decoder_depth=1)).double().eval()
    is_token = tokens_of([30, 3, 20, 2])
    source, target = torch.randint(23, (4, 30)), torch.randint(23, (4, 4))
    found = model(source, is_token, target)
    alone = model(source[1:2, :3], None, target[1:2])
    assert_close(found[1:2], alone)


def test_little_padding_is_computed_along() -> None:
    assert grid_of(None) is None
    assert grid_of(tokens_of([100, 100, 99])) is None
    assert grid_of(tokens_of([20, 10])) is None  # 64 would be computed
    assert grid_of(tokens_of([100, 100, 50])) is not None


def test_masked_softmax_is_compiled_as_one_graph() -> None:
    scores = torch.randn(2, 3, 4, 4)
    mask = torch.ones(4, 4, dtype=torch.bool).tril(-1)  # the first query has no keys
    compiled = torch.compile(masked_softmax, backend="eager", fullgraph=True)
    assert_close(compiled(scores.clone(), mask), masked_softmax(scores.clone(), mask))
