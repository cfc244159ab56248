"""Where and how precisely tensors are computed.

Knows nothing about models.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from warmstart.errors import WarmstartError


@dataclass(frozen=True)
class Runtime:
    """A device, and the type of its matrix products where that is not the weights' own."""

    device: torch.device
    dtype: torch.dtype | None = None

    def precision(self) -> AbstractContextManager[object]:
        """Return the context that matrix products run in."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)


def computes_in_bf16(device: torch.device) -> bool:
    """Tell whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def choose_runtime(
    device: str = "auto", precision: str = "auto", threads: int | None = None
) -> Runtime:
    """Choose where and how precisely to compute, and set the number of threads."""
    if device == "cuda" and not torch.cuda.is_available():
        raise WarmstartError("--device cuda: this machine has no CUDA device; take auto or cpu")
    wants_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    chosen = torch.device("cuda" if wants_cuda else "cpu")
    torch.set_num_threads(threads or os.cpu_count() or 1)
    is_bf16 = precision == "bf16" or (precision == "auto" and computes_in_bf16(chosen))
    return Runtime(chosen, torch.bfloat16 if is_bf16 else None)
