"""FLOPs and memory of a training step."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import nn
from torch.optim import Muon

from warmstart.kernels.layers import SHORT_ROW
from warmstart.kernels.loss import LOGITS_PER_CHUNK, LOGITS_PER_SOFTMAX
from warmstart.settings.model import ModelConfig, decoder_config, encoder_config
from warmstart.tasks.causal import DOCUMENT_TOKENS
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob, num_parameters
from warmstart.training.optimizers import OptimizerSettings, build_optimizers

FP32_BYTES = 4  # of the residual stream and of norms
BOOL_BYTES = 1
MAX_ROWS = 1 << 24  # of a forward pass

# Memory of a CPU process besides tensors, as measured with glibc.
PROGRAM_BYTES = 220 << 20  # the interpreter and its libraries
RESERVED_BYTES = 330 << 20  # what the libraries load and reserve when first used
READING_BYTES = 165 << 20  # the same without a backward pass
FRAGMENTED_SHARE = 0.5  # free memory inside the heap, as a share of the activations
BACKWARD = 2  # the two gradients of a product are products of the same size
ITERATIONS = 5  # of the polynomial with which Muon makes a matrix orthogonal


@lru_cache(maxsize=8)
def empty_model(job: TrainingJob) -> nn.Module:
    """Return the model of a job on the meta device, which takes no memory; do not change it."""
    with torch.device("meta"):
        model = task_named(job.task).planned_model(job)
    if job.is_frozen:
        model.get_submodule("backbone").requires_grad_(False)
    return model


@dataclass(frozen=True, kw_only=True)
class BackbonePass:
    """A forward pass of one backbone: what decides which tensors are saved."""

    shape: ModelConfig
    device: Literal["cpu", "cuda"]
    is_compiled: bool
    product_bytes: int  # of a number in a matrix product
    mask: Literal["square", "row", "none"]  # of documents, of padding, causal in the kernel
    rows: int
    length: int
    source_length: int = 0  # of the source that a decoder attends to

    def saved_bytes(self) -> int:
        """Return the bytes of all tensors saved, without weights."""
        shape, c = self.shape, self.product_bytes
        num_states = self.rows * self.length * shape.width
        norm, dropout = self._norm_bytes(), self._dropout_bytes(num_states, c)
        # The inputs of the projection, the output layer and the inner layer.
        block = 3 * num_states * c + 2 * norm + 2 * dropout + self._ffn_bytes()
        block += self._attention_bytes(self.length, self.mask)
        if shape.positions == "rope" and self._kernel(self.length) == "fused":
            num_rotated = 3 if self.device == "cpu" else 2
            block += num_rotated * num_states * c
        if self.source_length:
            # The inputs of the query and the output layer.
            block += 2 * num_states * c + norm + dropout
            block += self._attention_bytes(self.source_length, "row")
            if c < FP32_BYTES:
                block += self.rows * self.source_length * shape.width * c  # encoder output, cast
        num_norms = (shape.norm_position == "pre") + shape.embedding_norm
        total = shape.depth * block + num_norms * norm
        total += num_states * FP32_BYTES + self._dropout_bytes(num_states, FP32_BYTES)
        if shape.positions == "rope":
            total += self.rows * self.length * (shape.width // shape.heads) * FP32_BYTES
        return total + (self._mask_bytes() if self.is_compiled else 0)

    @property
    def _has_inner_dropout(self) -> bool:
        return bool(self.shape.dropout and self.shape.inner_dropout)

    def _norm_bytes(self) -> int:
        """Return the bytes of one norm: its input, its statistics, for RMS also its result."""
        num_tensors = 2 if self.shape.norm == "rms" and not self.is_compiled else 1
        return self.rows * self.length * (num_tensors * self.shape.width + 2) * FP32_BYTES

    def _dropout_bytes(self, size: int, number_bytes: int) -> int:
        """Return the bytes of a dropout mask: numbers on a CPU, booleans on a GPU."""
        if not self.shape.dropout:
            return 0
        return size * (number_bytes if self.device == "cpu" else BOOL_BYTES)

    def _mask_bytes(self) -> int:
        """Return the bytes of a square mask as the fused kernel takes it: numbers to add."""
        return self.rows * self.length**2 * self.product_bytes if self.mask == "square" else 0

    def _kernel(self, keys: int) -> Literal["fused", "plain", "math"]:
        """Return how attention runs: in one kernel, by `attention_weights`, or by PyTorch."""
        if self.device == "cuda":  # fused kernels need a head width that is a multiple of 8
            return "math" if self.shape.width // self.shape.heads % 8 else "fused"
        is_short = self.product_bytes < FP32_BYTES and keys <= SHORT_ROW
        return "plain" if is_short or self._has_inner_dropout else "fused"

    def _attention_bytes(self, keys: int, mask: str) -> int:
        """Return the bytes of queries, keys and values, and of the weights if they are stored."""
        shape, c = self.shape, self.product_bytes
        num_inputs = self.rows * (self.length + 2 * keys) * shape.width
        num_weights = self.rows * shape.heads * self.length * keys
        match self._kernel(keys):
            case "math":  # in full precision
                dropout = self._has_inner_dropout * BOOL_BYTES
                return num_inputs * FP32_BYTES + num_weights * (FP32_BYTES + dropout)
            case "plain":
                num_tensors = 3 if self._has_inner_dropout else 1
                masks = self.rows * self.length * keys * BOOL_BYTES if mask == "square" else 0
                return (num_inputs + num_tensors * num_weights) * c + masks
        statistics = self.rows * shape.heads * self.length * FP32_BYTES
        has_mask = mask == "square" and not self.is_compiled
        return num_inputs * c + statistics + (self._mask_bytes() if has_mask else 0)

    def _ffn_bytes(self) -> int:
        """Return the bytes of the feed-forward layer without its input."""
        activation, c = self.shape.activation, self.product_bytes
        num_tensors = 4 if self.shape.is_gated else 1 if activation == "relu" else 2
        size = self.rows * self.length * self.shape.ffn_width
        if self.is_compiled:
            num_tensors -= self.shape.is_gated
            num_masks = (activation == "relu") + self._has_inner_dropout
            return size * (num_tensors * c + num_masks * BOOL_BYTES)
        if not self._has_inner_dropout:
            return size * num_tensors * c
        # Dropout's result replaces the last tensor of other activations.
        return size * (num_tensors + (activation == "relu")) * c + self._dropout_bytes(size, c)


@dataclass(frozen=True)
class ComputeTarget:
    """The kind of device a step runs on, and its precision."""

    device: Literal["cpu", "cuda"]
    precision: str  # of matrix products: fp32, bf16 or fp16

    @property
    def is_half(self) -> bool:
        return self.precision != "fp32"

    @property
    def product_bytes(self) -> int:
        return 2 if self.is_half else FP32_BYTES


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
    if job.is_frozen:
        return _reading_memory(job, target, rows)
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    matrices = [p.numel() for name, p in model.named_parameters() if _is_block_matrix(name, p)]
    weights = gradients = FP32_BYTES * sum(sizes.values())
    weights += FP32_BYTES * sum(buffer.numel() for buffer in model.buffers())
    muon = sum(p.numel() for p in muon_parameters(job))  # one moment; AdamW has two
    optimizer = FP32_BYTES * (2 * sum(sizes.values()) - muon)
    copies = target.product_bytes * sum(matrices) if target.is_half else 0
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


def _reading_memory(job: TrainingJob, target: ComputeTarget, rows: int) -> StepMemory:
    """Return the memory of reading rows with a frozen backbone, one block after the other."""
    model = empty_model(job)
    sizes = [p.numel() for p in model.parameters()]
    trained = FP32_BYTES * num_parameters(model, trainable=True)
    matrices = [p.numel() for name, p in model.named_parameters() if _is_block_matrix(name, p)]
    copies = target.product_bytes * sum(matrices) if target.is_half else 0
    block = replace(job.model, depth=1, dropout=0.0)
    activations = backbone_pass(job, target, block, rows).saved_bytes()
    weights = FP32_BYTES * (sum(sizes) + sum(buffer.numel() for buffer in model.buffers()))
    program = PROGRAM_BYTES + READING_BYTES if target.device == "cpu" else 0
    return StepMemory(
        weights=weights,
        gradients=trained,
        optimizer=2 * trained,
        copies=copies,
        activations=activations,
        loss=0,
        backward=0,
        program=program,
        peak=weights + 3 * trained + copies + activations + program,
        moment="reading the texts",
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
    is_decoder = job.has_decoder and shape.is_causal
    has_masks = job.has_documents and not _splits_documents(target, shape)
    return BackbonePass(
        shape=shape,
        device=target.device,
        is_compiled=target.device == "cuda" and job.is_compiled,
        product_bytes=target.product_bytes,
        mask="square" if has_masks else "none" if is_decoder or job.has_documents else "row",
        rows=rows,
        length=job.length,
        source_length=job.length if is_decoder else 0,
    )


def _splits_documents(target: ComputeTarget, shape: ModelConfig) -> bool:
    """Tell whether a GPU attends within each document by itself, without masks."""
    has_dropout = bool(shape.dropout and shape.inner_dropout)
    is_half = target.product_bytes < FP32_BYTES
    return target.device == "cuda" and is_half and not (has_dropout or shape.local_window)


def _activations(job: TrainingJob, target: ComputeTarget, rows: int) -> int:
    """Return the bytes saved for the backward pass, without weights."""
    shapes = [job.model]
    if job.has_decoder:
        shapes = [encoder_config(job.model), decoder_config(job.model)]
    rows *= job.num_readings
    return sum(backbone_pass(job, target, shape, rows).saved_bytes() for shape in shapes)


def _loss(job: TrainingJob, target: ComputeTarget, rows: int) -> tuple[int, int]:
    """Return the bytes that head and loss need, and those of their backward pass."""
    num, D, c = job.num_predictions(rows * job.num_readings), job.model.width, target.product_bytes
    V = job.head_vocab_size
    if not V:
        return FP32_BYTES * rows * D, FP32_BYTES * rows * job.length * D
    if job.consistency:  # all logits of both readings are kept, with their logarithms
        return num * V * (c + 3 * FP32_BYTES), 2 * (num * D + V * D) * FP32_BYTES + num * V * c
    logits = min(num, max(1, LOGITS_PER_CHUNK[target.device] // V)) * V * c
    # A CPU holds a part of the logits twice in full precision; the GPU kernel works in place.
    if target.device == "cpu":
        logits += min(num, max(1, LOGITS_PER_SOFTMAX // V)) * V * 2 * FP32_BYTES
    casts = (num * D + V * D) * c if target.is_half else 0
    picked = num * D * FP32_BYTES if target.device == "cpu" or job.mask_rate is not None else 0
    results = num * D * c + V * D * (FP32_BYTES + c)  # gradients of hidden and weight; one product
    if job.document_loss:
        picked += rows * _documents_in_row(job) * V * 3 * FP32_BYTES
    return picked + casts + logits + results, 2 * (num * D + V * D) * FP32_BYTES


def _backward(job: TrainingJob, target: ComputeTarget, rows: int) -> int:
    """Return the bytes of the activations' gradients in the last block."""
    shape, num = job.model, rows * job.num_readings * job.length
    inner = shape.ffn_width * (2 if shape.is_gated else 1)
    return num * (
        2 * shape.width * FP32_BYTES + 2 * max(inner, 3 * shape.width) * target.product_bytes
    )


