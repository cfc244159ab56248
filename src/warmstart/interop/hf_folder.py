"""Read the files of an untrusted folder: JSON and safetensors only. Executes no code from it."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import parse_object, typed
from warmstart.textfiles import missing, read_bytes

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class HfFolder:
    """A folder whose files are read by name; symbolic links must stay inside it."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            if path.exists():
                raise WarmstartError(f"{path} is a file; name the folder of a model")
            raise WarmstartError(
                f"{path} {missing(path)}; a model of a hub must be downloaded to a folder first"
            )
        self.path = path
        self._roots = [path.resolve()]
        if path.resolve().parent.name == "snapshots":  # a hub cache links to its blobs
            self._roots.append(path.resolve().parents[1] / "blobs")

    def find(self, name: str) -> Path | None:
        """Return a file of the folder, or None; a link that leads out of it is refused."""
        file = self.path / name
        if not file.is_file():
            return None
        target = file.resolve()
        if not any(target.is_relative_to(root) for root in self._roots):
            raise WarmstartError(f"{file} leads out of its folder, to {target}; not followed")
        return file

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        file = self.find(name)
        return None if file is None else read_bytes(file)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object, or None if the file does not exist."""
        content = self.read_bytes(name)
        if content is None:
            return None
        return parse_object(content, self.path / name)

    def read_tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the folder's safetensors; floats as float32."""
        file = self.find(WEIGHTS)
        if file is not None:
            return _read_safetensors(file)
        index = self.read_json(INDEX)
        if index is not None:
            return self._read_shards(index)
        pickles = sorted(p.name for p in self.path.glob("*.bin") if p.is_file())
        if pickles:
            raise WarmstartError(
                f"{self.path}: only {pickles[0]}, a pickle that can run code when it is opened; "
                f"warmstart reads only {WEIGHTS} and did not open it. If you trust its author, "
                "from_pretrained of transformers opens it, and save_pretrained writes the other"
            )
        raise WarmstartError(f"{self.path}: no {WEIGHTS}, the weights, in this folder")

    def _read_shards(self, index: dict[str, Any]) -> dict[str, Tensor]:
        index_file = self.path / INDEX
        shards = typed(dict[str, str], index.get("weight_map", {}), index_file, "weight_map")
        if not shards:
            raise WarmstartError(f"{index_file}: no weight_map, the file of each tensor")
        tensors: dict[str, Tensor] = {}
        for name in dict.fromkeys(shards.values()):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise WarmstartError(
                    f"{index_file}: {name[:60]!r} is no safetensors file of this folder"
                )
            file = self.find(name)
            if file is None:
                raise WarmstartError(f"{index_file}: {name} is not in the folder")
            tensors |= _read_safetensors(file)
        missing = next((name for name in shards if name not in tensors), None)
        if missing is not None:
            raise WarmstartError(f"{index_file}: no file has the tensor {missing}")
        return tensors


def _read_safetensors(file: Path) -> dict[str, Tensor]:
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
