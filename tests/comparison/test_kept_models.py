import shutil
from pathlib import Path
from typing import Any

import pytest

import warmstart
from command_line import MACHINE, World, read, read_labelled_rows, run, succeed
from warmstart.evaluation.metrics import accuracy
from warmstart.files import write_json

COMMAND = (
    f"compare --from {{base}} --train {{train}} --valid {{valid}} --test {{test}} "
    f"--labels 12,all --seeds 0,1 --trials 1 --epochs 1 {MACHINE}"
)
DROPPED = {"arm": "warm", "labels": 12, "seed": 1}
ARMS = {"warm", "frozen", "cold", "lsa", "tf-idf"}


@pytest.fixture(scope="module")
def kept(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "out"
    ran = succeed(f"{COMMAND} -o {folder}", **vars(world), base=base)
    told = ran.out.splitlines()[-1]
    assert told.startswith(f"next: warmstart predict {folder}/models/")
    assert told.endswith(" texts.txt -o labelled.csv")
    return folder


def test_the_best_model_of_every_arm_predicts_what_its_cell_did(world: World, kept: Path) -> None:
    results = read(kept / "results.json")
    assert {path.name for path in (kept / "models").iterdir()} == ARMS
    texts = [text for _, text in read_labelled_rows(world.test)]
    for arm in ARMS:
        cells = [c for c in results["cells"] if c["arm"] == arm and c["labels"] == 48]
        truth = results["splits"][0]["classes"]
        best = max(cells, key=lambda cell: accuracy(truth, cell["predictions"]["validation"]))
        predictions = warmstart.load(kept / "models" / arm, precision="fp32").predict(texts)
        numbers = [results["class_names"].index(prediction.label) for prediction in predictions]
        assert numbers == best["predictions"]["test"]
        assert read(kept / "models" / arm / "scores.json")["seed"] == best["seed"]


@pytest.mark.parametrize("arm", sorted(ARMS))
def test_a_kept_model_is_a_run_like_any_other(arm: str, world: World, kept: Path) -> None:
    model = kept / "models" / arm
    lines = succeed(f"predict {model} {world.test} --columns label,text {MACHINE}").out.splitlines()
    assert set(lines) <= {"negative", "positive"}
    found = succeed(f"evaluate {model} --test {world.test} --json {MACHINE}").json
    assert found["seen_in_training"] == 0
    assert succeed(f"data {world.train} --against {model} --json").json["against"][0]["rows"] == 48
    card = (model / "README.md").read_text(encoding="utf-8")
    assert f"predict {model.name} texts.txt" in card
    assert "| labels | 48 |" in card
    endings = {path.suffix for path in model.rglob("*") if path.is_file()}
    assert endings <= {".json", ".safetensors", ".md"}


def test_a_comparison_is_used_through_the_model_that_it_advises(world: World, kept: Path) -> None:
    arm = read(kept / "results.json")["summary"]["advice"]["arm"]
    options = f"{world.test} --columns label,text {MACHINE}"
    ran = succeed(f"predict {kept} {options}")
    assert ran.out == succeed(f"predict {kept}/models/{arm} {options}").out
    (said,) = (line for line in ran.err.splitlines() if "advises" in line)
    model = f"{kept}/models/{arm}"
    assert said == f"{kept} advises {arm}: using {model}, the best model with 48 labels"


def test_a_comparison_without_a_model_to_use_says_what_is_missing(kept: Path, here: Path) -> None:
    shutil.copytree(kept, "copy")
    arm = read(kept / "results.json")["summary"]["advice"]["arm"]
    shutil.rmtree(f"copy/models/{arm}")
    said = run("predict copy --text a").said
    assert f"copy advises {arm}, of which no model is kept" in said
    assert all(f"copy/models/{other}" in said for other in ARMS - {arm})
    shutil.rmtree("copy/models")
    assert "compare without --save none" in run("predict copy --text a").said
    Path("copy/results.json").unlink()
    assert "copy is an unfinished comparison" in run("predict copy --text a").said


def test_the_card_tells_labels_trained_on_from_those_to_validate(
    world: World, base: Path, here: Path
) -> None:
    command = COMMAND.replace("--valid {valid} --test {test}", "--arms cold,tfidf")
    command = command.replace("12,all", "all").replace("--trials 1", "--trials 2")
    succeed(f"{command} -o out", **vars(world), base=base)
    advised = read(here / "out/results.json")["summary"]["advice"]["arm"]
    for arm in {"cold", "tf-idf"} - {advised}:  # the model of the arm to use is trained on all
        num_trained = read(here / "out/models" / arm / "scores.json")["trained_on"]
        assert 0 < num_trained < 48
        card = (here / "out/models" / arm / "README.md").read_text(encoding="utf-8")
        assert f"| 48 ({num_trained} to train on, {48 - num_trained} to validate) |" in card


@pytest.mark.parametrize("trials", [1, 2])
def test_without_a_validation_file_a_model_is_trained_on_all_labels_paid_for(
    trials: int, world: World, base: Path, here: Path
) -> None:
    command = COMMAND.replace("--valid {valid}", "--arms warm,tfidf").replace("12,all", "20")
    succeed(
        f"{command.replace('--trials 1', f'--trials {trials}')} -o out", **vars(world), base=base
    )
    results = read(here / "out/results.json")
    assert [split["name"] for split in results["splits"]] == ["test"]
    texts = [text for _, text in read_labelled_rows(world.test)]
    for arm in ("warm", "tf-idf"):
        model = here / "out/models" / arm
        scores = read(model / "scores.json")
        assert (scores["labels"], scores["trained_on"], scores["seed"]) == (20, 20, 0)
        against = succeed(f"data {world.train} --against {model} --json").json["against"]
        assert against[0]["rows"] == 20
        assert "| labels | 20 |" in (model / "README.md").read_text(encoding="utf-8")
        (cell,) = (c for c in results["cells"] if (c["arm"], c["seed"]) == (arm, 0))
        predictions = warmstart.load(model, precision="fp32").predict(texts)
        numbers = [results["class_names"].index(prediction.label) for prediction in predictions]
        assert numbers == cell["predictions"]["test"]


def test_with_one_trial_texts_that_only_score_are_no_labels(
    world: World, base: Path, here: Path
) -> None:
    command = COMMAND.replace("--valid {valid} --test {test}", "--arms cold,tfidf --save all")
    succeed(f"{command} -o out", **vars(world), base=base)
    results = read(here / "out/results.json")
    num_scored = len(results["splits"][0]["classes"])
    assert results["subsets"] == [12, 48 - num_scored]
    assert read(here / "out/models/cold-12-0/scores.json")["trained_on"] == 12


@pytest.mark.parametrize("command", ["embed", "params", "look attention"])
def test_a_tfidf_run_says_that_it_is_no_transformer(command: str, kept: Path, here: Path) -> None:
    text = {"embed": "", "params": "", "look attention": "--text a -o a.html"}[command]
    ran = run(f"{command} {kept}/models/tf-idf {text}", b"a text\n")
    assert ran.code == 2
    assert "Transformer" in ran.said


@pytest.mark.parametrize("save", ["all", "none"])
def test_all_models_or_none_are_kept(save: str, world: World, base: Path, here: Path) -> None:
    command = COMMAND.replace("--trials 1", f"--trials 1 --arms cold,tfidf --save {save}")
    succeed(f"{command} -o out", **vars(world), base=base)
    names = {path.name for path in here.glob("out/models/*")}
    expected = {f"{a}-{n}-{s}" for a in ("cold", "tf-idf") for n in (12, 48) for s in (0, 1)}
    assert names == (expected if save == "all" else set())


def test_a_resumed_comparison_keeps_the_same_models(world: World, base: Path, here: Path) -> None:
    command = f"{COMMAND} --arms cold,tfidf -o out".replace("--labels 12,all", "--labels all")
    succeed(command, **vars(world), base=base)
    models = {path: path.read_bytes() for path in here.glob("out/models/*/model.safetensors")}
    for name in ("results.json", "cells/0-cold-48-1.json", "cells/1-baseline-48-0.json"):
        (here / "out" / name).unlink()
    succeed(f"{command} --resume", **vars(world), base=base)
    assert len(models) == 2
    assert {path: path.read_bytes() for path in models} == models


@pytest.mark.parametrize(
    ("model", "classes"), [("tf-idf", None), ("tf-idf", ["a", "a"]), ("warm", ["a", "a"])]
)
def test_classes_that_are_missing_or_not_different(
    world: World, kept: Path, tmp_path: Path, model: str, classes: list[str] | None
) -> None:
    folder = shutil.copytree(kept / "models" / model, tmp_path / "run")
    config = read(folder / "config.json")
    others = {key: value for key, value in config.items() if key != "classes"}
    write_json(folder / "config.json", {**others, "classes": classes} if classes else others)
    ran = run(f"predict {folder} {world.texts} {MACHINE}")
    assert ran.code == 2
    assert "classes" in ran.said


@pytest.mark.parametrize("changed", [{"trials": 2}, {"dropped": [DROPPED]}])
def test_a_limit_that_does_not_fit_the_settings(
    world: World, base: Path, kept: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    folder = shutil.copytree(kept, tmp_path / "out")
    config = read(folder / "config.json")
    limit = config["within_minutes"] | changed
    write_json(folder / "config.json", {**config, "within_minutes": limit})
    ran = run(f"{COMMAND} -o {folder} --resume", **vars(world), base=base)
    assert ran.code == 2
    assert "'within_minutes' does not fit 'settings'" in ran.said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": None}, None),  # None: left out
        ({"seed": 7}, None),
        ({"labels": "many"}, "labels"),
        ({"ledger": "(a+)+$"}, "ledger"),
        ({"valid": {"f1": 0.5}}, "no 'accuracy'"),
    ],
)
def test_a_resume_beside_a_kept_model_with_other_scores(
    world: World, base: Path, kept: Path, tmp_path: Path, changed: dict[str, Any], said: str | None
) -> None:
    folder = shutil.copytree(kept, tmp_path / "out")
    scores = read(folder / "models/cold/scores.json")
    left = {key: value for key, value in (scores | changed).items() if value is not None}
    write_json(folder / "models/cold/scores.json", left)
    (cell,) = folder.glob("cells/*-cold-48-1.json")
    cell.unlink()
    (folder / "results.json").unlink()
    ran = run(f"{COMMAND} -o {folder} --resume", **vars(world), base=base)
    assert ran.code == (0 if said is None else 2), ran.said
    assert said is None or said in ran.said
