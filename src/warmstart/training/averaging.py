"""Average the weights of the last validations."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from warmstart.runs.checkpoint import read_weights, save_weights
from warmstart.runs.folder import RunFolder


def keep_snapshot(run: RunFolder, model: nn.Module, step: int, keep: int) -> None:
    """Keep the weights of the newest validations, to be averaged at the end."""
    save_weights(run.snapshots / f"step-{step}.safetensors", model.state_dict())
    for old in list_snapshots(run, up_to=step)[:-keep]:
        old.unlink()


def list_snapshots(run: RunFolder, up_to: int) -> list[Path]:
    """Return the snapshots in order; later ones come from a process that was killed."""
    numbered = {int(path.stem.removeprefix("step-")): path for path in run.snapshots.glob("step-*")}
    return [numbered[step] for step in sorted(numbered) if step <= up_to]


def averaged(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of several models' weights, summed in double precision."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in read_weights(file).items():
            total[name] = total.get(name, torch.zeros(())) + tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}
