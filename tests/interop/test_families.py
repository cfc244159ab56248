"""Every family: a random transformers model in, the same outputs; out again, the same outputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import warmstart
from hub_folders import TEXTS, Saver
from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel
from warmstart.runs.saved import SavedRun, read_run
from warmstart.tasks.registry import task_of

transformers = pytest.importorskip("transformers")

CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("bert", "BertModel", "backbone", {}),
    ("bert", "BertForMaskedLM", "masked", {}),
    ("bert", "BertForMaskedLM", "masked", {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
    ("bert", "BertForPreTraining", "masked", {"hidden_act": "relu"}),
    ("bert", "BertForNextSentencePrediction", "classify", {}),
    ("bert", "BertForSequenceClassification", "classify", {}),
    ("roberta", "RobertaModel", "backbone", {}),
    ("roberta", "RobertaForMaskedLM", "masked", {}),
    ("roberta", "RobertaForSequenceClassification", "classify", {}),
    ("camembert", "CamembertForMaskedLM", "masked", {"layer_norm_eps": 1e-5}),
    ("camembert", "CamembertForSequenceClassification", "classify", {}),
    ("gpt2", "GPT2Model", "backbone", {"n_inner": 40}),
    ("gpt2", "GPT2LMHeadModel", "causal", {}),
    ("gpt2", "GPT2LMHeadModel", "causal", {"tie_word_embeddings": False}),
    ("gpt2", "GPT2ForSequenceClassification", "classify", {}),
    ("llama", "LlamaModel", "backbone", {"rms_norm_eps": 1e-5}),
    ("llama", "LlamaForCausalLM", "causal", {}),
    ("llama", "LlamaForCausalLM", "causal", {"tie_word_embeddings": True, "attention_bias": True}),
    (
        "llama",
        "LlamaForCausalLM",
        "causal",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ),
    ("llama", "LlamaForCausalLM", "causal", {"num_key_value_heads": 1}),
    ("llama", "LlamaForCausalLM", "causal", {"num_attention_heads": 4, "num_key_value_heads": 2}),
    ("llama", "LlamaForSequenceClassification", "classify", {}),
    ("distilbert", "DistilBertModel", "backbone", {}),
    ("distilbert", "DistilBertForMaskedLM", "masked", {"sinusoidal_pos_embds": True}),
    ("electra", "ElectraModel", "backbone", {}),
    ("electra", "ElectraForMaskedLM", "masked", {}),
]
BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True)
MODERNBERTS: list[tuple[str, dict[str, Any]]] = [  # windows, two rotary bases, gated GELU
    ("ModernBertModel", {}),
    ("ModernBertModel", {"global_attn_every_n_layers": 1}),
    ("ModernBertModel", {"global_attn_every_n_layers": 2, "local_attention": 5}),
    ("ModernBertModel", {"norm_bias": True, "norm_eps": 1e-3}),
    ("ModernBertForMaskedLM", {}),
    ("ModernBertForMaskedLM", BIASES),
    ("ModernBertForMaskedLM", {"decoder_bias": False, "tie_word_embeddings": False}),
]
OUTPUTS = ("last_hidden_state", "prediction_logits", "seq_relationship_logits", "logits")


def batch(vocab_size: int, pad: int) -> tuple[Tensor, Tensor]:
    """Return random ids of mixed length, padded at the right, and where the tokens are."""
    lengths = torch.tensor([30, 3, 17, 1])
    is_token = torch.arange(30)[None] < lengths[:, None]
    ids = torch.randint(5, vocab_size, (4, 30), generator=torch.Generator().manual_seed(3))
    return torch.where(is_token, ids, pad), is_token


def segments_of(ids: Tensor) -> Tensor:
    return (torch.arange(ids.shape[1]) > 8).long().expand_as(ids)


def theirs(folder: Path, ids: Tensor, is_token: Tensor) -> dict[str, Tensor]:
    config = json.loads((folder / "config.json").read_text())
    kind = getattr(transformers, config["architectures"][0])
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        given = {"token_type_ids": segments_of(ids)} if config.get("type_vocab_size") == 2 else {}
        found = model(input_ids=ids, attention_mask=is_token.long(), **given)
    return {name: found[name] for name in OUTPUTS if name in found}


def ours(run: Path, ids: Tensor, is_token: Tensor) -> dict[str, Tensor]:
    source = read_run(run)
    model: nn.Module = task_of(source).load_model(source).eval()
    segments = segments_of(ids) if source.model.segments == 2 else None
    layout = Layout(is_token=is_token, segments=segments)
    assert isinstance(model, BackboneOnly | Classifier | LanguageModel)
    with torch.inference_mode():
        hidden = model.backbone(ids, layout)
        if isinstance(model, BackboneOnly):
            return {"last_hidden_state": hidden}
        if isinstance(model, Classifier):
            return {"logits": model(ids, layout)}
        logits = model(ids, layout)
        if hasattr(model, "next_sentence"):
            pair = model.next_sentence(model.backbone.pool_first(hidden))
            return {"prediction_logits": logits, "seq_relationship_logits": pair}
        return {"logits": logits}


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor], is_token: Tensor) -> None:
    assert found
    assert set(found) <= set(wanted)
    for name, one in found.items():
        other = wanted[name]
        if one.dim() == 3:
            one, other = one[is_token], other[is_token]
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("family", "architecture", "kind", "changes"), CASES)
def test_in_and_out_again(
    saved: Saver, tmp_path: Path, family: str, architecture: str, kind: str, changes: dict[str, Any]
) -> None:
    folder = saved(family, architecture, **changes)
    result = import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert result.left_out == ()
    source = read_run(tmp_path / "run")
    assert source.task == kind
    config = json.loads((folder / "config.json").read_text())
    ids, is_token = batch(source.model.vocab_size, config["pad_token_id"])
    wanted = theirs(folder, ids, is_token)
    assert_same(ours(tmp_path / "run", ids, is_token), wanted, is_token)

    exported = export_model(ExportConfig(run=str(tmp_path / "run"), out=str(tmp_path / "hf")))
    assert exported.check is not None
    assert exported.check.difference < 1e-5
    again = json.loads((tmp_path / "hf" / "config.json").read_text())
    pads = torch.where(is_token, ids, again["pad_token_id"])
    assert_same(theirs(tmp_path / "hf", pads, is_token), wanted, is_token)
    if kind == "classify":
        assert list(again["id2label"].values()) == source.config["classes"]

    import_model(ImportConfig(folder=str(tmp_path / "hf"), out=str(tmp_path / "again")))
    twice = read_run(tmp_path / "again")
    assert twice.tokenizer.encode(TEXTS) == source.tokenizer.encode(TEXTS)
    assert (twice.tokenizer.bos, twice.tokenizer.eos) == (
        source.tokenizer.bos,
        source.tokenizer.eos,
    )
    assert_same(ours(tmp_path / "again", ids, is_token), wanted, is_token)


def assert_imported(folder: Path, run: Path) -> SavedRun:
    """Import a folder, which must then give the outputs of transformers."""
    import_model(ImportConfig(folder=str(folder), out=str(run)))
    source = read_run(run)
    ids, is_token = batch(source.model.vocab_size, 1)
    assert_same(ours(run, ids, is_token), theirs(folder, ids, is_token), is_token)
    return source


@pytest.mark.parametrize(("architecture", "changes"), MODERNBERTS)
def test_modernberts(
    saved: Saver, tmp_path: Path, architecture: str, changes: dict[str, Any]
) -> None:
    assert_imported(saved("modernbert", architecture, **changes), tmp_path / "run")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(saved: Saver, tmp_path: Path, dtype: torch.dtype) -> None:
    folder = saved("bert", "BertModel", dtype=dtype)
    assert_imported(folder, tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_an_electra_discriminator_is_a_backbone(saved: Saver, tmp_path: Path) -> None:
    folder = saved("electra", "ElectraForPreTraining")
    result = import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert result.kind == "a backbone without a head"
    assert all(name.startswith("discriminator_predictions.") for name in result.left_out)


def test_an_electra_with_narrow_embeddings_is_refused(saved: Saver, tmp_path: Path) -> None:
    folder = saved("electra", "ElectraModel", embedding_size=8)
    with pytest.raises(WarmstartError, match="embedding_size=8 is not hidden_size, 16"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_marian_whose_files_do_not_say_how_texts_begin_is_refused(
    saved: Saver, tmp_path: Path
) -> None:
    """It has a tokenizer.json, which puts a token before the source, and none in config.json."""
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    ids = {"vocab_size": 400, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = transformers.MarianConfig(d_model=16, scale_embedding=True, **sizes, **heads, **ids)
    folder = saved("roberta", "RobertaModel")
    transformers.MarianMTModel(config).save_pretrained(folder)
    with pytest.raises(WarmstartError, match="bos_token_id=null must begin both source and target"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = folder / "config.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_the_keys_of_published_modernberts(saved: Saver, tmp_path: Path) -> None:
    """Folders on the hub have the interval between global blocks and a base for each kind."""
    folder = saved("modernbert", "ModernBertForMaskedLM")

    def as_published(values: dict[str, Any]) -> None:
        del values["layer_types"], values["rope_parameters"]
        values |= {"global_attn_every_n_layers": 2, "global_rope_theta": 5e3}
        values |= {"local_rope_theta": 50.0, "position_embedding_type": "absolute"}

    edit(folder, as_published)
    shape = assert_imported(folder, tmp_path / "run").model
    assert (shape.local_window, shape.global_every) == (4, 2)
    assert (shape.rope_base, shape.local_rope_base) == (5e3, 50.0)


def test_pictures_of_masks_say_which_blocks_they_show(
    saved: Saver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved("modernbert", "ModernBertModel")
    import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    warmstart.look_mask(model=tmp_path / "run", text=("the book",), out=tmp_path / "mask.svg")
    assert said[0].startswith("2 of 4 blocks see only 4 tokens on each side of a token")


@pytest.mark.slow
def test_graphs_see_the_windows_of_a_modernbert(saved: Saver, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = saved("modernbert", "ModernBertForMaskedLM")
    import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    settings = ExportConfig(run=str(tmp_path / "run"), to="onnx", out=str(tmp_path / "onnx"))
    exported = export_model(settings)
    assert exported.check is not None
    assert exported.check.difference < 1e-4


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("layer_types", ["sliding_attention"] * 4, "must be one full_attention in every few"),
        ("local_attention", 1, "leaves no window"),
        ("hidden_activation", "silu", "supported: gelu"),
        ("classifier_activation", "relu", "gelu is"),
        ("rope_parameters", {"full_attention": {"rope_type": "yarn"}}, "of full_attention is"),
        ("rope_parameters", [], "rope_type default"),
        ("rope_scaling", {"factor": 2.0}, "plain rotations are"),
    ],
)
def test_modernberts_that_are_refused(
    saved: Saver, tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    folder = saved("modernbert", "ModernBertForMaskedLM")
    edit(folder, lambda values: values.update({key: value}))
    with pytest.raises(WarmstartError, match=f"{key}=.*{reason}"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_modernbert_that_classifies_is_refused(saved: Saver, tmp_path: Path) -> None:
    folder = saved("modernbert", "ModernBertForSequenceClassification")
    with pytest.raises(WarmstartError, match="supported: ModernBertModel, ModernBertForMaskedLM"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))


@pytest.mark.parametrize(
    ("family", "kind"), [("bert", "BertForMaskedLM"), ("roberta", "RobertaForMaskedLM")]
)
def test_masked_words_are_restored_like_the_pipeline_does(
    family: str, kind: str, saved: Saver, tmp_path: Path
) -> None:
    folder = saved(family, kind)
    warmstart.import_model(folder=folder, out=tmp_path / "run")
    pipeline = transformers.pipeline("fill-mask", model=str(folder), top_k=50)
    text = f"{pipeline.tokenizer.mask_token} is good"
    shares = [entry["score"] for entry in pipeline(text)]
    filled = warmstart.load(tmp_path / "run", threads=1).fill_mask([text], top_k=40)[0]
    for choice in filled.masks[0]:  # special tokens are in one list only
        assert min(abs(share - choice.probability) for share in shares) < 1e-6
    assert len(filled.masks[0]) == 40
