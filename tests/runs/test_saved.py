"""A run read back, and what a new model takes over from it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runs.checkpoint import State, save_checkpoint, save_weights
from warmstart.runs.folder import FORMAT, RunFolder
from warmstart.runs.saved import Transfer, read_run, transfer_all, transfer_backbone
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import train_tokenizer

WORDS = ["le livre est bon", "la page est longue", "un roman sans fin"]


@pytest.fixture
def run(tmp_path: Path, tiny: ModelConfig) -> RunFolder:
    """Return a run of a model whose newest checkpoint is not its best."""
    run = RunFolder(tmp_path / "run")
    tokenizer = train_tokenizer(WORDS * 20, "bpe", 280)
    shape = replace(tiny, vocab_size=tokenizer.vocab_size)
    config = {
        "command": "pretrain",
        "format": FORMAT,
        "task": "causal",
        "settings": {},
        "model": shape.to_json(),
    }
    write_json(run.config_file, config)
    tokenizer.save(run.path)
    save_weights(run.weights_file, LanguageModel(shape).state_dict())
    save_checkpoint(run, LanguageModel(shape), {}, State(step=5), keep=1)
    return run


def test_a_run_and_its_checkpoint(run: RunFolder) -> None:
    best = read_run(run.path)
    newest = read_run(run.checkpoints / "step-5")
    assert best.task == newest.task == "causal"
    assert best.model == newest.model
    assert best.folder.path == newest.folder.path == run.path
    assert best.tokenizer.fingerprint() == newest.tokenizer.fingerprint()
    assert best.weights.keys() == newest.weights.keys()
    name = "backbone.embed.weight"
    assert not torch.equal(best.weights[name], newest.weights[name])


def test_texts_seen_include_those_of_earlier_stages(run: RunFolder) -> None:
    texts = ["le premier livre de la saga", "le second livre de la saga", "un autre livre"]
    first, second = (fingerprints_of([text]).to_json() for text in texts[:2])
    before = [{"run": "earlier", "fingerprints": first}]
    write_json(run.data_file, {"fingerprints": second, "lineage": before})
    seen = find_matches(fingerprints_of(texts), read_run(run.path).texts_seen())
    assert seen.copies.tolist() == [True, True, False]


def test_a_path_that_is_no_run_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="absent does not exist"):
        read_run(tmp_path / "absent")
    with pytest.raises(WarmstartError, match=r"is not a run folder: no config\.json"):
        read_run(tmp_path)
    with pytest.raises(WarmstartError, match="step-6 does not exist"):
        read_run(run.checkpoints / "step-6")


def test_a_tokenizer_larger_than_the_model_is_refused(run: RunFolder) -> None:
    config = run.config()
    config["model"]["vocab_size"] = 100
    write_json(run.config_file, config)
    with pytest.raises(WarmstartError, match=r"tokenizer has \d+ entries, the model only 100"):
        read_run(run.path)


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