def _optimizer_step(job: TrainingJob, target: ComputeTarget) -> int:
    """Return the working memory of Muon, which computes with matrices of one shape together."""
    by_shape: Counter[torch.Size] = Counter()
    for matrix in muon_parameters(job):
        by_shape[matrix.shape] += matrix.numel()
    return (2 * FP32_BYTES + 4 * target.product_bytes) * max(by_shape.values(), default=0)


def _is_block_matrix(name: str, parameter: torch.Tensor) -> bool:
    return ".blocks." in name and parameter.ndim == 2


@dataclass(frozen=True)
class PartFlops:
    """The operations of one part of the model in a forward pass over one row."""

    name: str
    formula: str  # per token, in the letters of `legend`
    forward: int  # per row
    is_trained: bool = True  # False: there is no backward pass

    @property
    def both(self) -> int:
        """Return the operations of the forward and backward pass."""
        return (1 + BACKWARD * self.is_trained) * self.forward


def legend(job: TrainingJob) -> str:
    """Explain the letters of the formulas."""
    shape = job.model
    sides = " on each side" if job.sides == 2 else ""
    masked = "" if job.mask_rate is None else f", m = mask rate {job.mask_rate:g}"
    return (
        f"D = width {shape.width:,}, F = feed-forward {shape.ffn_width:,}, T = tokens a row "
        f"{job.length:,}{sides}, V = vocabulary {shape.vocab_size:,}{masked}"
    )


