import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from warmstart.errors import WarmstartError
from warmstart.files import temporary_path, write_whole
from warmstart.model.models import LanguageModel
from warmstart.runs.checkpoint import (
    State,
    are_finite,
    list_checkpoints,
    load_checkpoint,
    load_latest,
    optimizer_tensors,
    read_weights,
    restore_optimizers,
    save_checkpoint,
    save_weights,
)
from warmstart.runs.folder import RunFolder
from warmstart.settings.model import ModelConfig
from warmstart.training.optimizers import OptimizerSettings, build_optimizers

STATE = State(step=3, best_score=-1.25, best_step=2, loss_sum=0.1 + 0.2, evaluations=[{"step": 2}])
FILES = ["model.safetensors", "optimizer.safetensors", "state.json"]
Trained = tuple[LanguageModel, dict[str, Optimizer]]


def _fresh(tiny: ModelConfig, kind: Any = "adamw") -> Trained:
    model = LanguageModel(tiny)
    return model, build_optimizers(model, OptimizerSettings(kind, 1e-2, 0.1))


def _step(model: nn.Module, optimizers: dict[str, Optimizer]) -> None:
    model(torch.tensor([[1, 2, 3]])).logsumexp(-1).sum().backward()
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def _save(run: RunFolder, step: int, trained: Trained, keep: int = 9) -> Path:
    model, optimizers = trained
    tensors = optimizer_tensors(optimizers)
    return save_checkpoint(run, model, tensors, replace(STATE, step=step), keep)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_round_trip_is_bit_for_bit(tiny: ModelConfig, run: RunFolder, kind: str) -> None:
    trained = _fresh(tiny, kind)
    for _ in range(3):
        _step(*trained)
    _save(run, 3, trained)
    checkpoint, faults = load_latest(run)
    assert faults == []
    assert checkpoint is not None
    assert checkpoint.state == STATE
    model, optimizers = _fresh(tiny, kind)
    model.load_state_dict(checkpoint.weights)
    restore_optimizers(optimizers, checkpoint.optimizer)
    for _ in range(2):  # once as restored, once after another step of both
        for name, tensor in trained[0].state_dict().items():
            assert torch.equal(model.state_dict()[name], tensor)
        saved, restored = optimizer_tensors(trained[1]), optimizer_tensors(optimizers)
        assert saved.keys() == restored.keys()
        for name, tensor in saved.items():
            assert restored[name].dtype == tensor.dtype
            assert torch.equal(restored[name], tensor)
        _step(*trained)
        _step(model, optimizers)


def test_an_optimizer_that_never_stepped(tiny: ModelConfig, run: RunFolder) -> None:
    trained = _fresh(tiny)
    _save(run, 0, trained)
    checkpoint, _ = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.optimizer == {}
    restore_optimizers(trained[1], checkpoint.optimizer)


def test_there_is_no_pickle(tiny: ModelConfig, run: RunFolder) -> None:
    path = _save(run, 1, _fresh(tiny))
    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json"}
    assert set(FILES) <= {file.name for file in path.iterdir()}


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_found_and_the_one_before_taken(
    tiny: ModelConfig, run: RunFolder, name: str
) -> None:
    trained = _fresh(tiny)
    _step(*trained)
    _save(run, 3, trained)
    file = _save(run, 5, trained) / name
    content = bytearray(file.read_bytes())
    # In the middle of the tensors; in the text, the last digit of a score.
    place = content.index(b"-1.25") + 4 if name == "state.json" else len(content) // 2
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(WarmstartError, match="step-5"):
        load_checkpoint(file.parent)
    checkpoint, faults = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.state.step == 3
    assert len(faults) == 1
    assert "step-5" in faults[0]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_moments_that_are_not_finite_are_passed_over(
    tiny: ModelConfig, run: RunFolder, value: float
) -> None:
    trained = _fresh(tiny)
    _step(*trained)
    _save(run, 3, trained)
    next(iter(trained[1]["adamw"].state.values()))["exp_avg_sq"].view(-1)[0] = value
    _save(run, 5, trained)
    checkpoint, faults = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.state.step == 3
    assert "optimizer.safetensors: adamw.0.exp_avg_sq has values that are NaN or inf" in faults[0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "other JSON"])
