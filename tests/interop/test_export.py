"""Runs of our own as Hugging Face folders and their cards: exactly, or refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from random_runs import ENCODER, build, classifier_facts, hub_model, make_run, shape

from warmstart import progress
from warmstart.data.fingerprints import fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.interop import hf_write
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.model.models import LanguageModel, Translator
from warmstart.runs.saved import read_run
from warmstart.tokenization.tokenizer import Tokenizer

FITTING: list[tuple[str, str, dict[str, Any], str]] = [
    ("tiny", "causal", {}, "GPT2LMHeadModel"),
    ("tiny", "causal", {"biases": True, "output_bias": False}, "GPT2LMHeadModel"),
    ("tiny", "causal", {"scale_embedding": True}, "GPT2LMHeadModel"),
    ("tiny", "backbone", {"activation": "relu2", "scale_embedding": True}, "GPT2Model"),
    ("tiny", "classify", {}, "GPT2ForSequenceClassification"),
    ("modern-small", "causal", {}, "LlamaForCausalLM"),
    (
        "modern-small",
        "causal",
        {"tied": False, "biases": True, "output_bias": False},
        "LlamaForCausalLM",
    ),
    ("modern-small", "backbone", {"rope_base": 900.0}, "LlamaModel"),
    ("modern-small", "masked", ENCODER, "EuroBertForMaskedLM"),
    ("modern-small", "masked", {**ENCODER, "biases": True}, "EuroBertForMaskedLM"),
    ("modern-small", "backbone", ENCODER, "EuroBertModel"),
    ("modern-small", "classify", ENCODER, "EuroBertForSequenceClassification"),
    ("bert-base", "masked", {}, "BertForPreTraining"),
    ("bert-base", "masked", {"segments": 0, "pooler": False, "biases": False}, "BertForMaskedLM"),
    ("bert-base", "masked", {"scale_embedding": True, "segments": 1}, "BertForMaskedLM"),
    ("bert-base", "backbone", {}, "BertModel"),
    ("bert-base", "backbone", {"pooler": False}, "BertModel"),
    ("bert-base", "classify", {"activation": "gelu_tanh"}, "BertForSequenceClassification"),
    ("bert-base", "classify", {"pooler": False}, "BertForSequenceClassification"),
    ("translator-small", "translate", {"decoder_depth": 1}, "PegasusForConditionalGeneration"),
    ("translator-small", "translate", {"biases": False}, "PegasusForConditionalGeneration"),
    ("vaswani-base", "translate", {"activation": "gelu"}, "MarianMTModel"),
    ("vaswani-base", "translate", {"activation": "silu", "output_bias": True}, "MarianMTModel"),
]


@pytest.mark.parametrize(("preset", "kind", "words", "architecture"), FITTING)
def test_a_run_that_fits(
    tmp_path: Path,
    tokenizer: Tokenizer,
    preset: str,
    kind: str,
    words: dict[str, Any],
    architecture: str,
) -> None:
    pytest.importorskip("transformers")
    pooling = "mean" if words == ENCODER else "cls" if preset == "bert-base" else "last"
    more = classifier_facts(pooling) if kind == "classify" else {}
    model = build(shape(preset, tokenizer, **words), kind, pooling)
    run = make_run(tmp_path / "run", model, kind, tokenizer, **more)
    result = export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert result.architecture == architecture
    assert result.check is not None
    assert result.check.difference < 1e-5
    names = {file.name for file in (tmp_path / "hf").iterdir()}
    has_vectors = kind in ("backbone", "masked")
    vectors = {"1_Pooling", "modules.json", "sentence_bert_config.json"} if has_vectors else set()
    assert names - {"generation_config.json"} - vectors == {
        "README.md",
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert "library_name: transformers" in (tmp_path / "hf" / "README.md").read_text()
    again = import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "again")))
    assert read_run(again.run).task == kind


def test_a_classifier_comes_back_with_its_truncation(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    model = build(shape("modern-small", tokenizer, **ENCODER), "classify", "mean")
    facts = classifier_facts("mean")
    facts["settings"]["truncate"] = "middle"
    run = make_run(tmp_path / "run", model, "classify", tokenizer, **facts)
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert "warmstart the beginning and end" in said[-1]
    again = import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "again")))
    assert read_run(again.run).settings["truncate"] == "middle"
    config = json.loads((tmp_path / "hf/config.json").read_text())
    write_json(tmp_path / "hf/config.json", config | {"warmstart_truncate": ["all"]})
    with pytest.raises(WarmstartError, match=r"warmstart_truncate=.* is not supported"):
        import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "bad")))


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("lab", "causal", {}, r"positions=sinusoidal \(learned fits\)"),
    ("lab", "causal", {}, r"norm_position=post \(pre fits\)"),
    ("tiny", "causal", {"biases": True}, r"output_bias=True \(False fits\)"),
    ("tiny", "masked", {"attention": "bidirectional"}, r"norm_position=pre \(post fits\)"),
    ("bert-base", "masked", {"transform": False}, r"transform=False \(True fits\)"),
    ("bert-base", "masked", {"pooler": False}, r"pooler=False"),
    ("bert-base", "classify mean", {}, r"pooling=mean \(--pooling cls fits\); --to onnx"),
    ("tiny", "classify mean", {}, r"pooling=mean \(--pooling last fits\)"),
    ("modern-small", "classify last", {}, "a classification head with a bias"),
    (
        "modern-small",
        "classify mean",
        {},
        r"EuroBERT: attention=causal \(bidirectional fits\); --to onnx",
    ),
    ("lab", "causal", {}, "--to onnx takes it as it is"),
    ("modern-small", "classify last", ENCODER, r"EuroBERT: pooling=last \(--pooling mean fits\)"),
    ("modern-small", "classify mean", {**ENCODER, "width": 4}, "at most 2, half the width, fit"),
    ("modern-small", "causal", {"norm": "layer"}, r"Llama: norm=layer \(rms fits\)"),
]


@pytest.mark.parametrize(("preset", "kind", "words", "reason"), REFUSED)
def test_a_run_that_does_not_fit(
    tmp_path: Path,
    tokenizer: Tokenizer,
    preset: str,
    kind: str,
    words: dict[str, Any],
    reason: str,
) -> None:
    name, _, pooling = kind.partition(" ")
    more = classifier_facts(pooling) if pooling else {}
    model = build(shape(preset, tokenizer, **words), name, pooling)
    run = make_run(tmp_path / "run", model, name, tokenizer, **more)
    with pytest.raises(WarmstartError, match=reason) as refused:
        export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert sorted(os.listdir(tmp_path)) == ["run"]
    closest = hub_model(model, name, pooling).problem
    assert closest
    assert closest in str(refused.value)


@pytest.mark.parametrize("preset", ["translator-small", "vaswani-base"])
def test_a_translator_comes_back_as_it_was(
    tmp_path: Path, tokenizer: Tokenizer, preset: str
) -> None:
    run = make_run(tmp_path / "run", Translator(shape(preset, tokenizer)), "translate", tokenizer)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "again")))
    weights, again = read_run(run).weights, read_run(tmp_path / "again").weights
    assert weights.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights.items())


def test_a_translator_with_two_vocabularies_is_refused(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    model = Translator(shape("translator-small", tokenizer, shared=False))
    run = make_run(tmp_path / "run", model, "translate", tokenizer)
    with pytest.raises(WarmstartError, match=r"Pegasus: shared=False \(True fits\)"):
        export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))


def test_a_wrong_export_is_not_left_behind(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    model = build(shape("tiny", tokenizer), "causal", None)
    run = make_run(tmp_path / "run", model, "causal", tokenizer)
    right = hf_write.to_theirs

    def wrong(*arguments: Any) -> dict[str, torch.Tensor]:
        tensors = right(*arguments)
        tensors["transformer.ln_f.weight"] += 0.01
        return tensors

    monkeypatch.setattr(hf_write, "to_theirs", wrong)
    with pytest.raises(WarmstartError, match=r"hf was not written: .* differ from ours by"):
        export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert sorted(os.listdir(tmp_path)) == ["run"]


def test_without_transformers_nothing_is_checked(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_write.importlib.util, "find_spec", lambda name: None)
    model = build(shape("tiny", tokenizer), "causal", None)
    run = make_run(tmp_path / "run", model, "causal", tokenizer)
    assert export_model(ExportConfig(run=run, out=str(tmp_path / "hf"))).check is None


def test_an_existing_folder_stays_as_it_is(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = build(shape("tiny", tokenizer), "causal", None)
    run = make_run(tmp_path / "run", model, "causal", tokenizer)
    with pytest.raises(WarmstartError, match="exists already: choose another -o"):
        export_model(ExportConfig(run=run, out=run))
    with pytest.raises(WarmstartError, match="is a run of warmstart already"):
        import_model(ImportConfig(folder=run, out=str(tmp_path / "again")))


def test_pairs_and_special_tokens_stand_where_our_models_see_them(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    transformers = pytest.importorskip("transformers")
    model = build(shape("bert-base", tokenizer), "backbone", None)
    run = make_run(tmp_path / "run", model, "backbone", tokenizer)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    (one,), (two,) = tokenizer.encode(["the book"]), tokenizer.encode(["is good"])
    found = loaded("the book", "is good")
    bos, eos = tokenizer.bos, tokenizer.eos
    assert found["input_ids"] == [bos, *one, eos, *two, eos]
    assert found["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert loaded.mask_token_id == tokenizer.mask
    assert loaded.pad_token_id == tokenizer.pad


EXPORTED: dict[str, Any] = {"max_length": 32, "tied": False, "norm_eps": 1e-3}
UNKNOWN_TO_GPT2: dict[str, Any] = {
    "attention": "bidirectional",
    "norm": "rms",
    "norm_position": "post",
    "positions": "sinusoidal",
    "activation": "swiglu",
    "embedding_norm": True,
    "first_norm": False,
    "segments": 2,
    "pooler": True,
    "transform": True,
}


def test_settings_come_back_as_they_were(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = LanguageModel(shape("tiny", tokenizer, **EXPORTED))
    run = make_run(tmp_path / "run", model, "causal", tokenizer)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "again")))
    assert EXPORTED.items() <= read_run(tmp_path / "again").model.to_json().items()


@pytest.mark.parametrize(("name", "value"), UNKNOWN_TO_GPT2.items())
def test_a_setting_that_would_be_lost_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, name: str, value: Any
) -> None:
    words = {name: value, "scale_embedding": value == "sinusoidal"}
    model = LanguageModel(shape("tiny", tokenizer, **words))
    run = make_run(tmp_path / "run", model, "causal", tokenizer)
    with pytest.raises(WarmstartError, match=rf"GPT-2: {name}={value} \("):
        export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))


def test_windows_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = build(shape("modern-small", tokenizer, **ENCODER, local_window=4), "masked", "mean")
    run = make_run(tmp_path / "run", model, "masked", tokenizer)
    with pytest.raises(WarmstartError, match=r"EuroBERT: local_window=4 \(0 fits\)"):
        export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))


def test_the_config_names_the_labels(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = build(shape("bert-base", tokenizer), "classify", "cls")
    classes = ["négatif", "positif", "mixte"]
    more = classifier_facts("cls", classes)
    run = make_run(tmp_path / "run", model, "classify", tokenizer, **more)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", classes, strict=True))
    assert config["label2id"] == {name: index for index, name in enumerate(classes)}


TEST = {
    "file": "data/test.tsv",
    "sha256": "0" * 64,
    "when": "2026-01-02T03:04:05+00:00",
    "scores": {
        "accuracy": 0.9012,
        "f1": 0.9,
        "interval": {"low": 0.87, "high": 0.93},
        "seen_in_training": 3,
        "nearly_seen_in_training": 1,
    },
}


@pytest.fixture
def tested_run(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    model = build(shape("modern-small", tokenizer, **ENCODER), "classify", "mean")
    make_run(tmp_path / "run", model, "classify", tokenizer, **classifier_facts("mean"))
    fingerprints = fingerprints_of([]).to_json()
    stage = {"fingerprints": fingerprints, "tokens_seen": 5_000_000, "elapsed_s": 540.0}
    data = {
        "files": [{"path": "/home/me/train.tsv", "sha256": "1" * 64}],
        "fingerprints": fingerprints,
        "rows": 1600,
        "lineage": [stage],
    }
    write_json(tmp_path / "run" / "data.json", data)
    return tmp_path / "run"


def card_of(run: Path) -> str:
    out = run.parent / "labels"
    export_model(ExportConfig(run=str(run), out=str(out)))
    return (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("head", "of a longer text its beginning."),
        ("middle", "of a longer text its beginning and end (other libraries read its beginning)."),
    ],
)
def test_what_is_read_of_a_long_text_is_said(tested_run: Path, rule: str, part: str) -> None:
    config = json.loads((tested_run / "config.json").read_text())
    config["settings"]["truncate"] = rule
    write_json(tested_run / "config.json", config)
    assert part in card_of(tested_run)


def test_data_budget_scores_leaks_limits_and_use(tested_run: Path) -> None:
    scores = {"valid": {"accuracy": 0.91}, "elapsed_s": 60.0, "ledger": [TEST]}
    write_json(tested_run / "scores.json", scores)
    card = card_of(tested_run)
    for phrase in (
        "pipeline_tag: text-classification",
        "A classifier with ",
        "| classes | a, b, c |",
        "| files | `train.tsv` |",
        "| rows | 1,600 |",
        "| tokens read in pretraining | 5,000,000 |",
        "| training time, all stages | 10 min",
        "| accuracy | 0.9012 (95% interval 0.87 to 0.93) |",
        "| F1 | 0.9 |",
        "Of its texts, 3 also occur in the training data; 1 more are nearly the same",
        'AutoModelForSequenceClassification.from_pretrained("labels")',
        "warmstart predict RUN",
        "warmstart export RUN --to onnx",
    ):
        assert phrase in card
    assert "/home/me" not in card
    assert "not been tested" not in card


def test_a_model_without_a_test_says_so(tested_run: Path) -> None:
    assert "It has not been tested on data that nothing was chosen with." in card_of(tested_run)
