"""Exported encoders as sentence-transformers reads them: the vectors are those of `embed`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_runs import ENCODER, build, classifier_facts, make_run, shape

import warmstart
from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.tokenization.tokenizer import Tokenizer

TEXTS = ["un livre", "un très bon livre", "un livre " * 200]  # the last one is cut
NO_POOLER = {"pooler": False, "segments": 0}


def vectors_of(folder: Path) -> Any:
    """Return what sentence-transformers computes with the modules of a folder, in its order."""
    import transformers

    modules = json.loads((folder / "modules.json").read_text())
    assert [module["type"].split(".")[-1] for module in modules] == ["Transformer", "Pooling"]
    pooling = json.loads((folder / modules[1]["path"] / "config.json").read_text())
    assert [name for name, value in pooling.items() if value is True] == [
        "pooling_mode_mean_tokens"
    ]
    length = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder).eval()
    assert model.config.hidden_size == pooling["word_embedding_dimension"]
    batch = tokenizer(
        TEXTS, padding=True, truncation="longest_first", max_length=length, return_tensors="pt"
    )
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    return ((hidden * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("kind", ["masked", "backbone"])
@pytest.mark.parametrize(
    ("preset", "words"), [("bert-base", {}), ("bert-base", NO_POOLER), ("mini", ENCODER)]
)
def test_their_mean_is_ours(
    preset: str, words: dict[str, Any], kind: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    pytest.importorskip("transformers")
    model = build(shape(preset, tokenizer, **words), kind, "mean")
    run = make_run(tmp_path / "run", model, kind, tokenizer)
    exported = export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert "SentenceTransformer(" in exported.code
    ours = warmstart.load(run).embed(TEXTS)
    np.testing.assert_allclose(vectors_of(tmp_path / "hf"), ours, atol=1e-5)


@pytest.mark.parametrize(("preset", "kind"), [("tiny", "causal"), ("bert-base", "classify")])
def test_other_models_have_no_sentence_vectors(
    preset: str, kind: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    facts = classifier_facts("cls") if kind == "classify" else {}
    model = build(shape(preset, tokenizer), kind, "cls")
    run = make_run(tmp_path / "run", model, kind, tokenizer, **facts)
    export_model(ExportConfig(run=run, out=str(tmp_path / "hf")))
    assert not (tmp_path / "hf/modules.json").exists()
