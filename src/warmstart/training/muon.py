"""Muon for many small matrices: those of one shape take their step together.

On a GPU launching a product costs more than a small product itself, and Muon has fifteen for
every matrix.
"""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor
from torch.optim import Muon


class BatchedMuon(Muon):
    """`torch.optim.Muon`, as `match_rms_adamw` scales it, with one product per shape."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step; closures have no use here."""
        for group in self.param_groups:
            same_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    same_shape[parameter.shape].append(parameter)
            for parameters in same_shape.values():
                self._step_same_shape(parameters, group)

    def _step_same_shape(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        moments = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        torch._foreach_lerp_(moments, grads, 1 - group["momentum"])
        updates = torch.stack(torch._foreach_lerp(grads, moments, group["momentum"]))
        updates = orthogonal(updates, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rate = group["lr"] * 0.2 * max(parameters[0].shape) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, updates.to(parameters[0].dtype).unbind(0), alpha=-rate)


def orthogonal(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Bring the singular values of matrices (B, m, n) near one, in bfloat16."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.bfloat16()
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    a, b, c = coefficients
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
