from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart.model.attention import sinusoids
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import LanguageModel
from warmstart.settings.model import ModelConfig

EXACT = {"rtol": 0.0, "atol": 1e-10}
Attention = pytest.mark.parametrize("attention", ["causal", "bidirectional"])


def _backbone(shape: ModelConfig, randomised: Callable[[Any], Any]) -> Backbone:
    backbone: Backbone = randomised(Backbone(shape)).eval()
    return backbone


def _ids(*size: int) -> Tensor:
    return torch.randint(1, 23, size)


def test_no_position_depends_on_a_later_token(any_shape: ModelConfig) -> None:
    model = LanguageModel(any_shape).double().eval()
    ids = _ids(2, 9)
    with torch.no_grad():
        before = model(ids)
        for position in (1, 5, 8):
            edited = ids.clone()
            edited[:, position:] = (edited[:, position:] + 7) % 23
            after = model(edited)
            assert_close(after[:, :position], before[:, :position], **EXACT)
            assert (after[:, position:] - before[:, position:]).abs().amax((0, 2)).min() > 1e-7


def test_a_bidirectional_backbone_sees_both_ways(some_shape: ModelConfig) -> None:
    backbone = Backbone(replace(some_shape, attention="bidirectional")).double().eval()
    ids = _ids(1, 9)
    edited = ids.clone()
    edited[0, 4] = (edited[0, 4] + 7) % 23
    change = (backbone(edited) - backbone(ids)).abs().amax((0, 2))
    assert change.min() > 1e-9


def test_some_blocks_see_a_window_only(tiny: ModelConfig, randomised: Callable[[Any], Any]) -> None:
    windows = {"local_window": 2, "global_every": 2, "positions": "rope", "local_rope_base": 50.0}
    shape = replace(tiny, attention="bidirectional", depth=4, first_norm=False, **windows)
    backbone = _backbone(shape, randomised)
    ids, received = _ids(1, 12), list[Tensor]()
    whole = backbone(ids, attention_weights=received)
    is_near = (torch.arange(12)[:, None] - torch.arange(12)).abs() <= 2
    for layer, weights in enumerate(received):
        assert torch.equal((weights > 0).all(1)[0], is_near | torch.tensor(layer % 2 == 0))
    positions, documents = torch.arange(12).remainder(6)[None], torch.arange(12)[None] // 6
    packed = backbone(ids, Layout(documents=documents, positions=positions))
    assert_close(packed[:, :6], backbone(ids[:, :6]), **EXACT)
    assert_close(packed[:, 6:], backbone(ids[:, 6:]), **EXACT)
    padded = backbone(torch.cat([ids, ids], 1), Layout(is_token=torch.arange(24)[None] < 12))
    assert_close(padded[:, :12], whole, **EXACT)


@Attention
def test_packed_documents_do_not_see_each_other(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], attention: Any
) -> None:
    backbone = _backbone(replace(some_shape, attention=attention), randomised)
    lengths = [4, 1, 7]
    ids = _ids(1, sum(lengths))
    documents = torch.repeat_interleave(torch.tensor(lengths))[None]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    layout = Layout(documents=documents, positions=positions)
    packed = backbone(ids, layout)
    for number, document in enumerate(ids.split(lengths, 1)):
        assert_close(packed[documents == number], backbone(document)[0], **EXACT)
        edited = torch.where(documents == number, (ids + 3) % 23, ids)
        others = documents != number
        assert torch.equal(backbone(edited, layout)[others], packed[others])


@Attention
def test_padding_changes_nothing(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], attention: Any
) -> None:
    backbone = _backbone(replace(some_shape, attention=attention), randomised)
    lengths = torch.tensor([5, 2, 9])
    is_token = torch.arange(9) < lengths[:, None]
    ids = _ids(3, 9)
    hidden = backbone(ids, Layout(is_token=is_token))
    for row, length in enumerate(lengths.tolist()):
        assert_close(hidden[row, :length], backbone(ids[row : row + 1, :length])[0], **EXACT)
    other_padding = torch.where(is_token, ids, 0)
    again = backbone(other_padding, Layout(is_token=is_token))
    assert torch.equal(again[is_token], hidden[is_token])


