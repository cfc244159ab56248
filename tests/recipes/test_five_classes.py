"""Any number of classes, string labels, imbalance: from the data report to the verdict."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from command_line import MACHINE, QUICK, SHAPE, read, succeed, write_labelled

SIZES = {"très bien": 200, "sport": 100, "3": 50, "a,b": 25, "rare": 12}
WORDS = {"très bien": "joie", "sport": "ballon", "3": "chiffre", "a,b": "lettre", "rare": "perle"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("five"), Random(0)
    for name, share in (("train", 1), ("valid", 4), ("test", 4)):
        rows = [
            (label, " ".join(random.choices(["un", "deux", "et", WORDS[label]], k=6)) + f" {n}")
            for label, size in SIZES.items()
            for n in range(size // share)
        ]
        random.shuffle(rows)
        write_labelled(folder / f"{name}.tsv", rows)
    return folder


@pytest.fixture(scope="module")
def classifier(files: Path) -> Path:
    shape = SHAPE.replace("--max-length 16", "--max-length 32")
    succeed(
        f"finetune --train {files}/train.tsv --valid {files}/valid.tsv -o {files}/run {shape} "
        f"--epochs 6 --learning-rate 0.01 --balance weights --select f1 {MACHINE}"
    )
    return files / "run"


def test_the_balance_is_shown(files: Path) -> None:
    (file,) = succeed(f"data {files}/train.tsv --json").json["files"]
    assert file["labels"] == SIZES
    assert "rare 12 (3%)" in succeed(f"data {files}/train.tsv").out


def test_predictions_are_the_strings_of_the_file(classifier: Path, files: Path) -> None:
    succeed(f"predict {classifier} {files}/test.tsv -o {files}/found.txt")
    found = Counter((files / "found.txt").read_text(encoding="utf-8").splitlines())
    assert set(found) == set(SIZES)


def test_rare_classes_are_learned_too(classifier: Path, files: Path) -> None:
    found = succeed(f"evaluate {classifier} --test {files}/test.tsv --json").json
    assert found["macro_f1"] > 0.7
    assert len(found["confusion"]) == 5
    assert all(len(row) == 5 for row in found["confusion"])
    assert {row["name"] for row in found["classes"]} == set(SIZES)


def test_the_confusion_is_shown_with_every_class(classifier: Path, files: Path) -> None:
    shown = succeed(f"evaluate {classifier} --test {files}/test.tsv").out
    assert "macro f1" in shown
    for name in SIZES:
        assert shown.count(name) >= 2  # a row and a column


def test_the_classes_can_be_compared(files: Path, here: Path) -> None:
    texts = "\n".join(line.split("\t")[1] for line in (files / "train.tsv").open())
    (here / "texts.txt").write_text(texts)
    succeed(f"pretrain texts.txt -o base {SHAPE} --batch-tokens 64 --steps 4 {MACHINE}")
    succeed(
        f"compare --from base --train {files}/train.tsv --valid {files}/valid.tsv "
        f"--labels 5,all --seeds 0 --trials 1 {QUICK} -o out"
    )
    result = read(here / "out/results.json")
    assert result["class_counts"] == SIZES
    assert result["subsets"] == [5, 387]
    assert "très bien" in (here / "out/report.html").read_text(encoding="utf-8")


def test_a_class_that_is_never_predicted_is_named(files: Path, here: Path) -> None:
    shape = SHAPE.replace("--max-length 16", "--max-length 32")
    command = f"finetune --train {files}/train.tsv --valid {files}/valid.tsv -o run {shape}"
    ran = succeed(f"{command} --epochs 1 --learning-rate 0.005 {MACHINE}")
    shown = succeed(f"evaluate run --test {files}/test.tsv").out
    assert "never predicted: " in shown
    assert "'rare'" in shown
    valid = read(here / "run/scores.json")["valid"]
    assert valid["accuracy_low"] < valid["accuracy"] < valid["accuracy_high"]
    low, high = (f"{100 * valid[f'accuracy_{end}']:.1f}" for end in ("low", "high"))
    assert f"(95% interval {low} to {high}%)" in " ".join(ran.out.split())
