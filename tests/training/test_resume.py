"""A run that is cut off and resumed ends with the weights of one that was not."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from warmstart.errors import StoppedError
from warmstart.progress import Bar, shown_by
from warmstart.runs.checkpoint import list_checkpoints, load_latest
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.training.trainer import Trainer

Build = Callable[[RunFolder | None], Trainer]
Disturb = Callable[[Trainer, int, Callable[[], object]], Trainer]


class PowerCutError(Exception):
    """Ends a run where it stands."""


def _cut_power() -> None:
    raise PowerCutError


class Lines:
    """A display that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Any:
        bar: Bar = self
        yield bar


def _timeless(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{k: v for k, v in line.items() if k != "elapsed_s"} for line in lines]


def _assert_same_run(trainer: Trainer, reference: Trainer) -> None:
    """See that weights, best weights, figures and optimizer are those of the reference."""
    assert trainer.run is not None
    assert reference.run is not None
    for name, tensor in reference.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)
    assert trainer.run.weights_file.read_bytes() == reference.run.weights_file.read_bytes()
    newest, expected = (load_latest(run)[0] for run in (trainer.run, reference.run))
    assert newest is not None
    assert expected is not None
    assert newest.optimizer.keys() == expected.optimizer.keys()
    assert all(torch.equal(t, expected.optimizer[name]) for name, t in newest.optimizer.items())
    lines, expected_lines = (
        _timeless(read_metrics(run.metrics_file)) for run in (trainer.run, reference.run)
    )
    assert lines == expected_lines  # so no step stands there twice
    assert trainer.state.best_step == reference.state.best_step
    for one, other in zip(
        _timeless(trainer.state.evaluations), _timeless(reference.state.evaluations), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-12)


# Before any checkpoint, after a validation that no checkpoint knows of, and just after one.
@pytest.mark.parametrize("at", [0, 3, 4, 7])
def test_a_power_cut_anywhere_changes_nothing(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path, at: int
) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(PowerCutError):
        disturbed(build(run), at, _cut_power).train("first")
    again = build(run)
    torch.manual_seed(99)  # whatever happened to the random state since
    assert again.train("second").step == 8
    _assert_same_run(again, reference)


def test_two_power_cuts(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    for at in (3, 5):
        with pytest.raises(PowerCutError):
            disturbed(build(run), at, _cut_power).train("a sitting")
    again = build(run)
    again.train("the last")
    _assert_same_run(again, reference)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path, number: signal.Signals
) -> None:
    run = RunFolder(tmp_path)
    before = signal.getsignal(number)
    with pytest.raises(
        StoppedError, match=r"stopped at step 5, saved in .*: continue with --resume"
    ):
        disturbed(build(run), 4, lambda: signal.raise_signal(number)).train("first")
    assert signal.getsignal(number) is before
    checkpoint, _ = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.state.step == 5  # between two that were due
    again = build(run)
    again.train("second")
    _assert_same_run(again, reference)


def test_a_damaged_checkpoint_costs_steps_not_exactness(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(PowerCutError):
        disturbed(build(run), 7, _cut_power).train("first")
    newest = list_checkpoints(run)[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    again, lines = build(run), Lines()
    with shown_by(lines):
        again.train("second")
    assert "skipped a damaged checkpoint" in lines.said[0]
    assert "step-6" in lines.said[0]
    assert lines.said[1] == "continuing from step 4 of 8"
    _assert_same_run(again, reference)


def test_a_finished_run_is_not_trained_again(
    build: Build, reference: Trainer, disturbed: Disturb
) -> None:
    again = disturbed(build(reference.run), 0, _cut_power)
    assert again.train("again").step == 8
    _assert_same_run(again, reference)
