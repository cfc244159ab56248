"""The tensors of a file, matched with the names and shapes of our model's tensors."""

import re
from collections.abc import Iterable, Iterator, Mapping
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
    is_transposed: bool = False  # in the file


def match_layer(ours: str, *theirs: str, is_transposed: bool = False) -> Iterator[TensorMatch]:
    """Match the weight and the bias of one layer."""
    yield TensorMatch(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), is_transposed)
    yield TensorMatch(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))


class HfTensors:
    """The tensors of a file by name; each is taken once."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, prefix: str) -> None:
        self.path = path
        self._remaining: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            # Older files call the weight and bias of a norm gamma and beta.
            plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(prefix))
            plain = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)
            if plain in self._remaining:
                raise WarmstartError(f"{path}: {plain} is there twice, with and without {prefix}")
            self._remaining[plain] = tensor

    def __contains__(self, name: str) -> bool:
        return name in self._remaining

    def __len__(self) -> int:
        return len(self._remaining)

    def take(self, name: str, shape: Iterable[int]) -> Tensor:
        """Return a tensor, which must exist in this shape."""
        self.check_shape(name, shape)
        tensor = self._remaining.pop(name)
        if not tensor.is_floating_point():
            raise WarmstartError(f"{self.path}: {name} is {tensor.dtype}, not plain floats")
        return tensor

    def check_shape(self, name: str, shape: Iterable[int]) -> None:
        """Refuse a tensor that is missing or has another shape."""
        actual, wanted = tuple(self._get(name).shape), tuple(shape)
        if actual != wanted:
            raise WarmstartError(
                f"{self.path}: {name} has shape {actual}, config.json says {wanted}"
            )

    def num_rows(self, name: str) -> int:
        """Return how many rows a matrix has."""
        tensor = self._get(name)
        return len(tensor) if tensor.dim() else 0

    def _get(self, name: str) -> Tensor:
        if name not in self._remaining:
            raise WarmstartError(f"{self.path}: the weights lack {name}")
        return self._remaining[name]

    def drop_rows(self, name: str, num_rows: int) -> None:
        """Remove the first rows of a matrix."""
        self._remaining[name] = self._remaining[name][num_rows:]

    def rename(self, name: str, new_name: str) -> None:
        """Give a tensor another name, if it exists; it replaces the one that had that name."""
        if name in self._remaining:
            self._remaining[new_name] = self._remaining.pop(name)

    def drop_copy(self, name: str, original: Tensor) -> None:
        """Remove a tensor, if it exists, that must be a copy of another."""
        if name in self._remaining and not torch.equal(self._remaining.pop(name), original):
            raise WarmstartError(
                f"{self.path}: {name} differs, though tie_word_embeddings makes them one"
            )

    def drop(self, pattern: str) -> tuple[str, ...]:
        """Remove the tensors whose name matches a pattern, and return their names."""
        names = tuple(name for name in self._remaining if re.fullmatch(pattern, name))
        for name in names:
            del self._remaining[name]
        return names

    def refuse_rest(self) -> None:
        """Refuse tensors that nothing took: without them the model would be another."""
        if self._remaining:
            first = next(iter(self._remaining))
            more = f" and {len(self._remaining) - 1} more" if len(self._remaining) > 1 else ""
            raise WarmstartError(
                f"{self.path}: {first}{more} has no place in a model of this config.json"
            )


def to_ours(
    tensors: HfTensors,
    matches: Iterable[TensorMatch],
    shapes: Mapping[str, Size],
    zeros: Iterable[str],
) -> dict[str, Tensor]:
    """Return our tensors from a file's; those in `zeros` are zero and not looked for."""
    table = {match.ours: match for match in matches}
    zero_names = set(zeros)
    return {
        name: torch.zeros(shape) if name in zero_names else _stack(tensors, table[name], shape)
        for name, shape in shapes.items()
    }


def _stack(tensors: HfTensors, match: TensorMatch, shape: Size) -> Tensor:
    num_rows, *rest = shape
    part_shape = (num_rows // len(match.theirs), *rest)
    if match.is_transposed:
        parts = [tensors.take(name, part_shape[::-1]).T for name in match.theirs]
    else:
        parts = [tensors.take(name, part_shape) for name in match.theirs]
    return torch.cat(parts).contiguous()


def to_theirs(weights: Mapping[str, Tensor], matches: Iterable[TensorMatch]) -> dict[str, Tensor]:
    """Return a file's tensors from ours, without those that we do not have."""
    tensors = {}
    for match in matches:
        if match.ours not in weights:
            continue
        parts = weights[match.ours].chunk(len(match.theirs))
        for name, part in zip(match.theirs, parts, strict=True):
            tensors[name] = (part.T if match.is_transposed else part).clone().contiguous()
    return tensors
