"""Common devices by their data sheets (devices.toml): how fast one, or several together, train."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import log2
from typing import Literal

from warmstart.planning.job import TrainingJob, empty_model
from warmstart.planning.memory import (
    FP32_BYTES,
    ComputeTarget,
    StepMemory,
    muon_parameters,
    step_flops,
    step_memory,
)
from warmstart.training.step import BUCKET

GIB = 1 << 30

# Shares of the data sheet that training reaches: estimates, the same for all devices.
FP32_SHARE = 0.7  # of the rate without tensor cores
BF16_SHARE = 0.45
CPU_SHARE = 0.5
BANDWIDTH_SHARE = 0.7
KERNEL_S = 8e-6  # to launch one kernel
KERNELS = 60  # in a pass, outside the blocks
BLOCK_KERNELS = 35  # in a block, forward and backward
MUON_KERNELS = 30  # for all matrices of one shape
PASSES = 3  # activations are written once and read twice
LOGIT_PASSES = 7  # of all logits through memory
UPDATE_BYTES = 40  # moved by the update of one weight, with clipping
PER_MACHINE = 8  # devices with fast links to each other
MESSAGE_S = 20e-6  # from one device to another, whatever its size; sums go up a tree and down
SMALL_MESSAGES = 3  # of a step, besides gradients: counts, the loss, whether to stop
LEAST_EFFICIENCY = 0.5  # below it, more than half of what was added is wasted


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device, by its data sheet."""

    title: str
    memory_gib: float
    fp32_tflops: float
    bf16_tflops: float | None = None
    bandwidth_gb: float
    link_gb: float = 12  # to another device of its machine, one way; by default PCIe
    kind: Literal["cpu", "cuda"] = "cuda"


@cache
def known_devices() -> dict[str, Device]:
    """Return the table of devices by name."""
    table = tomllib.loads((files(__package__) / "devices.toml").read_text("utf-8"))
    return {name: Device(**entries) for name, entries in table.items()}


def target_on(device: Device, precision: str) -> ComputeTarget:
    """Return how training computes there: in bf16 if the device can, or if asked."""
    is_bf16 = precision == "bf16" or (precision == "auto" and device.bf16_tflops is not None)
    return ComputeTarget(device.kind, is_bf16)


def step_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Estimate the time of one optimizer step from the data sheet."""
    rate = 1e12 * device.fp32_tflops * (FP32_SHARE if device.kind == "cuda" else CPU_SHARE)
    if target.is_bf16 and device.bf16_tflops is not None:
        rate = 1e12 * device.bf16_tflops * BF16_SHARE
    rows = min(job.rows, job.micro_rows)
    logits = job.num_predictions(rows) * job.head_vocab_size * target.product_bytes
    pass_bytes = PASSES * step_memory(job, target, rows).activations + LOGIT_PASSES * logits
    moved = job.num_passes * pass_bytes
    moved += UPDATE_BYTES * sum(p.numel() for p in empty_model(job).parameters())
    seconds = step_flops(job) / rate + moved / (BANDWIDTH_SHARE * device.bandwidth_gb * 1e9)
    return seconds + (_num_kernels(job) * KERNEL_S if device.kind == "cuda" else 0.0)


def _num_kernels(job: TrainingJob) -> int:
    """Return how many kernels a step launches."""
    shape = job.model
    blocks = shape.depth + (2 * shape.decoder_depth if job.workload.has_decoder else 0)
    passes = job.num_passes * (KERNELS + BLOCK_KERNELS * blocks)
    return passes + MUON_KERNELS * len({p.shape for p in muon_parameters(job)})


@dataclass(frozen=True, kw_only=True)
class SharedStep:
    """One optimizer step, shared by several devices; each has all weights, unless sharded."""

    devices: int
    memory: int  # bytes at the peak, of each device
    sharded_memory: int  # the same with --shard and AdamW
    sent: int  # bytes that each device sends
    compute_s: float
    communication_s: float
    efficiency: float  # of the time of one device, divided by their number

    @property
    def step_s(self) -> float:
        """Return the time of the step: gradients are sent when all of them are computed."""
        return self.compute_s + self.communication_s


def shared_steps(
    job: TrainingJob, device: Device, target: ComputeTarget, most: int, network_gb: float
) -> tuple[SharedStep, ...]:
    """Estimate the step on 1, 2, 4 and so on up to `most` devices, from the data sheet."""
    counts = [1 << power for power in range(most.bit_length()) if 1 << power < most] + [most]
    alone_s = step_seconds(job, device, target)
    across_gb = PER_MACHINE * network_gb  # all devices of a machine carry what it sends
    num_weights = sum(p.numel() for p in empty_model(job).parameters())
    steps = []
    for num in counts:
        share = replace(job, rows=-(-job.rows // num))
        link_gb = device.link_gb if num <= PER_MACHINE else min(device.link_gb, across_gb)
        sent = 2 * (num - 1) * FP32_BYTES * num_weights // num  # in a ring
        messages = 2 * log2(num) * (-(-num_weights // BUCKET) + SMALL_MESSAGES)
        communication_s = sent / (BANDWIDTH_SHARE * link_gb * 1e9) + messages * MESSAGE_S
        compute_s = step_seconds(share, device, target)
        memory = step_memory(share, target, min(share.rows, share.micro_rows))
        steps.append(
            SharedStep(
                devices=num,
                memory=memory.peak,
                sharded_memory=memory.peak if num == 1 else _sharded_peak(share, memory, num),
                sent=sent,
                compute_s=compute_s,
                communication_s=communication_s,
                efficiency=alone_s / (num * (compute_s + communication_s)),
            )
        )
    return tuple(steps)


def _sharded_peak(job: TrainingJob, memory: StepMemory, num: int) -> int:
    """Return the bytes of a device that has a share of the state and gathers two blocks at a time.

    What is outside the blocks is gathered for the whole step; gathered weights have gradients.
    """
    sizes = {name: p.numel() for name, p in empty_model(job).named_parameters()}
    in_blocks = sum(size for name, size in sizes.items() if ".blocks." in name)
    num_blocks = job.model.depth + job.model.decoder_depth
    gathered = sum(sizes.values()) - in_blocks + 2 * in_blocks // num_blocks
    state = 4 * FP32_BYTES * sum(sizes.values()) // num  # weights, gradients, two moments
    passing = memory.copies + memory.activations + max(memory.loss, memory.backward)
    return state + 2 * FP32_BYTES * gathered + passing + memory.program


def most_useful(steps: tuple[SharedStep, ...]) -> SharedStep:
    """Return the largest number of devices that are used well."""
    return [step for step in steps if step.efficiency >= LEAST_EFFICIENCY][-1]
