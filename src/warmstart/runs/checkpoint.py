"""Checkpoints of a run: weights, optimizer and state, with checksums, whole or absent."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart.errors import WarmstartError
from warmstart.files import flush_file, remove_own, whole_folder, write_json, write_whole
from warmstart.jsonfiles import from_json, read_object, to_json
from warmstart.runs.folder import RunFolder
from warmstart.textfiles import sha256_of

TENSORS = ("model.safetensors", "optimizer.safetensors")

_STEP = re.compile(r"step-\d{1,18}", re.ASCII)
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# What the library raises for a damaged file.
_UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError)


@dataclass
class State:
    """What a run remembers besides weights and optimizer."""

    step: int = 0  # optimizer steps done
    best_score: float | None = None
    best_loss: float = 0.0
    best_step: int = 0
    elapsed_s: float = 0.0  # training and validation, over all processes
    num_parts: int = 1  # that each batch is computed in; more after memory ran out
    loss_sum: float = 0.0  # training loss since the last evaluation
    loss_steps: int = 0
    faults: list[int] = field(default_factory=list)  # steps taken again: something was not finite
    loss_scale: float | None = None  # factor of the loss under fp16
    steps_at_scale: int = 0  # since it last changed
    overflows: int = 0  # steps that changed nothing: their gradient was too large for fp16
    evaluations: list[dict[str, float]] = field(default_factory=list)

    def add(self, figures: Mapping[str, float]) -> None:
        """Enter a validation after this step, with the mean training loss since the last one."""
        facts = {"train_loss": self.loss_sum / self.loss_steps, "elapsed_s": self.elapsed_s}
        self.evaluations.append({"step": self.step, **facts, **figures})
        self.loss_sum, self.loss_steps = 0.0, 0

    def best_scores(self) -> dict[str, float]:
        """Return the validation scores at the best step, by name."""
        best = next(entry for entry in self.evaluations if entry["step"] == self.best_step)
        prefix = "valid_"
        return {k.removeprefix(prefix): v for k, v in best.items() if k.startswith(prefix)}


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint, read back."""

    path: Path
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: State


@dataclass(frozen=True)
class _StateFile:
    """state.json: the state, and checksums of the state and of the files beside it."""

    state: State
    sha256: dict[str, str]


def save_checkpoint(
    run: RunFolder, model: nn.Module, optimizer: Mapping[str, Tensor], state: State, keep: int
) -> Path:
    """Write `checkpoints/step-N` and remove all but the newest `keep` that this run wrote."""
    path = run.checkpoints / f"step-{state.step}"
    remove_own(path)  # damaged: the run resumed before it
    with whole_folder(path) as folder:
        parts = (model.state_dict(), optimizer)
        paths = [folder / name for name in TENSORS]
        with ThreadPoolExecutor(len(paths)) as pool:  # one is checked while another is written
            sums = dict(zip(TENSORS, pool.map(_write_tensors, paths, parts), strict=True))
        content = {"step": state.step, "state": asdict(state)}
        sums["state"] = _checksum_of(content)
        write_json(folder / "state.json", {**content, "sha256": sums})
    listed = list_checkpoints(run)
    after = listed.index(path) + 1
    for old in [*listed[: max(0, after - keep)], *listed[after:]]:
        remove_own(old)  # too old, or newer than a damaged checkpoint that the run resumed before
    return path


def list_checkpoints(run: RunFolder) -> list[Path]:
    """Return the checkpoint folders, oldest first."""
    folders = run.checkpoints.glob("step-*") if run.checkpoints.is_dir() else []
    return sorted((path for path in folders if _STEP.fullmatch(path.name)), key=step_of)


def step_of(checkpoint: Path) -> int:
    """Return the step that the name of a checkpoint folder holds."""
    return int(checkpoint.name.removeprefix("step-"))


def load_latest(run: RunFolder) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest undamaged checkpoint, and a sentence for each damaged one skipped."""
    faults: list[str] = []
    for path in reversed(list_checkpoints(run)):
        try:
            return load_checkpoint(path), faults
        except WarmstartError as fault:
            faults.append(str(fault))
    return None, faults


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and check that it is whole."""
    state, sums = _read_state(path)
    for name in TENSORS:
        _check(path, name, sums.get(name) == sha256_of(path / name))
    weights, optimizer = (read_weights(path / name) for name in TENSORS)
    return Checkpoint(path, weights, optimizer, state)


