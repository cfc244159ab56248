"""Summed cross-entropy, with and without the vocabulary's logits in memory.

Everything here returns sums; whoever knows the whole group of batches divides by its counts.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORE = -100  # a target that counts for nothing

# Logits held at once, and how many of them go through the softmax together: on a CPU few enough
# to stay in its caches, on a GPU enough to fill it.
HELD = {"cpu": 25_000_000, "cuda": 400_000_000}
SOFTENED = {"cpu": 1_600_000, "cuda": 400_000_000}
# The vocabulary is filled up to a multiple of this: products on a GPU that are not so aligned
# take ten times as long. The logits of what is filled in are 0 and stay out of the softmax.
ALIGNED = {"cpu": 1, "cuda": 64}


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of linear(hidden) against targets, and how many were right.

    `hidden` is (N, D), `targets` (N,); positions with the target IGNORE count for nothing;
    `smoothing` is the share of each target that is spread over all. The gradient is formed chunk
    by chunk beside the loss, so that (N, V) logits never exist.
    """
    if not torch.is_grad_enabled():  # a Function sees what its inputs ask for, not the mode
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    device = hidden.device.type
    if device == "cpu":  # elsewhere finding them would wait for the device; they get no weight
        wanted = targets != IGNORE
        hidden, targets = hidden[wanted], targets[wanted]
    is_cast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_cast else hidden.dtype
    with torch.autocast(device, enabled=False):
        loss, num_right = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing, dtype)
    return loss, num_right


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=weight.dtype, device=hidden.device)
        num_right = torch.zeros((), dtype=torch.long, device=hidden.device)
        V, missing = len(weight), -len(weight) % ALIGNED[hidden.device.type]
        inputs, weights = hidden.to(dtype), weight.to(dtype)
        offsets = None if bias is None else bias.to(dtype)
        if missing:
            weights = F.pad(weights, (0, 0, 0, missing))
            offsets = None if offsets is None else F.pad(offsets, (0, missing))
        grads = _Gradients(inputs, weights, weight, bias) if any(ctx.needs_input_grad) else None
        size = max(1, HELD[hidden.device.type] // V)
        held = inputs.new_empty(min(size, len(inputs)), V + missing)
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            logits = held[: len(targets[rows])]
            if offsets is None:
                torch.mm(inputs[rows], weights.T, out=logits)
            else:
                torch.addmm(offsets, inputs[rows], weights.T, out=logits)
            chunk_loss, right = _soften(logits[:, :V], targets[rows], smoothing, weight.dtype)
            loss += chunk_loss
            num_right += right
            if grads is not None:
                grads.add(rows, slopes=logits)
        if grads is not None:
            ctx.save_for_backward(grads.hidden.to(hidden.dtype), grads.weight, grads.bias)
        ctx.mark_non_differentiable(num_right)
        return loss, num_right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = (None if grad is None else grad * grad_loss for grad in ctx.saved_tensors)
        return *saved, None, None, None


class _Gradients:
    """Gradients of the summed loss, gathered chunk by chunk in the weights' own precision."""

    def __init__(
        self, inputs: Tensor, weights: Tensor, weight: Tensor, bias: Tensor | None
    ) -> None:
        self.inputs, self.weights = inputs, weights
        self.hidden = torch.empty_like(inputs)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)
        self.product = torch.empty_like(weights)

    def add(self, rows: slice, slopes: Tensor) -> None:
        """Take in d loss / d logits (n, V and what fills it up) of some rows."""
        V = len(self.weight)
        torch.mm(slopes, self.weights, out=self.hidden[rows])
        self.weight += torch.mm(slopes.T, self.inputs[rows], out=self.product)[:V]
        if self.bias is not None:
            self.bias += (slopes.new_ones(1, len(slopes)) @ slopes)[0, :V]


def _soften(
    logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Turn logits (n, V) into d loss / d logits in place; return the loss and the hits."""
    size = max(1, SOFTENED[logits.device.type] // logits.shape[1])
    soften_part = _soften_part if logits.device.type == "cpu" else _compiled_kernel()
    parts = [
        soften_part(logits[start : start + size], targets[start : start + size], smoothing, exact)
        for start in range(0, len(logits), size)
    ]
    losses, rights = zip(*parts, strict=True)
    return torch.stack(losses).sum(), torch.stack(rights).sum()


def _soften_part(
    logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
) -> tuple[Tensor, Tensor]:
    index = targets[:, None]  # (n, 1)
    logs = F.log_softmax(logits, -1, dtype=exact)
    picked = logs.gather(1, index)
    num_right = (picked >= logs.amax(1, keepdim=True)).sum()
    losses = -picked
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * logs.mean(1, keepdim=True)
    slopes = logs.exp_()
    if smoothing:
        slopes -= smoothing / logits.shape[1]
    logits.copy_(slopes)
    logits.scatter_add_(1, index, logits.new_full(index.shape, smoothing - 1.0))
    return losses.sum(), num_right


@cache
def _compiled_kernel() -> Callable[[Tensor, Tensor, float, torch.dtype], tuple[Tensor, Tensor]]:
    """Return `soften_at_once` as one kernel for any number of rows."""
    compiled = torch.compile(soften_at_once)

    def kernel(
        logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        for tensor in (logits, targets):
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
        return compiled(logits, targets, smoothing, exact)

    return kernel


def soften_at_once(
    logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Do the same without a step in between that would be written to memory, for a compiler.

    Ignored targets may be among the others: they get no weight.
    """
    V = logits.shape[1]
    is_wanted = (targets != IGNORE)[:, None]
    index = targets[:, None].clamp(min=0)  # (n, 1)
    x = logits.to(exact)
    top = x.amax(1, keepdim=True)
    total = (x - top).exp().sum(1, keepdim=True).log() + top
    picked = x.gather(1, index)
    losses = total - (1 - smoothing) * picked
    if smoothing:
        losses = losses - smoothing * x.mean(1, keepdim=True)
    is_target = torch.arange(V, device=x.device) == index  # (n, V)
    share = (1 - smoothing) * is_target.to(exact) + smoothing / V
    num_right = ((picked >= top) & is_wanted).sum()
    loss = (losses * is_wanted).sum()
    logits.copy_(((x - total).exp() - share) * is_wanted)
    return loss, num_right
