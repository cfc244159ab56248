"""Common devices by their data sheets (devices.toml), and how fast they train."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from warmstart.planning.memory import (
    BACKWARD,
    ComputeTarget,
    empty_model,
    muon_parameters,
    optimizer_flops,
    step_flops,
    step_memory,
)
from warmstart.tasks.task import TrainingJob

GIB = 1 << 30

# Shares of the data sheet that training reaches: estimates, the same for all devices.
FP32_SHARE = 0.7  # of the rate without tensor cores
HALF_SHARE = 0.45  # of the rate of bf16 or fp16
CPU_SHARE = 0.5
BANDWIDTH_SHARE = 0.7
KERNEL_S = 8e-6  # to launch one kernel
KERNELS = 60  # in a pass, outside the blocks
BLOCK_KERNELS = 35  # in a block, forward and backward
MUON_KERNELS = 30  # for all matrices of one shape
PASSES = 3  # activations are written once and read twice
LOGIT_PASSES = 7  # of all logits through memory
UPDATE_BYTES = 40  # moved by the update of one weight, with clipping


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device, by its data sheet."""

    title: str
    memory_gib: float
    fp32_tflops: float
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None  # of devices without bf16
    bandwidth_gb: float
    kind: Literal["cpu", "cuda"] = "cuda"

    @property
    def half_tflops(self) -> float | None:
        """Return the rate in half precision; None: there is none in hardware."""
        return self.bf16_tflops or self.fp16_tflops


@cache
def known_devices() -> dict[str, Device]:
    """Return the table of devices by name."""
    table = tomllib.loads((files(__package__) / "devices.toml").read_text("utf-8"))
    return {name: Device(**entries) for name, entries in table.items()}


def target_on(device: Device, precision: str) -> ComputeTarget:
    """Return how a device computes: as asked to, or by default in half precision if it can."""
    usual = "bf16" if device.bf16_tflops else "fp16" if device.fp16_tflops else "fp32"
    return ComputeTarget(device.kind, usual if precision == "auto" else precision)


def step_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Estimate the time of one optimizer step from the data sheet."""
    if job.is_frozen:
        return reading_seconds(job, device, target)
    update_bytes = UPDATE_BYTES * sum(p.numel() for p in empty_model(job).parameters())
    seconds = optimizer_flops(job) / _rate(device, target) + _moving_s(update_bytes, device)
    if device.kind == "cuda":
        seconds += MUON_KERNELS * len({p.shape for p in muon_parameters(job)}) * KERNEL_S
    return seconds + _passes_seconds(job, device, target)


def reading_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Estimate the time to read the rows of one step and learn nothing from them."""
    return _passes_seconds(replace(job, is_frozen=False), device, target) / (1 + BACKWARD)


def _passes_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Estimate the time of all forward and backward passes of one step."""
    rows = min(job.rows, job.micro_rows)
    logits = job.num_predictions(rows) * job.head_vocab_size * target.product_bytes
    pass_bytes = PASSES * step_memory(job, target, rows).activations + LOGIT_PASSES * logits
    flops = step_flops(job) - optimizer_flops(job)
    seconds = flops / _rate(device, target) + _moving_s(job.num_passes * pass_bytes, device)
    return seconds + (_num_kernels(job) * KERNEL_S if device.kind == "cuda" else 0.0)


def _rate(device: Device, target: ComputeTarget) -> float:
    """Return the operations per second that training reaches."""
    rates = {"bf16": device.bf16_tflops, "fp16": device.half_tflops}
    if rate := rates.get(target.precision):
        return 1e12 * rate * HALF_SHARE
    return 1e12 * device.fp32_tflops * (FP32_SHARE if device.kind == "cuda" else CPU_SHARE)


def _moving_s(num_bytes: int, device: Device) -> float:
    return num_bytes / (BANDWIDTH_SHARE * device.bandwidth_gb * 1e9)


def _num_kernels(job: TrainingJob) -> int:
    """Return how many kernels the passes of a step launch."""
    shape = job.model
    blocks = shape.depth + (2 * shape.decoder_depth if job.has_decoder else 0)
    return job.num_passes * (KERNELS + BLOCK_KERNELS * blocks)
