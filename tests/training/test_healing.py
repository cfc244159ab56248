"""A step that is not finite changes nothing and is taken again: the run ends as if undisturbed."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from faulty_training import (
    Fault,
    overflow_moment,
    put_faults,
    spoil_gradient,
    spoil_loss,
    spoil_moment,
    spoil_recorded_gradient,
    spoil_recorded_loss,
    spoil_weight,
)
from same_runs import assert_same_run
from warmstart.errors import DamagedStateError, DivergedError
from warmstart.runs.checkpoint import list_checkpoints, load_checkpoint, read_weights
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.training.length import measure
from warmstart.training.step import Evaluation, RecordedObjective
from warmstart.training.trainer import MAX_REPEATS, Trainer

Build = Callable[[RunFolder | None], Trainer]
BuildOnDevice = Callable[[RunFolder | None, Runtime], Trainer]

IN_A_STEP = [spoil_loss, spoil_gradient]
IN_THE_STATE = [spoil_moment, overflow_moment, spoil_weight]


@pytest.fixture(scope="module", params=[1, 4], ids=["each-step", "every-fourth-step"])
def watched(request: pytest.FixtureRequest, build: Build) -> Build:
    """Return a function that builds a trainer that looks for faults every so many steps."""
    every = request.param

    def build_watched(run: RunFolder | None) -> Trainer:
        trainer = build(run)
        trainer.looks_each_step = every == 1
        trainer.settings = replace(
            trainer.settings, log_every=every, eval_every=4, save_every=4, keep=9
        )
        return trainer

    return build_watched


@pytest.fixture(scope="module")
def undisturbed(watched: Build, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    trainer = watched(RunFolder(tmp_path_factory.mktemp("undisturbed")))
    trainer.train("undisturbed")
    return trainer


@pytest.mark.parametrize("fault", IN_A_STEP)
@pytest.mark.parametrize("at", random.Random(0).sample(range(8), 4))
def test_a_fault_in_any_step_leaves_no_trace(
    watched: Build, undisturbed: Trainer, tmp_path: Path, fault: Fault, at: int
) -> None:
    trainer = put_faults(watched(RunFolder(tmp_path)), {at: fault})
    assert trainer.train("run").faults == [at + 1]
    assert_same_run(trainer, undisturbed)


@pytest.mark.parametrize("fault", IN_THE_STATE)
@pytest.mark.parametrize("at", [4, 6, 7])
def test_damaged_weights_and_moments_are_read_again_from_a_checkpoint(
    watched: Build, undisturbed: Trainer, tmp_path: Path, fault: Fault, at: int
) -> None:
    trainer = put_faults(watched(RunFolder(tmp_path)), {at: fault})
    (found_at,) = trainer.train("run").faults
    assert at < found_at <= 8
    assert_same_run(trainer, undisturbed)


def test_several_faults_leave_no_trace(
    watched: Build, undisturbed: Trainer, tmp_path: Path
) -> None:
    faults: dict[int, Fault] = {1: spoil_gradient, 4: spoil_loss, 6: spoil_moment}
    trainer = put_faults(watched(RunFolder(tmp_path)), faults)
    assert 2 <= len(trainer.train("run").faults) <= 3  # some steps were skipped already
    assert_same_run(trainer, undisturbed)


def _tensors(trainer: Trainer) -> list[Tensor]:
    moments = [t for o in trainer.optimizers.values() for s in o.state.values() for t in s.values()]
    return [t.clone() for t in (*trainer.model.state_dict().values(), *moments)]


@pytest.mark.parametrize("fault", IN_A_STEP)
def test_no_step_changes_anything_until_somebody_looks(build: Build, fault: Fault) -> None:
    trainer = put_faults(build(None), {2: fault})
    for step in range(2):
        trainer.take_step(step, 1.0)
    before = _tensors(trainer)
    for step in range(2, 5):
        trainer.take_step(step, 1.0)
    assert all(torch.equal(*pair) for pair in zip(before, _tensors(trainer), strict=True))
    assert trainer.latch.open() == 3
    trainer.take_step(5, 1.0)
    assert trainer.latch.open() == 0
    assert not all(torch.equal(*pair) for pair in zip(before, _tensors(trainer), strict=True))


@pytest.mark.parametrize("fault", IN_A_STEP)
def test_a_fault_while_steps_are_timed_poisons_nothing(
    watched: Build, undisturbed: Trainer, tmp_path: Path, fault: Fault
) -> None:
    trainer = watched(RunFolder(tmp_path))
    before = _tensors(trainer)
    fault(trainer)
    measure(trainer, seconds=0.05)
    assert all(torch.equal(*pair) for pair in zip(before, _tensors(trainer), strict=True))
    assert trainer.train("run").faults == []
    assert_same_run(trainer, undisturbed)


class FaultyRecording(RecordedObjective):
    """A recording that is always wrong."""

    num_wrong = 0

    def add_gradients(self, *given: Any) -> Tensor:
        self.num_wrong += 1
        return super().add_gradients(*given) * float("nan")


def test_the_second_repeat_of_a_step_uses_no_recording(
    watched: Build, undisturbed: Trainer, tmp_path: Path
) -> None:
    trainer = watched(RunFolder(tmp_path))
    wrong = FaultyRecording(trainer.model, trainer.objective, trainer.runtime)
    right = RecordedObjective(trainer.model, trainer.objective, trainer.runtime)

    def choose(step: int) -> Fault:
        return lambda trainer: setattr(trainer, "recorded", wrong if step == 5 else right)

    put_faults(trainer, {step: choose(step) for step in range(8)}, recur=True)
    assert trainer.train("run").faults == [6, 6]
    assert wrong.num_wrong == 2
    assert_same_run(trainer, undisturbed)


@pytest.mark.parametrize(
    ("device", "tolerance"),
    [
        ("cpu", 0.0),
        pytest.param(
            "cuda",
            1e-3,
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
            ],
        ),
    ],
)
@pytest.mark.parametrize(
    "fault",
    [spoil_recorded_loss, spoil_recorded_gradient, spoil_moment, overflow_moment, spoil_weight],
)
def test_recorded_steps_are_healed(
    build_recorded: BuildOnDevice, tmp_path: Path, fault: Fault, device: str, tolerance: float
) -> None:
    weights = []
    for at in (None, 9):
        run = RunFolder(tmp_path / f"{at}")
        run.path.mkdir()
        trainer = build_recorded(run, Runtime(torch.device(device)))
        state = put_faults(trainer, {} if at is None else {at: fault}).train("run")
        assert len(state.faults) == (at is not None)
        assert all(9 < step <= 16 for step in state.faults)
        assert trainer.recorded
        assert (trainer.recorded.num_replayed > 12) == (device == "cuda")
        weights.append(trainer.model.state_dict())
    for name, expected in weights[0].items():
        assert (weights[1][name] - expected).norm() <= tolerance * expected.norm()


class WatchedRecording(RecordedObjective):
    """A recording that keeps the batches it is given."""

    def add_gradients(self, group: Any, *given: Any) -> Tensor:
        self.groups = [*getattr(self, "groups", []), group]
        return super().add_gradients(group, *given)


def test_a_trained_batch_is_the_one_of_the_stream(build_recorded: Any) -> None:
    trainer = build_recorded(None, Runtime(torch.device("cpu")))
    watched = WatchedRecording(trainer.model, trainer.objective, trainer.runtime)
    trainer.recorded = watched
    trainer.take_step(0, rate=0.0)
    (batch,) = watched.groups[0]
    assert batch.bounds.tolist() == trainer.stream.group(0)[0].bounds.tolist()


@pytest.mark.parametrize("fault", [*IN_A_STEP, *IN_THE_STATE])
def test_a_fault_that_recurs_stops_the_run_and_resume_continues_it(
    watched: Build, undisturbed: Trainer, tmp_path: Path, fault: Fault
) -> None:
    run = RunFolder(tmp_path)
    trainer = put_faults(watched(run), {5: fault}, recur=True)
    sentence = (
        r"^the .* became infinite or NaN at step \d, after 2 repeats: --resume continues from step "
        r"4; if it ends here again, choose another -o and a lower --learning-rate, .*fp32$"
    )
    with pytest.raises(DivergedError, match=sentence):
        trainer.train("run")
    assert [path.name for path in list_checkpoints(run)] == ["step-4"]
    assert all(tensor.isfinite().all() for tensor in read_weights(run.weights_file).values())
    again = watched(run)
    assert again.train("again").faults == []
    assert_same_run(again, undisturbed)


def test_only_so_many_steps_are_taken_again(build: Build, tmp_path: Path) -> None:
    faults = dict.fromkeys((0, 2, 4, 6), spoil_loss)
    trainer = put_faults(build(RunFolder(tmp_path)), faults)
    with pytest.raises(DivergedError, match=f"at step 7, after {MAX_REPEATS} repeats: --resume"):
        trainer.train("run")


def test_damage_before_the_first_checkpoint_says_what_to_do(
    watched: Build, undisturbed: Trainer, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(DamagedStateError, match=r"before the first checkpoint: --resume starts"):
        put_faults(watched(run), {1: spoil_moment}).train("run")
    again = watched(run)
    again.train("again")
    assert_same_run(again, undisturbed)


def test_a_validation_that_is_not_finite_is_repeated_from_a_checkpoint(
    watched: Build, undisturbed: Trainer, tmp_path: Path
) -> None:
    trainer = watched(RunFolder(tmp_path))
    evaluate, num_calls = trainer.evaluate, iter(range(9))

    def evaluate_once_wrongly() -> Evaluation:
        evaluation = evaluate()
        return replace(evaluation, score=float("nan")) if next(num_calls) == 1 else evaluation

    trainer.evaluate = evaluate_once_wrongly
    assert trainer.train("run").faults == [8]
    assert_same_run(trainer, undisturbed)


def test_faults_are_on_record(watched: Build, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    put_faults(watched(run), {1: spoil_loss, 5: spoil_gradient}).train("run")
    newest = list_checkpoints(run)[-1]
    assert json.loads((newest / "state.json").read_text())["state"]["faults"] == [2, 6]
    assert load_checkpoint(newest).state.faults == [2, 6]
    lines = [line for line in read_metrics(run.metrics_file) if "train_loss" in line]
    assert {line["step"]: line.get("faults") for line in lines}[4] == 1
    assert lines[-1]["faults"] == 2


def test_without_a_folder_a_fault_leaves_no_trace(watched: Build, undisturbed: Trainer) -> None:
    trainer = put_faults(watched(None), {3: spoil_loss, 5: spoil_gradient})
    assert trainer.train("run").faults == [4, 6]
    for name, tensor in undisturbed.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)


def test_without_a_folder_damaged_weights_cannot_be_read_again(watched: Build) -> None:
    trainer = put_faults(watched(None), {5: spoil_moment})
    with pytest.raises(DamagedStateError, match=r"became infinite or NaN at step \d"):
        trainer.train("run")
