"""Optimizers, Muon among them, and learning rate schedules."""

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

Named = dict[str, nn.Parameter]
FUSED = ("cpu", "cuda")  # devices whose fused AdamW can skip a step by itself
TINY = 1e-30  # divides a matrix of zeros
Schedule = Callable[[int], float]  # steps done before this one -> factor from 0 to 1


@dataclass(frozen=True)
class OptimizerSettings:
    """What an optimizer is built from."""

    kind: Literal["adamw", "muon"]
    learning_rate: float  # peak
    weight_decay: float  # on matrices; vectors and embeddings have none
    layer_decay: float = 1.0  # rate of each block relative to the one above it
    unfreeze_steps: int = 0  # gradual unfreezing: delay of each level below the head
    head_steps: int = 0  # in which the head learns alone
    dtype: torch.dtype = torch.bfloat16  # of Muon's matrix products


def build_optimizers(model: nn.Module, settings: OptimizerSettings) -> dict[str, Optimizer]:
    """Return the optimizers by name; together they hold every trainable parameter once."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if settings.kind == "adamw":
        return {"adamw": _adamw(named, settings, settings.learning_rate)}
    hidden = {name: p for name, p in named.items() if _is_hidden_matrix(name, p)}
    rest = {name: p for name, p in named.items() if name not in hidden}
    muon = BatchedMuon(
        list(hidden.values()),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    muon.dtype = settings.dtype
    for group in muon.param_groups:
        group |= {"peak": settings.learning_rate, "start_step": settings.head_steps}
    return {"muon": muon, "adamw": _adamw(rest, settings, settings.learning_rate)}


def set_rates(optimizers: dict[str, Optimizer], step: int, factor: float) -> None:
    """Set the rate of every group to this share of its peak, or to 0 before it starts."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor if step >= group["start_step"] else 0.0


def limit_head_steps(optimizers: dict[str, Optimizer], most: int) -> None:
    """Let every group start after `most` steps at the latest."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["start_step"] = min(group["start_step"], most)


def _adamw(named: Named, settings: OptimizerSettings, rate: float) -> AdamW:
    blocks = [int(m[1]) for name in named if (m := re.match(r"backbone\.blocks\.(\d+)\.", name))]
    depth = max(blocks, default=-1) + 1
    groups: dict[tuple[float, int, float], list[Tensor]] = {}
    for name, parameter in named.items():
        decay = settings.weight_decay if _is_decayed(name, parameter) else 0.0
        level = _levels_below_head(name, depth)
        peak = rate * settings.layer_decay**level
        start_step = level * settings.unfreeze_steps + (settings.head_steps if level else 0)
        groups.setdefault((peak, start_step, decay), []).append(parameter)
    listed = [
        {
            "params": members,
            "lr": peak,
            "peak": peak,
            "start_step": start_step,
            "weight_decay": decay,
        }
        for (peak, start_step, decay), members in groups.items()
    ]
    is_fused = all(p.is_floating_point() and p.device.type in FUSED for p in named.values())
    return AdamW(listed, betas=(0.9, 0.95), fused=is_fused)


def _is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    return ".blocks." in name and parameter.ndim == 2


def _is_decayed(name: str, parameter: Tensor) -> bool:
    return parameter.ndim >= 2 and ".embed" not in name


def _levels_below_head(name: str, depth: int) -> int:
    """Return 0 for the head and final norm, 1 for the last block, depth + 1 for embeddings."""
    block = re.match(r"backbone\.blocks\.(\d+)\.", name)
    if block:
        return depth - int(block[1])
    return depth + 1 if name.startswith("backbone.embed") or "norm_embed" in name else 0


def clip_gradients(model: nn.Module, limit: float) -> Tensor:
    """Scale all gradients to at most this norm together; return the norm they had."""
    return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


class BatchedMuon(Muon):
    """`torch.optim.Muon`, as `match_rms_adamw` scales it, with one product per shape."""

    dtype = torch.bfloat16  # of the products
    found_inf: Tensor | None = None  # 1: a step changes nothing; as in the fused AdamW of torch

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
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        grads = torch.stack([p.grad for p in parameters if p.grad is not None])  # (B, m, n)
        moments = torch.stack(buffers)  # (B, m, n)
        factor = 1 - group["lr"] * group["weight_decay"]
        decay: float | Tensor = factor
        if self.found_inf is not None:  # a moment that moves towards itself stays where it is
            torch.where(self.found_inf > 0, moments, grads, out=grads)
            kept = torch.full_like(self.found_inf, factor, dtype=grads.dtype)
            decay = kept.masked_fill_(self.found_inf > 0, 1.0)
        moments.lerp_(grads, 1 - group["momentum"])
        torch._foreach_copy_(buffers, moments.unbind(0))
        updates = grads.lerp_(moments, group["momentum"])
        if self.dtype == torch.float16:  # which would round small numbers to zero
            updates = updates / updates.norm(dim=(-2, -1), keepdim=True).clamp(min=TINY)
        updates = updates.to(self.dtype)
        polynomial = group["ns_coefficients"], group["ns_steps"], group["eps"]
        if updates.is_cuda:
            updates = orthogonal(updates, *polynomial)
        else:  # a CPU takes longer for a product of several matrices than for one at a time
            updates = torch.stack([orthogonal(update, *polynomial) for update in updates])
        if self.found_inf is not None:
            updates.masked_fill_(self.found_inf > 0, 0.0)
        rate = group["lr"] * 0.2 * max(parameters[0].shape) ** 0.5
        torch._foreach_mul_(parameters, decay)
        torch._foreach_add_(parameters, updates.to(grads.dtype).unbind(0), alpha=-rate)


def orthogonal(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Bring the singular values of a matrix (m, n), or of several (B, m, n), near one."""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=eps)
    a, b, c = coefficients
    add_product = torch.baddbmm if x.ndim == 3 else torch.addmm
    for _ in range(steps):
        gram = x @ x.mT
        x = add_product(x, add_product(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def warmup_cosine(steps: int, warmup: float, floor: float = 0.05) -> Schedule:
    """Rise linearly over the share `warmup` of all steps, then fall along a cosine to `floor`."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(1, steps - rising)
        return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2

    return factor


def warmup_linear(steps: int, warmup: float) -> Schedule:
    """Rise linearly over the share `warmup` of all steps, then fall linearly to zero."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        return min((step + 1) / rising, max(0.0, (steps - step) / max(1, steps - rising)))

    return factor


def warmup_inverse_sqrt(steps: int, warmup: float) -> Schedule:
    """Rise linearly, then fall with the inverse square root of the step, as in the 2017 paper."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        return min((step + 1) / rising, (rising / (step + 1)) ** 0.5)

    return factor


def annealing(before: Schedule, start: int, steps: int, floor: float = 0.05) -> Schedule:
    """Follow a schedule up to `start` and to the end of its warm-up, then fall along a cosine."""
    turn = start
    while turn + 1 < steps and before(turn + 1) > before(turn):
        turn += 1
    peak = before(turn)
    lowest = min(peak, floor)

    def factor(step: int) -> float:
        if step < turn:
            return before(step)
        done = (step - turn) / (steps - turn)
        return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2

    return factor
