"""Linear layers with their weights laid out once for a CPU's kernels: for use, not for training.

A plain matrix product lays the weights out anew at every call, which costs more than the product
itself when a step has few rows. Knows nothing about what the layers are part of.
"""

import torch
from torch import Tensor, nn

from warmstart.model.heads import LanguageHead
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Translator


class PackedLinear(nn.Module):
    """A linear layer whose weights cannot change any more."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype))
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the product, computed in the layer's precision, in that of x."""
        given = x.to(self.dtype)
        found = torch.ops.mkldnn._linear_pointwise(given, self.weight, self.bias, "none", [], "")
        return found.to(x.dtype)


class PackedHead(nn.Module):
    """A language-model head whose weights, tied or not, cannot change any more."""

    def __init__(self, head: LanguageHead, embedding: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.transform = head.transform
        self.output = PackedLinear(*head.weights(embedding), dtype)

    def forward(self, hidden: Tensor, _: Tensor) -> Tensor:
        """Return logits (…, V)."""
        return self.output(self.transform(hidden))


def can_pack(runtime: Runtime) -> bool:
    """Tell whether this device has kernels for packed weights."""
    is_there = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return runtime.device.type == "cpu" and torch.backends.mkldnn.is_available() and is_there


def pack_linears(module: nn.Module, dtype: torch.dtype) -> None:
    """Replace every linear layer inside by a packed one."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.weight is not None:
            setattr(module, name, PackedLinear(child.weight, child.bias, dtype))
        else:
            pack_linears(child, dtype)


def pack_translator(model: Translator, runtime: Runtime) -> Runtime:
    """Pack a translator for use; return the runtime that no longer needs to cast its weights."""
    dtype = runtime.dtype or model.embedding.dtype
    model.head = PackedHead(model.head, model.embedding, dtype)  # type: ignore[assignment]
    pack_linears(model, dtype)
    return Runtime(runtime.device)
