"""The card of a run tells its reader what it is, and keeps up with its tests."""

import json
import os
import re
import shutil
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from command_line import MACHINE, World, refuse, succeed
from faulty_training import put_faults, spoil_gradient, spoil_loss
from warmstart.tasks.fitting import build_trainer
from warmstart.training.trainer import Trainer


@pytest.fixture
def labels(world: World, base: Path, here: Path) -> Path:
    files = f"--train {world.train} --valid {world.valid}"
    succeed(f"finetune --from {base} {files} -o labels --epochs 1 {MACHINE}")
    return here / "labels"


def card_of(run: Path) -> str:
    return (run / "README.md").read_text(encoding="utf-8")


def test_data_budget_scores_limits_and_use(labels: Path) -> None:
    card = card_of(labels)
    for phrase in (
        "A classifier (warm), made with `warmstart finetune`.",
        "| classes | negative, positive |",
        "| files | `train.tsv`, `valid.tsv` |",
        "| started from | 1 earlier training |",
        "| training time, all stages |",
        "| accuracy |",
        "It has not been tested",
        'warmstart.load("labels")',
        "warmstart predict labels texts.txt",
        "- It cannot be exported to Hugging Face: ",
        'onnxruntime.InferenceSession("exported/model.onnx")',
    ):
        assert phrase in card
    assert "ctranslate2" not in card  # it takes no classifiers
    assert "--to hf" not in card
    assert str(labels.parent) not in card


def test_steps_that_were_taken_again_are_listed(
    world: World, base: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_faulty(*given: Any) -> Trainer:
        return put_faults(build_trainer(*given), {0: spoil_loss, 2: spoil_gradient})

    monkeypatch.setattr("warmstart.recipes.finetune.build_trainer", build_faulty)
    files = f"--train {world.train} --valid {world.valid}"
    ran = succeed(f"finetune --from {base} {files} -o labels --epochs 1 {MACHINE}")
    assert "the loss became infinite or NaN at step 1, which is taken again" in ran.err
    assert "| steps taken again after a fault | 1, 3 |" in card_of(here / "labels")
    assert json.loads((here / "labels/scores.json").read_text())["faults"] == [1, 3]
    assert "taken again" not in card_of(base)


def test_a_test_is_entered_with_its_interval_and_leaks(labels: Path, world: World) -> None:
    moved = labels.rename(labels.parent / "moved")
    succeed(f"evaluate {moved} --test {world.test} {MACHINE}")
    card = card_of(moved)
    assert "On test data (`test.tsv`, 2" in card
    assert "(95% interval " in card
    assert "Of its texts, 0 also occur in the training data" in card
    assert "has not been tested" not in card


def test_an_edited_card_stays(labels: Path, world: World) -> None:
    edited = card_of(labels).replace("## Limits", "## Limits, as we know them")
    (labels / "README.md").write_text(edited, encoding="utf-8")
    succeed(f"evaluate {labels} --test {world.test} {MACHINE}")
    assert card_of(labels) == edited


def test_a_card_in_another_encoding_stays(labels: Path, world: World) -> None:
    own = shutil.copytree(labels, labels.with_name("latin"))
    (own / "README.md").write_bytes("# café".encode("latin-1"))
    succeed(f"evaluate {own} --test {world.test}")
    assert (own / "README.md").read_bytes() == b"# caf\xe9"


def test_a_card_that_is_a_pipe_stops_nobody(labels: Path, world: World) -> None:
    own = shutil.copytree(labels, labels.with_name("piped"))
    for name in ("README.md", "metrics.jsonl"):
        (own / name).unlink()
        os.mkfifo(own / name)
    succeed(f"evaluate {own} --test {world.test}")
    assert (own / "README.md").is_fifo()


@pytest.mark.parametrize(
    ("kind", "phrases"),
    [
        ("base", ["warmstart generate", "ctranslate2.Generator", "tokens read in pretraining"]),
        ("masked", ["cannot be exported to Hugging Face: ", "pseudo perplexity"]),
        ("beginner", ["warmstart translate", "ctranslate2.Translator", "encoder_model.onnx"]),
    ],
)
def test_every_kind_of_run_has_one(
    kind: str, phrases: list[str], request: pytest.FixtureRequest
) -> None:
    card = card_of(request.getfixturevalue(kind))
    for phrase in (*phrases, "## Data and budget", "## Limits"):
        assert phrase in card


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"file": 3, "scores": {}}, "ledger[0].file=3 must be"),
        ({"scores": {"interval": {"low": 0.5}}}, "has no 'ledger.scores.interval.high'"),
        ({"scores": {"seen_in_training": "no"}}, "ledger.scores.seen_in_training='no' must be"),
    ],
)
def test_a_tampered_ledger_is_refused_in_one_sentence(
    entry: dict[str, object], place: str, labels: Path, world: World
) -> None:
    scores = {**json.loads((labels / "scores.json").read_text()), "ledger": [entry]}
    (labels / "scores.json").write_text(json.dumps(scores))
    assert place in refuse(f"evaluate {labels} --test {world.test} {MACHINE}")


def test_labels_and_names_cannot_write_into_the_card(world: World, base: Path, here: Path) -> None:
    """Neither HTML nor Markdown in a label, a file or a folder reaches the reader as such."""
    labels = {"positive": "<img src=x onerror=alert(1)>", "negative": "a | [b](http://c.d) `e`"}
    rows = [line.split("\t") for line in world.train.read_text().splitlines()]
    is_label_first = rows[-1][0] in labels
    lines = ["\t".join(labels.get(cell, cell) for cell in row) for row in rows]
    train = here / "<b>`train`|.tsv"
    train.write_text("\n".join(lines) + "\n")
    name = "<i>run* `x`"
    columns = "--columns label,text" if is_label_first else "--columns text,label"
    data = f"--train {quote(str(train))} --valid {quote(str(train))} {columns}"
    succeed(f"finetune --from {base} {data} -o {quote(name)} --epochs 1 {MACHINE}")
    card = card_of(here / name)
    prose = re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    assert "# &lt;i&gt;run\\* \\`x\\`" in card
    assert "&lt;img src=x" in card
    assert "<img" not in card
    assert "[b](http" not in card
    assert "``<b>`train`\\|.tsv``" in prose
    assert f"warmstart predict {quote(name)} texts.txt" in card
    succeed(f"evaluate {quote(name)} --test {quote(str(train))} {columns} {MACHINE}")
    assert "On test data (``<b>`train`" in card_of(here / name)
