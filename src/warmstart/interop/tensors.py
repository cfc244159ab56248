"""Tensors under their names in a file, against the names and shapes a model of ours has.

Knows nothing about families.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Size, Tensor

from warmstart.errors import WarmstartError


@dataclass(frozen=True)
class Match:
    """One tensor of ours: those of a file, stacked in rows."""

    ours: str
    theirs: tuple[str, ...]
    is_transposed: bool = False  # in the file


def layer(ours: str, *theirs: str, is_transposed: bool = False) -> Iterator[Match]:
    """Match weight and bias of one layer."""
    yield Match(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), is_transposed)
    yield Match(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))


class Tensors:
    """The tensors of a file, each taken once."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, prefix: str) -> None:
        self.path = path
        self._left: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            plain = _modern(name.removeprefix(prefix))
            if plain in self._left:
                raise WarmstartError(f"{path}: {plain} is there twice, with and without {prefix}")
            self._left[plain] = tensor

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, shape: Iterable[int]) -> Tensor:
        """Return a tensor that must be there in this shape."""
        if name not in self._left:
            raise WarmstartError(f"{self.path}: the weights lack {name}")
        tensor, wanted = self._left.pop(name), tuple(shape)
        if tuple(tensor.shape) != wanted:
            found = tuple(tensor.shape)
            raise WarmstartError(
                f"{self.path}: {name} has shape {found}, config.json says {wanted}"
            )
        if not tensor.is_floating_point():
            raise WarmstartError(f"{self.path}: {name} is {tensor.dtype}, not plain floats")
        return tensor

    def rows(self, name: str) -> int:
        """Return how many rows a matrix has."""
        if name not in self._left:
            raise WarmstartError(f"{self.path}: the weights lack {name}")
        return len(self._left[name]) if self._left[name].dim() else 0

    def cut(self, name: str, rows: int) -> None:
        """Take the first rows of a matrix away."""
        if name in self._left and self._left[name].dim() == 2:
            self._left[name] = self._left[name][rows:]

    def prefer(self, name: str, place: str) -> None:
        """Put a tensor in the place of another, if it is there at all."""
        if name in self._left:
            self._left[place] = self._left.pop(name)

    def drop_copy(self, name: str, of: Tensor, reason: str) -> None:
        """Take a tensor away that must be a copy of another, if it is there at all."""
        if name in self._left and not torch.equal(self._left.pop(name), of):
            raise WarmstartError(f"{self.path}: {name} differs, though {reason}")

    def drop(self, pattern: str) -> tuple[str, ...]:
        """Take away and name what matches a pattern."""
        found = tuple(name for name in self._left if re.fullmatch(pattern, name))
        for name in found:
            del self._left[name]
        return found

    def refuse_rest(self) -> None:
        """Refuse tensors that nobody took: the model would not be the same without them."""
        if self._left:
            first = next(iter(self._left))
            more = f" and {len(self._left) - 1} more" if len(self._left) > 1 else ""
            raise WarmstartError(
                f"{self.path}: {first}{more} has no place in a model of this config.json"
            )


def _modern(name: str) -> str:
    """Return a name as it is today: norms once had gamma and beta."""
    return re.sub(r"LayerNorm\.(gamma|beta)$", _renamed, name)


def _renamed(found: "re.Match[str]") -> str:
    return f"LayerNorm.{'weight' if found[1] == 'gamma' else 'bias'}"


def read_in(
    tensors: Tensors, matches: Iterable[Match], shapes: Mapping[str, Size], absent: Iterable[str]
) -> dict[str, Tensor]:
    """Return our tensors from a file's; those in `absent` are zero and not looked for."""
    table = {match.ours: match for match in matches}
    zero = set(absent)
    return {
        name: torch.zeros(shape) if name in zero else _stacked(tensors, table[name], shape)
        for name, shape in shapes.items()
    }


def _stacked(tensors: Tensors, match: Match, shape: Size) -> Tensor:
    rows, *rest = shape
    part = (rows // len(match.theirs), *rest)
    wanted = part[::-1] if match.is_transposed else part
    found = [tensors.take(name, wanted) for name in match.theirs]
    return torch.cat([one.T if match.is_transposed else one for one in found]).contiguous()


def write_out(weights: Mapping[str, Tensor], matches: Iterable[Match]) -> dict[str, Tensor]:
    """Return a file's tensors from ours; what we do not have stays out."""
    written = {}
    for match in matches:
        if match.ours not in weights:
            continue
        for name, part in zip(
            match.theirs, weights[match.ours].chunk(len(match.theirs)), strict=True
        ):
            written[name] = (part.T if match.is_transposed else part).clone().contiguous()
    return written
