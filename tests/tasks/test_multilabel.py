"""A text may have any number of labels, in the file and in the answer."""

import json
import random
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from sklearn.metrics import f1_score
from torch.testing import assert_close

import warmstart
from command_line import MACHINE, read, refuse, run, succeed
from http_server import serving
from warmstart.batching.batches import pad_texts
from warmstart.data.label_sets import label_sets_form, read_label_sets, written_labels
from warmstart.data.outputs import write_table
from warmstart.display import LineDisplay
from warmstart.model.models import Classifier
from warmstart.progress import show_on
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.tasks.multilabel import (
    MANY_CLASSES,
    MultilabelObjective,
    MultilabelTask,
    at_odds,
    best_odds,
)
from warmstart.verify.resume import KilledJob, kill_and_resume

TASK = MultilabelTask()
WORDS = {"animal": "cat dog horse", "colour": "red green blue", "place": "town lake hill"}


@dataclass(frozen=True)
class Sets:
    """Files of texts with any number of labels."""

    train: Path
    valid: Path
    test: Path


def _write(path: Path, num: int, seed: int) -> Path:
    rng = random.Random(seed)
    lines = ["labels\ttext"]
    for _ in range(num):
        names = [name for name in WORDS if rng.random() < 0.45]
        words = [rng.choice(WORDS[name].split()) for name in names]
        words += rng.choices(["one", "two", "three", "four", "five", "six", "seven"], k=4)
        rng.shuffle(words)
        lines.append(f"{','.join(names)}\t{' '.join(words)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Sets:
    """Return small files in which words say which labels a text has."""
    folder = tmp_path_factory.mktemp("sets")
    parts = [("train", 160), ("valid", 60), ("test", 60)]
    return Sets(*(_write(folder / f"{n}.tsv", num, i) for i, (n, num) in enumerate(parts)))


@pytest.fixture(scope="module")
def labeller(sets: Sets, base: Path) -> Path:
    """Return a multi-label classifier whose file says that it is one."""
    out = base.parent / "labeller"
    files = f"--train {sets.train} --valid {sets.valid}"
    ran = succeed(
        f"finetune --from {base} {files} --epochs 30 --learning-rate 0.02 {MACHINE} -o {out}"
    )
    assert "have several labels with ',' between, so this is --task multilabel" in ran.err
    return out


def test_it_learns_and_is_scored(labeller: Path, sets: Sets) -> None:
    config = read(labeller / "config.json")
    assert (config["task"], config["classes"]) == ("multilabel", sorted(WORDS))
    scores = succeed(f"evaluate {labeller} --test {sets.test} --json {MACHINE}").json
    assert scores["rows"] == 60  # those without a label, too
    assert scores["micro_f1"] > 0.7
    interval = scores["intervals"]["micro_f1"]
    assert interval["low"] < scores["micro_f1"] < interval["high"]
    assert 0 < scores["average_precision"] <= 1
    assert set(scores["kinds"]) == set(WORDS)
    assert "micro f1" in succeed(f"evaluate {labeller} --test {sets.test} {MACHINE}").out
    assert "micro F1" in (labeller / "README.md").read_text()


def test_the_threshold_is_part_of_the_weights(labeller: Path, sets: Sets) -> None:
    valid = read(labeller / "scores.json")["valid"]
    scored = succeed(f"evaluate {labeller} --test {sets.valid} --json {MACHINE}").json
    assert 0 < valid["threshold"] < 1
    assert scored["micro_f1"] == pytest.approx(valid["micro_f1"])


def test_labels_are_those_with_at_least_half(labeller: Path, sets: Sets) -> None:
    texts = [line.split("\t")[1] for line in sets.test.read_text().splitlines()[1:]]
    answers = warmstart.load(labeller, threads=1).predict(texts)
    for answer in answers:
        chosen = [name for name, share in answer.probabilities.items() if share >= 0.5]
        assert list(answer.labels) == chosen
        assert answer.label == ",".join(chosen)
    assert {len(answer.labels) for answer in answers} >= {1, 2}
    lines = succeed(f"predict {labeller} {MACHINE}", "\n".join(texts).encode()).out.split("\n")
    assert lines[: len(texts)] == [answer.label for answer in answers]


def test_a_killed_training_ends_with_the_same_weights(sets: Sets, tmp_path: Path) -> None:
    settings = {
        "train": [str(sets.train)],
        "valid": str(sets.valid),
        "preset": "tiny",
        "width": 16,
        "heads": 2,
        "depth": 1,
        "ffn_width": 32,
        "vocab_size": 300,
        "epochs": 12,
        "save_every": 5,
        "threads": 1,
    }
    (kill,) = kill_and_resume(KilledJob("finetune", settings), 1, random.Random(0), tmp_path)
    assert kill.differs == ()


def test_an_exported_model_answers_alike(labeller: Path, sets: Sets, here: Path) -> None:
    transformers = pytest.importorskip("transformers")
    files = f"--train {sets.train} --valid {sets.valid} --epochs 3 {MACHINE}"
    small = "--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 32"
    succeed(f"finetune {files} --preset bert-base {small} --pooling cls -o run")
    succeed("export run --to hf -o exported")
    assert read(Path("exported/config.json"))["problem_type"] == "multi_label_classification"
    pipe = transformers.pipeline("text-classification", "exported", top_k=None, device="cpu")
    text = "one red cat two"
    theirs = {entry["label"]: entry["score"] for entry in pipe(text)[0]}
    (ours,) = warmstart.load("run", threads=1, precision="fp32").predict([text])
    assert theirs == pytest.approx(ours.probabilities, abs=1e-5)
    succeed("import exported -o again")
    (again,) = warmstart.load("again", threads=1, precision="fp32").predict([text])
    assert again.probabilities == pytest.approx(ours.probabilities, abs=1e-5)
    assert again.label == ours.label


@pytest.mark.slow
def test_an_onnx_graph_gives_the_same_labels(labeller: Path, here: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    succeed(f"export {labeller} --to onnx -o exported")
    model = warmstart.load(labeller, threads=1, precision="fp32")
    texts = ["one red cat two", "three four", "a green horse beside the lake"]
    session = runtime.InferenceSession("exported/model.onnx")
    names = list(read(Path("exported/config.json"))["id2label"].values())
    for text, ours in zip(texts, model.predict(texts), strict=True):
        ids = np.array(model.encode([text]).ids)
        (logits,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        theirs = dict(zip(names, 1 / (1 + np.exp(-logits[0])), strict=True))
        assert theirs == pytest.approx(ours.probabilities, abs=1e-5)
        assert ours.labels == tuple(name for name, share in theirs.items() if share >= 0.5)


def test_what_many_labels_cost_is_said() -> None:
    for num, is_said in ((MANY_CLASSES - 1, False), (MANY_CLASSES, True)):
        with show_on(LineDisplay(Console(file=(said := StringIO()), width=400))):
            list(TASK.baselines({"classes": ["a"] * num}, Tuning(), {}, ()))
        assert ("fit regressions for each" in said.getvalue()) == is_said


@pytest.mark.parametrize("files", ["--valid {valid} --test {test} --labels 60,all", "--folds 2"])
def test_it_is_compared(files: str, sets: Sets, base: Path, here: Path) -> None:
    options = f"--seeds 0,1 --trials 2 --epochs 2 {MACHINE} --arms warm,frozen,cold,lsa,tfidf"
    command = f"compare --from {base} --train {{train}} {files} {options} -o out"
    succeed(command, **vars(sets))
    result = read(here / "out/results.json")
    assert result["task"] == "multilabel"
    truth = result["splits"][-1]["classes"]
    marks = _marks(truth)
    for row in result["summary"]["scores"]:
        cells = [
            c for c in result["cells"] if (c["arm"], c["labels"]) == (row["arm"], row["labels"])
        ]
        answers = [_marks(c["predictions"][result["splits"][-1]["name"]]) for c in cells]
        expected = np.mean([f1_score(marks, of_cell, average="micro") for of_cell in answers])
        assert row["scored"]["accuracy"] == pytest.approx(expected)
        macro = np.mean([f1_score(marks, of_cell, average="macro") for of_cell in answers])
        assert row["scored"]["f1"] == pytest.approx(macro)
    best = max(result["summary"]["scores"], key=lambda row: row["scored"]["accuracy"])
    assert best["scored"]["accuracy"] > 0.9  # words decide, as counts of them know
    assert "micro F1" in (here / "out/report.html").read_text(encoding="utf-8")
    assert succeed(f"predict out {MACHINE}", b"one red cat two\n").out


def test_with_one_trial_the_threshold_is_still_chosen(sets: Sets, base: Path, here: Path) -> None:
    """After one epoch no class is probable: with a threshold of 0.5 no text got a label."""
    options = f"--seeds 0,1 --trials 1 --epochs 1 --arms warm,tfidf {MACHINE}"
    succeed(
        f"compare --from {base} --train {{train}} --test {{test}} {options} -o out", **vars(sets)
    )
    result = read(here / "out/results.json")
    warm = [cell for cell in result["cells"] if cell["arm"] == "warm"]
    assert all(any(cell["predictions"]["test"]) for cell in warm)
    assert result["tuned"] == []  # nothing else was chosen
    tuned = {file.stem: read(file) for file in Path("out/cells").glob("*-tuning.json")}
    assert [t["temperature"] for name, t in tuned.items() if "warm" in name] != [1.0]
    assert [t["temperature"] for name, t in tuned.items() if "baseline" in name] == [1.0]


def _marks(rows: list[list[int]]) -> Any:
    return np.array([[number in row for number in range(len(WORDS))] for row in rows], int)


@pytest.mark.parametrize("arm", ["lsa", "tfidf"])
def test_a_saved_baseline_is_the_one_that_was_scored(
    arm: str, sets: Sets, base: Path, here: Path
) -> None:
    files = f"--train {sets.train} --valid {sets.valid} --test {sets.test}"
    options = f"--seeds 0 --arms cold,{arm} --epochs 1 --trials 2 {MACHINE}"
    succeed(f"compare --from {base} {files} {options} -o out")
    cells = read(here / "out/results.json")["cells"]
    (cell,) = (cell for cell in cells if not cell["epochs"])
    texts = [line.split("\t")[1] for line in sets.test.read_text().splitlines()[1:]]
    answers = succeed(f"predict out {MACHINE}", "\n".join(texts).encode()).out.split("\n")
    names = sorted(WORDS)
    expected = [",".join(names[n] for n in numbers) for numbers in cell["predictions"]["test"]]
    assert answers[: len(texts)] == expected
    (run_folder,) = (file.parent for file in Path("out").rglob("features.json"))
    scored = succeed(f"evaluate {run_folder} --test {sets.test} --json {MACHINE}").json
    assert scored["micro_f1"] > 0.8


def test_loss_is_that_of_every_class_whatever_the_batches(
    tiny: ModelConfig, randomised: Any
) -> None:
    model = randomised(Classifier(tiny, 3, "mean")).eval()
    texts, targets = [[1, 5, 2], [1, 6, 7, 8, 2], [1, 9, 2]], [[], [0, 2], [1]]
    objective = MultilabelObjective()
    parts = [pad_texts(texts, targets, [row], 0) for row in range(3)]
    whole = pad_texts(texts, targets, range(3), 0, length=8)
    losses = [objective(model, part)["label"] for part in parts]
    assert_close(objective(model, whole)["label"], sum(losses))
    assert objective.count(parts) == {"label": 3.0}


def test_texts_are_spread_by_their_rarest_label() -> None:
    assert TASK.strata([[0], [0, 1], [], [0], [1, 2]]) == [1, 2, 0, 1, 3]


def test_odds_move_the_threshold_to_one_half() -> None:
    shares = np.array([[0.1, 0.32], [0.05, 0.9], [0.31, 0.02]])
    odds = best_odds(shares, [[1], [1], [0]])
    moved = at_odds(shares, odds)
    assert TASK.answers(moved, {}) == [[1], [1], [0]]
    assert_close(torch.logit(torch.tensor(moved)), torch.logit(torch.tensor(shares)) - np.log(odds))


def test_values_of_texts_have_the_mean_micro_f1() -> None:
    rng = np.random.default_rng(0)
    answers, targets = (
        [np.flatnonzero(row).tolist() for row in rng.random((40, 4)) < 0.4] for _ in range(2)
    )
    values = TASK.text_scores(answers, targets)
    assert values.mean() == pytest.approx(TASK.answer_scores(answers, targets)["micro_f1"])
    constant = max(
        TASK.answer_scores([list(numbers)] * 40, targets)["micro_f1"]
        for numbers in ([k for k in range(4) if mask >> k & 1] for mask in range(1, 16))
    )
    assert TASK.chance(targets) == pytest.approx(constant)


@pytest.mark.parametrize("delimiter", [",", ";", "|", ", "])
def test_delimiters_are_found(delimiter: str, tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    rows = [("a", "b"), ("b", "c"), ("a",), (), ("c", "a"), ("b", "b")]
    lines = [f"{delimiter.join(names)}\tsome words of text {i}" for i, names in enumerate(rows)]
    file.write_text("\n".join(["label\ttext", *lines]) + "\n")
    assert "several labels" in (label_sets_form(file) or "")
    labels = [("a", "b"), ("b", "c"), ("a",), (), ("a", "c"), ("b",)]
    assert list(read_label_sets(file).labels) == labels


def test_lists_are_read_and_detected(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [{"text": "a text", "label": labels} for labels in (["x, y", "z"], [], ["z"], [3])]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert label_sets_form(file) == "its labels are lists"
    assert list(read_label_sets(file).labels) == [("x, y", "z"), (), ("z",), ("3",)]


@pytest.mark.parametrize(
    "labels",
    [
        ["good", "bad", "good", "bad"],
        ["Paris, France", "Lyon, France", "Rome, Italy", "Paris, France"],
        ["so, good", "bad", "so, good", "bad"],
    ],
)
def test_one_label_with_a_comma_is_not_several(labels: list[str], tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    lines = [f"{label}\tsome words of text {i}" for i, label in enumerate(labels * 5)]
    file.write_text("\n".join(["label\ttext", *lines]) + "\n")
    assert label_sets_form(file) is None


@pytest.mark.parametrize("labels", [("a", "b"), ("Paris, France", "b"), ("x;y",), ('"|', "b"), ()])
def test_what_is_written_is_read_as_the_same_labels(
    labels: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [{"text": f"text {n}", "label": written_labels(labels)} for n in range(3)]
    rows += [{"text": "text", "label": "c,d"}, {"text": "other", "label": "d,e"}]
    data = read_label_sets(write_table(tmp_path / "a.csv", rows, raw_cells=True))
    assert data.labels[:3] == (tuple(sorted(labels)),) * 3


def test_an_empty_cell_is_no_label_only_beside_several(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("label\ttext\na\tone text\n\tanother text\nb\ta third text\n")
    data = read_label_sets(file)
    assert (list(data.labels), data.unlabelled) == ([("a",), ("b",)], 1)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["a,b", "a,b"], "every text to train on has the same labels (a, b)"),
        (["a,b", "c", "a"], "has too few texts (3) to set some aside"),
    ],
)
def test_files_that_teach_nothing_are_refused(
    rows: list[str], complaint: str, base: Path, here: Path
) -> None:
    lines = [f"{labels}\tsome words of text {i}" for i, labels in enumerate(rows)]
    times = 10 if len(rows) == 2 else 1
    Path("a.tsv").write_text("\n".join(["label\ttext", *lines * times]) + "\n")
    command = f"finetune --task multilabel --from {base} --train a.tsv {MACHINE} -o out"
    assert complaint in refuse(command)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--balance weights", "--balance weights is for --task classify"),
        ("--select f1", "--select f1 is for --task classify"),
        ("--train-labels labels.txt", "a file of labels is for --task classify"),
        ("--labels 9999", "--labels 9999 is not possible"),
    ],
)
def test_what_has_no_meaning_here_is_refused(
    options: str, complaint: str, sets: Sets, base: Path, here: Path
) -> None:
    Path("labels.txt").write_text("a\n")
    assert complaint in refuse(
        f"finetune --from {base} --train {sets.train} {options} {MACHINE} -o out"
    )


def test_a_label_that_only_the_test_has_is_refused(labeller: Path, here: Path) -> None:
    Path("other.tsv").write_text("labels\ttext\nanimal,colour\ta red cat\ncolour,river\tblue\n")
    ran = run(f"evaluate {labeller} --test other.tsv {MACHINE}")
    assert ran.code == 2
    assert "other.tsv line 3: the label 'river' is not in the training data" in ran.said


def test_one_label_each_is_for_another_task(base: Path, here: Path) -> None:
    lines = [f"{'ab'[i % 2]}\tsome words of text {i}" for i in range(40)]
    Path("one.tsv").write_text("\n".join(["label\ttext", *lines]) + "\n")
    common = f"finetune --from {base} --train one.tsv --epochs 1 {MACHINE}"
    said = succeed(f"{common} --task multilabel -o sets").err
    assert "every text has one label, which --task classify is for" in said
    succeed(f"{common} -o classes")
    assert read(Path("classes/config.json"))["task"] == "classify"


def test_it_is_served(labeller: Path) -> None:
    with serving(f"sets={labeller}") as server:
        (answer,) = server.post("/classify", {"texts": ["one red cat two"]}).json["predictions"]
    (expected,) = warmstart.load(labeller, threads=1, precision="fp32").predict(["one red cat two"])
    assert answer["labels"] == list(expected.labels)
    assert answer["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


def test_it_is_planned(sets: Sets, base: Path) -> None:
    planned = succeed(f"plan finetune --from {base} --train {sets.train} --json {MACHINE}").json
    assert planned["steps"] > 0


def test_columns_of_zero_and_one_are_the_same_labels(sets: Sets, base: Path, here: Path) -> None:
    """A run of one form reads the other: the same texts, labels and scores."""
    for name in ("train", "valid"):
        rows = [line.split("\t") for line in getattr(sets, name).read_text().splitlines()[1:]]
        lines = [
            f"{text},{','.join(str(+(n in cell)) for n in sorted(WORDS))}" for cell, text in rows
        ]
        header = ",".join(["text", *sorted(WORDS)])
        Path(f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    (report,) = succeed("data train.csv --json").json["files"]
    (same,) = succeed(f"data {sets.train} --json").json["files"]
    assert report["labels"] == same["labels"]
    training = f"finetune --from {base} --epochs 1 {MACHINE}"
    ran = succeed(f"{training} --train train.csv --valid valid.csv -o columns")
    assert "its columns animal, colour, place hold 0 or 1, so this is --task multilabel" in ran.err
    succeed(f"{training} --train {sets.train} --valid {sets.valid} -o cells")
    scored = [
        succeed(f"evaluate {run_folder} --test {test} --json {MACHINE}").json["micro_f1"]
        for run_folder in ("columns", "cells")
        for test in ("valid.csv", sets.valid)
    ]
    assert len(set(scored)) == 1


def test_the_report_of_a_file_counts_each_label(sets: Sets) -> None:
    (report,) = succeed(f"data {sets.train} --json").json["files"]
    assert (report["rows"], set(report["labels"])) == (160, set(WORDS))
