"""Soft labels, and texts that other models label for a fine-tuning."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from command_line import (
    MACHINE,
    QUICK,
    SHAPE,
    World,
    read,
    read_labelled_rows,
    refuse,
    stop_at,
    succeed,
    weights_of,
    write_labelled,
)
from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.files import write_json
from warmstart.runs.saved import read_run

FILES = "--train {train} --valid {valid}"
STUDENT = f"finetune {FILES} --from {{base}} --labels 12 {QUICK} --teacher-texts 24"


@pytest.fixture(scope="module")
def teachers(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return options that name a Transformer, and baselines of a comparison."""
    here = tmp_path_factory.mktemp("teachers")
    succeed(f"finetune {FILES} --from {base} -o {here}/warm {QUICK}", **vars(world))
    files = "--unlabelled {texts} --train {train} --valid {valid}"
    succeed(f"compare {files} --seeds 0 --trials 1 -o {here}/simple {MACHINE}", **vars(world))
    runs = (here / "warm", here / "simple/models/lsa", here / "simple/models/tf-idf")
    return " ".join(f"--teacher {path}" for path in runs)


def write_shares(path: Path, rows: list[tuple[str, str, list[float]]]) -> Path:
    """Write text, label and the probability of each class, as `predict` does."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "probability_negative", "probability_positive"])
        writer.writerows([text, label, *shares] for text, label, shares in rows)
    return path


def test_several_kinds_of_models_teach_one(
    teachers: str, world: World, base: Path, here: Path
) -> None:
    command = f"{STUDENT} {teachers} --unlabelled {{texts}}"
    places: dict[str, Any] = {**vars(world), "base": base}
    ran = succeed(f"{command} -o whole", **places)
    assert "24 unlabelled texts labelled for the student" in ran.err
    stop_at(3, f"{command} -o run", **places)
    succeed(f"{command} -o run --resume", **places)
    assert weights_of(here / "run") == weights_of(here / "whole")
    succeed(f"{command.replace('--unlabelled {texts}', '')} -o own", **places)
    assert weights_of(here / "own") == weights_of(here / "whole")  # the text of --from
    succeed(f"{STUDENT} -o alone", **places)
    assert weights_of(here / "alone") != weights_of(here / "whole")
    planned = succeed(f"plan {command} --no-measure --json -o x", **places).json
    in_force = read(here / "whole/config.json")["in_force"]
    assert planned["steps"] == in_force["steps"]["value"]
    files = {entry["path"] for entry in read(here / "whole/data.json")["files"]}
    assert str(world.texts) in files
    assert sum(path.endswith("model.safetensors") for path in files) == 3


def test_only_the_text_that_a_run_was_trained_on_is_read(
    teachers: str, world: World, base: Path, here: Path
) -> None:
    theirs = shutil.copytree(base, here / "theirs")
    recorded = read(theirs / "data.json")
    (file,) = recorded["files"]
    recorded["files"] = [{**file, "path": str(world.train)}]  # whose checksum is another
    write_json(theirs / "data.json", recorded)
    places: dict[str, Any] = {**vars(world), "base": theirs}
    assert "--teacher needs --unlabelled" in refuse(f"{STUDENT} {teachers} -o run", **places)
    said = refuse(
        "compare --from {base} --train {train} --arms warm,self --seeds 0 -o out", **places
    )
    assert "is not where it was, or has changed" in said


def test_a_tagger_teaches_no_classifier(world: World, base: Path, here: Path) -> None:
    lines = [f"book{n}\tpositive\nfilm\tnegative\n\n" for n in range(40)]
    (here / "tags.conll").write_text("".join(lines))
    succeed(f"finetune --train tags.conll --from {base} -o tagger {QUICK}")
    said = refuse(f"{STUDENT} --teacher tagger -o run", **vars(world), base=base)
    assert "--teacher tagger is a tagger, which labels no texts" in said


def test_held_out_texts_are_not_taught(teachers: str, world: World, base: Path, here: Path) -> None:
    held_out = [text for _, text in read_labelled_rows(world.valid)]
    lines = world.texts.read_text(encoding="utf-8").splitlines()[:40]
    (here / "mixed.txt").write_text("\n".join([*held_out, *lines]) + "\n", encoding="utf-8")
    command = f"{STUDENT} {teachers} --unlabelled mixed.txt --teacher-texts 999 -o run"
    succeed(command, **vars(world), base=base)
    seen = read_run(here / "run").data.fingerprints.unpack()
    assert not find_matches(fingerprints_of(held_out), seen).both.any()


def test_soft_labels_that_are_certain_are_labels(world: World, base: Path, here: Path) -> None:
    rows = read_labelled_rows(world.train)
    certain = {"negative": [1.0, 0.0], "positive": [0.0, 1.0]}
    soft = write_shares(here / "soft.csv", [(text, name, certain[name]) for name, text in rows])
    hard = write_labelled(here / "hard.tsv", rows)
    for train, options in ((hard, ""), (soft, "--soft-labels")):
        command = f"finetune --train {train} --valid {world.valid} --from {base} {options} {QUICK}"
        succeed(f"{command} -o {train.stem}")
    weights = [load_file(here / name / "model.safetensors") for name in ("hard", "soft")]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=1e-3, atol=1e-5)


def test_predictions_are_soft_labels(teachers: str, world: World, base: Path, here: Path) -> None:
    teacher = teachers.split()[1]
    (here / "texts.txt").write_text("\n".join(text for _, text in read_labelled_rows(world.train)))
    succeed(f"predict {teacher} texts.txt -o labelled.csv {MACHINE}")
    command = f"finetune --train labelled.csv --soft-labels {SHAPE} {QUICK} --valid {{valid}}"
    succeed(f"{command} -o run", **vars(world))
    succeed(f"{command} --from {base} --frozen -o frozen".replace(SHAPE, ""), **vars(world))
    assert np.isfinite(read(here / "frozen/scores.json")["valid"]["loss"])


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([("good", "positive", [0.1, 0.3])], "line 2: the columns probability_… add up to 0.4"),
        ([("good", "positive", [-0.1, 1.1])], "probability_negative is '-0.1', not a number"),
        ([("good", "mixed", [0.5, 0.5])], "line 2: the columns probability_… lack that of 'mixed'"),
    ],
)
def test_probabilities_that_are_none_are_refused(
    rows: list[tuple[str, str, list[float]]], complaint: str, here: Path
) -> None:
    write_shares(here / "soft.csv", [*rows, ("bad", "negative", [1.0, 0.0])])
    assert complaint in refuse(f"finetune --train soft.csv --soft-labels {SHAPE} {QUICK} -o run")
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--soft-labels", "--soft-labels needs a column probability_… for each class"),
        ("--unlabelled {texts}", "--unlabelled needs --teacher"),
        ("--teacher {other} --unlabelled {texts}", "tells bad, good apart, but the labels are"),
        ("--teacher {base} --unlabelled {texts}", "tells no classes apart"),
        ("--teacher {other}", "--teacher needs --unlabelled"),
    ],
)
def test_what_teaching_needs_is_said(
    options: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    rows = [("good", "a fine book")] * 8 + [("bad", "a dull book")] * 8
    write_labelled(here / "other.tsv", [(n, f"{text} {i}") for i, (n, text) in enumerate(rows)])
    succeed(f"finetune --train other.tsv {SHAPE} {QUICK} --epochs 1 -o other")
    command = f"finetune {FILES} {options} {SHAPE} {QUICK} -o run"
    assert complaint in refuse(command, **vars(world), base=base, other=here / "other")
