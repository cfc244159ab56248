"""The feed-forward layer and the block: attention, feed-forward, norms, residual sums.

Knows nothing about tokens.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.config.model import Activation, Norm, Placement
from warmstart.model.attention import MultiHeadAttention
from warmstart.model.cache import LayerCache

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swiglu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
}


def build_norm(kind: Norm, width: int, biases: bool) -> nn.Module:
    """Return a normalisation layer; RMS norm never has a bias."""
    if kind == "rms":
        return nn.RMSNorm(width, eps=1e-6)
    return nn.LayerNorm(width, eps=1e-5, bias=biases)


class FeedForward(nn.Module):
    """Width to inner width and back; `swiglu` multiplies by a gate of its own."""

    def __init__(
        self, width: int, feed: int, activation: Activation, dropout: float, biases: bool
    ) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[activation]
        self.is_gated = activation == "swiglu"
        self.inner = nn.Linear(width, 2 * feed if self.is_gated else feed, bias=biases)
        self.outer = nn.Linear(feed, width, bias=biases)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position by itself."""
        if self.is_gated:
            gate, inner = self.inner(x).chunk(2, -1)
            return self.outer(self.dropout(self.activate(gate) * inner))
        return self.outer(self.dropout(self.activate(self.inner(x))))


class Block(nn.Module):
    """Self-attention and feed-forward, each with a residual sum and a norm."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed: int,
        activation: Activation,
        norm: Norm,
        placement: Placement,
        dropout: float,
        biases: bool,
    ) -> None:
        super().__init__()
        self.is_pre = placement == "pre"
        self.attend = MultiHeadAttention(width, heads, dropout, biases)
        self.norm_attend = build_norm(norm, width, biases)
        self.feed = FeedForward(width, feed, activation, dropout, biases)
        self.norm_feed = build_norm(norm, width, biases)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        turn: Tensor | None = None,
        cache: LayerCache | None = None,
        keep: list[Tensor] | None = None,
    ) -> Tensor:
        """Let positions look at each other, then think alone."""
        if self.is_pre:
            seen = self.attend(self.norm_attend(x), mask, is_causal, turn, cache, keep)
            x = x + self.dropout(seen)
            return x + self.dropout(self.feed(self.norm_feed(x)))
        seen = self.attend(x, mask, is_causal, turn, cache, keep)
        x = self.norm_attend(x + self.dropout(seen))
        return self.norm_feed(x + self.dropout(self.feed(x)))
