"""Any number of processes takes the same steps as one."""

import signal
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from faulty_training import Fault, overflow_moment, spoil_gradient, spoil_loss, spoil_moment
from several_processes import (
    LOOP,
    PARTS,
    Build,
    build_muon,
    build_scaled,
    build_scaled_shares,
    build_sharded,
    build_trainer,
    do_each,
    gradients_of,
    lose_one,
    read_tensors,
    run_together,
    take_gradients,
    train,
    train_with_fault,
)
from warmstart.errors import StoppedError
from warmstart.model.backbone import recompute_activations
from warmstart.processes import Processes, share_training
from warmstart.runs.checkpoint import list_checkpoints, load_checkpoint, step_of
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which one process has trained a model of every kind."""
    folder = tmp_path_factory.mktemp("alone")
    do_each(train, folder)
    return folder


def _assert_all_have(expected: dict[str, Tensor], folder: Path, count: int, atol: float) -> None:
    first, *others = read_tensors(folder, count)
    assert first.keys() == expected.keys()
    assert_close(first, expected, rtol=0.0, atol=atol)
    assert all(torch.equal(other[name], first[name]) for other in others for name in first)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize("build", [build_trainer, build_sharded], ids=["whole", "sharded"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_gradients_are_those_of_one_process(
    count: int, build: Build, cpu: Runtime, tmp_path: Path
) -> None:
    codes = run_together(count, do_each, take_gradients, tmp_path, step=1, build=build)
    assert codes == [0] * count
    for task in PARTS:
        expected = gradients_of(build_trainer(task, cpu, None), 1)
        _assert_all_have(expected, tmp_path / task, count, 1e-10)


@pytest.mark.parametrize(
    ("count", "build"),
    [
        *product([1, 2, 3, 4], [build_trainer, build_sharded]),
        *product([2], [build_scaled, build_scaled_shares]),
    ],
)
def test_weights_are_those_of_one_process(
    count: int, build: Build, alone: Path, tmp_path: Path
) -> None:
    assert run_together(count, do_each, train, tmp_path, build=build) == [0] * count
    for task in PARTS:
        runs = [RunFolder(folder / task / "run") for folder in (tmp_path, alone)]
        ours, theirs = (load_checkpoint(list_checkpoints(run)[-1]) for run in runs)
        assert_close(ours.weights, theirs.weights, rtol=0.0, atol=1e-9)
        assert_close(ours.optimizer, theirs.optimizer, rtol=0.0, atol=1e-9)
        _assert_same_metrics(*runs)


def _assert_same_metrics(*runs: RunFolder) -> None:
    together, alone = (read_metrics(run.metrics_file) for run in runs)
    assert [line["step"] for line in together] == [line["step"] for line in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.get("train_loss") == pytest.approx(theirs.get("train_loss"), abs=1e-9)
        assert ours.get("valid_loss") == pytest.approx(theirs.get("valid_loss"), abs=1e-8)


@pytest.mark.parametrize("count", [2, 3])
def test_muon_in_single_precision_is_that_of_one_process(
    count: int, run: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "alone/run").mkdir(parents=True)
    train("masked", tmp_path / "alone", build_muon)
    (expected,) = read_tensors(tmp_path / "alone", 1)
    assert run_together(count, train, "masked", tmp_path, build_muon) == [0] * count
    _assert_all_have(expected, tmp_path, count, 1e-5)


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (build_trainer, spoil_loss),
        (build_trainer, spoil_gradient),
        (build_trainer, spoil_moment),
        (build_trainer, overflow_moment),
        (build_sharded, spoil_loss),
        (build_sharded, spoil_moment),
    ],
)
def test_a_fault_in_one_process_leaves_no_trace_in_any(
    build: Build, fault: Fault, tmp_path: Path
) -> None:
    runs = [RunFolder(tmp_path / name / "run") for name in ("disturbed", "undisturbed")]
    for run in runs:
        run.path.mkdir(parents=True)
    work = train_with_fault, "causal", tmp_path / "disturbed"
    assert run_together(2, *work, fault=fault, build=build) == [0, 0]
    assert run_together(2, train, "causal", tmp_path / "undisturbed", build=build) == [0, 0]
    healed, expected = (load_checkpoint(list_checkpoints(run)[-1]) for run in runs)
    assert len(healed.state.faults) == 1
    for ours, theirs in (
        (healed.weights, expected.weights),
        (healed.optimizer, expected.optimizer),
    ):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_an_overflow_in_one_process_is_skipped_by_all(tmp_path: Path) -> None:
    runs = [RunFolder(tmp_path / name / "run") for name in ("together", "alone")]
    for run in runs:
        run.path.mkdir(parents=True)
    work = train_with_fault, "causal"
    given = {"fault": spoil_gradient, "build": build_scaled}
    assert run_together(2, *work, tmp_path / "together", **given) == [0, 0]
    assert run_together(1, *work, tmp_path / "alone", **given) == [0]
    ours, theirs = (load_checkpoint(list_checkpoints(run)[-1]) for run in runs)
    assert (ours.state.overflows, ours.state.faults) == (1, [])
    assert ours.state.loss_scale == theirs.state.loss_scale
    assert_close(ours.weights, theirs.weights, rtol=0.0, atol=1e-9)
    assert_close(ours.optimizer, theirs.optimizer, rtol=0.0, atol=1e-9)


class Interrupted(Processes):
    """Processes that get a signal while they agree whether to save and whether to stop."""

    def largest(self, *numbers: int) -> list[int]:
        agreed = super().largest(*numbers)
        if len(numbers) == 2 and not any(agreed):
            signal.raise_signal(signal.SIGTERM)
        return agreed


def test_a_signal_while_processes_agree_stops_them_at_the_next_step(
    run: RunFolder, cpu: Runtime
) -> None:
    with share_training(Interrupted()):
        trainer = build_trainer("causal", cpu, run)
    with pytest.raises(StoppedError, match="stopped at step 2, saved"):
        trainer.train("training")
    assert [step_of(path) for path in list_checkpoints(run)] == [2]


@pytest.mark.parametrize("build", [build_trainer, build_sharded], ids=["whole", "sharded"])
def test_more_processes_than_rows(build: Build, cpu: Runtime, tmp_path: Path) -> None:
    expected = gradients_of(build_trainer("causal", cpu, None), 1)
    codes = run_together(6, take_gradients, "causal", tmp_path, step=1, build=build)
    assert codes == [0] * 6
    _assert_all_have(expected, tmp_path, 6, 1e-10)


def test_a_lost_process_loses_no_checkpoint_and_any_number_resumes(
    run: RunFolder, alone: Path, tmp_path: Path
) -> None:
    assert run_together(3, lose_one, "causal", tmp_path, at=15) == [2, 2, 9]
    assert [step_of(path) for path in list_checkpoints(run)] == [6, 12]
    assert run_together(2, train, "causal", tmp_path) == [0, 0]
    (expected,) = read_tensors(alone / "causal", 1)
    _assert_all_have(expected, tmp_path, 2, 1e-9)
    assert [line["step"] for line in read_metrics(run.metrics_file)][-1] == LOOP.steps


def test_a_run_resumes_with_other_processes_sharded_or_not(
    run: RunFolder, alone: Path, tmp_path: Path
) -> None:
    lost = run_together(3, lose_one, "causal", tmp_path, at=9, build=build_sharded)
    assert lost == [2, 2, 9]
    assert [step_of(path) for path in list_checkpoints(run)] == [6]
    assert run_together(2, lose_one, "causal", tmp_path, at=15) == [2, 9]
    assert run_together(2, train, "causal", tmp_path, build=build_sharded) == [0, 0]
    (expected,) = read_tensors(alone / "causal", 1)
    assert_close(load_checkpoint(list_checkpoints(run)[-1]).weights, expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("task", PARTS)
def test_activations_computed_twice_give_the_same_gradients(task: str, cpu: Runtime) -> None:
    expected = gradients_of(build_trainer(task, cpu, None), 1)
    trainer = build_trainer(task, cpu, None)
    recompute_activations(trainer.model)
    found = gradients_of(trainer, 1)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