def row_flops(job: TrainingJob) -> list[PartFlops]:
    """Return the parts of a forward pass over one row."""
    T = job.length
    if not job.has_decoder:
        parts = [*_attention(job.model, T, ""), _ffn(job.model, T, "")]
        return [*(replace(part, is_trained=not job.is_frozen) for part in parts), *_head(job)]
    encoder, decoder = encoder_config(job.model), decoder_config(job.model)
    parts = [
        *_attention(encoder, T, "encoder "),
        _ffn(encoder, T, "encoder "),
        *_attention(decoder, T, "decoder "),
        *_attention(decoder, T, "cross "),
        _ffn(decoder, T, "decoder "),
        *_head(job),
    ]
    # Each side has half of the tokens, so a token goes through one of them.
    share = "" if job.num_readings == 2 else "½ · "
    return [
        replace(part, formula=f"{share}{part.formula}", forward=job.num_readings * part.forward)
        for part in parts
    ]


def _attention(shape: ModelConfig, T: int, name: str) -> list[PartFlops]:  # noqa: N803
    D, blocks = shape.width, shape.depth
    return [
        PartFlops(f"{name}projections", f"{blocks} · 2·4D²", blocks * T * 8 * D * D),
        # All pairs, although a causal mask forbids half: kernels with a document mask compute all.
        PartFlops(f"{name}attention", f"{blocks} · 4TD", blocks * T * 4 * T * D),
    ]


