"""How long a run is: minutes, a changed number of steps, and what is said and recorded of it."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import QUICK, SHAPE, TINY, World, read, refuse, run, stop_at, succeed, weights_of
from warmstart.training import length as pace
from warmstart.training.length import Pace
from warmstart.training.trainer import Trainer

MINUTES = TINY.replace("--steps 6", "--minutes 10 --save-every 5")
FINE = "finetune --train {train} --valid {valid} --from {base} -o run"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take steps as usual, but tell that each took a minute."""
    really = pace.measure

    def measure(trainer: Trainer, seconds: float) -> Pace:
        really(trainer, 0.0)
        return Pace(step_s=60.0)

    monkeypatch.setattr(pace, "measure", measure)


def _config(folder: Path) -> Any:
    return read(folder / "config.json")


def _steps(folder: Path) -> int:
    return int(_config(folder)["lengths"][-1]["steps"])


@pytest.mark.usefixtures("slow")
def test_minutes_fix_a_number_of_steps_that_gives_the_same_run(world: World, here: Path) -> None:
    ran = succeed(f"pretrain {world.texts} -o timed {MINUTES}")
    steps = _steps(here / "timed")
    assert 6 <= steps < 10  # how many depends on the time spent before
    assert f"{steps:,} steps fit into --minutes 10" in ran.err
    succeed(f"pretrain {world.texts} -o counted {TINY} --steps {steps}")
    assert weights_of(here / "timed") == weights_of(here / "counted")


@pytest.mark.usefixtures("slow")
def test_a_resumed_run_keeps_the_number_that_the_minutes_fixed(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} -o run {MINUTES}"
    stop_at(5, command)
    steps = _steps(here / "run")
    assert f"continuing from step 5 of {steps}" in succeed(f"{command} --resume").err
    assert _config(here / "run")["lengths"] == [{"from_step": 0, "steps": steps}]
    succeed(f"pretrain {world.texts} -o counted {TINY} --steps {steps}")
    assert weights_of(here / "run") == weights_of(here / "counted")


def test_too_few_minutes_are_refused_and_leave_nothing(world: World, here: Path) -> None:
    assert "--minutes 1e-05 is too short" in refuse(
        f"pretrain {world.texts} -o run {MINUTES} --minutes 0.00001"
    )
    assert not (here / "run").exists()


@pytest.mark.parametrize("flag", ["--steps 5", "--tokens 500"])
def test_minutes_exclude_other_lengths(flag: str, world: World, here: Path) -> None:
    assert "mutually exclusive" in refuse(
        f"pretrain {world.texts} -o run {SHAPE} --minutes 1 {flag}"
    )


@pytest.mark.usefixtures("slow")
def test_fine_tuning_takes_no_more_steps_than_its_epochs_or_its_minutes(
    world: World, base: Path, warm: Path, here: Path
) -> None:
    places = {**vars(world), "base": base}
    ran = succeed(f"{FINE} {QUICK} --minutes 20", **places)
    assert "all 6 steps fit into --minutes 20" in ran.err
    assert weights_of(here / "run") == weights_of(warm)
    shutil.rmtree(here / "run")
    succeed(f"{FINE} {QUICK} --minutes 5", **places)
    assert _steps(here / "run") < 6


@pytest.mark.parametrize("steps", [5, 9])  # of 6: ended earlier, made longer
def test_a_stopped_run_takes_another_number_of_steps(
    steps: int, world: World, base: Path, here: Path
) -> None:
    command = f"pretrain {world.texts} -o run {TINY}"
    stop_at(3, command)
    ran = succeed(f"{command} --resume --steps {steps}")
    assert f"ends after {steps} steps instead of 6" in ran.err
    assert "no longer the run that was started" in ran.err
    lengths = [{"from_step": 0, "steps": 6}, {"from_step": 3, "steps": steps}]
    assert _config(here / "run")["lengths"] == lengths
    assert weights_of(here / "run") != weights_of(base)
    assert "already finished" in succeed(f"{command} --resume --steps {steps}").err


def test_a_changed_run_resumes_exactly(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} {TINY}"
    stop_at(3, f"{command} -o run")
    shutil.copytree(here / "run", here / "other")
    succeed(f"{command} -o run --resume --steps 9")
    stop_at(7, f"{command} -o other --resume --steps 9")
    succeed("pretrain --config other/config.json -o other --resume")  # as the message says
    assert weights_of(here / "other") == weights_of(here / "run")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--steps 3", "already taken 3 steps, so it cannot end after 3: .* --steps 4"),
        ("--minutes 2", "--minutes 2 cannot change a run .* 6 steps; .* give --steps"),
    ],
)
def test_a_length_that_a_stopped_run_cannot_have(
    flag: str, said: str, world: World, here: Path
) -> None:
    stop_at(3, f"pretrain {world.texts} -o run {TINY}")
    before = _config(here / "run")
    bare = TINY.replace("--steps 6", flag)
    ran = run(f"pretrain {world.texts} -o run {bare} --resume")
    assert ran.code == 2
    assert re.search(said, ran.said)
    assert _config(here / "run") == before


def test_a_finished_run_is_not_made_longer(world: World, base: Path) -> None:
    said = refuse(f"pretrain {world.texts} -o {base} {TINY} --resume --steps 7")
    assert "--steps 7" in said
    assert f"--from {base}" in said


def test_a_resumed_run_needs_no_length(world: World, base: Path, here: Path) -> None:
    stop_at(3, f"pretrain {world.texts} -o run {TINY}")
    succeed(f"pretrain {world.texts} -o run {TINY.replace('--steps 6', '')} --resume")
    assert weights_of(here / "run") == weights_of(base)


def test_settings_in_force_are_said_and_recorded(world: World, here: Path) -> None:
    ran = succeed(f"pretrain {world.texts} -o run {TINY}")
    line = next(line for line in ran.err.splitlines() if line.startswith("settings: "))
    assert line == (
        "settings: learning rate 0.003 (default), batch tokens 64 (--batch-tokens), "
        "steps 6 (--steps), max length 16 (--max-length)"
    )
    assert _config(here / "run")["in_force"] == {
        "learning_rate": {"value": 0.003, "chosen": "by default"},
        "batch_tokens": {"value": 64, "chosen": "by --batch-tokens"},
        "steps": {"value": 6, "chosen": "by --steps"},
        "max_length": {"value": 16, "chosen": "by --max-length"},
    }


def test_a_refusal_never_shows_none(world: World, here: Path) -> None:
    stop_at(3, f"pretrain {world.texts} -o run {TINY}")
    ran = run(f"pretrain {world.texts} -o run {TINY} --learning-rate 0.5 --resume")
    assert ran.code == 2
    assert "--learning-rate was left to its default, now 0.5" in ran.said
    assert "None" not in ran.err
