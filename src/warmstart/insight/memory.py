"""Memory of a training step in closed form: what is kept, and what is needed for a moment.

Follows the model, the loss and the optimizers as they are written here, tensor by tensor. Knows
nothing about how fast anything is.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import torch

from warmstart.insight.flops import muon_parameters
from warmstart.insight.job import Job, outline
from warmstart.insight.saved import Layers, backbone_saved, remembered_saved
from warmstart.kernels.loss import HELD, SOFTENED
from warmstart.settings.model import ModelConfig, decoder_shape, encoder_shape

FULL = 4  # bytes of a weight, a gradient, a moment

# What a process on a CPU holds besides tensors, as measured with glibc: the interpreter with its
# libraries, what they load and reserve when first used, and the part of the heap that is free but
# lies between pieces in use, as a share of the activations.
PROGRAM = 220 << 20
RESERVED = 330 << 20
SCATTERED = 0.5


@dataclass(frozen=True)
class Place:
    """Where a step runs, as far as memory goes."""

    device: Literal["cpu", "cuda"]
    is_half: bool  # matrix products in bfloat16

    @property
    def compute(self) -> int:
        """Return the bytes of a number that goes into a matrix product."""
        return 2 if self.is_half else FULL


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one training step; the peak is the dearest moment, not the sum."""

    weights: int
    gradients: int
    optimizer: int
    copies: int  # weights of the blocks again, in the precision of the products
    activations: int  # kept from the forward pass to the backward pass
    loss: int  # logits and gradients at the vocabulary head
    backward: int  # gradients on their way down
    program: int  # on a CPU: libraries, and free memory that the heap keeps
    peak: int
    moment: str  # when the peak is reached


def step_memory(job: Job, place: Place, rows: int | None = None) -> Memory:
    """Return the memory of a step with so many rows in each forward pass."""
    rows = job.micro_rows if rows is None else rows
    model = outline(job)
    numbers = sum(p.numel() for p in model.parameters())
    weights = gradients = FULL * numbers
    weights += FULL * sum(buffer.numel() for buffer in model.buffers())
    optimizer = FULL * (2 * numbers - sum(p.numel() for p in muon_parameters(job)))
    copies = place.compute * _block_weights(job) if place.is_half else 0
    kept = _kept(job, place, rows)
    loss, after_loss = _loss(job, place, rows)
    backward = _backward(job, place, rows)
    embeddings = FULL * _embedding_weights(job)
    # Gradients live from one forward pass to the next only where several make a step.
    before = gradients if -(-job.rows // rows) > 1 else 0
    head = 0 if before else _head_gradient(job)
    program = PROGRAM + RESERVED + round(SCATTERED * kept) if place.device == "cpu" else 0
    step = weights + optimizer + program
    moments = {
        "the loss": step + before + copies + kept + loss,
        "the way back": step + before + copies + kept + max(after_loss, head + backward),
        "the embedding's gradient": step + gradients + embeddings,
        "the optimizer": step + gradients + _optimizer_step(job, place),
    }
    moment = max(moments, key=lambda name: moments[name])
    return Memory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        copies=copies,
        activations=kept,
        loss=loss,
        backward=backward,
        program=program,
        peak=moments[moment],
        moment=moment,
    )


def largest_rows(job: Job, place: Place, room: int) -> int:
    """Return the most rows of a forward pass whose peak stays within the room; 0: none do."""
    low, high = 0, 1
    while step_memory(job, place, high).peak <= room and high < 1 << 24:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(job, place, middle, room) else (low, middle)
    return low


def fits(job: Job, place: Place, rows: int, room: int) -> bool:
    """Tell whether so many rows in a forward pass stay within the room."""
    return step_memory(job, place, rows).peak <= room


def layers_of(job: Job, place: Place, shape: ModelConfig) -> Layers:
    """Return what decides which tensors a backbone keeps."""
    has_documents = job.objective in ("causal", "masked") and not job.has_pairs
    is_decoder = job.objective == "translate" and shape.attention == "causal"
    return Layers(
        shape=shape,
        device=place.device,
        is_compiled=place.device == "cuda" and job.is_compiled,
        compute=place.compute,
        mask="square" if has_documents else "none" if is_decoder else "row",
    )


def _kept(job: Job, place: Place, rows: int) -> int:
    """Return the bytes kept for the backward pass, weights left out."""
    if job.objective != "translate":
        return backbone_saved(layers_of(job, place, job.model), rows, job.length)
    encoder = layers_of(job, place, encoder_shape(job.model))
    decoder = layers_of(job, place, decoder_shape(job.model))
    return (
        backbone_saved(encoder, rows, job.length)
        + remembered_saved(decoder, rows, job.length)
        + backbone_saved(decoder, rows, job.length, job.length)
    )


def _loss(job: Job, place: Place, rows: int) -> tuple[int, int]:
    """Return the bytes at work in the head and loss, and in their backward pass."""
    num, D, c = job.predictions(rows), job.model.width, place.compute
    if job.objective == "classify":
        return FULL * rows * D, FULL * rows * job.length * D
    V = job.model.target_vocab_size or job.model.vocab_size
    held = min(num, max(1, HELD[place.device] // V)) * V * c
    # On a CPU a part of the logits in full precision, twice; a compiled kernel works in place.
    softened = min(num, max(1, SOFTENED["cpu"] // V)) * V * 2 * FULL if place.device == "cpu" else 0
    casts = (num * D + V * D) * c if place.is_half else 0
    picked = num * D * FULL if place.device == "cpu" or job.objective == "masked" else 0
    results = num * D * c + V * D * (FULL + c)  # gradients of hidden and weight; one product
    forward = picked + casts + held + softened + results
    return forward, 2 * (num * D + V * D) * FULL


def _head_gradient(job: Job) -> int:
    """Return the bytes of the first gradient of a backward pass, which stays."""
    shape = job.model
    if job.objective == "classify":
        return 0
    return FULL * (shape.target_vocab_size or shape.vocab_size) * shape.width


def _backward(job: Job, place: Place, rows: int) -> int:
    """Return the bytes of gradients under way in the last block: of sums and of what is wider."""
    shape, num = job.model, rows * job.length
    inner = shape.ffn_width * (2 if shape.activation == "swiglu" else 1)
    return num * (2 * shape.width * FULL + 2 * max(inner, 3 * shape.width) * place.compute)


def _optimizer_step(job: Job, place: Place) -> int:
    """Return the bytes Muon works with while it turns its largest matrix, or most of one shape."""
    matrices = muon_parameters(job)
    if place.device == "cpu":
        return 4 * 2 * max((p.numel() for p in matrices), default=0)
    alike: Counter[torch.Size] = Counter()
    for matrix in matrices:
        alike[matrix.shape] += matrix.numel()
    return (2 * FULL + 4 * 2) * max(alike.values(), default=0)


def _block_weights(job: Job) -> int:
    """Return the numbers in the matrices of the blocks."""
    named = outline(job).named_parameters()
    return sum(p.numel() for name, p in named if ".blocks." in name and p.ndim == 2)


def _embedding_weights(job: Job) -> int:
    named = outline(job).named_parameters()
    return sum(p.numel() for name, p in named if name.endswith("embed.weight"))
