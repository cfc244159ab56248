"""fp16: a gradient that overflows costs a step and halves the scale; the rest is as in fp32."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from faulty_training import Fault, put_faults, spoil_gradient, spoil_loss, spoil_moment
from same_runs import assert_same_run
from warmstart.errors import DivergedError
from warmstart.runs.checkpoint import State, list_checkpoints, load_checkpoint
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.training import loss_scale
from warmstart.training.length import measure
from warmstart.training.loss_scale import FIRST, LEAST, MOST, LossScale
from warmstart.training.step import Latch
from warmstart.training.trainer import Trainer

Build = Callable[[RunFolder | None], Trainer]
BuildOnDevice = Callable[[RunFolder | None, Runtime], Trainer]
Disturb = Callable[[Trainer, int, Callable[[], object]], Trainer]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def half(build: Build) -> Build:
    """Return a function that builds a trainer in fp16, whose first steps overflow."""

    def build_half(run: RunFolder | None) -> Trainer:
        trainer = replace(build(run), runtime=Runtime(CPU, torch.float16))
        _set_scale(trainer, MOST)
        trainer.settings = replace(trainer.settings, eval_every=4, save_every=2, keep=9)
        return trainer

    return build_half


@pytest.fixture(scope="module")
def undisturbed(half: Build, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    trainer = half(RunFolder(tmp_path_factory.mktemp("undisturbed")))
    trainer.train("undisturbed")
    return trainer


def _set_scale(trainer: Trainer, value: float) -> None:
    assert trainer.loss_scale
    trainer.loss_scale.value.fill_(value)


def _scale(trainer: Trainer) -> float:
    assert trainer.loss_scale
    return float(trainer.loss_scale.value)


def test_the_scale_follows_the_rule_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "GROWTH_STEPS", 3)
    ours, latch = LossScale(CPU), Latch(CPU)
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    theirs = GradScaler("cpu", init_scale=FIRST, growth_interval=3)
    rng = random.Random(0)
    for _ in range(60):
        norm = torch.tensor(rng.choice([*[1.0] * 6, float("inf"), float("nan")]))
        theirs.scale(weight.sum() * norm).backward()
        before = weight.detach().clone()
        theirs.step(optimizer)
        theirs.update()
        optimizer.zero_grad()
        is_skipped = ours.enter(torch.tensor(1.0), norm, latch)
        assert bool(is_skipped) == torch.equal(weight, before)
        assert float(ours.value) == theirs.get_scale()
    assert not latch.open()


@pytest.mark.parametrize(
    ("start", "norm", "end"), [(LEAST, float("inf"), LEAST), (MOST, 1.0, MOST)]
)
def test_the_scale_has_limits(
    start: float, norm: float, end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_scale, "GROWTH_STEPS", 1)
    scale = LossScale(CPU)
    scale.restore(State(loss_scale=start))
    scale.enter(torch.tensor(1.0), torch.tensor(norm), Latch(CPU))
    assert float(scale.value) == end


def test_steps_that_overflow_change_nothing_and_are_counted(half: Build) -> None:
    trainer = half(None)
    before = [tensor.clone() for tensor in trainer.model.state_dict().values()]
    loss, norm = trainer.take_step(0, 1.0)
    assert loss.isfinite()
    assert not norm.isfinite()
    after = trainer.model.state_dict().values()
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert _scale(trainer) == MOST / 2
    state = trainer.train("run")
    assert 3 <= state.overflows < 6
    assert state.faults == []
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_a_step_that_does_not_overflow_is_that_of_any_scale(build: Build) -> None:
    weights = []
    for scale in (1.0, 64.0, 4096.0):
        trainer = replace(build(None), runtime=Runtime(CPU))
        trainer.loss_scale = LossScale(CPU)
        _set_scale(trainer, scale)
        for step in range(3):
            trainer.take_step(step, 1.0)
        weights.append(torch.cat([w.ravel() for w in trainer.model.state_dict().values()]))
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


def test_losses_are_near_those_of_fp32(build: Build) -> None:
    losses = []
    for dtype in (None, torch.float16):
        trainer = replace(build(None), runtime=Runtime(CPU, dtype))
        losses.append([float(trainer.take_step(step, 1.0)[0]) for step in range(8)])
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)


class PowerCutError(Exception):
    """The machine is gone."""


def _cut_power() -> None:
    raise PowerCutError


@pytest.mark.parametrize("at", [1, 2, 3, 5])  # the first steps overflow
def test_a_power_cut_among_skipped_steps_changes_nothing(
    half: Build, undisturbed: Trainer, disturbed: Disturb, tmp_path: Path, at: int
) -> None:
    run = RunFolder(tmp_path)
    first = half(run)
    first.settings = replace(first.settings, save_every=1)
    with pytest.raises(PowerCutError):
        disturbed(first, at, _cut_power).train("first")
    again = half(run)
    _set_scale(again, LEAST)  # the checkpoint knows better
    again.train("second")
    assert_same_run(again, undisturbed)
    assert again.state.overflows == undisturbed.state.overflows
    assert again.state.loss_scale == undisturbed.state.loss_scale


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("at", [1, 5])
def test_a_loss_that_is_not_finite_is_a_fault_and_heals(
    half: Build, undisturbed: Trainer, tmp_path: Path, at: int, every: int
) -> None:
    trainer = half(RunFolder(tmp_path))
    trainer.looks_each_step = every == 1
    trainer.settings = replace(trainer.settings, save_every=4)
    state = put_faults(trainer, {at: spoil_loss}).train("run")
    assert state.faults == [at + 1]
    assert state.overflows == undisturbed.state.overflows
    assert_same_run(trainer, undisturbed)


def test_damaged_moments_are_read_again_with_their_scale(
    half: Build, undisturbed: Trainer, tmp_path: Path
) -> None:
    trainer = put_faults(half(RunFolder(tmp_path)), {6: spoil_moment})
    assert len(trainer.train("run").faults) == 1
    assert_same_run(trainer, undisturbed)


def test_an_overflow_at_any_step_is_skipped(half: Build, undisturbed: Trainer) -> None:
    state = put_faults(half(None), {6: spoil_gradient}).train("run")
    assert state.faults == []
    assert state.overflows == undisturbed.state.overflows + 1


@pytest.mark.parametrize("recur", [False, True])
def test_at_the_least_scale_an_overflow_is_a_fault(
    half: Build, tmp_path: Path, recur: bool
) -> None:
    trainer, expected = (half(RunFolder(tmp_path / name)) for name in ("disturbed", "plain"))
    for each in (trainer, expected):
        assert each.run
        each.run.path.mkdir()
        _set_scale(each, LEAST)
    put_faults(trainer, {5: spoil_gradient}, recur=recur)
    if recur:
        with pytest.raises(DivergedError, match=r"the gradient .* at step 6, .*--precision fp32"):
            trainer.train("run")
        return
    assert trainer.train("run").faults == [6]
    expected.train("plain")
    assert_same_run(trainer, expected)


@pytest.mark.parametrize("fault", [spoil_gradient, spoil_loss])
def test_steps_that_are_timed_leave_the_scale(half: Build, fault: Fault) -> None:
    trainer = half(None)
    fault(trainer)
    measure(trainer, seconds=0.05)
    assert _scale(trainer) == FIRST


def test_scale_and_overflows_are_on_record(undisturbed: Trainer) -> None:
    assert undisturbed.run
    newest = list_checkpoints(undisturbed.run)[-1]
    kept: dict[str, Any] = json.loads((newest / "state.json").read_text())["state"]
    state = load_checkpoint(newest).state
    assert kept["overflows"] == state.overflows > 2
    assert kept["loss_scale"] == state.loss_scale == MOST / 2**state.overflows
    lines = [line for line in read_metrics(undisturbed.run.metrics_file) if "train_loss" in line]
    assert [line["overflows"] for line in lines[:2]] == [1, 2]
    assert [line["loss_scale"] for line in lines[:2]] == [MOST / 2, MOST / 4]
    assert lines[-1]["overflows"] == state.overflows


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.gpu
@on_gpu
def test_fp16_on_a_gpu(build_recorded: BuildOnDevice) -> None:  # no dropout, which draws by type
    losses = []
    for dtype in (None, torch.float16):
        trainer = build_recorded(None, Runtime(torch.device("cuda"), dtype))
        losses.append([float(trainer.take_step(step, 1.0)[0]) for step in range(8)])
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    _set_scale(trainer, MOST)
    trainer.take_step(8, 1.0)
    assert _scale(trainer) == MOST / 2


ON_GPU = [("cuda", is_recorded, at) for is_recorded in (False, True) for at in (1, 2, 3, 9)]


@pytest.mark.parametrize(
    ("device", "is_recorded", "at"),  # the first steps overflow
    [("cpu", True, 2), *(pytest.param(*case, marks=[pytest.mark.gpu, on_gpu]) for case in ON_GPU)],
)
def test_a_run_that_a_gpu_replays_resumes_among_skipped_steps(
    build_recorded: BuildOnDevice,
    disturbed: Disturb,
    tmp_path: Path,
    device: str,
    is_recorded: bool,
    at: int,
) -> None:
    def begin(name: str) -> Trainer:
        run = RunFolder(tmp_path / name)
        run.path.mkdir(exist_ok=True)
        trainer = build_recorded(run, Runtime(torch.device(device), torch.float16))
        trainer.recorded = trainer.recorded if is_recorded else None
        _set_scale(trainer, MOST)
        return trainer

    whole = begin("whole")
    whole.train("whole")
    assert whole.state.overflows > 2
    first = begin("cut")
    first.settings = replace(first.settings, save_every=1)
    with pytest.raises(PowerCutError):
        disturbed(first, at, _cut_power).train("first")
    again = begin("cut")
    _set_scale(again, LEAST)  # the checkpoint knows better
    again.train("second")
    assert_same_run(again, whole)
    assert again.state.overflows == whole.state.overflows
    assert again.state.loss_scale == whole.state.loss_scale
