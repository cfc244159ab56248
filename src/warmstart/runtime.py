"""Where and how precisely tensors are computed.

Knows nothing about models.
"""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from warmstart.errors import WarmstartError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # as glibc numbers its settings
# Freed memory stays with the process up to the first; a block is mapped by itself, and given back
# by itself, from the last on.
MALLOC = {M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 << 20, M_MMAP_THRESHOLD: 32 << 20}


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
    torch.set_num_threads(threads or _num_cores())
    if chosen.type == "cpu":
        _keep_freed_memory()
    is_bf16 = precision == "bf16" or (precision == "auto" and computes_in_bf16(chosen))
    return Runtime(chosen, torch.bfloat16 if is_bf16 else None)


def _num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _keep_freed_memory() -> None:
    """Have the allocator keep what is freed: every step takes as much again, and pages are dear."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return  # the user has set it
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another allocator, with ways of its own
    for name, value in MALLOC.items():
        mallopt(name, value)
