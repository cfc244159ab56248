"""A model without one of its parts lacks what that part is for, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from warmstart.model.backbone import Backbone
from warmstart.settings.model import ABLATED_PARTS, Ablation, ModelConfig, model_from_json

IDS = torch.tensor([[1, 5, 6, 7, 9, 2]])
EXACT = {"rtol": 0.0, "atol": 1e-10}


@pytest.fixture
def built(randomised: Callable[[Any], Any]) -> Callable[[ModelConfig], Backbone]:
    def build(shape: ModelConfig) -> Backbone:
        torch.manual_seed(0)
        return randomised(Backbone(shape)).eval()

    return build


@torch.no_grad()
@pytest.mark.parametrize("ablated", ["nothing", "mask"])
def test_without_the_mask_a_position_sees_what_follows(
    ablated: Ablation, some_shape: ModelConfig, built: Callable[[ModelConfig], Backbone]
) -> None:
    model = built(replace(some_shape, ablated=ablated))
    changed = IDS.clone()
    changed[0, -1] = 3
    is_same = torch.allclose(model(IDS)[0, 0], model(changed)[0, 0], **EXACT)
    assert is_same == (ablated == "nothing")


@torch.no_grad()
@pytest.mark.parametrize("ablated", ["nothing", "positions"])
def test_without_positions_the_order_of_the_tokens_is_lost(
    ablated: Ablation, some_shape: ModelConfig, built: Callable[[ModelConfig], Backbone]
) -> None:
    model = built(replace(some_shape, attention="bidirectional", ablated=ablated))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    is_same = torch.allclose(model(IDS)[:, order], model(IDS[:, order]), **EXACT)
    assert is_same == (ablated == "positions")


@torch.no_grad()
def test_without_the_scale_queries_are_as_if_longer(
    some_shape: ModelConfig, built: Callable[[ModelConfig], Backbone]
) -> None:
    whole, unscaled = built(some_shape), built(replace(some_shape, ablated="scale"))
    weights: list[torch.Tensor] = []
    hidden = unscaled(IDS, attention_weights=weights)
    D = some_shape.width
    for block in whole.blocks:
        for name, parameter in block.attend.project.named_parameters():
            assert name in ("weight", "bias")
            parameter[:D] *= (D / some_shape.heads) ** 0.5
    own: list[torch.Tensor] = []
    assert_close(hidden, whole(IDS, attention_weights=own), **EXACT)
    assert_close(weights, own, **EXACT)


@torch.no_grad()
@pytest.mark.parametrize("ablated", ["nothing", "residual"])
def test_without_residuals_sublayers_that_are_silent_lose_the_input(
    ablated: Ablation, some_shape: ModelConfig, built: Callable[[ModelConfig], Backbone]
) -> None:
    model = built(replace(some_shape, ablated=ablated))
    for block in model.blocks:
        for linear in (block.attend.output, block.ffn.outer):
            for parameter in linear.parameters():
                parameter.zero_()
    is_same = torch.allclose(model(IDS), model(IDS.flip(1)), **EXACT)
    assert is_same == (ablated == "residual")


def test_without_norms_nothing_is_normalised(some_shape: ModelConfig) -> None:
    model = Backbone(replace(some_shape, ablated="norm", embedding_norm=True))
    assert not [name for name, _ in model.named_parameters() if "norm" in name]


def test_warmup_is_no_part_of_the_model(
    tiny: ModelConfig, built: Callable[[ModelConfig], Backbone]
) -> None:
    assert_close(built(tiny)(IDS), built(replace(tiny, ablated="warmup"))(IDS), **EXACT)


@pytest.mark.parametrize("ablated", ABLATED_PARTS)
def test_the_configuration_says_so(ablated: Ablation, tiny: ModelConfig) -> None:
    broken = replace(tiny, ablated=ablated)
    assert model_from_json(broken.to_json()) == broken
    assert broken.mark("a model") == (
        f"a model (ABLATED: trained without {ABLATED_PARTS[ablated]}, to show what it is for)"
    )
    assert "ablated" not in tiny.to_json()
    assert tiny.mark("a model") == "a model"
