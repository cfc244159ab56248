"""Runs that somebody changed: every command that opens one refuses it in one sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_line import World, read, refuse, run, succeed
from warmstart.files import write_json

USES = (
    "predict {run} {texts} --device cpu",
    "evaluate {run} --test {test} --device cpu",
    "embed {run} {texts} --device cpu",
    "export {run} -o {out}",
    "finetune --from {run} --train {test} --valid {test} -o {out}",
)


@pytest.fixture
def tampered(warm: Path, tmp_path: Path) -> Path:
    """Return a copy of a classifier, to be changed."""
    return shutil.copytree(warm, tmp_path / "tampered")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("command", USES)
def test_weights_that_are_not_finite(
    tampered: Path, world: World, command: str, value: float
) -> None:
    weights = load_file(tampered / "model.safetensors")
    weights["head.output.weight"][0, 0] = value
    save_file(weights, tampered / "model.safetensors")
    out = tampered.parent / "out"
    ran = run(command, run=tampered, texts=world.texts, test=world.test, out=out)
    assert ran.code == 2
    assert ran.out == ""
    assert "head.output.weight has values that are NaN or infinite" in ran.said
    assert not out.exists()


def _change(file: str, *keys: str, to: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = read(folder / file)
        parent = data
        for key in keys[:-1]:
            parent = parent[key]
        parent[keys[-1]] = to
        write_json(folder / file, data)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_change("config.json", "model", "vocab_size", to=1 << 24), "parameters"),
        (_change("config.json", "model", "depth", to=10_000), "parameters"),
        (_change("config.json", "model", "ffn_width", to=1 << 24), "parameters"),
        (_change("config.json", "model", "width", to=1 << 24), "must be at most"),
        (_change("config.json", "model", "max_length", to=1 << 24), "must be at most"),
        (_change("config.json", "model", "depth", to=1 << 40), "must be at most 10,000"),
        (_change("config.json", "model", to=[]), "model=[] must be an object"),
        (_change("config.json", "settings", to=[]), "settings=[] must be an object"),
        (_change("config.json", "settings", "micro_tokens", to="x"), "--micro-tokens must be"),
        (_change("config.json", "settings", "micro_tokens", to=-1), "--micro-tokens -1 is not"),
        (_change("config.json", "settings", "truncate", to={}), "--truncate {} is unknown"),
        (_change("config.json", "settings", "pooling", to=None), "--pooling is missing"),
        (_change("config.json", "classes", to=7), "classes=7 must be a list"),
        (_change("config.json", "classes", to=[1, 2]), "classes[0]=1 must be text"),
        (_change("config.json", "pairs", to="no"), "pairs='no' must be true or false"),
        (_change("config.json", "task", to={}), "task={} must be text"),
        (_change("data.json", "fingerprints", to=None), "fingerprints=null must be an object"),
        (_change("data.json", "lineage", to=[3]), "lineage[0]=3 must be an object"),
        (_change("data.json", "unrecorded", to="no"), "unrecorded='no' must be true or false"),
        (_change("scores.json", "ledger", to=3), "ledger=3 must be a list"),
        (_change("scores.json", "ledger", to=[3]), "ledger[0]=3 must be an object"),
    ],
)
def test_json_of_another_form(
    tampered: Path, world: World, change: Callable[[Path], None], said: str
) -> None:
    change(tampered)
    assert said in refuse(
        "evaluate {run} --test {test} --device cpu", run=tampered, test=world.test
    )


def test_a_finished_run_whose_scores_are_gone(tampered: Path, world: World, base: Path) -> None:
    command = f"finetune --config {tampered / 'config.json'} -o {tampered} --resume"
    succeed(command)
    write_json(tampered / "scores.json", {"valid": {"epoch": 1}})
    assert "scores.json has no 'accuracy'" in refuse(command)
