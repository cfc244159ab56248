"""The training loop: what it keeps, what stops it, and how it resumes."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from same_runs import assert_same_run
from warmstart.errors import StoppedError, WarmstartError
from warmstart.model.models import LanguageModel
from warmstart.progress import Bar, show_on
from warmstart.runs.checkpoint import list_checkpoints, load_latest, read_weights
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.settings.model import ModelConfig
from warmstart.training.step import Evaluation
from warmstart.training.trainer import Trainer

Build = Callable[[RunFolder | None], Trainer]
Disturb = Callable[[Trainer, int, Callable[[], object]], Trainer]


def _assert_same_weights(trainer: Trainer, reference: Trainer) -> None:
    for name, tensor in reference.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)


def test_cadence_changes_no_weight(build: Build, reference: Trainer, tmp_path: Path) -> None:
    trainer = build(RunFolder(tmp_path))
    trainer.settings = replace(trainer.settings, log_every=5, save_every=3, eval_every=2, keep=1)
    trainer.train("run")
    _assert_same_weights(trainer, reference)
    assert [path.name for path in list_checkpoints(RunFolder(tmp_path))] == ["step-8"]


def test_without_a_folder_the_same_weights_stay_in_memory(build: Build, reference: Trainer) -> None:
    trainer = build(None)
    trainer.train("run")
    assert reference.run is not None
    best = read_weights(reference.run.weights_file)
    assert trainer.best_weights.keys() == best.keys()
    assert all(torch.equal(trainer.best_weights[name], t) for name, t in best.items())
    _assert_same_weights(trainer, reference)


def test_metrics_by_step(reference: Trainer) -> None:
    assert reference.run is not None
    lines = read_metrics(reference.run.metrics_file)
    losses = {line["step"]: line["train_loss"] for line in lines if "train_loss" in line}
    valid = [line["step"] for line in lines if "train_loss" not in line]
    assert list(losses) == list(range(1, 9))
    assert valid == [entry["step"] for entry in reference.state.evaluations] == [3, 6, 8]
    spans = {3: (1, 2, 3), 6: (4, 5, 6), 8: (7, 8)}
    for entry in reference.state.evaluations:
        mean = np.mean([losses[step] for step in spans[int(entry["step"])]])
        assert entry["train_loss"] == pytest.approx(float(mean), rel=1e-6)


def test_best_weights_are_those_of_the_best_evaluation(build_lm: Build, tmp_path: Path) -> None:
    trainer = build_lm(RunFolder(tmp_path))
    scores, seen = iter([0.5, 0.9, 0.7]), []

    def evaluate() -> Evaluation:
        assert not trainer.model.training
        seen.append({name: t.clone() for name, t in trainer.model.state_dict().items()})
        return Evaluation(next(scores), {}, "")

    trainer.evaluate = evaluate
    state = trainer.train("run")
    assert (state.best_score, state.best_step) == (0.9, 6)
    best = read_weights(RunFolder(tmp_path).weights_file)
    assert all(torch.equal(best[name], tensor) for name, tensor in seen[1].items())


def test_equal_scores_are_ranked_by_loss(build_lm: Build) -> None:
    trainer = build_lm(None)
    results = iter([(0.9, 0.4), (0.9, 0.3), (0.9, 0.5)])

    def evaluate() -> Evaluation:
        score, loss = next(results)
        return Evaluation(score, {}, "", loss)

    trainer.evaluate = evaluate
    assert trainer.train("run").best_step == 6


def test_an_evaluation_can_replace_tensors_that_are_kept(build_lm: Build, tmp_path: Path) -> None:
    trainers = [build_lm(run) for run in (RunFolder(tmp_path), None)]
    zeros = {"head.output.weight": torch.zeros_like(trainers[0].model.head.output.weight)}
    for trainer in trainers:
        trainer.evaluate = lambda: Evaluation(0.5, {}, "", weights=zeros)
        trainer.train("run")
        assert trainer.model.state_dict()["head.output.weight"].any()
    for kept in (read_weights(RunFolder(tmp_path).weights_file), trainers[1].best_weights):
        assert kept.keys() == trainers[0].model.state_dict().keys()
        assert not kept["head.output.weight"].any()


def test_a_checkpoint_of_another_shape_is_refused(
    build_lm: Build, tiny: ModelConfig, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    build_lm(run).train("run")
    other = build_lm(run)
    other.model = LanguageModel(replace(tiny, width=8))
    with pytest.raises(WarmstartError, match=r"step-8 does not fit this run: "):
        other.train("again")


def test_when_every_checkpoint_is_damaged_the_run_starts_again(
    build_lm: Build, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    whole = build_lm(run)
    whole.train("run")
    for path in list_checkpoints(run):
        (path / "state.json").unlink()
    again = build_lm(run)
    assert again.train("again").step == 8
    _assert_same_weights(again, whole)


def test_a_signal_in_the_last_step_ends_well(
    build_lm: Build, disturbed: Disturb, tmp_path: Path
) -> None:
    trainer = build_lm(RunFolder(tmp_path))
    disturbed(trainer, 7, lambda: signal.raise_signal(signal.SIGTERM))
    assert trainer.train("run").step == 8


def test_a_signal_without_a_folder_says_so(build_lm: Build, disturbed: Disturb) -> None:
    trainer = disturbed(build_lm(None), 2, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(StoppedError, match=r"^stopped at step 3$"):
        trainer.train("run")


def test_time_makes_a_checkpoint_due(build_lm: Build, tmp_path: Path) -> None:
    trainer = build_lm(RunFolder(tmp_path))
    trainer.settings = replace(trainer.settings, save_every=1000, save_s=0, keep=100)
    trainer.train("run")
    assert len(list_checkpoints(RunFolder(tmp_path))) == 8


def test_training_learns(build_lm: Build) -> None:
    trainer = build_lm(None)
    trainer.settings = replace(trainer.settings, steps=60, eval_every=20)
    losses = [entry["train_loss"] for entry in trainer.train("run").evaluations]
    assert losses == sorted(losses, reverse=True)


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
    assert_same_run(again, reference)


def test_two_power_cuts(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    for at in (3, 5):
        with pytest.raises(PowerCutError):
            disturbed(build(run), at, _cut_power).train("a sitting")
    again = build(run)
    again.train("the last")
    assert_same_run(again, reference)


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
    assert_same_run(again, reference)


def test_a_damaged_checkpoint_costs_steps_not_exactness(
    build: Build, reference: Trainer, disturbed: Disturb, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(PowerCutError):
        disturbed(build(run), 7, _cut_power).train("first")
    newest = list_checkpoints(run)[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    again, lines = build(run), Lines()
    with show_on(lines):
        again.train("second")
    assert "skipped a damaged checkpoint" in lines.said[0]
    assert "step-6" in lines.said[0]
    assert lines.said[1] == "continuing from step 4 of 8"
    assert_same_run(again, reference)


def test_a_finished_run_is_not_trained_again(
    build: Build, reference: Trainer, disturbed: Disturb
) -> None:
    again = disturbed(build(reference.run), 0, _cut_power)
    assert again.train("again").step == 8
    assert_same_run(again, reference)