def _ffn(shape: ModelConfig, T: int, name: str) -> PartFlops:  # noqa: N803
    matrices = 3 if shape.is_gated else 2
    flops = shape.depth * T * 2 * matrices * shape.width * shape.ffn_width
    return PartFlops(f"{name}feed-forward", f"{shape.depth} · 2·{matrices}DF", flops)


def _head(job: TrainingJob) -> list[PartFlops]:
    shape, D, V = job.model, job.model.width, job.head_vocab_size
    if not V:
        return [PartFlops("classification head", "2DC / T", 2 * D * job.labels)]
    num = job.num_predictions(1)
    share = "m · " if job.mask_rate is not None else ""
    num_products = job.num_readings  # consistency computes the logits of each reading twice
    formula = f"{share}2DV" if num_products == 1 else f"{share}{num_products} · 2DV"
    parts = [PartFlops("vocabulary head", formula, num * num_products * 2 * D * V)]
    if job.document_loss:
        documents = _documents_in_row(job)
        parts.append(PartFlops("document head", f"{documents} · 2DV / T", documents * 2 * D * V))
    if shape.transform and not job.has_decoder:
        parts.insert(0, PartFlops("transform", f"{share}2D²", num * 2 * D * D))
    if job.has_segments:
        pooler = 2 * D * D if shape.pooler else 0
        parts.append(PartFlops("next sentence", "2(D² + 2D) / T", pooler + 4 * D))
    return parts


def _documents_in_row(job: TrainingJob) -> int:
    """Estimate how many documents share a row."""
    return 1 + job.length // DOCUMENT_TOKENS


def optimizer_flops(job: TrainingJob) -> int:
    """Return the operations of the optimizer's matrix products in a step; only Muon has any."""
    return sum(
        ITERATIONS * (4 * min(p.shape) ** 2 * max(p.shape) + 2 * min(p.shape) ** 3)
        for p in muon_parameters(job)
    )


@lru_cache(maxsize=8)
def muon_parameters(job: TrainingJob) -> list[nn.Parameter]:
    """Return the matrices that Muon updates, on the meta device."""
    if job.optimizer != "muon":
        return []
    settings = OptimizerSettings("muon", learning_rate=1e-3, weight_decay=0.0)
    optimizers = build_optimizers(empty_model(job), settings).values()
    groups = [group for o in optimizers if isinstance(o, Muon) for group in o.param_groups]
    return [parameter for group in groups for parameter in group["params"]]


def step_flops(job: TrainingJob) -> int:
    """Return the operations of one optimizer step."""
    return job.rows * sum(part.both for part in row_flops(job)) + optimizer_flops(job)
