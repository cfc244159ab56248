"""Any number of processes takes the same steps as one."""

import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from together import (
    LOOP,
    PARTS,
    build_trainer,
    gradients_of,
    lose_one,
    read_tensors,
    run_together,
    take_gradients,
    train,
)
from warmstart.errors import StoppedError
from warmstart.processes import Processes, sharing
from warmstart.results.metrics import read_metrics
from warmstart.runs.checkpoint import list_checkpoints, step_of
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime


def _trained_alone(task: str, cpu: Runtime, folder: Path) -> dict[str, Tensor]:
    trainer = build_trainer(task, cpu, RunFolder(folder))
    trainer.train("training")
    return trainer.model.state_dict()


def _assert_all_have(expected: dict[str, Tensor], folder: Path, count: int, atol: float) -> None:
    first, *others = read_tensors(folder, count)
    assert first.keys() == expected.keys()
    assert_close(first, expected, rtol=0.0, atol=atol)
    assert all(torch.equal(other[name], first[name]) for other in others for name in first)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for name in ("alone", "run"):
        (tmp_path / name).mkdir()


@pytest.mark.parametrize("task", PARTS)
@pytest.mark.parametrize("count", [2, 3])
def test_gradients_are_those_of_one_process(
    task: str, count: int, cpu: Runtime, tmp_path: Path
) -> None:
    step = 1
    expected = gradients_of(build_trainer(task, cpu, None), step)
    assert run_together(count, take_gradients, task, tmp_path, step=step) == [0] * count
    _assert_all_have(expected, tmp_path, count, 1e-10)


@pytest.mark.parametrize("task", PARTS)
def test_weights_are_those_of_one_process(task: str, cpu: Runtime, tmp_path: Path) -> None:
    expected = _trained_alone(task, cpu, tmp_path / "alone")
    assert run_together(2, train, task, tmp_path) == [0, 0]
    _assert_all_have(expected, tmp_path, 2, 1e-9)
    alone, together = (
        read_metrics(RunFolder(tmp_path / name).metrics_file) for name in ("alone", "run")
    )
    assert [line["step"] for line in together] == [line["step"] for line in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.get("train_loss") == pytest.approx(theirs.get("train_loss"), abs=1e-9)
        assert ours.get("valid_loss") == pytest.approx(theirs.get("valid_loss"), abs=1e-8)


class Interrupted(Processes):
    """Processes that get a signal while they agree whether to stop."""

    def largest(self, *numbers: int) -> list[int]:
        agreed = super().largest(*numbers)
        if not any(agreed):
            signal.raise_signal(signal.SIGTERM)
        return agreed


def test_a_signal_while_processes_agree_stops_them_at_the_next_step(
    cpu: Runtime, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    with sharing(Interrupted()):
        trainer = build_trainer("causal", cpu, run)
    with pytest.raises(StoppedError, match="stopped at step 2, saved"):
        trainer.train("training")
    assert [step_of(path) for path in list_checkpoints(run)] == [2]


def test_more_processes_than_rows(cpu: Runtime, tmp_path: Path) -> None:
    expected = gradients_of(build_trainer("causal", cpu, None), 0)
    assert run_together(6, take_gradients, "causal", tmp_path, step=0) == [0] * 6
    _assert_all_have(expected, tmp_path, 6, 1e-10)


def test_a_lost_process_loses_no_checkpoint_and_any_number_resumes(
    cpu: Runtime, tmp_path: Path
) -> None:
    expected = _trained_alone("causal", cpu, tmp_path / "alone")
    assert run_together(3, lose_one, "causal", tmp_path, at=15) == [2, 2, 9]
    run = RunFolder(tmp_path / "run")
    assert [step_of(path) for path in list_checkpoints(run)] == [6, 12]
    assert run_together(2, train, "causal", tmp_path) == [0, 0]
    _assert_all_have(expected, tmp_path, 2, 1e-9)
    assert [line["step"] for line in read_metrics(run.metrics_file)][-1] == LOOP.steps
