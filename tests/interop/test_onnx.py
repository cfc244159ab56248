"""Every kind of run as ONNX: the outputs of onnxruntime are ours, or nothing is written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from random_runs import ENCODER, TEXTS, build, classifier_facts, make_run, shape

from warmstart import load
from warmstart.errors import WarmstartError
from warmstart.interop import onnx_graphs
from warmstart.recipes.export_model import ExportResult, export_model
from warmstart.settings.exchanging import ExportConfig
from warmstart.tokenization.tokenizer import Tokenizer

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENIZER = {"special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("modern-small", "classify", ENCODER),
    ("modern-small", "masked", ENCODER),
    ("modern-small", "causal", {}),
    ("tiny", "causal", {"depth": 1}),
    ("tiny", "classify", {"depth": 1}),
    ("bert-base", "masked", {"depth": 1}),
    ("lab", "backbone", {"depth": 1}),
    ("translator-small", "translate", {"decoder_depth": 1}),
]


def export(tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...], **to: Any) -> ExportResult:
    preset, kind, changes = case
    pooling = "mean" if "attention" in changes else "last"
    more = classifier_facts(pooling) if kind == "classify" else {}
    model = build(shape(preset, tokenizer, **changes), kind, pooling)
    run = make_run(tmp_path / "run", model, kind, tokenizer, **more)
    return export_model(ExportConfig(run=run, out=str(tmp_path / "out"), **to))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:2]))
def test_outputs_are_ours(tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...]) -> None:
    result = export(tmp_path, tokenizer, case, to="onnx")
    assert result.check is not None
    assert result.check.difference < 1e-4
    graphs = {"model.onnx"}
    if case[1] == "translate":
        graphs = {"encoder_model.onnx", "decoder_model.onnx"}
    assert set(os.listdir(result.folder)) == {"README.md", "config.json", *graphs} | TOKENIZER


def test_axes_are_free_and_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    result = export(tmp_path, tokenizer, ("tiny", "causal", {"depth": 1}), to="onnx")
    session = onnxruntime.InferenceSession(result.folder / "model.onnx")
    shapes = {given.name: given.shape for given in session.get_inputs()}
    assert shapes == {
        "input_ids": ["batch", "tokens"],
        "attention_mask": ["batch", "all_tokens"],
        "past_key_values.0.key": ["batch", 2, "past", 8],
        "past_key_values.0.value": ["batch", 2, "past", 8],
    }


def test_examples_label_as_predict_does(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = [*TEXTS[:3], "", "the story " * 40]
    result = export(tmp_path, tokenizer, ("modern-small", "classify", ENCODER), to="onnx")
    wanted = [prediction.label for prediction in load(tmp_path / "run").predict(texts)]
    commands = [[sys.executable, str(EXAMPLES / "onnx_classify.py")]]
    if shutil.which("node") and (EXAMPLES / "node_modules").is_dir():
        commands.append(["node", str(EXAMPLES / "onnx_classify.mjs")])
    for command in commands:
        lines = "".join(f"{text}\n" for text in texts)
        output = subprocess.run(
            [*command, result.folder], input=lines, capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split("\t") for line in output.splitlines()]
        assert rows == [[label, text] for label, text in zip(wanted, texts, strict=True)]


@pytest.mark.parametrize("case", [*CASES[:2], CASES[-1]], ids=lambda case: "-".join(case[:2]))
def test_int8_is_smaller_and_close(
    tmp_path: Path, tokenizer: Tokenizer, case: tuple[Any, ...]
) -> None:
    preset, kind, changes = case
    sizes = {"width": 64, "ffn_width": 128, **changes}
    for precision in ("fp32", "int8"):
        (tmp_path / precision).mkdir()
        to = {"to": "onnx", "precision": precision}
        result = export(tmp_path / precision, tokenizer, (preset, kind, sizes), **to)
    assert result.check is not None
    assert 0 < result.check.difference < 0.2
    full, small = (
        sum(file.stat().st_size for file in (tmp_path / precision / "out").glob("*.onnx"))
        for precision in ("fp32", "int8")
    )
    assert small < 0.6 * full


def test_a_wrong_graph_is_not_left_behind(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(graph: Any, input_ids: Any, attention_mask: Any) -> Any:
        return (right(graph, input_ids, attention_mask)[0] + 0.01,)

    right = onnx_graphs.TextGraph.forward
    monkeypatch.setattr(onnx_graphs.TextGraph, "forward", forward)
    with pytest.raises(WarmstartError, match=r"was not written: .* onnxruntime differ .* 1.0e-02"):
        export(tmp_path, tokenizer, ("modern-small", "classify", ENCODER), to="onnx")
    assert os.listdir(tmp_path) == ["run"]


def test_without_the_extra(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(WarmstartError, match=r"needs onnxruntime.*'warmstart\[onnx\]'"):
        export(tmp_path, tokenizer, ("tiny", "causal", {}), to="onnx")
    assert os.listdir(tmp_path) == ["run"]


def test_int8_is_not_for_transformers() -> None:
    with pytest.raises(WarmstartError, match="--precision int8 needs --to onnx"):
        ExportConfig(run="run", out="out", precision="int8")
