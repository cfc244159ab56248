"""The card of an exported model says what its reader needs to know."""

import json
from pathlib import Path

import pytest
from random_runs import ENCODER, build, classifier_facts, make_run, shape

from warmstart.data.fingerprints import fingerprints_of
from warmstart.files import write_json
from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.tokenization.tokenizer import Tokenizer

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
def run(tmp_path: Path, tokenizer: Tokenizer) -> Path:
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
def test_what_is_read_of_a_long_text_is_said(run: Path, rule: str, part: str) -> None:
    config = json.loads((run / "config.json").read_text())
    config["settings"]["truncate"] = rule
    write_json(run / "config.json", config)
    assert part in card_of(run)


def test_data_budget_scores_leaks_limits_and_use(run: Path) -> None:
    scores = {"valid": {"accuracy": 0.91}, "elapsed_s": 60.0, "ledger": [TEST]}
    write_json(run / "scores.json", scores)
    card = card_of(run)
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


def test_a_model_without_a_test_says_so(run: Path) -> None:
    assert "It has not been tested on data that nothing was chosen with." in card_of(run)
