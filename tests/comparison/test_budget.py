"""A comparison within minutes: what is left out first, and that the rest is trained as asked."""

from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, World, read, run, succeed
from warmstart.comparison.budget import ArmPace, largest_within
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.training.length import Pace
from warmstart.training.trainer import Trainer

COMPARE = (
    "compare --train {train} --valid {valid} --from {base} -o {out} --labels 16,all "
    f"--epochs 8 --seeds 0,1,2,3 --trials 3 {MACHINE}"
)
ARMS = {"arms": ["warm", "frozen", "cold", "tfidf"]}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell that every step takes a second."""

    def measure(trainer: Trainer, seconds: float, steps: int | None) -> Pace:
        return Pace(step_s=1.0)

    monkeypatch.setattr("warmstart.comparison.budget.measure", measure)


def _limit(folder: Path) -> Any:
    return read(folder / "config.json")["within_minutes"]


# All of it: 3 arms of 4 steps, 8 epochs and 8 trainings; 48 texts are 3 steps, 16 texts are one.
@pytest.mark.parametrize(
    ("seconds", "trials", "seeds", "epochs", "labels"),
    [
        (768, 3, 5, 8, 2),
        (767, 3, 5, 7, 2),  # up to a quarter of the epochs rather than a trial
        (575, 2, 5, 6, 2),
        (503, 1, 5, 8, 2),
        (359, 1, 4, 7, 2),
        (287, 1, 3, 7, 2),
        (215, 1, 3, 5, 2),
        (72, 1, 3, 2, 2),
        (71, 1, 3, 2, 1),
        (0, 1, 3, 2, 1),  # nothing fits: the smallest one
    ],
)
def test_trials_then_seeds_then_epochs_then_subsets(
    seconds: float, trials: int, seeds: int, epochs: int, labels: int, world: World, base: Path
) -> None:
    files = {name: str(getattr(world, name)) for name in ("train", "valid", "test")}
    config = CompareConfig.from_values(
        {
            **files,
            "from": [str(base)],
            "out": "unused",
            "labels": ["all", "16"],
            "epochs": 8,
            **ARMS,
        }
    )
    plan = plan_experiment(config)
    paces = [ArmPace(step_s=1.0)] * 3 + [ArmPace()]
    taken = largest_within(seconds, config, plan, paces)
    kept = (taken.trials, len(taken.seeds), taken.most_epochs, len(taken.labels))
    assert kept == (trials, seeds, epochs, labels)
    assert "16" in taken.labels


@pytest.mark.parametrize(
    ("num_gpus", "seconds", "trials"), [(1, 768, 3), (1, 767, 2), (0, 768 + 700, 3), (0, 1467, 2)]
)
def test_a_baseline_beside_a_gpu_takes_no_time_of_its_own(
    num_gpus: int,
    seconds: float,
    trials: int,
    world: World,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {name: str(getattr(world, name)) for name in ("train", "valid", "test")}
    config = CompareConfig.from_values(
        {**files, "from": [str(base)], "out": "unused", "epochs": 1, **ARMS}
    )
    plan = plan_experiment(config)
    monkeypatch.setattr("torch.cuda.device_count", lambda: num_gpus)
    num_texts = sum(len(split) for split in plan.texts.data.values())
    paces = [ArmPace(step_s=256 / 24), ArmPace(step_s=256 / 24), ArmPace(step_s=256 / 24)]
    paces.append(ArmPace(counting_s=700 / num_texts))
    assert largest_within(seconds, config, plan, paces).trials == trials


# 72 texts in 3 folds: 38 train in each, in 3 steps; 3 arms, 8 epochs, 3 trials and 5 seeds.
@pytest.mark.parametrize(
    ("seconds", "trials", "seeds", "epochs"),
    [
        (1728, 3, 5, 8),
        (1511, 3, 5, 6),
        (1295, 3, 4, 6),
        (1133, 3, 3, 6),
        (971, 2, 3, 7),
        (648, 1, 3, 8),
    ],
)
def test_folds_multiply_the_time_and_cost_seeds_first(
    seconds: float, trials: int, seeds: int, epochs: int, world: World, base: Path
) -> None:
    config = CompareConfig.from_values(
        {
            "train": [str(world.train)],
            "valid": str(world.valid),
            "from": [str(base)],
            "out": "unused",
            "epochs": 8,
            "folds": 3,
            **ARMS,
        }
    )
    plan = plan_experiment(config)
    paces = [ArmPace(step_s=1.0)] * 3 + [ArmPace()]
    taken = largest_within(seconds, config, plan, paces)
    assert (taken.trials, len(taken.seeds), taken.most_epochs) == (trials, seeds, epochs)


def test_an_arm_without_randomness_is_fitted_once_with_all_labels() -> None:
    config = CompareConfig(from_runs=("run",), train=("t",), out="o", folds=5)
    pace = ArmPace(text_s=1.0, reading_s=10.0, scoring_s=5.0, is_random=False)
    assert pace.cells_s(100, config, is_all=True) == 5 * 115
    assert pace.cells_s(50, config) == 5 * (8 * 60 + 5 * 5)


@pytest.mark.usefixtures("slow")
def test_a_limited_comparison_says_so_and_resumes(world: World, base: Path, here: Path) -> None:
    places = {**vars(world), "base": base, "out": here / "limited"}
    ran = succeed(f"{COMPARE} --minutes 3.5", **places)
    said = next(line for line in ran.err.splitlines() if line.startswith("--minutes 3.5: "))
    assert "1 of 3 trials, 3 of 4 seeds" in said
    limit = _limit(here / "limited")
    results = read(here / "limited/results.json")
    assert said.startswith(f"{results['left_out']}; fewer trials are taken first")
    caveat = results["summary"]["caveats"][0]
    assert results["left_out"] in caveat
    assert caveat in " ".join(ran.out.split())
    assert caveat in (here / "limited/report.html").read_text(encoding="utf-8")
    assert results["seeds"] == limit["seeds"] == [0, 1, 2]
    assert {len(cell["epochs"]) for cell in results["cells"]} == {0, limit["most_epochs"]}
    cells = {path.name: path.read_bytes() for path in (here / "limited/cells").iterdir()}
    (here / "limited/results.json").unlink()
    (here / "limited/cells" / sorted(cells)[0]).unlink()
    succeed(f"{COMPARE} --minutes 3.5 --resume", **places)
    assert _limit(here / "limited") == limit
    assert {path.name for path in (here / "limited/cells").iterdir()} == set(cells)


@pytest.mark.usefixtures("slow")
def test_too_few_minutes_are_refused(world: World, base: Path, here: Path) -> None:
    ran = run(f"{COMPARE} --minutes 0.2", **vars(world), base=base, out=here / "run")
    assert ran.code == 2
    assert "--minutes 0.2 is too short" in ran.said
    assert not (here / "run").exists()


def test_without_minutes_it_says_how_long_it_takes(world: World, base: Path, here: Path) -> None:
    many, one = "--epochs 8 --seeds 0,1,2,3 --trials 3", "--epochs 1 --seeds 0 --trials 1"
    command = COMPARE.replace(many, one)
    ran = succeed(command, **vars(world), base=base, out=here / "run")
    assert "the comparison takes about " in ran.err
