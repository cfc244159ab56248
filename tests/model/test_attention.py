"""Attention, its masks, its key/value cache, and positions."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart.errors import WarmstartError
from warmstart.kernels.layers import SHORT_ROW, attend, attend_few_queries
from warmstart.model.attention import (
    AttentionContext,
    KeyValueCache,
    MultiHeadAttention,
    apply_rope,
    attention_weights,
    causal_mask,
    document_mask,
    padding_mask,
    rope_cos_sin,
    sinusoids,
    window_mask,
)
from warmstart.model.models import LanguageModel
from warmstart.settings.model import PRESETS, ArchitectureOverrides, ModelConfig, apply_overrides

B, T, D, H = 3, 7, 16, 4


EXACT = {"rtol": 0.0, "atol": 1e-10}


Pair = tuple[MultiHeadAttention, nn.MultiheadAttention]


@pytest.fixture(params=[True, False], ids=["biases", "unbiased"])
def pair(request: pytest.FixtureRequest, randomised: Callable[[Any], Any]) -> Pair:
    ours: MultiHeadAttention = randomised(MultiHeadAttention(D, H, 0.0, request.param))
    theirs = nn.MultiheadAttention(D, H, bias=request.param, batch_first=True).double()
    weights = {"in_proj_weight": ours.project.weight, "out_proj.weight": ours.output.weight}
    if request.param:
        weights |= {"in_proj_bias": ours.project.bias, "out_proj.bias": ours.output.bias}
    theirs.load_state_dict(weights)
    return ours, theirs


def _masks() -> dict[str, Tensor]:
    causal = torch.ones(T, T, dtype=torch.bool).tril().expand(B, 1, T, T)
    lengths = torch.tensor([7, 4, 1])
    padding = (torch.arange(T) < lengths[:, None]).view(B, 1, 1, T).expand(B, 1, T, T)
    return {
        "everything": torch.ones(B, 1, T, T, dtype=torch.bool),
        "causal": causal,
        "padding": padding,
        "both": causal & padding,
    }


@pytest.mark.parametrize("kind", _masks())
def test_equals_torch(pair: Pair, kind: str) -> None:
    ours, theirs = pair
    mask = _masks()[kind]
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    weights: list[Tensor] = []
    out = ours(x, AttentionContext(mask, attention_weights=weights))
    forbidden = ~mask.expand(B, H, T, T).reshape(B * H, T, T)
    expected, their_weights = theirs(y, y, y, attn_mask=forbidden, average_attn_weights=False)
    assert_close(out, expected, **EXACT)
    assert_close(weights[0], their_weights, **EXACT)
    grad = torch.randn_like(out)
    out.backward(grad)
    expected.backward(grad)
    assert_close(x.grad, y.grad, **EXACT)
    assert_close(ours.project.weight.grad, theirs.in_proj_weight.grad, **EXACT)
    assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, **EXACT)


@pytest.mark.parametrize("kind", _masks())
def test_weights_sum_to_one_and_obey_the_mask(pair: Pair, kind: str) -> None:
    ours, _ = pair
    mask = _masks()[kind]
    x = torch.randn(B, T, D, dtype=torch.float64)
    received: list[Tensor] = []
    with_weights = ours(x, AttentionContext(mask, attention_weights=received))
    assert torch.equal(with_weights, ours(x, AttentionContext(mask)))
    (weights,) = received
    assert weights.shape == (B, H, T, T)
    assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64), **EXACT)
    assert (weights.masked_select(~mask) == 0).all()
    assert (weights.masked_select(mask) > 0).all()


def test_the_causal_kernel_equals_the_causal_mask(pair: Pair) -> None:
    ours, _ = pair
    x = torch.randn(B, T, D, dtype=torch.float64)
    by_kernel: list[Tensor] = []
    by_mask: list[Tensor] = []
    out = ours(x, AttentionContext(is_causal=True, attention_weights=by_kernel))
    masked = AttentionContext(_masks()["causal"], attention_weights=by_mask)
    assert_close(out, ours(x, masked), **EXACT)
    assert_close(by_kernel[0], by_mask[0], **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_without_keys_gives_no_nan(dtype: torch.dtype, dropout: float) -> None:
    attention = MultiHeadAttention(D, H, dropout, biases=True).to(dtype)
    mask = _masks()["everything"].clone()
    mask[1] = False  # a whole text
    mask[2, :, 3] = False  # one position
    x = torch.randn(B, T, D, dtype=dtype, requires_grad=True)
    weights: list[Tensor] = []
    out = attention(x, AttentionContext(mask, attention_weights=weights))
    out.sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert_close(out[1], attention.output.bias.expand(T, D))  # no values, so zero
    assert (weights[0][1] == 0).all()
    assert weights[0].isfinite().all()


def test_weights_without_a_mask_cover_all_keys() -> None:
    q, k = torch.randn(2, B, H, T, D // H, dtype=torch.float64)
    everything = torch.ones(T, T, dtype=torch.bool)
    assert_close(attention_weights(q, k, None), attention_weights(q, k, everything), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [T, SHORT_ROW + 1])
@pytest.mark.parametrize("is_causal", [True, False])
def test_every_kernel_computes_the_formula(
    dtype: torch.dtype, length: int, is_causal: bool
) -> None:
    q, k, v = torch.randn(3, B, H, length, D // H).to(dtype)
    exact = [x.double() for x in (q, k, v)]
    expected = attention_weights(exact[0], exact[1], None, is_causal) @ exact[2]
    tolerance = {"rtol": 0.0, "atol": 0.05 if dtype == torch.bfloat16 else 1e-5}
    assert_close(attend(q, k, v, None, is_causal, 0.0).double(), expected, **tolerance)
    if not is_causal:
        for num in (1, 3):
            few = attend_few_queries(q[:, :, :num], k, v, None)
            assert_close(few.double(), expected[:, :, :num], **tolerance)


@pytest.mark.parametrize("shift", [1, 17, 200])
def test_rotary_scores_depend_on_distance_alone(shift: int) -> None:
    q, k = torch.randn(2, B, H, T, D // H, dtype=torch.float64)
    positions = torch.arange(T).expand(B, T)
    here, there = (rope_cos_sin(p, D // H) for p in (positions, positions + shift))
    scores = apply_rope(q, here) @ apply_rope(k, here).mT
    assert_close(apply_rope(q, there) @ apply_rope(k, there).mT, scores, rtol=0, atol=1e-5)
    moved_apart = apply_rope(q, there) @ apply_rope(k, here).mT
    assert (moved_apart - scores).abs().max() > 0.1


def test_rotation_keeps_length_and_leaves_position_zero_alone() -> None:
    x = torch.randn(B, H, T, D // H, dtype=torch.float64)
    rotated = apply_rope(x, rope_cos_sin(torch.arange(T).expand(B, T), D // H))
    assert torch.equal(rotated[:, :, 0], x[:, :, 0])
    assert_close(rotated.norm(dim=-1), x.norm(dim=-1), rtol=1e-6, atol=0)
    zeros = rope_cos_sin(torch.zeros(B, T), D // H)
    assert apply_rope(x.bfloat16(), zeros).dtype == torch.bfloat16


CPU = torch.device("cpu")


def test_square_mask_sees_itself_and_what_precedes() -> None:
    mask = causal_mask(4, 4, CPU)[0, 0]
    assert [[bool(mask[t, s]) for s in range(4)] for t in range(4)] == [
        [s <= t for s in range(4)] for t in range(4)
    ]


def test_new_queries_are_the_last_of_the_keys() -> None:
    assert torch.equal(causal_mask(2, 5, CPU), causal_mask(5, 5, CPU)[:, :, 3:])
    assert causal_mask(1, 5, CPU).all()


def test_a_window_has_two_sides() -> None:
    mask = window_mask(6, 2, CPU)[0, 0]
    assert [mask[t].nonzero().flatten().tolist() for t in (0, 3, 5)] == [
        [0, 1, 2],
        [1, 2, 3, 4, 5],
        [3, 4, 5],
    ]


def test_padding_mask_is_the_same_for_every_query() -> None:
    is_token = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(is_token).expand(2, 1, 3, 3)
    assert all(torch.equal(mask[:, 0, t], is_token) for t in range(3))


def test_documents_see_themselves() -> None:
    documents = torch.tensor([[0, 0, 1, 2, 2]])
    mask = document_mask(documents)
    assert mask.shape == (1, 1, 5, 5)
    assert torch.equal(mask, mask.mT)
    assert mask[0, 0].sum(1).tolist() == [2, 2, 1, 2, 2]


@pytest.mark.parametrize("pieces", [[1] * 9, [9], [4, 5], [3, 1, 1, 4], [1, 8]], ids=str)
def test_cached_equals_uncached(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], pieces: list[int]
) -> None:
    model: LanguageModel = randomised(LanguageModel(some_shape)).eval()
    ids = torch.randint(23, (3, 9))
    cache = KeyValueCache(some_shape.depth)
    assert cache.length == 0
    parts = [model(piece, cache=cache) for piece in ids.split(pieces, 1)]
    assert_close(torch.cat(parts, 1), model(ids), **EXACT)
    assert cache.length == 9


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rope"])
def test_selected_rows_continue_their_parents(
    tiny: ModelConfig, randomised: Callable[[Any], Any], positions: Any
) -> None:
    model: LanguageModel = randomised(LanguageModel(replace(tiny, positions=positions))).eval()
    ids, more = torch.randint(23, (3, 5)), torch.randint(23, (4, 2))
    parents = torch.tensor([2, 0, 2, 2])
    cache = KeyValueCache(tiny.depth)
    model(ids, cache=cache)
    cache.select(parents)
    whole = model(torch.cat([ids[parents], more], 1))
    assert_close(model(more, cache=cache), whole[:, 5:], **EXACT)


def test_selecting_from_an_empty_cache_does_nothing() -> None:
    cache = KeyValueCache(2)
    cache.select(torch.tensor([0]))
    assert cache.length == 0


@pytest.mark.parametrize("width", [2, 16, 200])
def test_sinusoids_are_the_papers(width: int) -> None:
    table = sinusoids(50, width, CPU)
    assert table.shape == (50, width)
    for position in range(50):
        for i in range(width // 2):
            angle = position / 10_000 ** (2 * i / width)
            assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-12)
            assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-12)


def test_sinusoid_similarity_depends_on_distance_alone() -> None:
    table = sinusoids(40, 32, CPU)
    products = table @ table.T
    for distance in range(40):
        along = products.diagonal(distance)
        assert float(along.max() - along.min()) < 1e-10


@pytest.mark.parametrize("preset", ["lab", "bert-base", "modern-small", "tiny"])
def test_sinusoids_do_not_drown_the_words(preset: str) -> None:
    small = ArchitectureOverrides(positions="sinusoidal", depth=1, width=48, heads=2, ffn_width=8)
    config = replace(apply_overrides(PRESETS[preset], small), embedding_norm=False, dropout=0.0)
    backbone = LanguageModel(config).backbone
    inputs: list[torch.Tensor] = []
    backbone.blocks[0].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    ids = torch.randint(config.vocab_size, (1, 40))
    with torch.no_grad():
        backbone(ids)
    positions = backbone.sinusoids[:40]
    words = inputs[0][0] - positions
    assert 0.5 < float(words.norm() / positions.norm()) < 2


def test_sinusoids_beside_unscaled_embeddings_are_refused() -> None:
    with pytest.raises(WarmstartError, match=r"positions=sinusoidal needs model\.scale_embedding"):
        replace(PRESETS["tiny"], positions="sinusoidal")


def test_rope_angles_are_points_on_a_circle() -> None:
    positions = torch.tensor([[0, 1, 2], [0, 0, 500]])
    cos, sin = rope_cos_sin(positions, 8)
    assert cos.shape == (2, 1, 3, 4)
    torch.testing.assert_close(cos**2 + sin**2, torch.ones(2, 1, 3, 4))
    assert torch.equal(cos[:, :, 0], torch.ones(2, 1, 4))
    assert float(sin[0, 0, 1, 0]) == pytest.approx(math.sin(1))  # the fastest pair rotates by one
