"""Summed cross-entropy of linear(hidden) that never holds all logits in memory.

It returns sums; the trainer divides them by the counts of the whole group of batches.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORE = -100  # a target that is not counted

# Logits in memory at once, and logits that go through the softmax together: on a CPU few enough
# to stay in its caches, on a GPU enough to fill it.
LOGITS_PER_CHUNK = {"cpu": 25_000_000, "cuda": 400_000_000}
LOGITS_PER_SOFTMAX = {"cpu": 1_600_000, "cuda": 400_000_000}
# The vocabulary is padded to a multiple of this: unaligned matrix products on a GPU take ten times
# as long. The logits of the padding are 0 and excluded from the softmax.
VOCABULARY_MULTIPLE = {"cpu": 1, "cuda": 64}


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of linear(hidden) against targets, and the number correct.

    `hidden` is (N, D), `targets` (N,); positions with the target IGNORE are not counted;
    `smoothing` is the share of each target that is spread over the vocabulary. The gradient is
    computed chunk by chunk with the loss, so that (N, V) logits never exist.
    """
    if not torch.is_grad_enabled():  # a Function sees requires_grad, not the mode
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    device = hidden.device.type
    if device == "cpu":  # a GPU would have to be waited for; there, ignored targets weigh nothing
        is_counted = targets != IGNORE
        hidden, targets = hidden[is_counted], targets[is_counted]
    is_cast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_cast else hidden.dtype
    with torch.autocast(device, enabled=False):
        loss, num_correct = _LinearCrossEntropy.apply(
            hidden, weight, bias, targets, smoothing, dtype
        )
    return loss, num_correct


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
        num_correct = torch.zeros((), dtype=torch.long, device=hidden.device)
        V, num_padding = len(weight), -len(weight) % VOCABULARY_MULTIPLE[hidden.device.type]
        inputs, weights = hidden.to(dtype), weight.to(dtype)
        biases = None if bias is None else bias.to(dtype)
        if num_padding:
            weights = F.pad(weights, (0, 0, 0, num_padding))
            biases = None if biases is None else F.pad(biases, (0, num_padding))
        grads = _Gradients(inputs, weights, weight, bias) if any(ctx.needs_input_grad) else None
        size = max(1, LOGITS_PER_CHUNK[hidden.device.type] // V)
        buffer = inputs.new_empty(min(size, len(inputs)), V + num_padding)
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            logits = buffer[: len(targets[rows])]
            if biases is None:
                torch.mm(inputs[rows], weights.T, out=logits)
            else:
                torch.addmm(biases, inputs[rows], weights.T, out=logits)
            sums = _softmax_loss_(logits[:, :V], targets[rows], smoothing, weight.dtype)
            loss += sums[0]
            num_correct += sums[1]
            if grads is not None:
                grads.add(rows, grad_logits=logits)
        if grads is not None:
            ctx.save_for_backward(grads.hidden.to(hidden.dtype), grads.weight, grads.bias)
        ctx.mark_non_differentiable(num_correct)
        return loss, num_correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = (None if grad is None else grad * grad_loss for grad in ctx.saved_tensors)
        return *saved, None, None, None


class _Gradients:
    """Gradients of the summed loss, added up chunk by chunk in the weights' own precision."""

    def __init__(
        self, inputs: Tensor, weights: Tensor, weight: Tensor, bias: Tensor | None
    ) -> None:
        self.inputs, self.weights = inputs, weights
        self.hidden = torch.empty_like(inputs)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)
        self.product = torch.empty_like(weights)

    def add(self, rows: slice, grad_logits: Tensor) -> None:
        """Add the gradients that follow from those of some rows' logits (n, V + padding)."""
        V = len(self.weight)
        torch.mm(grad_logits, self.weights, out=self.hidden[rows])
        self.weight += torch.mm(grad_logits.T, self.inputs[rows], out=self.product)[:V]
        if self.bias is not None:
            self.bias += (grad_logits.new_ones(1, len(grad_logits)) @ grad_logits)[0, :V]


def _softmax_loss_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits (n, V) by their gradients; return the summed loss and the number correct."""
    size = max(1, LOGITS_PER_SOFTMAX[logits.device.type] // logits.shape[1])
    kernel = softmax_loss_cpu_ if logits.device.type == "cpu" else _compiled_kernel()
    sums = [
        kernel(logits[start : start + size], targets[start : start + size], smoothing, dtype)
        for start in range(0, len(logits), size)
    ]
    losses, corrects = zip(*sums, strict=True)
    return torch.stack(losses).sum(), torch.stack(corrects).sum()


def softmax_loss_cpu_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits (n, V) by their gradients, computing in `dtype`; no target is IGNORE."""
    index = targets[:, None]  # (n, 1)
    log_probs = F.log_softmax(logits, -1, dtype=dtype)
    target_log_probs = log_probs.gather(1, index)
    num_correct = (target_log_probs >= log_probs.amax(1, keepdim=True)).sum()
    losses = -target_log_probs
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * log_probs.mean(1, keepdim=True)
    grad_logits = log_probs.exp_()
    if smoothing:
        grad_logits -= smoothing / logits.shape[1]
    # Subtract before rounding: a probability near 1 would be 1 in half precision.
    grad_logits.scatter_add_(1, index, grad_logits.new_full(index.shape, smoothing - 1.0))
    logits.copy_(grad_logits)
    return losses.sum(), num_correct


@cache
def _compiled_kernel() -> Callable[[Tensor, Tensor, float, torch.dtype], tuple[Tensor, Tensor]]:
    """Return `softmax_loss_fused_` compiled into one kernel for any number of rows."""
    compiled = torch.compile(softmax_loss_fused_)

    def kernel(
        logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        for tensor in (logits, targets):
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
        return compiled(logits, targets, smoothing, dtype)

    return kernel


def softmax_loss_fused_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Compute the same without intermediate results in memory, once compiled.

    Targets may be IGNORE: they add nothing to the sums, and their gradients are zero.
    """
    V = logits.shape[1]
    is_counted = (targets != IGNORE)[:, None]
    index = targets[:, None].clamp(min=0)  # (n, 1)
    x = logits.to(dtype)
    maximum = x.amax(1, keepdim=True)
    log_sum = (x - maximum).exp().sum(1, keepdim=True).log() + maximum
    target_logits = x.gather(1, index)
    losses = log_sum - (1 - smoothing) * target_logits
    if smoothing:
        losses = losses - smoothing * x.mean(1, keepdim=True)
    is_target = torch.arange(V, device=x.device) == index  # (n, V)
    target_probs = (1 - smoothing) * is_target.to(dtype) + smoothing / V
    num_correct = ((target_logits >= maximum) & is_counted).sum()
    loss = (losses * is_counted).sum()
    logits.copy_(((x - log_sum).exp() - target_probs) * is_counted)
    return loss, num_correct
