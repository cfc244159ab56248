"""Padded rows as tokens side by side, so that padding costs nothing outside of attention."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ENOUGH_PADDING = 0.05  # share of a batch that is worth leaving out


class TokenGrid:
    """Where the tokens of padded rows (B, T) are."""

    def __init__(self, is_token: Tensor) -> None:
        self.shape = is_token.shape
        is_token = is_token.flatten()
        self.places = is_token.nonzero()[:, 0]  # (N,) of each token in the padded rows
        numbers = is_token.cumsum(0) - 1
        self.numbers = torch.where(is_token, numbers, len(self.places))  # (B T,) N where padded

    def side_by_side(self, rows: Tensor) -> Tensor:
        """Return the tokens (1, N, ...) of padded rows (B, T, ...)."""
        return _SideBySide.apply(rows.flatten(0, 1), self.places, self.numbers)[None]

    def in_rows(self, tokens: Tensor) -> Tensor:
        """Return padded rows (B, T, D), with zeros as padding, of tokens (1, N, D)."""
        rows = _InRows.apply(tokens[0], self.places, self.numbers)
        return rows.view(*self.shape, -1)


def grid_of(is_token: Tensor | None) -> TokenGrid | None:
    """Return the grid of padded rows on a CPU; None: the padding is not worth leaving out."""
    if is_token is None or is_token.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    is_worth_it = int(is_token.sum()) < (1 - ENOUGH_PADDING) * is_token.numel()
    return TokenGrid(is_token) if is_worth_it else None


class _SideBySide(torch.autograd.Function):
    """Selects tokens; its gradient puts them back, which is faster than adding them up."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (numbers,) = ctx.saved_tensors
        return _put_back(gradient, numbers), None, None


class _InRows(torch.autograd.Function):
    """Puts tokens back; its gradient selects them."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        return _put_back(tokens, numbers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


def _put_back(tokens: Tensor, numbers: Tensor) -> Tensor:
    return F.pad(tokens, (0, 0, 0, 1)).index_select(0, numbers)  # the row appended is padding
