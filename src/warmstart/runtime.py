"""The device, the precision and the number of threads that a process computes with."""

import ctypes
import functools
import math
import os
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError
from typing import Literal

import torch

from warmstart import progress
from warmstart.errors import WarmstartError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's numbers of its settings
# The process keeps freed memory up to the first value; blocks above the last value are mapped and
# returned one by one.
MALLOC = {M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 << 20, M_MMAP_THRESHOLD: 32 << 20}

TENSOR_CORES, BF16_TENSOR_CORES = (7, 0), (8, 0)  # compute capabilities: V100 and T4; A100


@dataclass(frozen=True)
class Runtime:
    """Where a process computes, and in which precision."""

    device: torch.device
    dtype: torch.dtype | None = None  # of matrix products; None: the type of the weights

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """Return the kind of device that sizes and defaults are for: an Apple GPU has a CPU's."""
        return "cuda" if self.device.type == "cuda" else "cpu"

    def precision(self) -> AbstractContextManager[object]:
        """Return a context in which matrix products have the chosen type."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    @property
    def precision_name(self) -> str:
        """Return the name of the type of matrix products, as --precision has it."""
        names = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        return names[self.dtype] if self.dtype else "fp32"

    def seed(self, number: int) -> None:
        """Seed the random numbers of CPU and device, as `torch.manual_seed` does.

        That function also notes the call for every kind of device that is not in use: 1 ms a step.
        """
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)
        elif self.device.type == "mps":
            torch.mps.manual_seed(number)


def fastest_type(device: torch.device) -> torch.dtype | None:
    """Return the half-precision type that the hardware multiplies fast; None: there is none."""
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability >= TENSOR_CORES:
            return torch.bfloat16 if capability >= BF16_TENSOR_CORES else torch.float16
        return None
    if device.type == "mps":
        return None
    has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if has_bf16 else None


def choose_runtime(
    device: str = "auto", precision: str = "auto", threads: int | None = None
) -> Runtime:
    """Choose device and precision, and set the number of threads; None: as `num_threads` says.

    A device is auto, or named as torch names it: cpu, mps, cuda, or cuda:1 for one of several.
    """
    chosen = choose_device(device)
    if chosen.index is not None:
        torch.cuda.set_device(chosen)
    torch.set_num_threads(threads or num_threads())
    if chosen.type == "cpu":
        _keep_freed_memory()
    # cuDNN's attention is never used. NaN from its backward pass with a mask were reported for H100
    # and H200, and it plans anew for every shape: longer than a step of a small model takes.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if precision == "fp16" and chosen.type == "cpu":
        progress.say("fp16 is very slow on a CPU: it is there to test what a GPU would compute")
    types = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    return Runtime(chosen, fastest_type(chosen) if precision == "auto" else types[precision])


def choose_device(name: str) -> torch.device:
    """Return the device of this name; auto: the GPU that is there, else the CPU."""
    is_there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, is_found in is_there.items() if is_found)
    kind = name.partition(":")[0]
    if not is_there[kind]:
        what = "CUDA device" if kind == "cuda" else "Apple GPU that torch can use"
        raise WarmstartError(f"--device {kind}: this machine has no {what}; use auto or cpu")
    return torch.device(name)


def widest_type(device: torch.device) -> torch.dtype:
    """Return the floating-point type for sums: double precision, which Apple GPUs lack."""
    return torch.float32 if device.type == "mps" else torch.float64


def describe_gpu() -> str | None:
    """Return the name of the GPU; None: there is none."""
    if torch.backends.mps.is_available():
        return "Apple GPU"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


@functools.cache
def builds_kernels() -> bool:
    """Tell whether kernels for the GPU can be built; if not, say so, once."""
    if fault := kernel_fault():
        progress.say(
            f"kernels for this GPU cannot be built, so plain ones are used, which takes longer: "
            f"{fault}; `warmstart doctor` says what helps"
        )
    return not fault


def kernel_fault() -> str | None:
    """Return what keeps Triton from building kernels for the GPU; None: nothing does."""
    try:
        from triton.runtime.driver import driver

        driver.active.get_current_target()  # builds its library: needs a C compiler and Python.h
    except ImportError:
        return "Triton is not installed"
    except (RuntimeError, AssertionError, OSError, SubprocessError) as error:
        return next(iter(str(error).splitlines()), type(error).__name__)
    return None


def num_threads(num_processes: int = 1) -> int:
    """Return the threads of each of several processes: OMP_NUM_THREADS, or a share of the cores."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # others are for nesting
    if first.isdecimal() and int(first):
        return int(first)
    return max(1, num_cores() // num_processes)


def num_cores() -> int:
    """Return how many cores this process may use, within the quota of a container."""
    has_affinity = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(allowed, math.ceil(cpu_quota() or allowed))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the cores that a control group, or one above it, grants in all; None: no limit."""
    memberships = root / "proc/self/cgroup"
    lines = memberships.read_text(encoding="utf-8").splitlines() if memberships.exists() else []
    quotas = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers  # version 2 names no controllers
        inner = mount / group.strip("/")
        for folder in (inner, *inner.parents):
            quotas += _quota_in(folder)
            if folder == mount:
                break
    return min(quotas, default=None)


def _quota_in(folder: Path) -> list[float]:
    """Return the quota of one control group in cores, from the file of version 2 or those of 1."""
    with suppress(OSError, ValueError):  # no such file, or the word "max"
        if (folder / "cpu.max").exists():
            quota, period = map(int, (folder / "cpu.max").read_text(encoding="utf-8").split())
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = (int((folder / name).read_text(encoding="utf-8")) for name in names)
        return [quota / period] if quota > 0 and period > 0 else []
    return []


def total_memory() -> int | None:
    """Return the bytes of memory of this machine; None: not known."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kilobytes, windows = ctypes.c_ulonglong(), getattr(ctypes, "windll", None)
    if windows and windows.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes)):
        return kilobytes.value * 1024
    return None


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device, within the limit of a container; None: not known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text(encoding="utf-8").splitlines() if meminfo.exists() else []
    free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.exists() and (most := limit.read_text(encoding="utf-8").strip()).isdecimal():
        free.append(int(most) - int(used.read_text(encoding="utf-8")))
    return min(free, default=None)


def _keep_freed_memory() -> None:
    """Let the allocator keep freed memory: each step needs it again, and new pages are slow."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return  # the user has set it
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    for name, value in MALLOC.items():
        mallopt(name, value)
