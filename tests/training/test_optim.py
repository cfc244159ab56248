from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.settings.model import ModelConfig
from warmstart.training.optimizers import (
    OptimizerSettings,
    build_optimizers,
    clip_gradients,
    set_rates,
)

RATE = 0.01
Group = dict[str, Any]


def _groups(model: nn.Module, optimizers: dict[str, Optimizer]) -> dict[str, Group]:
    """Return the group of each parameter by name, seeing that none is in two."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    found: dict[str, Group] = {}
    for kind, optimizer in optimizers.items():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                assert names[parameter] not in found
                found[names[parameter]] = {**group, "kind": kind}
    return found


def _built(model: nn.Module, kind: Any = "adamw", **words: Any) -> dict[str, Group]:
    return _groups(model, build_optimizers(model, OptimizerSettings(kind, RATE, 0.1, **words)))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_every_parameter_is_in_one_group(some_shape: ModelConfig, kind: str) -> None:
    shape = replace(some_shape, segments=2, pooler=True, embedding_norm=True, transform=True)
    model = LanguageModel(shape)
    groups = _built(model, kind)
    assert groups.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        is_decayed = parameter.ndim == 2 and "embed" not in name
        assert groups[name]["weight_decay"] == (0.1 if is_decayed else 0)
        assert groups[name]["lr"] == groups[name]["peak"] == RATE
        is_block_matrix = ".blocks." in name and parameter.ndim == 2
        assert groups[name]["kind"] == ("muon" if kind == "muon" and is_block_matrix else "adamw")


def test_frozen_base_leaves_the_head_alone(tiny: ModelConfig) -> None:
    model = Classifier(tiny, 2, "mean")
    model.backbone.requires_grad_(False)
    assert set(_built(model)) == {"head.output.weight", "head.output.bias"}


LEVELS = {
    "head.output.weight": 0,
    "backbone.norm_final.weight": 0,
    "backbone.blocks.2.attend.project.weight": 1,
    "backbone.blocks.1.norm_ffn.bias": 2,
    "backbone.blocks.0.ffn.inner.weight": 3,
    "backbone.embed.weight": 4,
    "backbone.embed_positions.weight": 4,
}


def test_layer_decay_slows_each_level(tiny: ModelConfig) -> None:
    shape = replace(tiny, depth=3, norm_position="pre", positions="learned")
    groups = _built(Classifier(shape, 2, "mean"), layer_decay=0.5)
    for name, level in LEVELS.items():
        assert groups[name]["peak"] == pytest.approx(RATE * 0.5**level)
        assert groups[name]["start_step"] == 0


def test_unfreezing_opens_level_by_level(tiny: ModelConfig) -> None:
    shape = replace(tiny, depth=3, norm_position="pre", positions="learned")
    model = Classifier(shape, 2, "mean")
    optimizers = build_optimizers(model, OptimizerSettings("adamw", RATE, 0.1, unfreeze_steps=2))
    groups = _groups(model, optimizers)
    assert all(groups[name]["start_step"] == 2 * level for name, level in LEVELS.items())
    ids = torch.ones(2, 4, dtype=torch.long)
    for step in range(10):
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        set_rates(optimizers, step, 0.5)
        model(ids, Layout()).square().sum().backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad()
        for name, level in LEVELS.items():
            has_moved = not torch.equal(model.get_parameter(name), before[name])
            assert has_moved == (step >= 2 * level)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_new_head_learns_alone_first(kind: str, tiny: ModelConfig) -> None:
    groups = _built(LanguageModel(tiny), kind, head_steps=3)
    starts = {name: group["start_step"] for name, group in groups.items()}
    assert all(start == (0 if name.startswith("head.") else 3) for name, start in starts.items())


def test_rates_are_shares_of_each_peak(tiny: ModelConfig) -> None:
    model = LanguageModel(tiny)
    optimizers = build_optimizers(model, OptimizerSettings("muon", RATE, 0.1, layer_decay=0.5))
    for factor in (1.0, 0.25, 0.0):  # the factor is of the peak, not of the rate before
        set_rates(optimizers, 3, factor)
        for group in _groups(model, optimizers).values():
            assert group["lr"] == pytest.approx(factor * group["peak"])


def test_all_gradients_are_clipped_together(tiny: ModelConfig) -> None:
    model = LanguageModel(tiny)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    num = sum(parameter.numel() for parameter in model.parameters())
    assert float(clip_gradients(model, 1.0)) == pytest.approx(num**0.5)
    assert float(clip_gradients(model, 1.0)) == pytest.approx(1, rel=1e-4)