def read_state(path: Path) -> State:
    """Read the state of a checkpoint and check that nobody changed it."""
    return _read_state(path)[0]


def _read_state(path: Path) -> tuple[State, dict[str, str]]:
    file = path / "state.json"
    content = read_object(file)
    known = from_json(_StateFile, content, file)
    checksum = _checksum_of({"step": known.state.step, "state": content["state"]})
    _check(path, file.name, known.sha256.get("state") == checksum)
    state = known.state
    if state.step != step_of(path):
        raise WarmstartError(f"{path}: state.json is that of step {state.step}")
    steps = [entry.get("step") for entry in state.evaluations]
    if None in steps or state.best_step not in (steps or [0]):
        raise WarmstartError(f"{path}: state.json has no validation at step {state.best_step}")
    return state, known.sha256


def _check(path: Path, name: str, is_whole: bool) -> None:
    if not is_whole:
        raise WarmstartError(f"{path}: {name} is damaged (its checksum is wrong)")


def optimizer_tensors(optimizers: Mapping[str, Optimizer]) -> dict[str, Tensor]:
    """Return every state tensor as `optimizer.parameter number.name`."""
    return {
        f"{name}.{index}.{key}": torch.as_tensor(value)
        for name, optimizer in optimizers.items()
        for index, entries in optimizer.state_dict()["state"].items()
        for key, value in entries.items()
    }


def restore_optimizers(optimizers: Mapping[str, Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Put saved state tensors back."""
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            owner, index, entry = key.split(".")
            if owner == name:
                state.setdefault(int(index), {})[entry] = value
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a model's weights, whole or not at all."""
    write_whole(path, save(_on_cpu(weights)))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file, which must all be finite."""
    tensors = _read_tensors(path)
    check_finite(tensors, path)
    return tensors


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Tell whether all values are finite; a GPU is waited for once."""
    # The smallest and the largest value take a tenth of the time of looking at each.
    extremes = [torch.stack(torch.aminmax(tensor)) for tensor in tensors if tensor.numel()]
    return bool(torch.stack([extreme.isfinite().all() for extreme in extremes]).all())


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are NaN or infinite: whatever is computed with them means nothing."""
    for name, tensor in weights.items():
        is_float = tensor.is_floating_point() or tensor.is_complex()
        if is_float and tensor.dtype not in _FLOATS:
            raise WarmstartError(f"{path}: {name} is {tensor.dtype}, not plain floats")
        if is_float and tensor.numel() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
            raise WarmstartError(
                f"{path}: {name} has values that are NaN or infinite, so the file is damaged or "
                "its training diverged; use another checkpoint or train again"
            )


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        raise WarmstartError(f"{path} does not exist") from None
    except _UNREADABLE as fault:
        raise WarmstartError(f"{path} is not a whole safetensors file: {fault}") from None
    return tensors


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors to disk and return the checksum of the file."""
    try:
        save_file(_on_cpu(tensors), path)
    except SafetensorError as fault:  # the library hides what the system said: a full disk
        code = re.search(r"os error (\d+)", str(fault))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
    flush_file(path)
    return sha256_of(path)


def weight_shapes(path: Path) -> dict[str, list[int]]:
    """Return the names and shapes in the header of a safetensors file; reads no tensor."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise WarmstartError(f"{path} does not exist") from None
    except _UNREADABLE as fault:
        raise WarmstartError(f"{path} is not a whole safetensors file: {fault}") from None


def is_zero(path: Path, name: str) -> bool:
    """Tell whether a tensor of a safetensors file, if there is one of this name, is all zeros."""
    try:
        with safe_open(path, framework="pt") as file:
            return name not in file.keys() or not file.get_tensor(name).any()  # noqa: SIM118
    except _UNREADABLE as fault:
        raise WarmstartError(f"{path} is not a whole safetensors file: {fault}") from None


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _checksum_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(content).encode()).hexdigest()