def test_documents_and_padding_together(
    some_shape: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    backbone = _backbone(replace(some_shape, attention="bidirectional"), randomised)
    ids = _ids(1, 8)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    is_token = torch.tensor([[True] * 6 + [False] * 2])
    hidden = backbone(ids, Layout(is_token, documents, positions))
    assert_close(hidden[:, :3], backbone(ids[:, :3]), **EXACT)
    assert_close(hidden[:, 3:6], backbone(ids[:, 3:6]), **EXACT)


@Attention
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_of_padding_gives_no_nan(
    some_shape: ModelConfig, attention: Any, dtype: torch.dtype
) -> None:
    backbone = Backbone(replace(some_shape, attention=attention)).to(dtype)
    is_token = torch.tensor([[True, True, True], [False, False, False]])
    hidden = backbone(_ids(2, 3), Layout(is_token=is_token))
    hidden.sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in backbone.parameters())


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_position", ["post", "pre"])
@Attention
def test_the_whole_backbone_equals_torch(
    tiny: ModelConfig,
    randomised: Callable[[Any], Any],
    attention: Any,
    norm_position: Any,
    activation: Any,
) -> None:
    shape = replace(
        tiny, depth=3, attention=attention, norm_position=norm_position, activation=activation
    )
    backbone = _backbone(shape, randomised)
    layer = nn.TransformerEncoderLayer(
        16, 2, 24, 0.0, activation, batch_first=True, norm_first=norm_position == "pre"
    )
    final = nn.LayerNorm(16) if norm_position == "pre" else None
    theirs = nn.TransformerEncoder(layer, 3, final, enable_nested_tensor=False).double()
    for ours, block in zip(backbone.blocks, theirs.layers, strict=True):
        for own, other in zip(_ordered(ours), block.parameters(), strict=True):
            other.data.copy_(own)
    if final is not None:
        final.load_state_dict(backbone.norm_final.state_dict())
    ids, is_token = _ids(2, 6), torch.arange(6) < torch.tensor([[6], [4]])
    start = backbone.embed(ids) * 4 + sinusoids(6, 16, ids.device).float().double()
    square = torch.ones(6, 6, dtype=torch.bool).triu(1) if attention == "causal" else None
    expected = theirs(start, square, ~is_token)
    hidden = backbone(ids, Layout(is_token=is_token))
    assert_close(hidden[is_token], expected[is_token], **EXACT)


def _ordered(block: nn.Module) -> list[Tensor]:
    """Return a block's tensors in the order of torch's encoder layer."""
    names = ("attend.project", "attend.output", "ffn.inner", "ffn.outer")
    modules = [block.get_submodule(name) for name in (*names, "norm_attend", "norm_ffn")]
    return [tensor for module in modules for tensor in module.parameters()]


def test_returning_attention_weights_changes_nothing(some_shape: ModelConfig) -> None:
    backbone = Backbone(some_shape).eval()
    ids = _ids(2, 5)
    layers: list[Tensor] = []
    with torch.no_grad():
        assert torch.equal(backbone(ids, attention_weights=layers), backbone(ids))
    assert [weights.shape for weights in layers] == [(2, 2, 5, 5)] * 2
    for weights in layers:
        assert_close(weights.sum(-1), torch.ones(2, 2, 5))
        assert (weights.triu(1) == 0).all()


def test_rotary_positions_know_distances_only(
    tiny: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    ids, positions = _ids(2, 6), torch.arange(6).expand(2, 6)
    for kind, is_relative in (("rope", True), ("sinusoidal", False), ("learned", False)):
        backbone = _backbone(replace(tiny, positions=kind), randomised)
        change = backbone(ids, Layout(positions=positions + 11)) - backbone(ids)
        assert (change.abs().max() < 1e-4) == is_relative


def test_every_kind_of_positions_tells_order(some_shape: ModelConfig) -> None:
    backbone = Backbone(replace(some_shape, attention="bidirectional")).double().eval()
    ids = torch.tensor([[3, 4, 5]])
    reversed_order = backbone(ids.flip(1)).flip(1)
    assert (reversed_order - backbone(ids)).abs().max() > 1e-7


@pytest.mark.parametrize("num_segments", [0, 1])
def test_a_backbone_that_knows_one_segment_reads_all_as_the_first(
    tiny: ModelConfig, randomised: Callable[[Any], Any], num_segments: int
) -> None:
    backbone = _backbone(replace(tiny, segments=num_segments), randomised)
    ids = _ids(2, 5)
    second = Layout(segments=torch.ones_like(ids))
    assert torch.equal(backbone(ids, second), backbone(ids))


def test_segments_and_pooler(tiny: ModelConfig, randomised: Callable[[Any], Any]) -> None:
    shape = replace(tiny, segments=2, pooler=True, embedding_norm=True, attention="bidirectional")
    backbone = _backbone(shape, randomised)
    ids = _ids(2, 5)
    first, second = torch.zeros_like(ids), torch.ones_like(ids)
    assert torch.equal(backbone(ids), backbone(ids, Layout(segments=first)))
    assert not torch.allclose(backbone(ids), backbone(ids, Layout(segments=second)))
    hidden = backbone(ids)
    expected = torch.tanh(hidden[:, 0] @ backbone.pooler.weight.T + backbone.pooler.bias)
    assert_close(backbone.pool_first(hidden), expected, **EXACT)
    plain = _backbone(tiny, randomised)
    assert torch.equal(plain.pool_first(hidden), hidden[:, 0])
