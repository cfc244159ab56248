"""Linear layers for inference: weights packed for a CPU, or cast once for a GPU."""

from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)

MAX_PLAIN_SIZE = 1 << 16  # weights of a matrix that a single row passes faster unpacked
MAX_FEW_ROWS = 5  # up to this many rows the kernel with less set-up is faster


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
        has_plain = weight.numel() <= MAX_PLAIN_SIZE and activation == "none"
        self.plain = (weight, bias) if has_plain else None
        self.few_rows = (
            _few_rows_kernel(weight, bias, activation) if dtype == torch.bfloat16 else None
        )

    def product(self, x: Tensor) -> Tensor:
        """Return the product, activated, in the layer's own precision or a better one."""
        if self.plain is not None and x.numel() == x.shape[-1]:
            weight, bias = self.plain
            return F.linear(x.to(weight.dtype), weight, bias)
        if self.few_rows is not None and x.numel() <= MAX_FEW_ROWS * x.shape[-1]:
            return self.few_rows(x.to(torch.float32))
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


def can_pack(device: torch.device) -> bool:
    """Tell whether the device has kernels for packed weights."""
    has_kernels = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and has_kernels


def packed_copy(
    module: AnyModule,
    dtype: torch.dtype,
    linear_type: PackedType = PackedLinear,
    inside: str = "",  # which part: "backbone"; all of it unless named
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
    kernel = getattr(kernel, "_op", kernel)  # without Python's search for fakes at every call
    bias = None if bias is None else bias.float()
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)
    return lambda x: kernel(x, packed)
