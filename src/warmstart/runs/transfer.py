"""Carry pretrained weights over to a model with another head."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warmstart.errors import WarmstartError


@dataclass(frozen=True)
class Transfer:
    """Which tensors of a model were loaded, which are new, and which were left out."""

    loaded: tuple[str, ...]
    new: tuple[str, ...]  # in the model, not in the file: keep their random start
    left_out: tuple[str, ...]  # in the file, not loaded
    own_shapes: Mapping[str, torch.Size]  # of the model's tensors
    file_shapes: Mapping[str, torch.Size]  # of the file's tensors

    def __str__(self) -> str:
        replaced = [name for name in self.new if name in self.left_out]
        parts = [f"{len(self.loaded)} tensors loaded"]
        parts += [
            f"{name} {_by(self.file_shapes[name])} replaced by {_by(self.own_shapes[name])}"
            for name in replaced
        ]
        for names, shapes, group in (
            (self.new, self.own_shapes, "new"),
            (self.left_out, self.file_shapes, "left out"),
        ):
            shown = [f"{name} {_by(shapes[name])}" for name in names if name not in replaced]
            parts += [f"{group}: {', '.join(shown)}"] if shown else []
        return "; ".join(parts)


def _by(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "1"


def transfer_backbone(weights: Mapping[str, Tensor], model: nn.Module) -> Transfer:
    """Load the backbone of another model into this one; its head keeps its random start."""
    return _load(weights, model, "backbone.")


def transfer_all(weights: Mapping[str, Tensor], model: nn.Module) -> Transfer:
    """Load every tensor that this model has, heads included."""
    return _load(weights, model, "")


def _cut_positions(name: str, tensor: Tensor, own: Tensor) -> Tensor:
    """Cut learned positions to the length that the model reads."""
    return tensor[: len(own)] if name.endswith("embed_positions.weight") else tensor


def _load(weights: Mapping[str, Tensor], model: nn.Module, prefix: str) -> Transfer:
    own = model.state_dict()
    chosen = {
        name: _cut_positions(name, tensor, own[name])
        for name, tensor in weights.items()
        if name in own and name.startswith(prefix)
    }
    for name, tensor in chosen.items():
        if tensor.shape != own[name].shape:
            raise WarmstartError(
                f"{name} has shape {tuple(tensor.shape)}, the model needs {tuple(own[name].shape)}"
            )
    missing = [name for name in own if name.startswith("backbone.") and name not in chosen]
    if missing:
        raise WarmstartError(f"the pretrained weights lack {', '.join(missing[:3])}")
    model.load_state_dict(chosen, strict=False)
    return Transfer(
        loaded=tuple(chosen),
        new=tuple(name for name in own if name not in chosen),
        left_out=tuple(name for name in weights if name not in chosen),
        own_shapes={name: tensor.shape for name, tensor in own.items()},
        file_shapes={name: tensor.shape for name, tensor in weights.items()},
    )
