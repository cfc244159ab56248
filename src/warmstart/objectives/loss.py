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

from warmstart.batches.batch import IGNORE

# Logits held at once, and how many of them go through the softmax together: on a CPU few enough
# to stay in its caches, on a GPU enough to fill it.
HELD = {"cpu": 25_000_000, "cuda": 400_000_000}
SOFTENED = {"cpu": 1_600_000, "cuda": 400_000_000}


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
        inputs, weights = hidden.to(dtype), weight.to(dtype)
        grads = _Gradients(inputs, weights, weight, bias) if any(ctx.needs_input_grad) else None
        size = max(1, HELD[hidden.device.type] // len(weight))
        held = inputs.new_empty(min(size, len(inputs)), len(weight))
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            logits = held[: len(targets[rows])]
            if bias is None:
                torch.mm(inputs[rows], weights.T, out=logits)
            else:
                torch.addmm(bias.to(dtype), inputs[rows], weights.T, out=logits)
            chunk_loss, right = _soften(logits, targets[rows], smoothing, weight.dtype)
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
        """Take in d loss / d logits (n, V) of some rows."""
        torch.mm(slopes, self.weights, out=self.hidden[rows])
        self.weight += torch.mm(slopes.T, self.inputs[rows], out=self.product)
        if self.bias is not None:
            self.bias += (slopes.new_ones(1, len(slopes)) @ slopes)[0]


def _soften(
    logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Turn logits (n, V) into d loss / d logits in place; return the loss and the hits."""
    size = max(1, SOFTENED[logits.device.type] // logits.shape[1])
    soften_part = _compiled_part() if logits.device.type == "cuda" else _soften_part
    parts = [
        soften_part(logits[start : start + size], targets[start : start + size], smoothing, exact)
        for start in range(0, len(logits), size)
    ]
    if not parts:
        return torch.zeros((), dtype=exact), torch.zeros((), dtype=torch.long)
    losses, rights = zip(*parts, strict=True)
    return torch.stack(losses).sum(), torch.stack(rights).sum()


@cache
def _compiled_part() -> Callable[[Tensor, Tensor, float, torch.dtype], tuple[Tensor, Tensor]]:
    """Return `_soften_part` as one kernel, which reads and writes the logits once or twice."""
    return torch.compile(_soften_part, dynamic=True)


def _soften_part(
    logits: Tensor, targets: Tensor, smoothing: float, exact: torch.dtype
) -> tuple[Tensor, Tensor]:
    index = targets[:, None].clamp(min=0)  # (n, 1)
    logs = F.log_softmax(logits, -1, dtype=exact)
    picked = logs.gather(1, index)
    is_right = picked >= logs.amax(1, keepdim=True)
    losses = -picked
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * logs.mean(1, keepdim=True)
    slopes = logs.exp_()
    if smoothing:
        slopes -= smoothing / logits.shape[1]
    hit = logits.new_full(index.shape, smoothing - 1.0)
    if logits.device.type != "cpu":  # where ignored targets are still among them
        is_wanted = (targets != IGNORE)[:, None]
        slopes, hit = slopes * is_wanted, hit * is_wanted
        losses, is_right = losses * is_wanted, is_right & is_wanted
    logits.copy_(slopes)
    logits.scatter_add_(1, index, hit)
    return losses.sum(), is_right.sum()
