"""Devices a reader may have, by the figures of their data sheets, and how fast they train.

What share of a data sheet's rate a training step attains is an estimate, one for all. Knows
nothing about the machine it runs on.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.insight.flops import muon_parameters, step_flops
from warmstart.insight.job import Job, outline
from warmstart.insight.memory import Place, step_memory
from warmstart.settings.base import choose

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device, by its data sheet."""

    title: str
    memory_gib: float
    fp32_tflops: float
    bf16_tflops: float | None  # None: it does not multiply in bfloat16, so fp32 is taken
    bandwidth_gb: float  # gigabytes a second
    kind: Literal["cpu", "cuda"] = "cuda"

    @property
    def memory(self) -> int:
        """Return the bytes of its memory."""
        return round(self.memory_gib * GIB)


def _card(title: str, memory: float, fp32: float, bf16: float | None, bandwidth: float) -> Device:
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
    "gtx-1050-ti": _card("GeForce GTX 1050 Ti", 4, 2.1, None, 112),
    "p100": _card("Tesla P100, as in the 2017 paper", 16, 10.6, None, 732),
    "t4": _card("Tesla T4", 15, 8.1, None, 320),
    "v100": _card("Tesla V100", 16, 15.7, None, 900),
    "rtx-2080-ti": _card("GeForce RTX 2080 Ti", 11, 13.4, None, 616),
    "rtx-3060": _card("GeForce RTX 3060", 12, 12.7, 25.5, 360),
    "rtx-3090": _card("GeForce RTX 3090", 24, 35.6, 71, 936),
    "rtx-4090": _card("GeForce RTX 4090", 24, 82.6, 165, 1008),
    "l4": _card("L4", 22, 30.3, 121, 300),
    "a100-40": _card("A100 40 GB", 40, 19.5, 312, 1555),
    "a100-80": _card("A100 80 GB", 80, 19.5, 312, 2039),
    "h100": _card("H100", 80, 67, 989, 3350),
    "h200": _card("H200", 139, 67, 989, 4800),
}

# Attained shares: estimates, one for all devices.
FP32_SHARE = 0.7  # of the rate without tensor cores
BF16_SHARE = 0.45
CPU_SHARE = 0.5
BANDWIDTH_SHARE = 0.7
KERNEL_S = 8e-6  # to start one
KERNELS = 60  # in a pass, besides those of the blocks
BLOCK_KERNELS = 35  # in a block, both ways
MUON_KERNELS = 30  # for all matrices of a shape
PASSES = 3  # activations are written once and read twice
LOGIT_PASSES = 7  # of all logits through memory
UPDATE = 40  # bytes that an update of one weight moves, clipping included


def device_named(name: str) -> Device:
    """Return a device of the table, or say which there are."""
    return choose(DEVICES, name, "--on")


def place_on(device: Device, precision: str) -> Place:
    """Return how training would compute there; bf16 where it can, or where asked."""
    is_half = precision == "bf16" or (precision == "auto" and device.bf16_tflops is not None)
    return Place(device.kind, is_half)


def step_seconds(job: Job, device: Device, place: Place) -> float:
    """Return the time of one optimizer step by the data sheet."""
    products = _products(job, device, place)
    moved = job.micros * _moved(job, place, min(job.rows, job.micro_rows))
    parameters = list(outline(job).parameters())
    moved += UPDATE * sum(p.numel() for p in parameters)
    seconds = products + moved / (BANDWIDTH_SHARE * device.bandwidth_gb * 1e9)
    return seconds + (_starts(job) * KERNEL_S if device.kind == "cuda" else 0.0)


def _products(job: Job, device: Device, place: Place) -> float:
    """Return the time of the matrix products of a step."""
    is_tensor = place.is_half and device.bf16_tflops is not None
    peak = 1e12 * ((device.bf16_tflops or 0.0) if is_tensor else device.fp32_tflops)
    share = BF16_SHARE if is_tensor else FP32_SHARE if device.kind == "cuda" else CPU_SHARE
    return step_flops(job) / (share * peak)


def _moved(job: Job, place: Place, rows: int) -> int:
    """Return the bytes one pass moves through memory."""
    kept = step_memory(job, place, rows).activations
    logits = 0
    if job.objective != "classify":
        vocabulary = job.model.target_vocab_size or job.model.vocab_size
        logits = job.predictions(rows) * vocabulary * place.compute
    return PASSES * kept + LOGIT_PASSES * logits


def _starts(job: Job) -> int:
    """Return how many kernels a step starts."""
    shape = job.model
    blocks = shape.depth + (2 * shape.decoder_depth if job.objective == "translate" else 0)
    passes = job.micros * (KERNELS + BLOCK_KERNELS * blocks)
    return passes + MUON_KERNELS * len({p.shape for p in muon_parameters(job)})
