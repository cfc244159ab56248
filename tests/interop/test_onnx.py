"""Every kind of run as ONNX: the outputs of onnxruntime are ours, or nothing is written."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from random_runs import ENCODER, TEXTS, build, classifier_facts, make_run, shape

from warmstart import load
from warmstart.errors import WarmstartError
from warmstart.interop import onnx_graphs
from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.interop.formats import ExportResult
from warmstart.tokenization.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENIZER = {"special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "modern-small-classify": ("modern-small", "classify", {"depth": 1, **ENCODER}),
    "modern-small-causal": ("modern-small", "causal", {"depth": 1}),
    "tiny-causal": ("tiny", "causal", {}),  # two blocks: a cache of each
    "tiny-classify": ("tiny", "classify", {"depth": 1}),
    "bert-base-masked": ("bert-base", "masked", {"depth": 1}),
    "lab-backbone": ("lab", "backbone", {"depth": 1}),
}


def export(folder: Path, tokenizer: Tokenizer, case: tuple[Any, ...], **to: Any) -> ExportResult:
    preset, kind, changes = case
    pooling = "mean" if changes.get("attention") else "last"
    more = classifier_facts(pooling) if kind == "classify" else {}
    model = build(shape(preset, tokenizer, **changes), kind, pooling)
    run = make_run(folder / "run", model, kind, tokenizer, **more)
    return export_model(ExportConfig(run=run, out=str(folder / "out"), to="onnx", **to))


@pytest.fixture(scope="session")
def exported(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer
) -> Callable[[str], ExportResult]:
    """Return a function that exports a case, once for all tests."""

    @functools.cache
    def export_case(name: str) -> ExportResult:
        return export(tmp_path_factory.mktemp(name), tokenizer, CASES[name])

    return export_case


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_ours(exported: Callable[[str], ExportResult], name: str) -> None:
    result = exported(name)
    assert result.check is not None
    assert result.check.difference < 1e-4
    assert set(os.listdir(result.folder)) == {"README.md", "config.json", "model.onnx"} | TOKENIZER


@pytest.mark.parametrize("name", ["modern-small-classify", "tiny-causal", "bert-base-masked"])
def test_the_code_of_the_card_runs(exported: Callable[[str], ExportResult], name: str) -> None:
    folder = exported(name).folder
    card = (folder / "README.md").read_text(encoding="utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=True)
    assert "'logits': (1, " in ran.stdout
    if "classify" in name:
        assert ran.stdout.split()[-1] in "abc"


def test_axes_are_free_and_named(exported: Callable[[str], ExportResult]) -> None:
    session = onnxruntime.InferenceSession(exported("tiny-causal").folder / "model.onnx")
    shapes = {given.name: given.shape for given in session.get_inputs()}
    caches = [f"past_key_values.{block}.{part}" for block in (0, 1) for part in ("key", "value")]
    assert shapes == {
        "input_ids": ["batch", "tokens"],
        "attention_mask": ["batch", "all_tokens"],
        **{name: ["batch", 2, "past", 8] for name in caches},
    }


def test_examples_label_as_predict_does(exported: Callable[[str], ExportResult]) -> None:
    texts = [*TEXTS[:3], "", "the story " * 40]
    folder = exported("modern-small-classify").folder
    wanted = [prediction.label for prediction in load(folder.parent / "run").predict(texts)]
    commands = [[sys.executable, str(EXAMPLES / "onnx_classify.py")]]
    if shutil.which("node") and (EXAMPLES / "node_modules").is_dir():
        commands.append(["node", str(EXAMPLES / "onnx_classify.mjs")])
    for command in commands:
        lines = "".join(f"{text}\n" for text in texts)
        output = subprocess.run(
            [*command, folder], input=lines, capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split("\t") for line in output.splitlines()]
        assert rows == [[label, text] for label, text in zip(wanted, texts, strict=True)]


@pytest.mark.parametrize(
    ("preset", "kind", "changes"),
    [
        ("modern-small", "masked", ENCODER),
        ("translator-small", "translate", {"decoder_depth": 1}),
    ],
)
def test_int8_is_smaller_and_close(
    tmp_path: Path, tokenizer: Tokenizer, preset: str, kind: str, changes: dict[str, Any]
) -> None:
    sizes = {"width": 128, "ffn_width": 256, "depth": 1, **changes}
    result = export(tmp_path, tokenizer, (preset, kind, sizes), precision="int8")
    assert result.check is not None
    assert 0 < result.check.difference < 0.2
    full_size = 4 * result.num_parameters  # of the weights alone, in full precision
    size = sum(file.stat().st_size for file in result.folder.glob("*.onnx"))
    assert size < 0.6 * full_size


def test_a_wrong_graph_is_not_left_behind(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(graph: Any, input_ids: Any, attention_mask: Any) -> Any:
        return (right(graph, input_ids, attention_mask)[0] + 0.01,)

    right = onnx_graphs.TextGraph.forward
    monkeypatch.setattr(onnx_graphs.TextGraph, "forward", forward)
    with pytest.raises(WarmstartError, match=r"was not written: .* onnxruntime differ .* 1.0e-02"):
        export(tmp_path, tokenizer, ("tiny", "classify", {"depth": 1}))
    assert os.listdir(tmp_path) == ["run"]


def test_without_the_extra(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(WarmstartError, match=r"needs onnxruntime.*'warmstart\[onnx\]'"):
        export(tmp_path, tokenizer, ("tiny", "causal", {}))
    assert os.listdir(tmp_path) == ["run"]


def test_int8_is_not_for_transformers() -> None:
    with pytest.raises(WarmstartError, match="--precision int8 needs --to onnx"):
        ExportConfig(run="run", out="out", precision="int8")
