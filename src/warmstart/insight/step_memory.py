"""Memory of a training step in closed form, from the tensors of model, loss and optimizers."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import torch

from warmstart.insight.flops import muon_parameters
from warmstart.insight.saved_activations import FP32_BYTES, BackbonePass
from warmstart.insight.training_job import TrainingJob, empty_model
from warmstart.kernels.loss import LOGITS_PER_CHUNK, LOGITS_PER_SOFTMAX
from warmstart.settings.model import ModelConfig, decoder_config, encoder_config

MAX_ROWS = 1 << 24  # of a forward pass
# Memory of a CPU process besides tensors, as measured with glibc.
PROGRAM_BYTES = 220 << 20  # the interpreter and its libraries
RESERVED_BYTES = 330 << 20  # what the libraries load and reserve when first used
FRAGMENTED_SHARE = 0.5  # free memory inside the heap, as a share of the activations


@dataclass(frozen=True)
class ComputeTarget:
    """The kind of device a step runs on, and its precision."""

    device: Literal["cpu", "cuda"]
    is_bf16: bool  # matrix products in bfloat16

    @property
    def product_bytes(self) -> int:
        return 2 if self.is_bf16 else FP32_BYTES


@dataclass(frozen=True, kw_only=True)
class StepMemory:
    """Bytes of one training step; the peak is the largest moment, not the sum."""

    weights: int
    gradients: int
    optimizer: int
    copies: int  # weights of the blocks in the precision of the products
    activations: int  # saved in the forward pass for the backward pass
    loss: int  # logits and gradients at the vocabulary head
    backward: int  # gradients of activations
    program: int  # on a CPU: libraries, and free memory inside the heap
    peak: int
    moment: str  # when the peak is reached


def step_memory(job: TrainingJob, target: ComputeTarget, rows: int | None = None) -> StepMemory:
    """Return the memory of a step with `rows` in each forward pass; default: as planned."""
    rows = job.micro_rows if rows is None else rows
    model = empty_model(job)
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    matrices = [p.numel() for name, p in model.named_parameters() if _is_block_matrix(name, p)]
    weights = gradients = FP32_BYTES * sum(sizes.values())
    weights += FP32_BYTES * sum(buffer.numel() for buffer in model.buffers())
    muon = sum(p.numel() for p in muon_parameters(job))  # one moment; AdamW has two
    optimizer = FP32_BYTES * (2 * sum(sizes.values()) - muon)
    copies = target.product_bytes * sum(matrices) if target.is_bf16 else 0
    activations = _activations(job, target, rows)
    loss, loss_backward = _loss(job, target, rows)
    backward = _backward(job, target, rows)
    embedding_sizes = (size for name, size in sizes.items() if name.endswith("embed.weight"))
    embeddings = FP32_BYTES * sum(embedding_sizes)
    # Gradients stay between forward passes only if a step has several.
    accumulated = gradients if -(-job.rows // rows) > 1 else 0
    # The head's gradient, the first of a backward pass, stays allocated.
    head = 0 if accumulated else FP32_BYTES * job.head_vocab_size * job.model.width
    program = 0
    if target.device == "cpu":
        program = PROGRAM_BYTES + RESERVED_BYTES + round(FRAGMENTED_SHARE * activations)
    step = weights + optimizer + program
    forward = step + accumulated + copies + activations
    moments = {
        "the loss": forward + loss,
        "the backward pass": forward + max(loss_backward, head + backward),
        "the embedding's gradient": step + gradients + embeddings,
        "the optimizer": step + gradients + _optimizer_step(job, target),
    }
    moment = max(moments, key=lambda name: moments[name])
    return StepMemory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        copies=copies,
        activations=activations,
        loss=loss,
        backward=backward,
        program=program,
        peak=moments[moment],
        moment=moment,
    )


def largest_rows(job: TrainingJob, target: ComputeTarget, room: int) -> int:
    """Return the most rows of a forward pass whose peak is at most `room` bytes; 0 if none."""
    return bisect_right(
        range(1, MAX_ROWS), room, key=lambda rows: step_memory(job, target, rows).peak
    )


def backbone_pass(
    job: TrainingJob, target: ComputeTarget, shape: ModelConfig, rows: int
) -> BackbonePass:
    """Return the forward pass of one of the job's backbones."""
    has_documents = job.workload.has_documents(job.model)
    is_decoder = job.workload.has_decoder and shape.is_causal
    return BackbonePass(
        shape=shape,
        device=target.device,
        is_compiled=target.device == "cuda" and job.workload.is_compiled,
        product_bytes=target.product_bytes,
        mask="square" if has_documents else "none" if is_decoder else "row",
        rows=rows,
        length=job.length,
        source_length=job.length if is_decoder else 0,
    )


def _activations(job: TrainingJob, target: ComputeTarget, rows: int) -> int:
    """Return the bytes saved for the backward pass, without weights."""
    shapes = [job.model]
    if job.workload.has_decoder:
        shapes = [encoder_config(job.model), decoder_config(job.model)]
    return sum(backbone_pass(job, target, shape, rows).saved_bytes() for shape in shapes)


def _loss(job: TrainingJob, target: ComputeTarget, rows: int) -> tuple[int, int]:
    """Return the bytes that head and loss need, and those of their backward pass."""
    num, D, c = job.num_predictions(rows), job.model.width, target.product_bytes
    V = job.head_vocab_size
    if not V:
        return FP32_BYTES * rows * D, FP32_BYTES * rows * job.length * D
    logits = min(num, max(1, LOGITS_PER_CHUNK[target.device] // V)) * V * c
    # A CPU holds a part of the logits twice in full precision; the GPU kernel works in place.
    if target.device == "cpu":
        logits += min(num, max(1, LOGITS_PER_SOFTMAX // V)) * V * 2 * FP32_BYTES
    casts = (num * D + V * D) * c if target.is_bf16 else 0
    picked = num * D * FP32_BYTES if target.device == "cpu" or job.workload.masks_tokens else 0
    results = num * D * c + V * D * (FP32_BYTES + c)  # gradients of hidden and weight; one product
    return picked + casts + logits + results, 2 * (num * D + V * D) * FP32_BYTES


def _backward(job: TrainingJob, target: ComputeTarget, rows: int) -> int:
    """Return the bytes of the activations' gradients in the last block."""
    shape, num = job.model, rows * job.length
    inner = shape.ffn_width * (2 if shape.is_gated else 1)
    return num * (
        2 * shape.width * FP32_BYTES + 2 * max(inner, 3 * shape.width) * target.product_bytes
    )


def _optimizer_step(job: TrainingJob, target: ComputeTarget) -> int:
    """Return the working memory of Muon: for its largest matrix, on a GPU for all of one shape."""
    matrices = muon_parameters(job)
    if target.device == "cpu":
        return 4 * 2 * max((p.numel() for p in matrices), default=0)
    by_shape: Counter[torch.Size] = Counter()
    for matrix in matrices:
        by_shape[matrix.shape] += matrix.numel()
    return (2 * FP32_BYTES + 4 * 2) * max(by_shape.values(), default=0)


def _is_block_matrix(name: str, parameter: torch.Tensor) -> bool:
    return ".blocks." in name and parameter.ndim == 2
