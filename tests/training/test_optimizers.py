"""Learning rates, AdamW and Muon."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import Muon, Optimizer
from torch.testing import assert_close

from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runs.checkpoint import are_finite, optimizer_tensors
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.training.optimizers import (
    BatchedMuon,
    OptimizerSettings,
    annealing,
    build_optimizers,
    clip_gradients,
    limit_head_steps,
    orthogonal,
    set_rates,
    warmup_cosine,
    warmup_linear,
)
from warmstart.training.step import step_optimizers

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


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_head_start_can_be_shortened(kind: str, tiny: ModelConfig) -> None:
    model = LanguageModel(tiny)
    optimizers = build_optimizers(model, OptimizerSettings(kind, RATE, 0.1, head_steps=200))
    limit_head_steps(optimizers, 4)
    assert {g["start_step"] for o in optimizers.values() for g in o.param_groups} == {0, 4}


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


SHAPES = [(6, 4), (4, 6), (5, 5), (6, 4), (4, 6), (6, 4)]
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def _trained(kind: type[Muon]) -> tuple[list[nn.Parameter], Muon]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = kind(parameters, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(4):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        if step == 2:
            parameters[0].grad = None  # frozen for a while
        optimizer.step()
    return parameters, optimizer


def test_steps_are_those_of_torch() -> None:
    ours, our_state = _trained(BatchedMuon)
    theirs, their_state = _trained(Muon)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=0, atol=2e-3)  # the turning is done in bfloat16
    moments, expected = our_state.state_dict()["state"], their_state.state_dict()["state"]
    assert moments.keys() == expected.keys()
    for key, state in expected.items():
        assert_close(moments[key], state)


DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_skipped_step_changes_no_bit(kind: Any, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(0)
    shape = replace(PRESETS["tiny"], vocab_size=30)
    model = LanguageModel(shape).to(device)
    optimizers = build_optimizers(model, OptimizerSettings(kind, 1e-2, 0.1, dtype=dtype))

    def take_step(factor: float, is_skipped: float) -> list[Tensor]:
        for parameter in model.parameters():
            parameter.grad = factor * torch.randn_like(parameter)
        step_optimizers(optimizers, torch.tensor(is_skipped, device=device))
        tensors = [*model.state_dict().values(), *optimizer_tensors(optimizers).values()]
        return [tensor.clone() for tensor in tensors]

    before = take_step(1.0, is_skipped=0.0)
    skipped = take_step(float("nan"), is_skipped=1.0)
    assert all(torch.equal(*pair) for pair in zip(before, skipped, strict=True))
    after = take_step(1.0, is_skipped=0.0)
    assert not any(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert are_finite(after)


def test_muon_computes_in_the_precision_of_the_run() -> None:
    updates = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        parameter = nn.Parameter(torch.zeros(6, 4))
        muon = BatchedMuon([parameter], lr=1.0, adjust_lr_fn="match_rms_adamw")
        muon.dtype = dtype
        parameter.grad = torch.randn(6, 4)
        muon.step()
        updates.append(parameter.detach())
    exact, single, half = updates
    assert_close(single, exact, rtol=0, atol=1e-5)
    assert (half - exact).abs().max() > 1e-3


def test_singular_values_come_near_one() -> None:
    turned = orthogonal(torch.randn(3, 8, 20), COEFFICIENTS, 5, 1e-7)
    values = torch.linalg.svdvals(turned.float())
    assert values.min() > 0.5
    assert values.max() < 1.4


def test_a_matrix_is_turned_alike_in_any_company() -> None:
    matrices = torch.randn(4, 8, 6)
    together = orthogonal(matrices, COEFFICIENTS, 5, 1e-7)
    alone = torch.cat([orthogonal(one[None], COEFFICIENTS, 5, 1e-7) for one in matrices])
    assert_close(together, alone, rtol=0, atol=0.02)


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
