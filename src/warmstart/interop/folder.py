"""Read a folder that strangers wrote: JSON and safetensors, nothing outside it, nothing run.

Knows nothing about what the files mean.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.textfiles import read_bytes

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_LARGEST_JSON = 1 << 28  # bytes; the largest tokenizers have some tens of megabytes
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Folder:
    """A folder whose files are read by name."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise WarmstartError(f"{path}: no such folder")
        self.path = path
        self._homes = [path.resolve()]
        if path.resolve().parent.name == "snapshots":  # a hub's cache links to its blobs
            self._homes.append(path.resolve().parents[1] / "blobs")

    def find(self, *names: str) -> Path | None:
        """Return the first of these files that is there; one that leads elsewhere is refused."""
        for name in names:
            file = self.path / name
            if not file.is_file():
                continue
            target = file.resolve()
            if not any(target.is_relative_to(home) for home in self._homes):
                raise WarmstartError(f"{file} leads out of its folder, to {target}; not followed")
            return file
        return None

    def bytes_of(self, name: str) -> bytes | None:
        """Return the content of a small file, or None where there is none."""
        file = self.find(name)
        if file is None:
            return None
        if file.stat().st_size > _LARGEST_JSON:
            raise WarmstartError(f"{file}: {file.stat().st_size:,} bytes are too many for it")
        return read_bytes(file)

    def json_of(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object, or None where there is no such file."""
        content = self.bytes_of(name)
        if content is None:
            return None
        try:
            data = json.loads(content.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise WarmstartError(f"{self.path / name}: not valid JSON ({error})") from None
        if not isinstance(data, dict):
            raise WarmstartError(f"{self.path / name}: must hold a JSON object")
        return data

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the folder's safetensors, in float32."""
        index = self.json_of(INDEX) if self.find(WEIGHTS) is None else None
        if index is not None:
            return self._sharded(index)
        file = self.find(WEIGHTS)
        if file is None:
            raise WarmstartError(self._no_weights())
        return _read(file)

    def _sharded(self, index: dict[str, Any]) -> dict[str, Tensor]:
        where = self.path / INDEX
        placed = index.get("weight_map")
        if not isinstance(placed, dict) or not placed:
            raise WarmstartError(f"{where}: no weight_map, which says where each tensor is")
        tensors: dict[str, Tensor] = {}
        for name in dict.fromkeys(placed.values()):
            is_plain = isinstance(name, str) and Path(name).name == name
            if not is_plain or not name.endswith(".safetensors"):
                raise WarmstartError(
                    f"{where}: {str(name)[:60]!r} is no safetensors file of this folder"
                )
            file = self.find(name)
            if file is None:
                raise WarmstartError(f"{where}: {name} is not in the folder")
            tensors |= _read(file)
        missing = next((name for name in placed if name not in tensors), None)
        if missing is not None:
            raise WarmstartError(f"{where}: no file has the tensor {missing}")
        return tensors

    def _no_weights(self) -> str:
        pickles = sorted(p.name for p in self.path.glob("*.bin") if p.is_file())
        if pickles:
            return (
                f"{self.path}: only {pickles[0]}, a pickle that can run code when it is opened; "
                f"warmstart reads {WEIGHTS} alone and left it closed"
            )
        return f"{self.path}: no {WEIGHTS}, the weights, in this folder"


def _read(file: Path) -> dict[str, Tensor]:
    tensors = {}
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a mapping)
                tensor = opened.get_tensor(name)
                if tensor.is_floating_point() and tensor.dtype not in _FLOATS:
                    raise WarmstartError(f"{file}: {name} is {tensor.dtype}, not plain floats")
                tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise WarmstartError(f"{file}: not a whole safetensors file ({error})") from None
    return tensors
