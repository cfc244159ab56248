"""Dropout that does not wait for random numbers on a CPU.

`nn.Dropout` draws a float for every entry there, on one core: up to two fifths of a training step.
Sixteen random bits tell as well whether to keep an entry, and cost a fifth.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16  # probabilities are rounded to a multiple of 1 / LEVELS


class Dropout(nn.Dropout):
    """`nn.Dropout` with the fast kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries, in training only."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, probability: float) -> Tensor:
    """Set each entry to zero with this probability, and scale the others up to the same mean."""
    num_dropped = round(probability * LEVELS)  # of the levels
    if not num_dropped:
        return x
    if x.device.type != "cpu" or num_dropped == LEVELS or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    first_kept = num_dropped - LEVELS // 2
    keep = _random_16_bits(x.shape).clamp_(first_kept - 1, first_kept).sub_(first_kept - 1)
    return x * keep.to(x.dtype).mul_(LEVELS / (LEVELS - num_dropped))


def _random_16_bits(shape: torch.Size) -> Tensor:
    num = shape.numel()
    words = torch.empty(-(-num // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:num].view(shape)
