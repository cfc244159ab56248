"""`look ablations`: what models lack without one of their parts."""

import math
from pathlib import Path

import pytest

from command_line import MACHINE, refuse, succeed
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import WordPairs
from warmstart.look.ablations import (
    AblatedTraining,
    Ablations,
    look_ablations,
    variants_of,
)
from warmstart.look.commands import LookAblationsConfig
from warmstart.settings.training import PretrainConfig

QUICK = f"--steps 30 --seeds 0 {MACHINE}"


def trained(part: str, seed: int, loss: float, failure: str | None = None) -> AblatedTraining:
    return AblatedTraining(
        part=part,
        seed=seed,
        steps=(5, 10),
        losses=(2 * loss, loss),
        written="a fine book",
        known_pairs=0.5 + seed / 4,
        failure=failure,
    )


TRAININGS = [
    *(trained("nothing", seed, 1.0 + seed) for seed in (0, 1)),
    trained("norm", 0, 9.0, "the loss became nan at step 3"),
    trained("norm", 1, 3.0),
]


def test_word_pairs_are_those_of_neighbours_in_a_line() -> None:
    pairs = WordPairs(["a fine book", "a dull book"])
    assert pairs.known_share("a fine book") == 1.0
    assert pairs.known_share("a fine dull book") == pytest.approx(2 / 3)
    assert pairs.known_share("book a") == 0.0
    assert pairs.known_share("book") == 0.0


def test_variants_have_the_mean_and_range_of_their_seeds() -> None:
    ablations = Ablations("toy", variants_of(TRAININGS))
    whole, broken = ablations.table()[1]
    mean = (math.e + math.e**2) / 2
    assert whole == ("whole", f"{mean:.1f}", "2.7 to 7.4", "62.5%", "50.0% to 75.0%")
    assert broken[:2] == ("without norm", f"{math.e**3:.1f}")  # of the seed that finished
    assert ablations.sentences() == [
        "without norm, seed 0: the loss became nan at step 3",
        "whole writes: a fine book",
        "without norm writes: a fine book",
    ]


def test_a_variant_that_never_finished_is_still_shown() -> None:
    ablations = Ablations("toy", variants_of([TRAININGS[0], TRAININGS[2]]))
    assert ablations.table()[1][1] == ("without norm", "–", "–", "–", "–")
    assert len(ablations.draw().axes) == 2


def test_masked_models_train_the_plain_objective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = []

    def diverge(job: PretrainConfig) -> None:
        jobs.append(job)
        Path(job.out).mkdir()
        (Path(job.out) / "metrics.jsonl").write_text("")
        raise DivergedError("the loss became nan")

    monkeypatch.setattr("warmstart.look.ablations.pretrain", diverge)
    out = str(tmp_path / "order.png")
    look_ablations(LookAblationsConfig(objective="masked", parts=("positions",), out=out))
    assert {(job.document_loss, job.semantic_start) for job in jobs} == {(0.0, False)}


@pytest.mark.slow
def test_without_the_mask_the_loss_falls_and_the_text_is_noise(tmp_path: Path) -> None:
    out = tmp_path / "mask.png"
    whole, broken = succeed(f"look ablations --parts mask -o {out} --json {QUICK}").json
    assert (whole["part"], broken["part"]) == ("nothing", "mask")
    assert broken["trainings"][0]["losses"][-1] < whole["trainings"][0]["losses"][-1] - 1
    assert broken["trainings"][0]["known_pairs"] < whole["trainings"][0]["known_pairs"]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--objective masked --parts mask", "--objective causal"),
        ("--parts heart", "heart"),
        ("--seeds 1,1", "--seeds"),
        ("--objective dream", "dream"),
    ],
)
def test_refusals(arguments: str, words: str, tmp_path: Path) -> None:
    assert words in refuse(f"look ablations -o {tmp_path}/page.png {arguments}")
    assert list(tmp_path.iterdir()) == []
