"""compare --folds: every text is scored once by models that never saw its fold."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, World, read, read_labelled_rows, run, succeed, write_labelled
from warmstart.comparison.arms import ExperimentArm, Splits, TrainedModel
from warmstart.comparison.cells import cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.grid import train_final_model
from warmstart.comparison.plan import plan_experiment
from warmstart.comparison.results import TunedArm
from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import read_labelled
from warmstart.data.splits import split_folds
from warmstart.files import write_json
from warmstart.runs.folder import RunFolder


class SpyingArm:
    """An arm that tells which texts it was given."""

    def __init__(self, arm: ExperimentArm) -> None:
        self.arm = arm
        self.splits: Splits | None = None

    def fit(self, splits: Splits, values: Sequence[float], seed: int) -> Iterator[TrainedModel]:
        self.splits = splits
        return self.arm.fit(splits, values, seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.arm, name)


OPTIONS = f"--seeds 0,1 --trials 2 --epochs 2 {MACHINE}"
COMMAND = f"compare --from {{base}} --train {{train}} --folds 3 {OPTIONS}"


@pytest.fixture(scope="module")
def crossed(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crossed") / "out"
    ran = succeed(f"{COMMAND} --valid {{valid}} -o {folder}", **vars(world), base=base)
    assert "in 3-fold cross-validation" in ran.out
    assert f"next: warmstart predict {folder}/models/" in ran.out
    return folder


def _cells(folder: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = read(folder / "results.json")["cells"]
    for cell in cells:
        cell.pop("elapsed_s")
        for epoch in cell["epochs"]:
            epoch.pop("elapsed_s")
    return cells


def test_the_texts_of_both_files_are_each_predicted_once_for_every_seed(
    crossed: Path, world: World
) -> None:
    result = read(crossed / "results.json")
    rows = read_labelled_rows(world.train) + read_labelled_rows(world.valid)
    (split,) = result["splits"]
    assert (split["name"], split["num_folds"]) == ("cross-validation", 3)
    assert [result["class_names"][c] for c in split["classes"]] == [label for label, _ in rows]
    assert len(result["cells"]) == 5 * 2
    for cell in result["cells"]:
        assert {name: len(p) for name, p in cell["predictions"].items()} == {
            "cross-validation": len(rows)
        }
    assert result["summary"]["scores"][0]["scored"]["num_texts"] == len(rows)
    assert {row["fold"] for row in result["tuned"]} == {1, 2, 3}


def test_a_prediction_is_that_of_the_fold_in_which_its_text_is_tested(
    crossed: Path, world: World
) -> None:
    result = read(crossed / "results.json")
    cell = next(c for c in result["cells"] if (c["arm"], c["seed"]) == ("cold", 1))
    texts = [text for path in (world.train, world.valid) for _, text in read_labelled_rows(path)]
    labels = [result["class_names"][number] for number in result["splits"][0]["classes"]]
    write_labelled(crossed / "all.tsv", list(zip(labels, texts, strict=True)))
    folds, _ = split_folds(read_labelled(crossed / "all.tsv"), texts, 3, seed=0)
    for number, fold in enumerate(folds, 1):
        saved = read(crossed / f"cells/2-cold-{cell['labels']}-fold{number}-1.json")["cell"]
        predicted = [cell["predictions"]["cross-validation"][row] for row in fold.test]
        assert predicted == saved["predictions"]["test"]
        assert saved["labels"] == cell["labels"] <= len(fold.train) + len(fold.valid)


def test_no_arm_is_trained_or_chosen_on_texts_of_the_fold_that_it_is_tested_on(
    world: World, base: Path, here: Path
) -> None:
    rows = read_labelled_rows(world.train)
    copies = [(label, f"{text.upper()} <br />") for label, text in rows[:6]]
    write_labelled(here / "all.tsv", [*rows, *copies])
    config = CompareConfig.from_values(
        {"from": [str(base)], "train": ["all.tsv"], "folds": 3, "out": "out"}
    )
    for planned in plan_experiment(config).arms:
        tested = list[str]()
        for part in planned.parts:
            assert part.test is not None
            tested += part.test.texts
            rest = fingerprints_of([*part.train.texts, *part.valid.texts])
            assert not find_matches(fingerprints_of(part.test.texts), rest).both.any()
        assert sorted(tested) == sorted(text for _, text in [*rows, *copies])


@pytest.mark.parametrize(("keep", "is_refitted"), [("last", True), ("best", False)])
def test_texts_that_chose_the_setting_are_trained_on_where_they_choose_no_epoch(
    keep: str, is_refitted: bool, world: World, base: Path, here: Path
) -> None:
    config = CompareConfig.from_values(
        {
            "from": [str(base)],
            "train": [str(world.train)],
            "folds": 3,
            "labels": ["20"],
            "arms": ["cold", "tfidf"],
            "keep_epoch": keep,
            "epochs": 1,
            "out": "out",
        }
    )
    plan = plan_experiment(config)
    for group in cell_groups(config, RunFolder(here), plan, (20,)):
        arm = SpyingArm(group.arm)
        spied = replace(group, arm=arm)
        value = group.arm.settings(1)[0]
        cell = spied.train(
            TunedArm(arm=group.arm.name, labels=20, trials=(), values=(value,), settings=()), 0
        )
        assert arm.splits is not None
        assert group.splits.test is not None
        test, trained = set(group.splits.test.texts), arm.splits.train.texts
        assert not test.intersection(trained)
        assert len(trained) == (20 if is_refitted else 16)
        assert set(group.splits.valid.texts).isdisjoint(trained) != is_refitted
        assert spied.read_finished([0]) == {0: cell}
        assert (cell.labels, set(cell.predictions)) == (
            20,
            {"test"} if is_refitted else {"validation", "test"},
        )


def test_a_resumed_cross_validation_ends_the_same(
    crossed: Path, world: World, base: Path, here: Path
) -> None:
    command = f"{COMMAND} --valid {{valid}} --arms cold,tfidf -o out"
    succeed(command, **vars(world), base=base)
    whole = _cells(here / "out")
    assert [cell for cell in _cells(crossed) if cell["arm"] in ("cold", "tf-idf")] == whole
    (here / "out/results.json").unlink()
    for file in sorted((here / "out/cells").iterdir())[::3]:
        file.unlink()
    succeed(f"{command} --resume", **vars(world), base=base)
    assert _cells(here / "out") == whole


def test_the_report_speaks_of_cross_validation_alone(crossed: Path) -> None:
    page = html.unescape((crossed / "report.html").read_text(encoding="utf-8"))
    assert "Accuracy in 3-fold cross-validation" in page
    assert "share training texts" in page
    assert "on test" not in page
    assert "on validation" not in page
    assert "cross-fitted" not in page


def test_the_arm_to_use_is_trained_on_the_texts_of_all_folds_and_kept(
    crossed: Path, world: World
) -> None:
    result = read(crossed / "results.json")
    (model,) = crossed.glob("models/*")
    assert model.name == result["summary"]["advice"]["arm"]
    texts = [text for path in (world.train, world.valid) for _, text in read_labelled_rows(path)]
    assert len(warmstart.load(model, precision="fp32").predict(texts)) == len(texts)
    scores = read(model / "scores.json")
    assert (scores["labels"], scores["trained_on"]) == (len(texts), len(texts))
    cell = next(c for c in result["cells"] if (c["arm"], c["seed"]) == (model.name, 0))
    truth, predicted = result["splits"][0]["classes"], cell["predictions"]["cross-validation"]
    assert scores["valid"]["accuracy"] == np.mean(np.array(truth) == predicted)


@pytest.mark.parametrize("arm", ["warm", "frozen", "cold", "lsa", "tf-idf"])
def test_any_arm_can_be_the_one_to_keep(arm: str, world: World, base: Path, here: Path) -> None:
    config = CompareConfig.from_values(
        {"from": [str(base)], "train": [str(world.train)], "folds": 3, "out": "out", "epochs": 1}
    )
    plan = plan_experiment(config)
    tuned = [
        TunedArm(arm=arm, labels=32, trials=(), fold=fold, values=(value,), settings=())
        for fold, value in enumerate((0.1, 0.01, 0.01), 1)
    ]
    run_folder = RunFolder(here)
    write_json(run_folder.data_file, {"files": []})
    write_json(run_folder.config_file, {})
    train_final_model(config, run_folder, plan, tuned, {"accuracy": 0.25})
    cell = read(here / "cells/all-folds-0.json")["cell"]
    chosen_inside = {"lsa": "C ", "frozen": "mean pooling, C "}
    setting = "C 0.01" if arm == "tf-idf" else chosen_inside.get(arm, "learning rate 0.01")
    assert cell["setting"].startswith(setting)
    assert cell["labels"] == 48
    scores = read(here / "models" / arm / "scores.json")
    assert (scores["valid"], scores["trained_on"]) == ({"accuracy": 0.25}, 48)
    assert warmstart.load(here / "models" / arm, precision="fp32").classes == plan.texts.classes


def test_labels_count_what_a_fold_is_trained_and_chosen_on(
    world: World, base: Path, here: Path
) -> None:
    command = f"{COMMAND} --arms cold,tfidf --labels 8,all -o out"
    succeed(command, **vars(world), base=base)
    result = read(here / "out/results.json")
    folds, _ = split_folds(
        read_labelled(world.train), [text for _, text in read_labelled_rows(world.train)], 3, 0
    )
    assert result["subsets"] == [8, 48 - max(len(fold.test) for fold in folds)]
    ran = run(f"{command}2 --labels 40", **vars(world), base=base)
    assert ran.code == 2
    assert "--labels 40 is not possible" in ran.said


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--test {test}", "--folds and --test are mutually exclusive: give one"),
        ("--save all", "--save all and --folds exclude each other"),
        ("--folds 1", "--folds 1 is not allowed: it must be at least 2 and at most 20"),
        ("--folds 21", "--folds 21 is not allowed"),
    ],
)
def test_what_folds_cannot_be_combined_with(
    options: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    folds = "" if "--folds" in options else "--folds 3"
    command = f"compare --from {{base}} --train {{train}} {OPTIONS} {folds}"
    ran = run(f"{command} {options} -o out", **vars(world), base=base)
    assert ran.code == 2
    assert complaint in ran.said
    assert not (here / "out").exists()
