"""The factor of the loss under fp16, whose range is too small for many gradients.

Its rule is that of `torch.amp.GradScaler`, which waits for the device with optimizers that are not
torch's own, and lets the factor fall to zero. Here nothing is waited for, processes that share a
step agree, and the factor has a least value: what overflows there is a fault.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from warmstart.runs.checkpoint import State
from warmstart.training.step import Counts, Latch, divisor

FIRST, LEAST, MOST = 2.0**16, 1.0, 2.0**24  # powers of two: scaling rounds nothing
GROWTH_STEPS = 2000  # without an overflow, after which the scale is doubled


class LossScale:
    """A scale that is halved when a gradient overflows, and doubled after many steps without."""

    def __init__(self, device: torch.device) -> None:
        self.value, self.num_steps, self.num_overflows = torch.zeros(3, device=device).unbind()
        self.restore(State())

    def restore(self, state: State) -> None:
        """Continue with the scale of a state; one without a scale begins with the first."""
        self.value.fill_(state.loss_scale or FIRST)
        self.num_steps.fill_(state.steps_at_scale)
        self.num_overflows.fill_(state.overflows)

    def save_in(self, state: State) -> None:
        """Enter the scale into a state; waits for the device."""
        figures = torch.stack([self.value, self.num_steps, self.num_overflows]).tolist()
        state.loss_scale = figures[0]
        state.steps_at_scale, state.overflows = map(int, figures[1:])

    def divide(self, counts: Counts) -> Mapping[str, Tensor]:
        """Return the counts by which sums are divided to a mean loss that is scaled."""
        return {term: divisor(count) / self.value for term, count in counts.items()}

    @torch.no_grad()
    def unscale(self, model: nn.Module) -> None:
        """Divide the gradients by the scale."""
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        torch._foreach_mul_(grads, self.value.reciprocal())

    def enter(self, loss: Tensor, norm: Tensor, latch: Latch) -> Tensor:
        """Enter the figures of a step; return 1 if the step must be skipped, else 0.

        A finite loss whose gradient is not finite has overflowed on the way back, and a lower scale
        helps. If the loss is not finite, or the scale is the least, the step is a fault.
        """
        is_overflow = loss.isfinite() & ~norm.isfinite() & (self.value > LEAST)
        is_skipped = latch.enter(~is_overflow & ~(loss.isfinite() & norm.isfinite()))
        is_overflow &= is_skipped == 0  # steps after a fault are taken again, with the same scale
        self.num_steps += 1 - is_skipped
        is_grown = self.num_steps >= GROWTH_STEPS
        self.value *= torch.where(is_overflow, 0.5, torch.where(is_grown, 2.0, 1.0))
        self.value.clamp_(LEAST, MOST)
        self.num_steps.masked_fill_(is_overflow | is_grown, 0.0)
        self.num_overflows += is_overflow
        return torch.maximum(is_skipped, is_overflow.float())
