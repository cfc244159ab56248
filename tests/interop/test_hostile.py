"""Folders from elsewhere, made badly or with intent: one sentence, nothing run, nothing written."""

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hub_folders import Saver, write_json
from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.interop.hf_read import read_folder
from warmstart.runs.saved import read_run

pytest.importorskip("transformers")

Spoil = Callable[[Path], Any]


@pytest.fixture(scope="module")
def good(saved: Saver) -> dict[str, Path]:
    return {
        "bert": saved("bert", "BertForSequenceClassification"),
        "roberta": saved("roberta", "RobertaForMaskedLM"),
        "gpt2": saved("gpt2", "GPT2LMHeadModel"),
        "llama": saved("llama", "LlamaForCausalLM"),
    }


def change_config(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", {**config, **changes})

    return spoil


def without(key: str) -> Spoil:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        del config[key]
        write_json(folder / "config.json", config)

    return spoil


def change_tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return spoil


def write(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def weights(content: bytes) -> Spoil:
    return write("model.safetensors", content)


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["BOMB"],)


def as_pickle(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        os.environ["BOMB"] = str(folder.parent / "exploded")
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(pickle.dumps(Bomb()))

    return spoil


def cut(share: float) -> Spoil:
    def spoil(folder: Path) -> None:
        file = folder / "model.safetensors"
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])

    return spoil


def header(entry: dict[str, Any]) -> bytes:
    text = json.dumps({"embeddings.word_embeddings.weight": entry}).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 64


def link_out(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        outside = folder.parent / f"outside-{name}"
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)

    return spoil


