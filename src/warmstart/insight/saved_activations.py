"""The bytes that a backbone keeps from its forward pass for its backward pass, in closed form.

One term for each tensor that autograd saves. It depends on the architecture, on the kernels of the
device, and on compilation: a compiled backbone recomputes what is cheap. Closed form, because a
device of the table need not be here, and a CPU build of PyTorch cannot trace CUDA kernels.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.kernels.attention import SHORT_ROW
from warmstart.settings.model import ModelConfig

FP32_BYTES = 4  # of the residual stream and of norms
BOOL_BYTES = 1


@dataclass(frozen=True, kw_only=True)
class BackbonePass:
    """A forward pass of one backbone: what decides which tensors are saved."""

    shape: ModelConfig
    device: Literal["cpu", "cuda"]
    is_compiled: bool
    product_bytes: int  # of a number in a matrix product
    mask: Literal["square", "row", "none"]  # of documents, of padding, causal in the kernel

    @property
    def has_inner_dropout(self) -> bool:
        """Tell whether attention weights and the feed-forward layer have dropout."""
        return bool(self.shape.dropout and self.shape.inner_dropout)


def backbone_bytes(forward: BackbonePass, rows: int, length: int, source_length: int = 0) -> int:
    """Return the bytes saved for these rows; a decoder also attends to a source."""
    shape, num = forward.shape, rows * length
    blocks = shape.depth * _block_bytes(forward, rows, length)
    if source_length:
        blocks += shape.depth * _cross_bytes(forward, rows, length, source_length)
    if forward.is_compiled:
        blocks += _mask_bytes(forward, rows, length)
    rest = num * shape.width * FP32_BYTES  # the output of the last block
    num_norms = (shape.norm_position == "pre") + bool(shape.embedding_norm)
    rest += num_norms * _norm_bytes(forward, num)
    if shape.dropout:
        rest += _dropout_bytes(forward, num * shape.width, FP32_BYTES)
    if shape.positions == "rope":
        rest += num * (shape.width // shape.heads) * FP32_BYTES  # cosines and sines
    return blocks + rest


def source_bytes(forward: BackbonePass, rows: int, source_length: int) -> int:
    """Return the bytes of the source's keys and values in all blocks of a decoder."""
    num, D, c = rows * source_length, forward.shape.width, forward.product_bytes
    cast = num * D * c if c < FP32_BYTES else 0
    return forward.shape.depth * (cast + 2 * num * D * c)


def _block_bytes(forward: BackbonePass, rows: int, length: int) -> int:
    """Return the bytes of self-attention and feed-forward layer with their norms."""
    shape, num, c = forward.shape, rows * length, forward.product_bytes
    inputs = 3 * num * shape.width * c  # of projection, output and inner layer
    dropout = 2 * _dropout_bytes(forward, num * shape.width, c) if shape.dropout else 0
    attention = _attention_bytes(forward, rows, length, length, forward.mask)
    if shape.positions == "rope" and _kernel(forward, length) == "fused":
        num_rotated = 3 if forward.device == "cpu" else 2
        attention += num_rotated * num * shape.width * c
    return inputs + 2 * _norm_bytes(forward, num) + dropout + attention + _ffn_bytes(forward, num)


def _cross_bytes(forward: BackbonePass, rows: int, length: int, source_length: int) -> int:
    shape, num, c = forward.shape, rows * length, forward.product_bytes
    inputs = 2 * num * shape.width * c  # of query and output
    dropout = _dropout_bytes(forward, num * shape.width, c) if shape.dropout else 0
    attention = _attention_bytes(forward, rows, length, source_length, "row")
    attention -= 2 * rows * source_length * shape.width * c  # counted by `source_bytes`
    return inputs + _norm_bytes(forward, num) + dropout + attention


def _norm_bytes(forward: BackbonePass, num: int) -> int:
    """Return the bytes of one norm: its input, its statistics, for RMS also its result."""
    num_tensors = 2 if forward.shape.norm == "rms" and not forward.is_compiled else 1
    return num * (num_tensors * forward.shape.width + 2) * FP32_BYTES


def _dropout_bytes(forward: BackbonePass, size: int, width: int) -> int:
    """Return the bytes of a dropout mask: numbers on a CPU, booleans on a GPU."""
    return size * (width if forward.device == "cpu" else BOOL_BYTES)


def _kernel(forward: BackbonePass, keys: int) -> Literal["fused", "plain", "math"]:
    """Return how attention is computed: in one kernel, by `attention_weights`, or by PyTorch."""
    if forward.device == "cuda":  # fused kernels need a head width that is a multiple of 8
        return "math" if forward.shape.width // forward.shape.heads % 8 else "fused"
    if forward.product_bytes < FP32_BYTES and keys <= SHORT_ROW:
        return "plain"
    return "math" if forward.has_inner_dropout else "fused"


def _attention_bytes(forward: BackbonePass, rows: int, length: int, keys: int, mask: str) -> int:
    """Return the bytes of queries, keys and values, and of the weights if they are stored."""
    shape, c = forward.shape, forward.product_bytes
    num_inputs = rows * (length + 2 * keys) * shape.width
    num_weights = rows * shape.heads * length * keys
    match _kernel(forward, keys):
        case "math" if forward.device == "cuda":  # in full precision
            dropout = forward.has_inner_dropout * BOOL_BYTES
            return num_inputs * FP32_BYTES + num_weights * (FP32_BYTES + dropout)
        case "math":
            return (num_inputs + 3 * num_weights) * c
        case "plain":
            is_masked = mask != "none" or shape.attention == "causal"
            num_tensors = 3 if forward.has_inner_dropout else 2 if is_masked else 1
            masks = 2 * rows * length * keys * BOOL_BYTES if mask == "square" else 0
            return (num_inputs + num_tensors * num_weights) * c + masks
    has_mask = mask == "square" and not forward.is_compiled
    floats = _mask_bytes(forward, rows, length) if has_mask else 0
    return num_inputs * c + rows * shape.heads * length * FP32_BYTES + floats


def _mask_bytes(forward: BackbonePass, rows: int, length: int) -> int:
    """Return the bytes of a square mask as the fused kernel takes it: numbers to add."""
    return rows * length * length * forward.product_bytes if forward.mask == "square" else 0


def _ffn_bytes(forward: BackbonePass, num: int) -> int:
    """Return the bytes of the feed-forward layer without its input."""
    shape, c = forward.shape, forward.product_bytes
    num_tensors = {"relu": 1, "gelu": 2, "gelu_tanh": 2, "relu2": 2, "swiglu": 4}[shape.activation]
    size = num * shape.ffn_width
    has_dropout = forward.has_inner_dropout
    if forward.is_compiled:
        num_tensors -= shape.activation == "swiglu"
        num_masks = (shape.activation == "relu") + has_dropout
        return size * (num_tensors * c + num_masks * BOOL_BYTES)
    if has_dropout and shape.activation == "relu":
        num_tensors += 1  # for other activations, dropout's result replaces the last tensor
    return size * num_tensors * c + (_dropout_bytes(forward, size, c) if has_dropout else 0)