def test_half_a_checkpoint_is_passed_over(
    tiny: ModelConfig, run: RunFolder, name: str, damage: str
) -> None:
    trained = _fresh(tiny)
    _save(run, 3, trained)
    file = _save(run, 5, trained) / name
    content = file.read_bytes()
    file.unlink()
    if damage != "gone":
        cut = {"cut": content[: len(content) // 2], "empty": b"", "other JSON": b"[1, 2]"}
        file.write_bytes(cut[damage])
    checkpoint, faults = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.state.step == 3
    assert len(faults) == 1


def test_what_a_killed_process_left_is_ignored(tiny: ModelConfig, run: RunFolder) -> None:
    trained = _fresh(tiny)
    _save(run, 3, trained)
    for name in (temporary_path(Path("step-7")).name, "step-x", "step-9.tmp"):
        write_whole(run.checkpoints / name / "model.safetensors", b"half")
    assert [path.name for path in list_checkpoints(run)] == ["step-3"]
    checkpoint, faults = load_latest(run)
    assert checkpoint is not None
    assert (checkpoint.state.step, faults) == (3, [])


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_are_kept(tiny: ModelConfig, run: RunFolder, keep: int) -> None:
    trained = _fresh(tiny)
    for step in (2, 9, 10, 100):  # by number, not by name
        _save(run, step, trained, keep)
    expected = [f"step-{step}" for step in (2, 9, 10, 100)][-keep:]
    assert [path.name for path in list_checkpoints(run)] == expected
    assert sorted(path.name for path in run.checkpoints.iterdir()) == sorted(expected)


def test_damaged_later_checkpoints_do_not_push_out_a_new_one(
    tiny: ModelConfig, run: RunFolder
) -> None:
    trained = _fresh(tiny)
    _save(run, 9, trained, keep=1)
    (run.checkpoints / "step-9" / "model.safetensors").write_bytes(b"damaged")
    path = _save(run, 5, trained, keep=1)  # begun again from before the damage
    assert path.is_dir()
    checkpoint, _ = load_latest(run)
    assert checkpoint is not None
    assert checkpoint.state.step == 5


def test_no_checkpoint_is_no_fault(run: RunFolder) -> None:
    assert load_latest(run) == (None, [])
    assert list_checkpoints(run) == []


def test_weights_alone(tiny: ModelConfig, run: RunFolder) -> None:
    model = LanguageModel(tiny)
    save_weights(run.weights_file, model.state_dict())
    weights = read_weights(run.weights_file)
    assert all(torch.equal(weights[name], t) for name, t in model.state_dict().items())
    with pytest.raises(WarmstartError, match=r"absent\.safetensors does not exist"):
        read_weights(run.path / "absent.safetensors")
    run.weights_file.write_bytes(run.weights_file.read_bytes()[:-4])
    with pytest.raises(WarmstartError, match="is not a whole safetensors file"):
        read_weights(run.weights_file)


def test_state_is_plain_json(tiny: ModelConfig, run: RunFolder) -> None:
    path = _save(run, 3, _fresh(tiny))
    assert json.loads((path / "state.json").read_text())["state"] == asdict(STATE)


def test_names_in_a_checkpoint_lead_nowhere(tiny: ModelConfig, run: RunFolder) -> None:
    """A checksum of /dev/zero would never end."""
    path = _save(run, 3, _fresh(tiny))
    content = json.loads((path / "state.json").read_text())
    content["sha256"] |= {"/dev/zero": "0" * 64, "../../../secret": "0" * 64}
    (path / "state.json").write_text(json.dumps(content))
    assert load_checkpoint(path).state.step == 3


def test_a_checkpoint_under_the_name_of_another_is_refused(
    tiny: ModelConfig, run: RunFolder
) -> None:
    path = _save(run, 3, _fresh(tiny))
    moved = path.rename(path.with_name("step-4"))
    with pytest.raises(WarmstartError, match=r"step-4: state\.json is that of step 3"):
        load_checkpoint(moved)


@pytest.mark.parametrize(
    ("evaluations", "best_step"), [([], 2), ([{"step": 2}], 1), ([{"valid_loss": 1.0}], 2)]
)
def test_a_best_step_that_was_not_validated_is_refused(
    tiny: ModelConfig, run: RunFolder, evaluations: list[dict[str, float]], best_step: int
) -> None:
    model, optimizers = _fresh(tiny)
    state = replace(STATE, evaluations=evaluations, best_step=best_step)
    path = save_checkpoint(run, model, optimizer_tensors(optimizers), state, 9)
    with pytest.raises(WarmstartError, match=f"no validation at step {best_step}"):
        load_checkpoint(path)


def test_a_header_that_claims_terabytes(run: RunFolder) -> None:
    header = (
        b'{"a": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 4398046511104]}}'
    )
    content = len(header).to_bytes(8, "little") + header + b"\0" * 64
    for content in (content, (2**50).to_bytes(8, "little") + content[8:]):  # noqa: B020
        write_whole(run.weights_file, content)
        with pytest.raises(WarmstartError, match="is not a whole safetensors file"):
            read_weights(run.weights_file)


def test_an_error_of_the_disk_names_the_checkpoint(tiny: ModelConfig, run: RunFolder) -> None:
    write_whole(run.checkpoints, b"a file where the folder should be")
    with pytest.raises(OSError, match="checkpoints"):
        _save(run, 3, _fresh(tiny))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_one_value_that_is_not_finite_is_found(value: float) -> None:
    tensors = [torch.randn(300, 7), torch.tensor([], dtype=torch.float32), torch.arange(3)]
    assert are_finite(tensors)
    tensors[0][123, 4] = value
    assert not are_finite(tensors)
