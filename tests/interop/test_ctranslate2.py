"""Translators and causal language models for CTranslate2: probabilities and texts are ours."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from random_runs import ENCODER, build, make_run, shape

from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.interop.formats import ExportResult
from warmstart.tokenization.tokenizer import Tokenizer

pytest.importorskip("ctranslate2")

FITTING: list[tuple[str, str, dict[str, Any]]] = [
    ("translator-small", "translate", {"decoder_depth": 1}),
    ("vaswani-base", "translate", {}),
    ("vaswani-base", "translate", {"shared": False, "output_bias": True, "activation": "gelu"}),
    ("modern-small", "translate", {**ENCODER, "decoder_depth": 2, "rope_base": 900.0}),
    ("modern-small", "causal", {}),
    ("tiny", "causal", {}),
    ("tiny", "causal", {"biases": True, "activation": "gelu_tanh", "embedding_norm": True}),
    ("tiny", "causal", {"activation": "geglu"}),
    ("tiny", "causal", {"activation": "silu"}),
    ("lab", "causal", {}),
]


def export(tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...], **to: Any) -> ExportResult:
    preset, kind, changes = case
    model = build(shape(preset, tokenizer, **changes), kind, None)
    run = make_run(tmp_path / "run", model, kind, tokenizer)
    return export_model(ExportConfig(run=run, to="ctranslate2", out=str(tmp_path / "out"), **to))


@pytest.mark.parametrize("case", FITTING)
def test_probabilities_are_ours(
    tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...]
) -> None:
    result = export(tmp_path, tokenizer, case)
    assert result.check is not None
    assert result.check.difference < 1e-4
    assert {"model.bin", "config.json", "tokenizer.json"} < set(os.listdir(result.folder))


@pytest.mark.parametrize("case", [FITTING[0], FITTING[4]])
def test_int8(tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...]) -> None:
    result = export(tmp_path, tokenizer, case, precision="int8")
    assert result.check is not None
    assert 0 < result.check.difference < 0.2


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (("modern-small", "masked", ENCODER), "for translators and causal language models"),
        (("tiny", "causal", {"activation": "relu2"}), "does not implement activation=relu2"),
        (("tiny", "causal", {"first_norm": False}), "does not implement first_norm=False"),
    ],
)
def test_refusals(tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(WarmstartError, match=reason):
        export(tmp_path, tokenizer, case)
    assert os.listdir(tmp_path) == ["run"]


def test_without_the_extra(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(WarmstartError, match=r"needs ctranslate2.*'warmstart\[ctranslate2\]'"):
        export(tmp_path, tokenizer, FITTING[0])
    assert os.listdir(tmp_path) == ["run"]
