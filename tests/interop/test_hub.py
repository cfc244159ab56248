"""What is said of an export before the training is what the export then does."""

import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from random_runs import build, classifier_facts, hub_model, make_run, shape
from safetensors.torch import load_file, save_file

from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.planning.commands import ParamsConfig
from warmstart.planning.params import count_parameters
from warmstart.recipes.card import write_card
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import read_run
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks import hub
from warmstart.tokenization.tokenizer import Tokenizer

pytest.importorskip("transformers")

CHANGES: dict[str, list[Any]] = {
    "attention": ["causal", "bidirectional"],
    "norm": ["layer", "rms"],
    "norm_position": ["pre", "post"],
    "positions": ["learned", "rope"],
    "activation": ["relu", "gelu_tanh", "silu", "swiglu", "geglu"],
    "tied": [True, False],
    "biases": [True, False],
    "output_bias": [True, False],
    "scale_embedding": [True, False],
    "embedding_norm": [True, False],
    "segments": [0, 1, 2],
    "pooler": [True, False],
    "transform": [True, False],
    "norm_eps": [1e-5, 1e-3],
    "first_norm": [False],
    "width": [4, 16],
}
KINDS = ("causal", "masked", "backbone", "classify mean", "classify cls", "classify last")
ATTENTION = {"causal": {"attention": "causal"}, "masked": {"attention": "bidirectional"}}
PRESET_KINDS = [
    (preset, kind)
    for preset, model in PRESETS.items()
    for kind in (["translate"] if model.decoder_depth else KINDS)
]


def check(config: ModelConfig, kind: str, folder: Path, tokenizer: Tokenizer) -> None:
    """Export a model with random weights, which must go as its configuration says, or not."""
    name, _, pooling = kind.partition(" ")
    model = build(config, name, pooling)
    facts = classifier_facts(pooling) if pooling else {}
    run = make_run(folder / "run", model, name, tokenizer, **facts)
    said, out = hub_model(model, name, pooling), str(folder / "hf")
    if said.architecture is None:
        with pytest.raises(WarmstartError, match="cannot be exported"):
            export_model(ExportConfig(run=run, out=out))
        assert said.problem
        return
    exported = export_model(ExportConfig(run=run, out=out))
    assert exported.architecture == said.architecture
    assert exported.check is not None
    assert exported.check.difference < 1e-4
    import_model(ImportConfig(folder=out, out=str(folder / "again")))
    again = read_run(folder / "again")
    assert (again.task, again.settings.get("pooling", "")) == (name, pooling)


@pytest.mark.parametrize(("preset", "kind"), PRESET_KINDS)
def test_presets(preset: str, kind: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    check(shape(preset, tokenizer, **ATTENTION.get(kind, {})), kind, tmp_path, tokenizer)


def random_case(seed: int, tokenizer: Tokenizer) -> tuple[ModelConfig, str]:
    """Return a preset with up to three changes, and a kind of model."""
    draw = random.Random(seed)
    preset, kind = draw.choice(PRESET_KINDS)
    names = draw.sample(sorted(CHANGES), draw.choice([1, 1, 2, 3]))
    changes = {name: draw.choice(CHANGES[name]) for name in names}
    try:
        return shape(preset, tokenizer, **(changes | ATTENTION.get(kind, {}))), kind
    except WarmstartError:  # there is no such model
        return random_case(seed + 1_000, tokenizer)


def test_random_architectures(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for seed in range(150):
        config, kind = random_case(seed, tokenizer)
        (tmp_path / str(seed)).mkdir()
        check(config, kind, tmp_path / str(seed), tokenizer)
    assert 30 < len(list(tmp_path.glob("*/hf"))) < 120


def test_params_and_the_card_say_it(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Also of an imported classifier whose bias is zero, as Llama needs it."""
    model = build(shape("modern-small", tokenizer), "classify", "last")
    facts = classifier_facts("last")
    run = Path(make_run(tmp_path / "run", model, "classify", tokenizer, **facts))
    sentence = "Llama: a classification head with a bias (the architecture has none)"
    assert sentence in count_parameters(ParamsConfig(model=str(run))).export
    write_card(RunFolder(run), {})
    assert f"It cannot be exported to Hugging Face: {sentence}." in (run / "README.md").read_text()
    weights = load_file(run / "model.safetensors")
    weights["head.output.bias"].zero_()
    save_file(weights, run / "model.safetensors")
    architecture = "LlamaForSequenceClassification"
    assert count_parameters(ParamsConfig(model=str(run))).export.endswith(architecture)
    write_card(RunFolder(run), {})
    assert f"transformers.{architecture}.from_pretrained" in (run / "README.md").read_text()
    export_model(ExportConfig(run=str(run), out=str(tmp_path / "hf")))


def test_no_setting_is_forgotten() -> None:
    """A new setting is free, or some of its values fit each family."""
    for family in hub.FAMILIES:
        decided = {*hub.USUAL, *family.settings, "ablated", "output_bias", "shared"}
        assert {field.name for field in fields(ModelConfig)} == decided | hub.FREE
