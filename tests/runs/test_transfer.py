from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runs.saved import Transfer, transfer_all, transfer_backbone
from warmstart.settings.model import ModelConfig


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _is_exhaustive(fate: Transfer, weights: dict[str, Tensor], model: nn.Module) -> bool:
    """Tell whether every tensor of both sides has exactly one fate."""
    has_all_of_model = sorted(fate.loaded + fate.new) == sorted(model.state_dict())
    return has_all_of_model and sorted(fate.loaded + fate.left_out) == sorted(weights)


def test_a_base_moves_under_a_new_head(some_shape: ModelConfig) -> None:
    weights = _copy(LanguageModel(some_shape))
    classifier = Classifier(some_shape, 3, "mean")
    before = _copy(classifier)
    fate = transfer_backbone(weights, classifier)
    assert _is_exhaustive(fate, weights, classifier)
    assert fate.new == ("head.output.weight", "head.output.bias")
    assert all(name.startswith("head.") for name in fate.left_out)
    for name, tensor in classifier.state_dict().items():
        assert torch.equal(tensor, before[name] if name in fate.new else weights[name])


def test_a_head_of_the_same_shape_is_not_taken_for_the_base(tiny: ModelConfig) -> None:
    weights = _copy(LanguageModel(tiny))
    classifier = Classifier(tiny, tiny.vocab_size, "mean")
    assert "head.output.weight" in transfer_backbone(weights, classifier).new


def test_everything_moves_to_an_equal_model(some_shape: ModelConfig) -> None:
    weights, model = _copy(LanguageModel(some_shape)), LanguageModel(some_shape)
    fate = transfer_all(weights, model)
    assert _is_exhaustive(fate, weights, model)
    assert fate.new == fate.left_out == ()
    assert all(torch.equal(t, weights[name]) for name, t in model.state_dict().items())


def test_the_report_names_what_stays_behind(tiny: ModelConfig) -> None:
    weights = _copy(LanguageModel(replace(tiny, pooler=True), has_next_sentence=True))
    model = LanguageModel(tiny)
    fate = transfer_all(weights, model)
    assert _is_exhaustive(fate, weights, model)
    left_out = {"next_sentence.weight", "next_sentence.bias"}
    assert set(fate.left_out) == left_out | {"backbone.pooler.weight", "backbone.pooler.bias"}
    assert str(fate).startswith(f"{len(fate.loaded)} tensors loaded; left out: ")
    assert all(name in str(fate) for name in fate.left_out)
    assert "next_sentence.weight 2×16" in str(fate)
    classifier = Classifier(tiny, 2, "mean")
    said = str(transfer_backbone(_copy(model), classifier))
    assert "; head.output.weight 23×16 replaced by 2×16" in said
    assert "; head.output.bias 23 replaced by 2" in said
    assert "new" not in said


@pytest.mark.parametrize("transfer", [transfer_backbone, transfer_all])
def test_a_wrong_shape_is_refused_by_name(
    tiny: ModelConfig, transfer: Callable[[dict[str, Tensor], nn.Module], Transfer]
) -> None:
    model = LanguageModel(replace(tiny, positions="learned"))
    before = _copy(model)
    shorter = LanguageModel(replace(tiny, positions="learned", max_length=24))
    with pytest.raises(WarmstartError, match=r"backbone\.embed_positions\.weight .*\(24, 16\).*32"):
        transfer(_copy(shorter), model)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


@pytest.mark.parametrize("transfer", [transfer_backbone, transfer_all])
def test_learned_positions_that_are_never_reached_are_left_out(
    tiny: ModelConfig, transfer: Callable[[dict[str, Tensor], nn.Module], Transfer]
) -> None:
    model = LanguageModel(replace(tiny, positions="learned"))
    longer = _copy(LanguageModel(replace(tiny, positions="learned", max_length=40)))
    transfer(longer, model)
    name = "backbone.embed_positions.weight"
    assert torch.equal(model.state_dict()[name], longer[name][:32])


@pytest.mark.parametrize("name", ["backbone.embed.weight", "backbone.blocks.1.norm_ffn.bias"])
@pytest.mark.parametrize("transfer", [transfer_backbone, transfer_all])
def test_a_missing_tensor_of_the_base_is_refused_by_name(
    tiny: ModelConfig, transfer: Callable[[dict[str, Tensor], nn.Module], Transfer], name: str
) -> None:
    model = LanguageModel(tiny)
    weights, before = _copy(LanguageModel(tiny)), _copy(model)
    del weights[name]
    with pytest.raises(WarmstartError, match=f"lack {name}"):
        transfer(weights, model)
    assert all(torch.equal(t, before[key]) for key, t in model.state_dict().items())
