"""Linear layers and key/value caches for decoding."""

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)
# Up to this many multiplications the kernel with less set-up is faster.
MAX_FEW = 1 << 22
CAPACITY_STEP = 16  # positions by which a full buffer grows
STATIC_CAPACITY = 64  # positions of a static buffer at first


class PackedLinear(nn.Module):
    """A linear layer with fixed weights, laid out once for the kernels of a CPU."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, activation: str = "none"
    ) -> None:
        super().__init__()
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        self.dtype, self.activation = dtype, activation
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype))
        self.bias = None if bias is None else bias.to(dtype)
        self.few_rows = (
            _few_rows_kernel(weight, bias, activation) if dtype == torch.bfloat16 else None
        )
        self.most_few = MAX_FEW // len(weight) if self.few_rows else 0  # numbers in few rows

    def product(self, x: Tensor) -> Tensor:
        """Return the product, activated, in the layer's own precision or a better one."""
        if self.few_rows is not None and x.numel() <= self.most_few:
            return self.few_rows(x.float())
        return torch.ops.mkldnn._linear_pointwise.default(
            x.to(self.dtype), self.weight, self.bias, self.activation, [], ""
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the product in the precision of x."""
        return self.product(x).to(x.dtype)


class PackedAutocastLinear(nn.Module):
    """A linear layer as it is under autocast, with fixed weights, cast and packed once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype))
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the product in the layer's own precision."""
        x = x.to(self.dtype)
        return torch.ops.mkldnn._linear_pointwise.default(x, self.weight, self.bias, "none", [], "")


class CastLinear(nn.Module):
    """A linear layer with its present weights, cast once to the precision of the product."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, activation: str = "none"
    ) -> None:
        super().__init__()
        self.dtype, self.is_relu = dtype, activation == "relu"
        self.weight = weight.detach().to(dtype)
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the product, activated, in the layer's own precision."""
        product = F.linear(x.to(self.dtype), self.weight, self.bias)
        return product.relu_() if self.is_relu else product

    product = forward


PackedType = type[PackedLinear] | type[PackedAutocastLinear]


def can_pack(device: torch.device, dtype: torch.dtype | None = None) -> bool:
    """Tell whether the device has kernels for packed weights of a type; few CPUs have fp16."""
    if device.type != "cpu" or dtype == torch.float16:
        return False
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def packed_copy(
    module: AnyModule,
    dtype: torch.dtype,
    linear_type: PackedType = PackedLinear,
    inside: str = "",  # the part to pack, such as "backbone"; empty: the whole module
) -> AnyModule:
    """Return a module with its linear layers packed; it shares all tensors that stay as they are.

    It is valid until the weights change.
    """
    tensors = chain(module.parameters(), module.buffers())
    copied = deepcopy(module, {id(tensor): tensor for tensor in tensors})
    _pack_linears(copied.get_submodule(inside), dtype, linear_type)
    return copied


