"""Padded rows as tokens side by side, so that padding costs nothing outside of attention."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Move = Callable[[Tensor], Tensor]
ENOUGH_PADDING = 0.05  # share of a batch that is worth leaving out
MULTIPLE = 64  # of which the number of tokens is one: kernels are built anew for every other number


class TokenGrid:
    """Where the tokens of padded rows (B, T) are: N of them, the last of which may be padding."""

    def __init__(self, is_token: Tensor) -> None:
        self.shape = is_token.shape
        is_token = is_token.flatten()
        self.num_tokens = int(is_token.sum())
        order = is_token.logical_not().to(torch.uint8).argsort(stable=True)  # tokens first
        self.places = order[: rounded(self.num_tokens)]  # (N,) in the padded rows
        numbers = is_token.cumsum(0) - 1
        self.numbers = torch.where(is_token, numbers, len(self.places))  # (B T,) N where padded

    def side_by_side(self, rows: Tensor) -> Tensor:
        """Return the tokens (1, N, ...) of padded rows (B, T, ...); what is added is zero."""
        return _Moved.apply(rows.flatten(0, 1), self.select, self.put_back)[None]

    def in_rows(self, tokens: Tensor) -> Tensor:
        """Return padded rows (B, T, D), with zeros as padding, of tokens (1, N, D)."""
        rows = _Moved.apply(tokens[0], self.put_back, self.select)
        return rows.view(*self.shape, -1)

    def select(self, rows: Tensor) -> Tensor:
        """Return the tokens (N, D) of rows (B T, D)."""
        tokens = rows.index_select(0, self.places)
        tokens[self.num_tokens :] = 0
        return tokens

    def put_back(self, tokens: Tensor) -> Tensor:
        """Return the rows (B T, D) of tokens (N, D)."""
        return F.pad(tokens, (0, 0, 0, 1)).index_select(0, self.numbers)  # the row appended is zero


def grid_of(is_token: Tensor | None) -> TokenGrid | None:
    """Return the grid of padded rows on a CPU; None: the padding is not worth leaving out."""
    if is_token is None or is_token.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    is_worth_it = rounded(int(is_token.sum())) < (1 - ENOUGH_PADDING) * is_token.numel()
    return TokenGrid(is_token) if is_worth_it else None


def rounded(num_tokens: int) -> int:
    """Return the number that is computed in place of so many tokens."""
    return -(-num_tokens // MULTIPLE) * MULTIPLE


class _Moved(torch.autograd.Function):
    """Moves vectors one way, and their gradients the other: faster than adding up gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Move, back: Move) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None
