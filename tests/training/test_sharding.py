"""Processes that each keep a share of the model take the same steps as one that has it all."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from together import (
    PARTS,
    build_sharded,
    build_trainer,
    gradients_of,
    lose_one,
    read_tensors,
    run_together,
    take_gradients,
    train,
)
from warmstart.model.backbone import recompute_activations
from warmstart.runs.checkpoint import list_checkpoints, load_checkpoint, step_of
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for name in ("alone", "run"):
        (tmp_path / name).mkdir()


@pytest.mark.parametrize("task", PARTS)
def test_activations_computed_twice_give_the_same_gradients(task: str, cpu: Runtime) -> None:
    expected = gradients_of(build_trainer(task, cpu, None), 1)
    trainer = build_trainer(task, cpu, None)
    recompute_activations(trainer.model)
    found = gradients_of(trainer, 1)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_more_processes_than_rows(cpu: Runtime, tmp_path: Path) -> None:
    expected = gradients_of(build_trainer("causal", cpu, None), 1)
    given = {"step": 1, "build": build_sharded}
    assert run_together(6, take_gradients, "causal", tmp_path, **given) == [0] * 6
    for found in read_tensors(tmp_path, 6):
        assert_close(found, expected, rtol=0.0, atol=1e-10)


def test_a_run_resumes_with_other_processes_sharded_or_not(cpu: Runtime, tmp_path: Path) -> None:
    expected = build_trainer("causal", cpu, RunFolder(tmp_path / "alone"))
    expected.train("training")
    lost = run_together(3, lose_one, "causal", tmp_path, at=9, build=build_sharded)
    assert lost == [2, 2, 9]
    run = RunFolder(tmp_path / "run")
    assert [step_of(path) for path in list_checkpoints(run)] == [6]
    assert run_together(2, lose_one, "causal", tmp_path, at=15) == [2, 9]
    assert run_together(2, train, "causal", tmp_path, build=build_sharded) == [0, 0]
    found = load_checkpoint(list_checkpoints(run)[-1])
    assert_close(found.weights, expected.model.state_dict(), rtol=0.0, atol=1e-9)
