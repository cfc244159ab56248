"""The feed-forward layer and the block: attention, feed-forward, norms, residual sums.

Knows nothing about tokens.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.model.attention import CrossAttention, MultiHeadAttention
from warmstart.model.cache import LayerCache, LayerMemory
from warmstart.settings.model import Activation, Norm, NormPosition

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swiglu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
}


def build_norm(kind: Norm, width: int, biases: bool, eps: float = 1e-5) -> nn.Module:
    """Return a normalisation layer; RMS norm never has a bias."""
    if kind == "rms":
        return nn.RMSNorm(width, eps=eps)
    return nn.LayerNorm(width, eps=eps, bias=biases)


class FeedForward(nn.Module):
    """Width to inner width and back; `swiglu` multiplies by a gate of its own."""

    def __init__(
        self, width: int, ffn_width: int, activation: Activation, dropout: float, biases: bool
    ) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[activation]
        self.is_gated = activation == "swiglu"
        self.inner = nn.Linear(width, 2 * ffn_width if self.is_gated else ffn_width, bias=biases)
        self.outer = nn.Linear(ffn_width, width, bias=biases)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position by itself."""
        if self.is_gated:
            gate, inner = self.inner(x).chunk(2, -1)
            return self.outer(self.dropout(self.activate(gate) * inner))
        return self.outer(self.dropout(self.activate(self.inner(x))))


class Block(nn.Module):
    """Self-attention and feed-forward, each with a residual sum and a norm.

    A block of a decoder looks at the source in between.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_width: int,
        activation: Activation,
        norm: Norm,
        norm_position: NormPosition,
        dropout: float,
        biases: bool,
        eps: float = 1e-5,
        inner_dropout: float | None = None,  # None: the same
        has_memory: bool = False,
    ) -> None:
        super().__init__()
        inner = dropout if inner_dropout is None else inner_dropout
        self.is_pre = norm_position == "pre"
        self.attend = MultiHeadAttention(width, heads, inner, biases)
        self.norm_attend = build_norm(norm, width, biases, eps)
        if has_memory:
            self.cross = CrossAttention(width, heads, inner, biases)
            self.norm_cross = build_norm(norm, width, biases, eps)
        self.ffn = FeedForward(width, ffn_width, activation, inner, biases)
        self.norm_ffn = build_norm(norm, width, biases, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        turn: Tensor | None = None,
        cache: LayerCache | None = None,
        keep: list[Tensor] | None = None,
        memory: LayerMemory | None = None,
    ) -> Tensor:
        """Let positions look at each other, perhaps at the source, then think alone."""
        if self.is_pre:
            seen = self.attend(self.norm_attend(x), mask, is_causal, turn, cache, keep)
            x = x + self.dropout(seen)
            if memory is not None:
                x = x + self.dropout(self.cross(self.norm_cross(x), memory))
            return x + self.dropout(self.ffn(self.norm_ffn(x)))
        seen = self.attend(x, mask, is_causal, turn, cache, keep)
        x = self.norm_attend(x + self.dropout(seen))
        if memory is not None:
            x = self.norm_cross(x + self.dropout(self.cross(x, memory)))
        return self.norm_ffn(x + self.dropout(self.ffn(x)))
