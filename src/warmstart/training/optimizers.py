"""Parameter groups and optimizers."""

import re
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from warmstart.training.muon import BatchedMuon

Named = dict[str, nn.Parameter]


@dataclass(frozen=True)
class OptimizerSettings:
    """What an optimizer is built from."""

    kind: Literal["adamw", "muon"]
    learning_rate: float  # peak
    weight_decay: float  # on matrices; vectors and embeddings have none
    layer_decay: float = 1.0  # rate of each block relative to the one above it
    unfreeze_steps: int = 0  # gradual unfreezing: delay of each level below the head
    head_steps: int = 0  # in which the head learns alone


def build_optimizers(model: nn.Module, settings: OptimizerSettings) -> dict[str, Optimizer]:
    """Return the optimizers by name; together they hold every trainable parameter once."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if settings.kind == "adamw":
        return {"adamw": _adamw(named, settings, settings.learning_rate)}
    hidden = {name: p for name, p in named.items() if _is_hidden_matrix(name, p)}
    rest = {name: p for name, p in named.items() if name not in hidden}
    is_cuda = any(p.device.type == "cuda" for p in hidden.values())
    muon = (BatchedMuon if is_cuda else Muon)(
        list(hidden.values()),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    for group in muon.param_groups:
        group |= {"peak": settings.learning_rate, "start_step": settings.head_steps}
    return {"muon": muon, "adamw": _adamw(rest, settings, settings.learning_rate)}


def set_rates(optimizers: dict[str, Optimizer], step: int, factor: float) -> None:
    """Set the rate of every group to this share of its peak, or to 0 before it starts."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor if step >= group["start_step"] else 0.0


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
    is_fused = all(
        p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in named.values()
    )
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
