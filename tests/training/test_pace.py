"""Timing steps before a training: it changes nothing, and tells how many steps fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warmstart.errors import WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.training.length import Clock, Pace, estimate, fitting_steps, measure, num_validations
from warmstart.training.step import LoopSettings
from warmstart.training.trainer import Trainer

Build = Callable[[RunFolder | None], Trainer]

LOOP = LoopSettings(
    steps=0, clip=1.0, seed=0, eval_every=10, log_every=1, save_every=50, save_s=600, keep=2
)


def test_a_timed_training_ends_with_the_same_weights(
    build: Build, reference: Trainer, tmp_path: Path
) -> None:
    trainer = build(RunFolder(tmp_path))
    measure(trainer, seconds=0.05)
    assert not any(tmp_path.iterdir())
    assert trainer.state.step == 0
    trainer.train("run")
    assert reference.run is not None
    assert trainer.run is not None
    assert trainer.run.weights_file.read_bytes() == reference.run.weights_file.read_bytes()
    for name, tensor in reference.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)


@pytest.mark.parametrize("seconds", [0.0, 0.9, 1.0, 7.5, 100.0, 5000.0])
@pytest.mark.parametrize("pace", [Pace(0.1), Pace(0.1, 3.0), Pace(0.01, 2.0, 0.5)])
def test_as_many_steps_as_fit(pace: Pace, seconds: float) -> None:
    steps = pace.steps_within(seconds, LOOP)
    assert steps == 0 or pace.training_s(steps, LOOP) <= seconds
    assert pace.training_s(steps + 1, LOOP) > seconds


def test_validations_and_checkpoints_take_time() -> None:
    assert Pace(1.0).training_s(100, LOOP) == 100
    assert Pace(1.0, 5.0).training_s(100, LOOP) == 100 + 10 * 5
    assert Pace(1.0, 5.0).training_s(101, LOOP) == 101 + 11 * 5
    saving = Pace(1.0, 0.0, 0.1).training_s(100, LOOP) - 100
    assert saving == pytest.approx(10 * 0.1 + 3 * 3 * 0.1)  # 10 times the best, 3 checkpoints


def test_a_budget_that_is_already_spent_is_refused_with_one_that_is_enough(
    build_lm: Build,
) -> None:
    clock = Clock(0.5)
    late = replace(clock, started=clock.started - 120)
    with pytest.raises(WarmstartError, match=r"--minutes 0\.5 is too short: .* --minutes 2\.\d$"):
        fitting_steps(build_lm(None), late)


def test_the_estimate_names_the_steps(build_lm: Build) -> None:
    assert estimate(build_lm(None), 8).startswith("8 steps take about ")


@pytest.mark.parametrize(("steps", "most"), [(8, 4), (100, 13), (10**6, 200)])
def test_only_a_share_of_a_training_is_rehearsed(build_lm: Build, steps: int, most: int) -> None:
    taken = list[int]()
    trainer = build_lm(None)
    take = trainer.stream.group

    class Counted:
        def group(self, step: int, *share: slice) -> object:
            taken.append(step)
            return take(step, *share)

    trainer.stream = Counted()
    estimate(trainer, steps)
    assert len(taken) <= most
    assert taken == list(range(len(taken)))


@pytest.mark.parametrize(("steps", "num"), [(1, 1), (200, 1), (201, 2), (4000, 20), (100_000, 20)])
def test_a_training_validates_every_200_steps_and_a_long_one_twenty_times(
    steps: int, num: int
) -> None:
    assert num_validations(steps, replace(LOOP, eval_every=None)) == num
    assert num_validations(steps, LOOP) == -(-steps // 10)
