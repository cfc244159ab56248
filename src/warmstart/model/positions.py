"""Position encodings that are computed, not learned: sinusoids and rotary positions."""

import torch
from torch import Tensor


def frequencies(num: int, device: torch.device, base: float = 10_000.0) -> Tensor:
    """Return angular frequencies that fall from 1 towards 1 / base."""
    steps = torch.arange(num, dtype=torch.float64, device=device)
    return base ** (-steps / num)  # (num,)


def sinusoids(length: int, width: int, device: torch.device) -> Tensor:
    """Return sin in even columns and cos in odd ones, as the 2017 paper writes them."""
    positions = torch.arange(length, dtype=torch.float64, device=device)
    angles = positions[:, None] * frequencies(width // 2, device)  # (T, D / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)  # (T, D)


def rope_cos_sin(positions: Tensor, width_per_head: int, base: float = 10_000.0) -> Tensor:
    """Return cos and sin of each position's angle at each frequency: (2, B, 1, T, K / 2)."""
    speeds = frequencies(width_per_head // 2, positions.device, base)
    angles = positions[:, None, :, None] * speeds
    return torch.stack([angles.cos(), angles.sin()]).float()
