"""ModernBERT: windows, two rotary bases and gated GELU give the outputs of transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import warmstart
from saving import Saver
from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, LanguageModel
from warmstart.runs.saved import read_run
from warmstart.tasks.registry import task_of

transformers = pytest.importorskip("transformers")

BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("ModernBertModel", {}),
    ("ModernBertModel", {"global_attn_every_n_layers": 1}),
    ("ModernBertModel", {"global_attn_every_n_layers": 2, "local_attention": 5}),
    ("ModernBertModel", {"norm_bias": True, "norm_eps": 1e-3}),
    ("ModernBertForMaskedLM", {}),
    ("ModernBertForMaskedLM", BIASES),
    ("ModernBertForMaskedLM", {"decoder_bias": False, "tie_word_embeddings": False}),
]


def read(folder: Path, tmp_path: Path) -> BackboneOnly | LanguageModel:
    import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    source = read_run(tmp_path / "run")
    model = task_of(source).load_model(source).eval().double()
    assert isinstance(model, BackboneOnly | LanguageModel)
    return model


def batch(vocab_size: int) -> tuple[Tensor, Tensor]:
    """Return ids of mixed length, most of them longer than a window."""
    is_token = torch.arange(40)[None] < torch.tensor([40, 3, 17, 1])[:, None]
    ids = torch.randint(5, vocab_size, (4, 40), generator=torch.Generator().manual_seed(3))
    return torch.where(is_token, ids, 1), is_token


def assert_same(model: BackboneOnly | LanguageModel, folder: Path) -> None:
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    theirs = getattr(transformers, name).from_pretrained(folder, dtype=torch.float64).eval()
    ids, is_token = batch(model.config.vocab_size)
    with torch.inference_mode():
        wanted = theirs(input_ids=ids, attention_mask=is_token.long())[0]
        layout = Layout(is_token=is_token)
        found = model.backbone(ids, layout)
        if isinstance(model, LanguageModel):
            found = model(ids, layout)
    torch.testing.assert_close(found[is_token], wanted[is_token], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("architecture", "changes"), CASES)
def test_outputs(saved: Saver, tmp_path: Path, architecture: str, changes: dict[str, Any]) -> None:
    folder = saved("modernbert", architecture, **changes)
    assert_same(read(folder, tmp_path), folder)


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = folder / "config.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_the_keys_of_published_folders(saved: Saver, tmp_path: Path) -> None:
    """Folders on the hub have the interval between global blocks and a base for each kind."""
    folder = saved("modernbert", "ModernBertForMaskedLM")

    def as_published(values: dict[str, Any]) -> None:
        del values["layer_types"], values["rope_parameters"]
        values |= {"global_attn_every_n_layers": 2, "global_rope_theta": 5e3}
        values |= {"local_rope_theta": 50.0, "position_embedding_type": "absolute"}

    edit(folder, as_published)
    model = read(folder, tmp_path)
    shape = model.config
    assert (shape.local_window, shape.global_every) == (4, 2)
    assert (shape.rope_base, shape.local_rope_base) == (5e3, 50.0)
    assert_same(model, folder)


def test_pictures_of_masks_say_which_blocks_they_show(
    saved: Saver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(saved("modernbert", "ModernBertModel"), tmp_path)
    said: list[str] = []
    monkeypatch.setattr(progress, "say", said.append)
    warmstart.look_mask(model=tmp_path / "run", text=("the book",), out=tmp_path / "mask.svg")
    assert said[0].startswith("2 of 4 blocks see only 4 tokens on each side of a token")


@pytest.mark.slow
def test_graphs_see_the_same_windows(saved: Saver, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    read(saved("modernbert", "ModernBertForMaskedLM"), tmp_path)
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
def test_what_is_refused(saved: Saver, tmp_path: Path, key: str, value: Any, reason: str) -> None:
    folder = saved("modernbert", "ModernBertForMaskedLM")
    edit(folder, lambda values: values.update({key: value}))
    with pytest.raises(WarmstartError, match=f"{key}=.*{reason}"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_classifier_is_refused(saved: Saver, tmp_path: Path) -> None:
    folder = saved("modernbert", "ModernBertForSequenceClassification")
    with pytest.raises(WarmstartError, match="supported: ModernBertModel, ModernBertForMaskedLM"):
        import_model(ImportConfig(folder=str(folder), out=str(tmp_path / "run")))
