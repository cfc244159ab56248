"""Without --valid, --test and --folds, the model of the arm to use is trained on every label."""

from pathlib import Path

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, World, read, read_labelled_rows, run, succeed, weights_of

COMMAND = (
    "compare --from {base} --train {train} --arms cold,tfidf --seeds 0,1 --epochs 2 "
    f"--trials 2 {MACHINE}"
)


@pytest.fixture(scope="module")
def compared(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared") / "out"
    ran = succeed(f"{COMMAND} -o {folder}", **vars(world), base=base)
    arm = _advised(folder)
    assert f"training {arm} on 48 labels, to keep the model" in ran.err
    assert "The model of the arm to use is trained once more on 48 labels" in ran.out
    return folder


def _advised(folder: Path) -> str:
    return read(folder / "results.json")["summary"]["advice"]["arm"]


def test_the_kept_model_saw_every_label(compared: Path, world: World) -> None:
    model = compared / "models" / _advised(compared)
    scores = read(model / "scores.json")
    assert (scores["labels"], scores["trained_on"]) == (48, 48)
    against = succeed(f"data {world.train} --against {model} --json").json["against"][0]
    assert against["rows"] == 48
    texts = [text for _, text in read_labelled_rows(world.test)]
    assert len(warmstart.load(model, precision="fp32").predict(texts)) == len(texts)


def test_its_scores_are_those_of_models_with_fewer_labels(compared: Path) -> None:
    arm, results = _advised(compared), read(compared / "results.json")
    scores = read(compared / "models" / arm / "scores.json")
    cell = next(c for c in results["cells"] if (c["arm"], c["seed"]) == (arm, 0))
    truth, predicted = results["splits"][0]["classes"], cell["predictions"]["validation"]
    assert scores["valid"]["accuracy"] == np.mean(np.array(truth) == predicted)
    num_scored = scores["scored_labels"]
    assert num_scored == 48 - len(truth) == results["scored_labels"]
    card = (compared / "models" / arm / "README.md").read_text(encoding="utf-8")
    assert f"trained on {num_scored} labels" in card
    assert "| labels | 48 |" in card
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert f"Its scores are those of models trained on {num_scored}." in page


def test_other_arms_keep_the_models_that_were_scored(compared: Path) -> None:
    (other,) = {"cold", "tf-idf"} - {_advised(compared)}
    scores = read(compared / "models" / other / "scores.json")
    assert scores["trained_on"] < 48
    assert "scored_labels" not in scores


@pytest.mark.parametrize("kept", ["model", "nothing"])
def test_a_comparison_that_is_stopped_before_its_end_ends_alike(
    compared: Path, world: World, base: Path, here: Path, kept: str
) -> None:
    arm = _advised(compared)
    succeed(f"{COMMAND} -o out", **vars(world), base=base)
    Path("out/results.json").unlink()
    Path("out/cells/all-labels-0.json").unlink()
    if kept == "nothing":
        for file in Path("out/cells").glob("*.json"):
            file.unlink()
    succeed(f"{COMMAND} -o out --resume", **vars(world), base=base)
    assert weights_of(here / "out/models" / arm) == weights_of(compared / "models" / arm)


@pytest.mark.parametrize(
    ("options", "trained_on"),
    [
        ("--labels 12", 12),
        ("--labels 12 --trials 1", None),  # nothing is set aside
        ("--trials 1", 48),
        ("--keep-epoch best", None),
        ("--valid {valid}", None),
        ("--save all", None),
    ],
)
def test_when_a_model_is_trained_once_more(
    world: World, base: Path, here: Path, options: str, trained_on: int | None
) -> None:
    ran = run(f"{COMMAND} {options} -o out", **vars(world), base=base)
    assert ran.code == 0, ran.err
    assert ("to keep the model" in ran.err) == (trained_on is not None)
    assert ("trained once more" in ran.out) == (trained_on is not None)
    if trained_on:
        scores = read(here / "out/models" / _advised(here / "out") / "scores.json")
        assert scores["trained_on"] == trained_on
