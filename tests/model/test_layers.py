from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from warmstart.model.attention import AttentionContext
from warmstart.model.layers import Block, BlockOptions, FeedForward, build_norm
from warmstart.settings.model import Activation, Norm, NormPosition

B, T, D = 3, 6, 16
EXACT = {"rtol": 0.0, "atol": 1e-10}
NAMES = {
    "attend.project.weight": "self_attn.in_proj_weight",
    "attend.project.bias": "self_attn.in_proj_bias",
    "attend.output.weight": "self_attn.out_proj.weight",
    "attend.output.bias": "self_attn.out_proj.bias",
    "norm_attend.weight": "norm1.weight",
    "norm_attend.bias": "norm1.bias",
    "ffn.inner.weight": "linear1.weight",
    "ffn.inner.bias": "linear1.bias",
    "ffn.outer.weight": "linear2.weight",
    "ffn.outer.bias": "linear2.bias",
    "norm_ffn.weight": "norm2.weight",
    "norm_ffn.bias": "norm2.bias",
}


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("is_padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("biases", [True, False], ids=["biases", "unbiased"])
@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_block_equals_torch(
    randomised: Callable[[Any], Any],
    activation: Activation,
    norm_position: NormPosition,
    biases: bool,
    is_padded: bool,
    is_causal: bool,
) -> None:
    options = BlockOptions(
        width=D,
        heads=4,
        ffn_width=24,
        activation=activation,
        norm_position=norm_position,
        biases=biases,
    )
    ours: Block = randomised(Block(options))
    theirs = nn.TransformerEncoderLayer(
        D, 4, 24, 0.0, activation, batch_first=True, norm_first=norm_position == "pre", bias=biases
    ).double()
    theirs.load_state_dict({NAMES[name]: value for name, value in ours.state_dict().items()})
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    lengths = torch.tensor([6, 4, 1]) if is_padded else torch.tensor([6, 6, 6])
    is_token = torch.arange(T) < lengths[:, None]
    mask = torch.ones(T, T, dtype=torch.bool)
    mask = mask.tril() if is_causal else mask
    out = ours(x, AttentionContext(mask & is_token.view(B, 1, 1, T)))
    expected = theirs(y, src_mask=~mask, src_key_padding_mask=~is_token)
    assert_close(out, expected, **EXACT)
    grad = torch.randn_like(out)
    out.backward(grad)
    expected.backward(grad)
    assert_close(x.grad, y.grad, **EXACT)
    other = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, other[NAMES[name]].grad, **EXACT)


def test_every_block_parameter_has_a_counterpart() -> None:
    block = Block(BlockOptions(width=D, heads=4, ffn_width=24))
    assert set(block.state_dict()) == set(NAMES)


@pytest.mark.parametrize(("name", "activate"), [("swiglu", F.silu), ("geglu", F.gelu)])
def test_gated_feed_forward(name: Activation, activate: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(B, D)
    gated = FeedForward(D, 24, name, 0.0, biases=True)
    gate, inner = gated.inner.weight.chunk(2)
    gate_bias, inner_bias = gated.inner.bias.chunk(2)
    product = activate(x @ gate.T + gate_bias) * (x @ inner.T + inner_bias)
    assert_close(gated(x), gated.outer(product))


def test_squared_feed_forward() -> None:
    x = torch.randn(B, D)
    squared = FeedForward(D, 24, "relu2", 0.0, biases=False)
    assert_close(squared(x), squared.outer(F.relu(squared.inner(x)) ** 2))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("biases", [True, False])
def test_norms(norm: Norm, biases: bool) -> None:
    x = 5 + 3 * torch.randn(B, T, D, dtype=torch.float64)
    layer = build_norm(norm, D, biases).double()
    out = layer(x)
    assert_close(out.square().mean(-1), torch.ones(B, T, dtype=torch.float64), rtol=0, atol=1e-4)
    centred = out.mean(-1).abs().max() < 1e-6
    assert centred == (norm == "layer")
    names = [name for name, _ in layer.named_parameters()]
    assert names == (["weight", "bias"] if norm == "layer" and biases else ["weight"])


def test_dropout_acts_in_training_only() -> None:
    block = Block(BlockOptions(width=D, heads=4, ffn_width=24, dropout=0.5))
    x = torch.randn(B, T, D)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