def index(name: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        shutil.copy(folder / "model.safetensors", folder.parent / "outside.safetensors")
        (folder / "model.safetensors").unlink()
        write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": name}})

    return spoil


def tall(tensors: dict[str, torch.Tensor]) -> None:
    tensors["bert.encoder.layer.1.output.dense.weight"] = torch.zeros(16, 25)


def thin(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["bert.encoder.layer.1.attention.self.key.bias"]


def thick(tensors: dict[str, torch.Tensor]) -> None:
    tensors["bert.encoder.layer.2.output.dense.weight"] = torch.zeros(16, 24)


def twice(tensors: dict[str, torch.Tensor]) -> None:
    tensors["embeddings.LayerNorm.weight"] = torch.ones(16)


def whole_numbers(tensors: dict[str, torch.Tensor]) -> None:
    tensors["classifier.bias"] = torch.zeros(3, dtype=torch.int64)


DEEP = b"[" * 100_000 + b"]" * 100_000
TERA = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
LYING = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 4]}
CASES: list[tuple[str, Spoil, str]] = [
    ("bert", as_pickle("pytorch_model.bin"), "pytorch_model.bin, a pickle .* did not open it"),
    ("bert", as_pickle("model.safetensors"), "model.safetensors: not a whole safetensors"),
    ("bert", lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors"),
    ("bert", cut(0), "not a whole safetensors"),
    ("bert", cut(0.001), "not a whole safetensors"),
    ("bert", cut(0.5), "not a whole safetensors"),
    ("bert", cut(0.999), "not a whole safetensors"),
    ("bert", weights(struct.pack("<Q", 1 << 42) + b"{}"), "not a whole safetensors"),
    ("bert", weights(header(TERA)), "not a whole safetensors"),
    ("bert", weights(header(LYING)), "not a whole safetensors"),
    ("bert", change_tensors(tall), r"layer.1.output.dense.weight has shape \(16, 25\)"),
    ("bert", change_tensors(thin), "lack encoder.layer.1.attention.self.key.bias"),
    ("bert", change_tensors(thick), "layer.2.output.dense.weight has no place"),
    ("bert", change_tensors(twice), "LayerNorm.weight is there twice"),
    ("bert", change_tensors(whole_numbers), "classifier.bias is torch.int64"),
    ("bert", link_out("model.safetensors"), "leads out of its folder"),
    ("bert", link_out("config.json"), "leads out of its folder"),
    ("bert", link_out("vocab.txt"), "leads out of its folder"),
    ("bert", index("../outside.safetensors"), "outside.safetensors leads out of its folder"),
    ("bert", index("/etc/passwd"), "passwd leads out of its folder"),
    ("bert", index("model.bin"), "model.bin is not in the folder"),
    ("bert", index(["x.safetensors"][0]), "x.safetensors is not in the folder"),
    ("bert", index(7), "weight_map.a=7 must be text"),
    ("bert", lambda folder: (folder / "config.json").unlink(), "no config.json"),
    ("bert", write("config.json", b"{"), "config.json: not valid JSON"),
    ("bert", write("config.json", b"\xff\xfe{}"), "config.json: not valid JSON"),
    ("bert", write("config.json", b"[]"), "config.json: must hold a JSON object"),
    ("bert", write("config.json", b'{"a": ' + DEEP + b"}"), "config.json: not valid JSON"),
    ("bert", write("config.json", b"{}"), "no model_type; supported: bert, roberta"),
    ("bert", change_config(model_type="t5"), "model_type='t5' is not supported"),
    ("bert", change_config(model_type=["bert"]), "model_type="),
    ("bert", change_config(architectures=["BertForMultipleChoice"]), "ForMultipleChoice"),
    ("bert", change_config(architectures="BertModel"), "architectures='BertModel' must be a list"),
    ("bert", change_config(architectures=[["BertModel"]]), "architectures="),
    ("bert", change_config(architectures=["BertForMaskedLM"]), "lack cls.predictions"),
    ("bert", change_config(auto_map={"AutoModel": "x.Y"}), "auto_map=.* needs code of its own"),
    ("bert", change_config(quantization_config={}), "quantization_config="),
    ("bert", change_config(hidden_size="16"), "hidden_size='16' must be a whole number"),
    ("bert", change_config(hidden_size=True), "hidden_size=true must be a whole number"),
    ("bert", change_config(hidden_size=10**30), "hidden_size=1000.* must be a whole number"),
    ("bert", change_config(hidden_size=-16), "hidden_size=-16"),
    ("bert", change_config(num_hidden_layers=10_000_000), "num_hidden_layers=10000000 is more"),
    ("bert", change_config(num_attention_heads=3), "width=16 must be a multiple"),
    ("bert", change_config(intermediate_size=1 << 23), "config.json says"),
    ("bert", change_config(vocab_size=10), "word_embeddings.weight has shape"),
    ("bert", without("hidden_size"), "no hidden_size"),
    ("bert", change_config(layer_norm_eps=float("nan")), "NaN is not a JSON value"),
    ("bert", change_config(layer_norm_eps=0), "norm_eps=0"),
    ("bert", change_config(hidden_dropout_prob=2), "dropout=2"),
    ("bert", change_config(hidden_act="mish"), "hidden_act='mish' is not supported"),
    ("bert", change_config(position_embedding_type="relative_key"), "position_embedding_type="),
    ("bert", change_config(is_decoder=True), "is_decoder=true"),
    ("bert", change_config(add_cross_attention=True), "add_cross_attention=true"),
    ("bert", change_config(problem_type="regression"), "problem_type='regression'"),
    ("bert", change_config(id2label={"0": "a", "1": "b"}), "id2label=.* 0 to 2"),
    ("bert", change_config(id2label={"0": "a", "1": "b", "2": "b"}), "name of its own"),
    ("bert", change_config(id2label={"0": 1, "1": 2, "2": 3}), "name of its own"),
    ("bert", change_config(id2label=[1]), "id2label="),
    ("bert", write("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n" * 500), "entries, the model only"),
    ("bert", write("vocab.txt", b"a\n"), r"no \[UNK\]"),
    ("bert", write("vocab.txt", b"\xff\n"), "vocab.txt: byte 0 is not UTF-8"),
    ("bert", lambda folder: (folder / "vocab.txt").unlink(), "no tokenizer: neither"),
    ("bert", write("tokenizer_config.json", b'{"mask_token": 7}'), "mask_token=7 must be a token"),
    ("bert", write("tokenizer_config.json", b'{"mask_token": "x"}'), "no 'x', its mask token"),
    ("bert", write("tokenizer_config.json", b'{"do_lower_case": "no"}'), "do_lower_case='no'"),
    ("roberta", change_config(hidden_act="relu"), "hidden_act='relu' differs"),
    ("roberta", change_config(max_position_embeddings=2), "max_position_embeddings=2 leaves no"),
    ("roberta", change_config(max_position_embeddings=60), "position_embeddings.weight has shape"),
    ("roberta", change_config(pad_token_id="x"), "pad_token_id='x' must be a token id"),
    ("roberta", write("tokenizer.json", b"{}"), "tokenizer.json: not a tokenizer.json"),
    ("roberta", write("tokenizer.json", b"{" + DEEP), "tokenizer.json: not valid JSON"),
    ("gpt2", change_config(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer"),
    ("gpt2", change_config(scale_attn_weights=False), "scale_attn_weights=false"),
    ("gpt2", change_config(add_cross_attention=True), "add_cross_attention=true"),
    ("gpt2", change_config(n_inner=0), "n_inner=0"),
    ("llama", change_config(num_key_value_heads=3), "num_key_value_heads=3 must divide"),
    ("llama", change_config(num_key_value_heads=1), "k_proj.weight has shape"),
    ("llama", change_config(head_dim=4), "head_dim=4"),
    ("llama", change_config(hidden_act="gelu"), "hidden_act='gelu'"),
    ("llama", change_config(rope_scaling={"type": "linear", "factor": 2}), "rope_scaling="),
    ("llama", change_config(rope_parameters={"rope_type": "llama3"}), "rope_parameters="),
    ("llama", change_config(rope_parameters=[1]), "rope_parameters="),
    ("llama", change_config(rope_parameters={"rope_theta": "x"}), "rope_theta='x'"),
    ("llama", change_config(sliding_window=8), "sliding_window=8"),
    ("llama", change_config(layer_types=["sliding_attention"]), "layer_types="),
    ("llama", change_config(layer_types=7), "layer_types=7"),
    ("llama", change_config(tie_word_embeddings=True), "lm_head.weight differs"),
    ("llama", change_config(mlp_bias=True), "lack layers.0.mlp.gate_proj.bias"),
    ("llama", write("tokenizer.model", b"\x0a\x03abc"), "tokenizer.model: not a SentencePiece"),
    ("llama", write("tokenizer.model", b""), "no tokenizer: neither"),
    ("llama", write("tokenizer.model", b"\x08\x07"), "tokenizer.model: not a SentencePiece"),
    ("llama", write("tokenizer.model", b"\x0a\x02\x08\x07"), "tokenizer.model: not a Sentence"),
    ("llama", write("tokenizer.model", b"\x0a\x05\x0a\x01\xff\x18\x02"), "not a SentencePiece"),
]


@pytest.mark.parametrize(
    ("family", "spoil", "reason"), CASES, ids=[f"{case[0]}-{case[2]}" for case in CASES]
)
def test_a_bad_folder_gets_one_sentence(
    good: dict[str, Path], tmp_path: Path, family: str, spoil: Spoil, reason: str
) -> None:
    folder = tmp_path / "hf"
    shutil.copytree(good[family], folder)
    spoil(folder)
    with pytest.raises(WarmstartError, match=reason) as caught:
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "exploded").exists()


HOSTILE = (None, True, -1, 1 << 70, float("inf"), "x", [[]], {"x": [1]})


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama"])
def test_any_value_of_any_key_is_taken_or_refused(
    good: dict[str, Path], tmp_path: Path, family: str
) -> None:
    shutil.copytree(good[family], tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    refused = 0
    for key in config:
        for value in HOSTILE:
            write_json(tmp_path / "hf" / "config.json", {**config, key: value})
            try:
                read_folder(tmp_path / "hf")
            except WarmstartError:
                refused += 1
    assert refused > 30


def test_shards_and_a_hub_cache_are_read(good: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "models--x" / "snapshots" / "abc"
    blobs = tmp_path / "models--x" / "blobs"
    blobs.mkdir(parents=True)
    folder.mkdir(parents=True)
    for file in good["bert"].iterdir():
        if file.suffix == ".safetensors":
            continue
        shutil.copy(file, blobs / file.name)
        (folder / file.name).symlink_to(Path("../../blobs") / file.name)
    tensors = load_file(good["bert"] / "model.safetensors")
    names = sorted(tensors)
    placed = {}
    for number, part in enumerate((names[::2], names[1::2])):
        shard = f"model-{number}.safetensors"
        save_file({name: tensors[name] for name in part}, folder / shard)
        placed |= dict.fromkeys(part, shard)
    write_json(folder / "model.safetensors.index.json", {"weight_map": placed})
    import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "sharded")))
    import_model(ImportConfig(folder=str(good["bert"]), out=str(tmp_path / "whole")))
    one, other = (read_run(tmp_path / name).weights for name in ("sharded", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_old_names_of_norms_and_heads_that_come_along(saved: Saver, tmp_path: Path) -> None:
    folder = saved("bert", "BertForPreTraining")
    tensors = load_file(folder / "model.safetensors")
    change_config(architectures=["BertForMaskedLM"])(folder)  # as the first BERT is published
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in tensors.items()
    }
    save_file(old, folder / "model.safetensors")
    import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert "next_sentence.weight" in read_run(tmp_path / "run").weights
    change_config(architectures=["BertForSequenceClassification"])(folder)
    old["classifier.weight"], old["classifier.bias"] = torch.ones(2, 16), torch.ones(2)
    save_file(old, folder / "model.safetensors")
    result = import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "labels")))
    assert "cls.seq_relationship.weight" in result.left_out
    assert read_run(tmp_path / "labels").config["classes"] == ["LABEL_0", "LABEL_1"]


def test_a_tokenizer_that_fails_on_unknown_letters_is_not_exported(
    good: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    import_model(ImportConfig(folder=str(good["bert"]), out=str(run)))
    content = json.loads((run / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "[MISSING]"
    write_json(run / "tokenizer.json", content)
    with pytest.raises(WarmstartError, match="cannot read a text"):
        export_model(ExportConfig(run=str(run), out=str(tmp_path / "exported")))
    assert not (tmp_path / "exported").exists()
