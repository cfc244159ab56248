"""The tensors of a file, matched with the names and shapes of our model's tensors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Size, Tensor

from warmstart.errors import WarmstartError


@dataclass(frozen=True)
class TensorMatch:
    """One tensor of ours, which is one or several of theirs stacked in rows."""

    ours: str
    theirs: tuple[str, ...]
    is_transposed: bool  # in the file


class HfTensors(dict[str, Tensor]):
    """The tensors of a file by name; each is taken once."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, prefix: str) -> None:
        self.path = path
        for name, tensor in tensors.items():
            # Older files call the weight and bias of a norm gamma and beta.
            plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(prefix))
            plain = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)
            if plain in self:
                raise WarmstartError(f"{path}: {plain} is there twice, with and without {prefix}")
            self[plain] = tensor

    def __missing__(self, name: str) -> Tensor:
        raise WarmstartError(f"{self.path}: the weights lack {name}")

    def take(self, name: str, shape: Iterable[int]) -> Tensor:
        """Remove and return a tensor, which must exist in this shape."""
        self.check_shape(name, shape)
        tensor = self.pop(name)
        if not tensor.is_floating_point():
            raise WarmstartError(f"{self.path}: {name} is {tensor.dtype}, not plain floats")
        return tensor

    def check_shape(self, name: str, shape: Iterable[int]) -> None:
        """Refuse a tensor that is missing or has another shape."""
        actual, wanted = tuple(self[name].shape), tuple(shape)
        if actual != wanted:
            raise WarmstartError(
                f"{self.path}: {name} has shape {actual}, config.json says {wanted}"
            )

    def drop_copy(self, name: str, original: Tensor) -> None:
        """Remove a tensor, if it exists, that must be a copy of another."""
        if name in self and not torch.equal(self.pop(name), original):
            raise WarmstartError(
                f"{self.path}: {name} differs, though tie_word_embeddings makes them one"
            )

    def drop(self, pattern: str) -> tuple[str, ...]:
        """Remove the tensors whose name matches a pattern, and return their names."""
        names = tuple(name for name in self if re.fullmatch(pattern, name))
        for name in names:
            del self[name]
        return names

    def refuse_rest(self) -> None:
        """Refuse tensors that nothing took: without them the model would be another."""
        if self:
            more = f" and {len(self) - 1} more" if len(self) > 1 else ""
            raise WarmstartError(
                f"{self.path}: {next(iter(self))}{more} has no place in a model of this config.json"
            )


def to_ours(
    tensors: HfTensors, matches: Iterable[TensorMatch], shapes: Mapping[str, Size], zeros: str
) -> dict[str, Tensor]:
    """Return our tensors from a file's; those that match the pattern `zeros` are zero."""
    table = {match.ours: match for match in matches}
    weights = {}
    for name, shape in shapes.items():
        if re.fullmatch(zeros, name):
            weights[name] = torch.zeros(shape)
            continue
        match = table[name]
        num_rows, *rest = shape
        part_shape = (num_rows // len(match.theirs), *rest)
        if match.is_transposed:
            parts = [tensors.take(part, part_shape[::-1]).T for part in match.theirs]
        else:
            parts = [tensors.take(part, part_shape) for part in match.theirs]
        weights[name] = torch.cat(parts).contiguous()
    return weights


def to_theirs(weights: Mapping[str, Tensor], matches: Iterable[TensorMatch]) -> dict[str, Tensor]:
    """Return a file's tensors from ours, without those that we do not have."""
    tensors = {}
    for match in matches:
        if match.ours in weights:
            parts = weights[match.ours].tensor_split(len(match.theirs))
            for name, part in zip(match.theirs, parts, strict=True):
                tensors[name] = (part.T if match.is_transposed else part).clone().contiguous()
    return tensors
