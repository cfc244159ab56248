"""Padding that is left out changes nothing at the tokens, in values or gradients."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from shapes import any_architecture
from warmstart.kernels.layers import TokenGrid, grid_of
from warmstart.model.backbone import Backbone, Layout, recompute_activations
from warmstart.model.models import Translator
from warmstart.settings.model import ModelConfig

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
