"""Which keys each query sees: boolean masks that broadcast over heads, (B, 1, T, S)."""

import torch
from torch import Tensor


def causal_mask(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """Let a position see itself and what precedes it; queries are the last of the keys."""
    square = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return square.tril(num_keys - num_queries)[None, None]  # (1, 1, T, S)


def padding_mask(is_token: Tensor) -> Tensor:
    """Let every position see the tokens of its own row, but no padding."""
    B, S = is_token.shape
    return is_token.view(B, 1, 1, S)


def window_mask(num: int, window: int, device: torch.device) -> Tensor:
    """Let a position see as many positions on each side as the window has."""
    positions = torch.arange(num, device=device)
    return ((positions[:, None] - positions).abs() <= window)[None, None]  # (1, 1, T, T)


def document_mask(documents: Tensor) -> Tensor:
    """Let a position see its own document only; each row holds document numbers."""
    B, T = documents.shape
    return documents.view(B, 1, T, 1) == documents.view(B, 1, 1, T)  # (B, 1, T, T)