def _pack_linears(module: nn.Module, dtype: torch.dtype, linear_type: PackedType) -> None:
    """Replace every linear layer inside a module by a packed one."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, linear_type(child.weight, child.bias, dtype))
        else:
            _pack_linears(child, dtype, linear_type)


def _few_rows_kernel(
    weight: Tensor, bias: Tensor | None, activation: str
) -> Callable[[Tensor], Tensor] | None:
    """Return the product with weights in float16, where there are kernels for it."""
    names = {"none": "linear_dynamic_fp16", "relu": "linear_relu_dynamic_fp16"}
    if torch.backends.quantized.engine not in ("fbgemm", "x86"):
        return None
    kernel = getattr(torch.ops.quantized, names[activation]).default
    kernel = getattr(kernel, "_op", kernel)  # without a search for fake objects at every call
    bias = None if bias is None else bias.float()
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)

    def product(x: Tensor) -> Tensor:
        # Else PyTorch asks the packed weights whether they override the product, and catches the
        # exception that they raise, which takes as long as a small product.
        with torch._C.DisableTorchFunctionSubclass():
            return kernel(x, packed)

    return product


@dataclass(frozen=True)
class SourceKeysValues:
    """The keys and values of a batch of sources in every layer of a decoder."""

    keys: list[Tensor]  # (B, H, S, K) of each layer
    values: list[Tensor]
    mask: Tensor | None  # (B, 1, 1, S) True where there is a token

    def select(self, rows: Tensor) -> "SourceKeysValues":
        """Return the keys and values of these sources, in this order."""
        return SourceKeysValues(
            [keys[rows] for keys in self.keys],
            [values[rows] for values in self.values],
            None if self.mask is None else self.mask[rows],
        )

    def no_positions(self) -> Tensor:
        """Return the empty keys and values that a cache starts with: (depth, 2, B, H, 0, K)."""
        B, H, _, K = self.keys[0].shape
        return self.keys[0].new_empty(len(self.keys), 2, B, H, 0, K)

    def contiguous(self) -> "SourceKeysValues":
        """Return the keys and values with those of each head contiguous in memory."""
        return SourceKeysValues(
            [keys.contiguous() for keys in self.keys],
            [values.contiguous() for values in self.values],
            self.mask,
        )


class BeamCache:
    """The keys and values of B sources that are continued in W rows each: written, never moved.

    A row may continue another row of its source. Nothing is copied then: every row can attend to
    all that its source has cached, and a mask limits it to its own ancestors.
    """

    def __init__(self, depth: int, width: int, held: Tensor | None = None) -> None:
        assert held is None or width == 1, "rows share what is held"
        self.depth, self.width = depth, width
        self.length = 0 if held is None else held.shape[4]  # positions held
        self.mask: Tensor | None = None  # (B, 1, W, length * W) to add to scores
        self._buffer = held  # (depth, 2, B, H, capacity * W, K)
        self._held: tuple[Tensor, ...] = ()  # keys and values of each layer up to this position
        self._ancestors: Tensor | None = None  # (B, W, length) of each row, by position

    @property
    def position(self) -> int:
        """Return the position that is being written."""
        return self.length

    @property
    def num_sources(self) -> int:
        """Return how many sources the cache holds."""
        return 0 if self._buffer is None else self._buffer.shape[2]

    def append(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Append one position of a layer (2, B, H, W, K); return all keys and all values."""
        if layer == 0:
            self._begin(keys_values)
        if layer == self.depth - 1:
            self.length += 1
        self._written[layer] = keys_values
        return self._held[2 * layer], self._held[2 * layer + 1]  # (B, H, length * W, K)

    def select(self, rows: Tensor) -> None:
        """Continue these rows; sources that no row continues are dropped."""
        W = self.width
        assert self._buffer is not None
        sources = rows[::W] // W
        if len(sources) < self._buffer.shape[2]:
            self._buffer = self._buffer.index_select(2, sources)
            if self._ancestors is not None:
                self._ancestors = self._ancestors[sources]
        if self._ancestors is not None:
            slots = (rows % W).view(-1, W, 1).expand(-1, -1, self.length)
            self._ancestors = self._ancestors.gather(1, slots)

    def _begin(self, keys_values: Tensor) -> None:
        """Make room for a position, and let every row attend to itself."""
        _, B, H, W, K = keys_values.shape
        needed = (self.length + 1) * W
        if self._buffer is None or self._buffer.shape[4] < needed:
            capacity = -(-(self.length + 1) // CAPACITY_STEP) * CAPACITY_STEP
            larger = keys_values.new_empty(self.depth, 2, B, H, capacity * W, K)
            if self._buffer is not None:
                larger[..., : self.length * W, :] = self._buffer[..., : self.length * W, :]
            self._buffer = larger
        self._written = self._buffer.narrow(4, needed - W, W)  # at this position
        self._held = self._buffer.narrow(4, 0, needed).flatten(0, 1).unbind(0)
        if W > 1:
            slots = torch.arange(W)
            own = slots.view(1, W, 1).expand(B, W, 1)
            before = self._ancestors
            self._ancestors = own if before is None else torch.cat([before, own], 2)
            is_foreign = self._ancestors[..., None] != slots  # (B, W, T, W)
            mask = keys_values.new_zeros(is_foreign.shape).masked_fill_(is_foreign, float("-inf"))
            self.mask = mask.view(B, 1, W, needed)


class StaticCache:
    """A beam cache in buffers of fixed shape and address, so that a step can be recorded.

    Every row attends to the whole buffer; the mask hides what is not its ancestor and what is not
    yet written.
    """

    def __init__(self, width: int, held: Tensor) -> None:
        depth, two, B, H, length, K = held.shape
        assert width == 1 or not length, "rows share what is held"
        self.width = width
        self.capacity = STATIC_CAPACITY * (length // STATIC_CAPACITY + 1)
        self.position = torch.full((1,), length, device=held.device)  # being written
        self.mask: Tensor | None = None  # (B, 1, W, capacity * W) to add to scores
        # Zeros and not uninitialised memory: a mask does not hide NaN.
        self._buffer = held.new_zeros(depth, two, B, H, self.capacity * width, K)
        self._buffer[..., :length, :] = held
        self._ancestors = self.position.new_zeros(B, width, self.capacity)

    def __len__(self) -> int:
        """Return the number of sources."""
        return self._buffer.shape[2]

    def begin(self) -> None:
        """Let every row attend to itself and to its ancestors."""
        slots = torch.arange(self.width, device=self.position.device)
        B, W, capacity = self._ancestors.shape
        self._ancestors.index_copy_(2, self.position, slots.view(1, W, 1).expand(B, W, 1))
        is_written = torch.arange(capacity, device=slots.device) <= self.position
        is_seen = (self._ancestors[..., None] == slots) & is_written[:, None]  # (B, W, T, W)
        mask = self._buffer.new_zeros(is_seen.shape).masked_fill_(~is_seen, float("-inf"))
        self.mask = mask.view(B, 1, W, capacity * W)
        self._slots = self.position * W + slots

    def append(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one position of a layer (2, B, H, W, K); return all keys and all values."""
        buffer = self._buffer[layer]
        buffer.index_copy_(3, self._slots, keys_values)
        keys, values = buffer.unbind(0)
        return keys, values  # (B, H, capacity * W, K)

    def continue_rows(self, sources: Tensor, slots: Tensor) -> None:
        """Let the rows of these sources continue these rows (B', W) of the same source."""
        index = slots[:, :, None].expand(-1, -1, self.capacity)
        self._ancestors[sources] = self._ancestors[sources].gather(1, index)

    def copy_sources(self, sources: Tensor, capacity: int) -> "StaticCache":
        """Return a cache of these sources in new buffers of the given capacity."""
        other = copy(self)
        depth, two, _, H, size, K = self._buffer.shape
        other.capacity, other.position = capacity, self.position.clone()
        other._buffer = self._buffer.new_zeros(
            depth, two, len(sources), H, capacity * self.width, K
        )
        other._buffer[..., :size, :] = self._buffer[:, :, sources]
        other._ancestors = self._ancestors.new_zeros(len(sources), self.width, capacity)
        other._ancestors[..., : self.capacity] = self._ancestors[sources]
        return other
