"""Whatever stands in a run folder, only a `WarmstartError` comes out."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from broken import damaged, fuzzed, scraps
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from warmstart.data.fingerprints import PackedFingerprints, fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.model.models import LanguageModel
from warmstart.runs.checkpoint import (
    State,
    load_checkpoint,
    load_latest,
    optimizer_tensors,
    read_weights,
    save_checkpoint,
)
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import FORMAT, RunFolder
from warmstart.runs.lifecycle import check_unchanged
from warmstart.runs.saved import read_run
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.backends import load_tokenizer, train_tokenizer
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.record import Record

Place = Callable[[str, bytes], Path]
WEIGHTS = save({"a": torch.zeros(3), "b": torch.ones(2, 2, dtype=torch.bfloat16)})
METRICS = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'
STATE = State(step=3, best_score=-1.5, evaluations=[{"step": 2, "valid_loss": 1.5}])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a small run with a checkpoint."""
    folder = RunFolder(tmp_path_factory.mktemp("whole") / "run")
    tokenizer = train_tokenizer(["a b c d e f"] * 9, "bpe", 270)
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, width=8, depth=1, heads=2, ffn_width=8, max_length=8
    )
    torch.manual_seed(0)
    model = LanguageModel(shape)
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    optimizers = build_optimizers(model, OptimizerSettings("adamw", 1e-2, 0.1))
    optimizers["adamw"].step()
    save_checkpoint(folder, model, optimizer_tensors(optimizers), STATE, 2)
    tokenizer.save(folder.path)
    write_whole(folder.weights_file, (folder.checkpoints / "step-3/model.safetensors").read_bytes())
    parts = {
        "command": "pretrain",
        "settings": {},
        "model": shape.to_json(),
        "task": "causal",
        "format": FORMAT,
    }
    write_json(folder.config_file, parts)
    facts = {
        "files": [{"path": "a.txt", "sha256": "0" * 64, "rows": 3}],
        "fingerprints": fingerprints_of(["a"]).to_json(),
    }
    write_json(folder.data_file, facts)
    write_json(folder.scores_file, {"valid": {"loss": 1.0}, "ledger": []})
    assert read_run(folder.path).task == "causal"
    return folder


@fuzzed
@given(damaged(WEIGHTS) | scraps(WEIGHTS, b"\xff" * 8, b"F32", b"data_offsets"))
def test_weights(place: Place, content: bytes) -> None:
    with contextlib.suppress(WarmstartError):
        read_weights(place("a.safetensors", content))


HEADERS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F8_E4M3", "I64", "X", "", 1]),
        "shape": st.lists(st.sampled_from([0, 1, 3, -1, 2**40, 2**63]), max_size=3),
        "data_offsets": st.lists(st.sampled_from([0, 4, 12, 2**40, 2**62, -1]), max_size=3),
    }
)


@fuzzed
@given(st.dictionaries(st.text(max_size=3), HEADERS, max_size=3), st.integers(0, 2**64 - 1))
def test_headers_that_claim_too_much(place: Place, header: dict[str, object], size: int) -> None:
    text = json.dumps(header).encode()
    for length in (len(text), size):
        with contextlib.suppress(WarmstartError):
            content = length.to_bytes(8, "little") + text + b"\0" * 12
            read_weights(place("b.safetensors", content))


NAMES = ["model.safetensors", "optimizer.safetensors", "state.json"]


@pytest.mark.parametrize("name", NAMES)
@fuzzed
@given(st.data())
def test_checkpoints(run: RunFolder, name: str, data: st.DataObject) -> None:
    file = run.checkpoints / "step-3" / name
    whole = file.read_bytes()
    try:
        file.write_bytes(data.draw(damaged(whole) | scraps(b'{"sha256": {', whole)))
        with contextlib.suppress(WarmstartError):
            load_checkpoint(file.parent)
        checkpoint, faults = load_latest(run)
        assert (checkpoint is None) == bool(faults)
    finally:
        file.write_bytes(whole)


FILES = ["config.json", "tokenizer.json", "model.safetensors", "data.json", "scores.json"]


@pytest.mark.parametrize("name", FILES)
@fuzzed
@given(st.data())
def test_run_folders(run: RunFolder, name: str, data: st.DataObject) -> None:
    copy = RunFolder(run.path.parent / f"copy-{name}")
    if not copy.path.exists():
        shutil.copytree(run.path, copy.path)
    whole = (run.path / name).read_bytes()
    (copy.path / name).write_bytes(data.draw(damaged(whole) | scraps(whole, b'{"')))
    with contextlib.suppress(WarmstartError):
        source = read_run(copy.path)
        source.texts_seen()
    with contextlib.suppress(WarmstartError):
        check_unchanged(copy)
    with contextlib.suppress(WarmstartError):
        assert copy.is_finished in (True, False)


@fuzzed
@given(scraps(METRICS, b'{"step": ') | damaged(METRICS), st.integers(0, 3))
def test_metrics(run: RunFolder, content: bytes, step: int) -> None:
    run.metrics_file.write_bytes(content)
    shutil.rmtree(run.path / "events", ignore_errors=True)
    record = Record(run, step)
    record.add(step + 1, {"loss": 1.0})
    record.close()
    lines = read_metrics(run.metrics_file)
    assert lines[-1] == {"step": step + 1, "loss": 1.0}


@pytest.mark.parametrize("name", ["tokenizer.json", "a.model", "a.txt"])
@fuzzed
@given(st.data())
def test_tokenizers(run: RunFolder, place: Place, name: str, data: st.DataObject) -> None:
    whole = (run.path / "tokenizer.json").read_bytes()
    path = place(
        name, data.draw(damaged(whole) | scraps(whole, b"<s>\n</s>\n<pad>\n", b"\x0a\x05"))
    )
    with contextlib.suppress(WarmstartError):
        load_tokenizer(path).encode(["a text"])


@fuzzed
@given(st.text(max_size=30) | st.binary(max_size=30).map(lambda raw: raw.hex()))
def test_fingerprints(text: str) -> None:
    with contextlib.suppress(WarmstartError):
        PackedFingerprints(texts=text, shingles=text, halvings=len(text)).unpack()
