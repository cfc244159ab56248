"""Common devices by their data sheets, and an estimate of how fast they train.

The share of a data sheet's rate that training reaches is an estimate, the same for all devices.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.insight.flops import muon_parameters, step_flops
from warmstart.insight.step_memory import ComputeTarget, step_memory
from warmstart.insight.training_job import TrainingJob, empty_model
from warmstart.settings.base import choose

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device, by its data sheet."""

    title: str
    memory_gib: float
    fp32_tflops: float
    bf16_tflops: float | None  # None: no bfloat16 products in hardware, so fp32 is used
    bandwidth_gb: float  # gigabytes a second
    kind: Literal["cpu", "cuda"] = "cuda"

    @property
    def memory(self) -> int:
        """Return its memory in bytes."""
        return round(self.memory_gib * GIB)


def _gpu(title: str, memory: float, fp32: float, bf16: float | None, bandwidth: float) -> Device:
    return Device(
        title=title, memory_gib=memory, fp32_tflops=fp32, bf16_tflops=bf16, bandwidth_gb=bandwidth
    )


# Dense rates without sparsity; bf16 with sums in fp32, as PyTorch computes.
DEVICES: dict[str, Device] = {
    "laptop-cpu": Device(
        title="laptop, 4 cores with AVX2",
        memory_gib=16,
        fp32_tflops=0.4,
        bf16_tflops=None,
        bandwidth_gb=50,
        kind="cpu",
    ),
    "gtx-1050-ti": _gpu("GeForce GTX 1050 Ti", 4, 2.1, None, 112),
    "p100": _gpu("Tesla P100, as in the 2017 paper", 16, 10.6, None, 732),
    "t4": _gpu("Tesla T4", 15, 8.1, None, 320),
    "v100": _gpu("Tesla V100", 16, 15.7, None, 900),
    "rtx-2080-ti": _gpu("GeForce RTX 2080 Ti", 11, 13.4, None, 616),
    "rtx-3060": _gpu("GeForce RTX 3060", 12, 12.7, 25.5, 360),
    "rtx-3090": _gpu("GeForce RTX 3090", 24, 35.6, 71, 936),
    "rtx-4090": _gpu("GeForce RTX 4090", 24, 82.6, 165, 1008),
    "l4": _gpu("L4", 22, 30.3, 121, 300),
    "a100-40": _gpu("A100 40 GB", 40, 19.5, 312, 1555),
    "a100-80": _gpu("A100 80 GB", 80, 19.5, 312, 2039),
    "h100": _gpu("H100", 80, 67, 989, 3350),
    "h200": _gpu("H200", 139, 67, 989, 4800),
}

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


def device_named(name: str) -> Device:
    """Return a device of the table; an error lists them."""
    return choose(DEVICES, name, "--on")


def target_on(device: Device, precision: str) -> ComputeTarget:
    """Return how training computes there: in bf16 if the device can, or if asked."""
    is_bf16 = precision == "bf16" or (precision == "auto" and device.bf16_tflops is not None)
    return ComputeTarget(device.kind, is_bf16)


def step_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Estimate the time of one optimizer step from the data sheet."""
    products = _product_seconds(job, device, target)
    moved = job.num_passes * _moved_bytes(job, target, min(job.rows, job.micro_rows))
    moved += UPDATE_BYTES * sum(p.numel() for p in empty_model(job).parameters())
    seconds = products + moved / (BANDWIDTH_SHARE * device.bandwidth_gb * 1e9)
    return seconds + (_num_kernels(job) * KERNEL_S if device.kind == "cuda" else 0.0)


def _product_seconds(job: TrainingJob, device: Device, target: ComputeTarget) -> float:
    """Return the time of the matrix products of a step."""
    is_tensor = target.is_bf16 and device.bf16_tflops is not None
    peak = 1e12 * ((device.bf16_tflops or 0.0) if is_tensor else device.fp32_tflops)
    share = BF16_SHARE if is_tensor else FP32_SHARE if device.kind == "cuda" else CPU_SHARE
    return step_flops(job) / (share * peak)


def _moved_bytes(job: TrainingJob, target: ComputeTarget, rows: int) -> int:
    """Return the bytes that one pass moves through memory."""
    activations = step_memory(job, target, rows).activations
    logits = 0
    if job.workload.has_vocabulary_head:
        vocabulary = job.model.target_vocab_size or job.model.vocab_size
        logits = job.num_predictions(rows) * vocabulary * target.product_bytes
    return PASSES * activations + LOGIT_PASSES * logits


def _num_kernels(job: TrainingJob) -> int:
    """Return how many kernels a step launches."""
    shape = job.model
    blocks = shape.depth + (2 * shape.decoder_depth if job.workload.has_decoder else 0)
    passes = job.num_passes * (KERNELS + BLOCK_KERNELS * blocks)
    return passes + MUON_KERNELS * len({p.shape for p in muon_parameters(job)})
