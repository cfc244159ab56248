"""What a backbone keeps from its forward pass for its backward pass, in bytes.

One term for each tensor that autograd holds on to, by the words of the shape, the kernels a device
has, and whether it is compiled: a compiled one keeps what is dear and recomputes the rest.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.model.attention import SHORT
from warmstart.settings.model import ModelConfig

FULL = 4  # bytes of the residual stream and of norms
MASK = 1  # bytes of a boolean


@dataclass(frozen=True, kw_only=True)
class Layers:
    """What decides which tensors are kept."""

    shape: ModelConfig
    device: Literal["cpu", "cuda"]
    is_compiled: bool
    compute: int  # bytes of a number that goes into a matrix product
    mask: Literal["square", "row", "none"]  # of documents, of padding, the kernel's own


def backbone_saved(layers: Layers, rows: int, length: int, source: int = 0) -> int:
    """Return the bytes a backbone keeps for rows of a length; a decoder looks at a source."""
    shape, num = layers.shape, rows * length
    blocks = shape.depth * _block(layers, rows, length)
    blocks += shape.depth * _cross(layers, rows, length, source) if source else 0
    blocks += _mask(layers, rows, length) if layers.is_compiled else 0
    ends = num * shape.width * FULL  # what leaves the last block
    ends += _norms(layers, num) if shape.norm_position == "pre" else 0
    ends += _norms(layers, num) if shape.embedding_norm else 0
    ends += _noise(layers, num * shape.width, FULL) if shape.dropout else 0
    if shape.positions == "rope":
        ends += num * (shape.width // shape.heads) * FULL  # cosines and sines
    return blocks + ends


def remembered_saved(layers: Layers, rows: int, source: int) -> int:
    """Return the bytes of the source's keys and values in all blocks of a decoder."""
    num, D = rows * source, layers.shape.width
    cast = num * D * layers.compute if layers.compute < FULL else 0
    return layers.shape.depth * (cast + 2 * num * D * layers.compute)


def _block(layers: Layers, rows: int, length: int) -> int:
    """Return the bytes of self-attention and feed-forward with their norms."""
    shape, num, c = layers.shape, rows * length, layers.compute
    inputs = 3 * num * shape.width * c  # of projection, output, inner
    outer = 2 * _noise(layers, num * shape.width, c) if shape.dropout else 0
    attention = _attention(layers, rows, length, length, layers.mask)
    if shape.positions == "rope":
        turned = 3 if layers.device == "cpu" and _kernel(layers, length) == "fused" else 2
        attention += turned * num * shape.width * c if _kernel(layers, length) == "fused" else 0
    return inputs + 2 * _norms(layers, num) + outer + attention + _feed(layers, num)


def _cross(layers: Layers, rows: int, length: int, source: int) -> int:
    shape, num, c = layers.shape, rows * length, layers.compute
    inputs = 2 * num * shape.width * c  # of query, output
    outer = _noise(layers, num * shape.width, c) if shape.dropout else 0
    attention = _attention(layers, rows, length, source, "row")
    attention -= 2 * rows * source * shape.width * c  # keys and values: counted with the memory
    return inputs + _norms(layers, num) + outer + attention


def _norms(layers: Layers, num: int) -> int:
    """Return the bytes of one norm: what went in, its statistics, perhaps what came out."""
    has_result = layers.shape.norm == "rms" and not layers.is_compiled
    return num * layers.shape.width * FULL * (2 if has_result else 1) + 2 * num * FULL


def _noise(layers: Layers, size: int, width: int) -> int:
    """Return the bytes of what a dropout drew; a CPU draws numbers, a GPU bits."""
    return size * (width if layers.device == "cpu" else MASK)


def _kernel(layers: Layers, keys: int) -> Literal["fused", "plain", "math"]:
    """Return how attention is computed: in one kernel, by `attention_weights`, or by PyTorch."""
    if layers.device == "cuda":  # its fused kernels want heads of a multiple of 8
        return "math" if layers.shape.width // layers.shape.heads % 8 else "fused"
    if layers.compute < FULL and keys <= SHORT:
        return "plain"
    is_dropped = layers.shape.dropout and layers.shape.inner_dropout
    return "math" if is_dropped else "fused"


def _attention(layers: Layers, rows: int, length: int, keys: int, mask: str) -> int:
    """Return the bytes of queries, keys and values, and of the weights where they exist."""
    shape, c = layers.shape, layers.compute
    mixed = rows * (length + 2 * keys) * shape.width * c
    square = rows * shape.heads * length * keys
    is_dropped = bool(shape.dropout and shape.inner_dropout)
    match _kernel(layers, keys):
        case "math" if layers.device == "cuda":  # in full precision
            return mixed // c * FULL + square * (FULL + is_dropped * MASK)
        case "math":
            return mixed + 3 * square * c
        case "plain":
            is_masked = mask != "none" or shape.attention == "causal"
            tensors = 3 if is_dropped else 2 if is_masked else 1
            masks = 2 * rows * length * keys * MASK if mask == "square" else 0
            return mixed + tensors * square * c + masks
    floats = 0 if layers.is_compiled else _mask(layers, rows, length) if mask == "square" else 0
    return mixed + rows * shape.heads * length * FULL + floats


def _mask(layers: Layers, rows: int, length: int) -> int:
    """Return the bytes of a square mask as the fused kernel wants it: numbers to add."""
    return rows * length * length * layers.compute if layers.mask == "square" else 0


def _feed(layers: Layers, num: int) -> int:
    """Return the bytes of the feed-forward layer, its first input left out."""
    shape, c = layers.shape, layers.compute
    tensors = {"relu": 1, "gelu": 2, "gelu_tanh": 2, "relu2": 2, "swiglu": 4}[shape.activation]
    inner = num * shape.ffn_width
    is_dropped = bool(shape.dropout and shape.inner_dropout)
    if layers.is_compiled:
        tensors -= shape.activation == "swiglu"
        bits = (shape.activation == "relu") + is_dropped
        return inner * (tensors * c + bits * MASK)
    dropped = 1 if shape.activation == "relu" else 0  # elsewhere it stands in for the last result
    noise = _noise(layers, inner, c) + dropped * inner * c if is_dropped else 0
    return inner * tensors * c + noise
