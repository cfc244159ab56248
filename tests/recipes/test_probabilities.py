"""The probabilities of a fine-tuned classifier are true: with rare classes, and after training."""

import json
import random
from pathlib import Path

import pytest

from command_line import MACHINE, SHAPE, World, read, read_labelled_rows, succeed, write_labelled

WORDS = ("un", "livre", "long", "et", "tendre", "mais", "trop", "lent", "pour", "moi")
RARE = 0.1  # share of the rare class


@pytest.fixture
def noise(here: Path) -> str:
    """Write files whose labels say nothing about the texts; return their options."""
    rng = random.Random(3)
    for name, size in (("train", 400), ("valid", 200), ("test", 400)):
        labels = ["rare" if row < RARE * size else "usual" for row in range(size)]
        write_labelled(
            here / f"{name}.tsv", [(k, " ".join(rng.choices(WORDS, k=6))) for k in labels]
        )
    return "--train train.tsv --valid valid.tsv"


def _mean_probability(run: str) -> float:
    rows = [text for _, text in read_labelled_rows(Path("test.tsv"))]
    lines = succeed(f"predict {run} --json", "\n".join(rows).encode()).out.splitlines()
    return sum(json.loads(line)["probabilities"]["rare"] for line in lines) / len(lines)


def test_a_rare_class_keeps_its_rate(noise: str) -> None:
    succeed(f"finetune {noise} -o run {SHAPE} --epochs 3 --learning-rate 0.003 {MACHINE}")
    assert _mean_probability("run") == pytest.approx(RARE, abs=0.03)
    assert succeed("evaluate run --test test.tsv --json").json["accuracy"] == 1 - RARE


def test_what_is_kept_is_the_calibrated_model(world: World, base: Path, here: Path) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    ran = succeed(
        f"finetune {files} --from {base} -o run --epochs 20 --learning-rate 0.01 {MACHINE}"
    )
    valid = read(here / "run/scores.json")["valid"]
    assert valid["temperature"] != 1
    shown = (
        f"calibration error {valid['uncalibrated_error']:.1%} -> {valid['calibration_error']:.1%}"
    )
    assert shown in ran.out
    scores = succeed(f"evaluate run --test {world.valid} --json {MACHINE}").json
    assert scores["calibration"]["expected_error"] == pytest.approx(
        valid["calibration_error"], abs=1e-5
    )
    assert scores["accuracy"] == valid["accuracy"]
