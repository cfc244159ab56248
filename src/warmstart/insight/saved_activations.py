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
        if self.product_bytes < FP32_BYTES and keys <= SHORT_ROW:
            return "plain"
        return "math" if self._has_inner_dropout else "fused"

    def _attention_bytes(self, keys: int, mask: str) -> int:
        """Return the bytes of queries, keys and values, and of the weights if they are stored."""
        shape, c = self.shape, self.product_bytes
        num_inputs = self.rows * (self.length + 2 * keys) * shape.width
        num_weights = self.rows * shape.heads * self.length * keys
        match self._kernel(keys):
            case "math" if self.device == "cuda":  # in full precision
                dropout = self._has_inner_dropout * BOOL_BYTES
                return num_inputs * FP32_BYTES + num_weights * (FP32_BYTES + dropout)
            case "math":
                return (num_inputs + 3 * num_weights) * c
            case "plain":
                is_masked = mask != "none" or shape.is_causal
                num_tensors = 3 if self._has_inner_dropout else 2 if is_masked else 1
                masks = 2 * self.rows * self.length * keys * BOOL_BYTES if mask == "square" else 0
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
