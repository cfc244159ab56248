"""Summed cross-entropy, with and without the vocabulary's logits in memory.

Everything here returns sums; whoever knows the whole group of batches divides by its counts.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from warmstart.batches.batch import IGNORE

# Logits held at once: about 50 MB on a CPU, where chunks should stay near the caches.
CHUNK_LOGITS = {"cpu": 12_500_000, "cuda": 400_000_000}


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of linear(hidden) against targets, and how many were right.

    `hidden` is (N, D), `targets` (N,); positions with the target IGNORE count for nothing. The
    gradient is formed chunk by chunk beside the loss, so that (N, V) logits never exist.
    """
    wanted = targets != IGNORE
    hidden, targets = hidden[wanted], targets[wanted]
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    loss, num_right = _LinearCrossEntropy.apply(hidden, weight, bias, targets)
    return loss, num_right


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        size = max(1, CHUNK_LOGITS[hidden.device.type] // weight.shape[0])
        exact = torch.promote_types(hidden.dtype, torch.float32)
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        num_right = torch.zeros((), dtype=torch.long, device=hidden.device)
        needs = any(ctx.needs_input_grad)
        grads = _Gradients(hidden, weight, bias, exact) if needs else None
        for start in range(0, len(hidden), size):
            piece = slice(start, start + size)
            logits = F.linear(
                hidden[piece], weight, None if bias is None else bias.to(weight.dtype)
            )
            chunk_loss, right, slopes = _softmax_loss(logits, targets[piece], exact)
            loss += chunk_loss
            num_right += right
            if grads is not None:
                grads.add(piece, slopes)
        if grads is not None:
            saved = [grads.hidden, grads.weight.to(weight.dtype)]
            ctx.save_for_backward(*saved, *([] if grads.bias is None else [grads.bias]))
        ctx.mark_non_differentiable(num_right)
        return loss, num_right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, *bias = (saved * grad_loss.to(saved.dtype) for saved in ctx.saved_tensors)
        return hidden, weight, (bias[0] if bias else None), None


class _Gradients:
    """Gradients of the summed loss, gathered chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, exact: torch.dtype):
        self.inputs, self.weights = hidden, weight
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros(weight.shape, dtype=exact, device=weight.device)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, piece: slice, slopes: Tensor) -> None:
        """Take in d loss / d logits (n, V) of the rows in `piece`."""
        self.hidden[piece] = slopes @ self.weights
        self.weight += slopes.T @ self.inputs[piece]
        if self.bias is not None:
            self.bias += slopes.sum(0, dtype=self.bias.dtype)


def _softmax_loss(
    logits: Tensor, targets: Tensor, exact: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the chunk's loss, how many it got right, and d loss / d logits."""
    logs = F.log_softmax(logits, -1, dtype=exact)
    picked = logs.gather(1, targets[:, None])  # (n, 1)
    right = (picked[:, 0] >= logs.amax(1)).sum()
    slopes = logs.exp_().to(logits.dtype)
    slopes.scatter_add_(
        1, targets[:, None], torch.full_like(targets, -1, dtype=slopes.dtype)[:, None]
    )
    return -picked.sum(), right, slopes
