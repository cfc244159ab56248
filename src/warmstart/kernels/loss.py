"""Summed cross-entropy of linear(hidden) that never holds all logits in memory.

It returns sums; the trainer divides them by the counts of the whole group of batches.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from warmstart.runtime import builds_kernels

IGNORE = -100  # a target that is not counted

# Logits in memory at once: on a GPU enough to fill it.
LOGITS_PER_CHUNK = {"cpu": 25_000_000, "cuda": 800_000_000, "mps": 25_000_000}
ROWS_PER_SUM = 4096  # that are added up in fp16, whose largest number is 65,504
LOGITS_PER_SOFTMAX = 1_600_000  # that go through the softmax together: a CPU's caches hold them
GPU_LOGITS_PER_SOFTMAX = 50_000_000  # where a GPU has no kernel of ours: few calls, and 200 MB
# The vocabulary is padded to a multiple of this: unaligned matrix products on a GPU take ten times
# as long. The logits of the padding are 0 and excluded from the softmax.
VOCABULARY_MULTIPLE = {"cpu": 1, "cuda": 64, "mps": 1}
BIAS_COLUMNS = 8  # that hold a bias, all but one of them 0: aligned as well


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
    if device != "cuda":  # which would have to be waited for; there, ignored targets weigh nothing
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
        if bias is not None:
            inputs, weights = _with_bias(inputs, weights, bias)
        if num_padding:
            weights = F.pad(weights, (0, 0, 0, num_padding))
        grads = _Gradients(inputs, weights, weight, bias) if any(ctx.needs_input_grad) else None
        size = max(1, LOGITS_PER_CHUNK[hidden.device.type] // V)
        size = min(size, ROWS_PER_SUM) if dtype == torch.float16 else size
        buffer = inputs.new_empty(min(size, len(inputs)), V + num_padding)
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            logits = buffer[: len(targets[rows])]
            torch.mm(inputs[rows], weights.T, out=logits)
            sums = _softmax_loss_(logits, V, targets[rows], smoothing, weight.dtype)
            loss += sums[0]
            num_correct += sums[1]
            if grads is not None:
                grads.add(rows, grad_logits=logits)
        if grads is not None:
            grad_hidden = grads.hidden[:, : hidden.shape[1]].to(hidden.dtype)
            ctx.save_for_backward(grad_hidden, grads.weight, grads.bias)
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
        V, D = self.weight.shape
        torch.mm(grad_logits, self.weights, out=self.hidden[rows])
        product = torch.mm(grad_logits.T, self.inputs[rows], out=self.product)[:V]
        self.weight += product[:, :D]
        if self.bias is not None:
            self.bias += product[:, D]


def _with_bias(inputs: Tensor, weights: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs and weights with the bias as one more column of the weights, whose input is 1.

    The product that gives the gradient of the weights then gives that of the bias too; adding up
    the gradients of logits for it would read them all once more.
    """
    inputs, weights = F.pad(inputs, (0, BIAS_COLUMNS)), F.pad(weights, (0, BIAS_COLUMNS))
    inputs[:, -BIAS_COLUMNS] = 1
    weights[:, -BIAS_COLUMNS] = bias
    return inputs, weights


def _softmax_loss_(
    logits: Tensor, size: int, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits of a vocabulary of this size, (n, V + padding), by gradients.

    Return the summed loss and the number correct.
    """
    is_cuda = logits.device.type == "cuda"
    if is_cuda and builds_kernels():
        from warmstart.kernels.softmax_loss import softmax_loss_gpu_  # imports Triton

        return softmax_loss_gpu_(logits, size, targets, smoothing, dtype, IGNORE)
    softmax_loss_ = plain_softmax_loss_ if is_cuda else softmax_loss_cpu_
    rows = max(1, (GPU_LOGITS_PER_SOFTMAX if is_cuda else LOGITS_PER_SOFTMAX) // size)
    parts = zip(logits[:, :size].split(rows), targets.split(rows), strict=True)
    sums = [softmax_loss_(*part, smoothing, dtype) for part in parts]
    losses, corrects = zip(*sums, strict=True)
    return torch.stack(losses).sum(), torch.stack(corrects).sum()


def plain_softmax_loss_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits (n, V) by their gradients without waiting for the device.

    Targets that are IGNORE add nothing, and their gradients are zero.
    """
    is_ignored = (targets == IGNORE)[:, None]
    known = targets[:, None].masked_fill(is_ignored, 0)
    losses, is_correct = _softmax_losses_(logits, known, smoothing, dtype)
    logits.masked_fill_(is_ignored, 0.0)
    return losses.masked_fill(is_ignored, 0.0).sum(), (is_correct & ~is_ignored).sum()


def softmax_loss_cpu_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits (n, V) by their gradients, computing in `dtype`; no target is IGNORE."""
    losses, is_correct = _softmax_losses_(logits, targets[:, None], smoothing, dtype)
    return losses.sum(), is_correct.sum()


def _softmax_losses_(
    logits: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Replace logits (n, V) by their gradients; return loss and correctness of each row (n, 1)."""
    log_probs = F.log_softmax(logits, -1, dtype=dtype)
    target_log_probs = log_probs.gather(1, targets)  # (n, 1)
    is_correct = target_log_probs >= log_probs.amax(1, keepdim=True)
    losses = -target_log_probs
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * log_probs.mean(1, keepdim=True)
    grad_logits = log_probs.exp_()
    if smoothing:
        grad_logits -= smoothing / logits.shape[1]
    # Subtract before rounding: a probability near 1 would be 1 in half precision.
    grad_logits.scatter_add_(1, targets, grad_logits.new_full(targets.shape, smoothing - 1.0))
    logits.copy_(grad_logits)
    return losses, is_correct
