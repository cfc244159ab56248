"""The feed-forward layer, and the blocks of the encoder and of the decoder."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.kernels.layers import Dropout
from warmstart.model.attention import AttentionContext, CrossAttention, MultiHeadAttention
from warmstart.settings.model import GATED, Activation, Norm, NormPosition

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": F.silu,
    "geglu": F.gelu,
}


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """The sizes of a block and the choices inside it."""

    width: int
    heads: int
    ffn_width: int
    activation: Activation = "relu"
    norm: Norm | None = "layer"
    norm_position: NormPosition = "post"
    norm_eps: float = 1e-5
    biases: bool = True
    dropout: float = 0.0  # of each sublayer's output
    inner_dropout: float = 0.0  # of attention weights and of the feed-forward layer's activations
    has_residual: bool = True  # False: to see what residual connections are for


def build_norm(kind: Norm | None, width: int, biases: bool, eps: float = 1e-5) -> nn.Module:
    """Return a normalisation layer, for None the identity; RMS norm never has a bias."""
    if kind is None:
        return nn.Identity()
    if kind == "rms":
        return nn.RMSNorm(width, eps=eps)
    return nn.LayerNorm(width, eps=eps, bias=biases)


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, which may be gated."""

    def __init__(
        self, width: int, ffn_width: int, activation: Activation, dropout: float, biases: bool
    ) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[activation]
        self.is_gated = activation in GATED
        self.inner = nn.Linear(width, 2 * ffn_width if self.is_gated else ffn_width, bias=biases)
        self.outer = nn.Linear(ffn_width, width, bias=biases)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position by itself."""
        if self.is_gated:
            gate, inner = self.inner(x).chunk(2, -1)
            return self.outer(self.dropout(self.activate(gate) * inner))
        return self.outer(self.dropout(self.activate(self.inner(x))))


class _ResidualBlock(nn.Module):
    """Sublayers, each with a residual connection and a norm."""

    def __init__(self, options: BlockOptions) -> None:
        super().__init__()
        self.is_pre = options.norm_position == "pre"
        self.has_residual = options.has_residual
        self.dropout = Dropout(options.dropout)

    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return norm(x + sublayer(x)), or with pre-norm x + sublayer(norm(x))."""
        kept = x if self.has_residual else 0.0
        if self.is_pre:
            return kept + self.dropout(sublayer(norm(x)))
        return norm(kept + self.dropout(sublayer(x)))


class Block(_ResidualBlock):
    """Self-attention and feed-forward: a block of an encoder or of a language model."""

    def __init__(self, options: BlockOptions, layer: int = 0) -> None:
        super().__init__(options)
        sizes = (options.width, options.heads, options.inner_dropout, options.biases, layer)
        self.attend = MultiHeadAttention(*sizes)
        self.norm_attend = _norm(options)
        self.ffn = _feed_forward(options)
        self.norm_ffn = _norm(options)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        """Return hidden vectors (B, T, D) from hidden vectors."""
        x = self.residual(x, self.norm_attend, lambda x: self.attend(x, context))
        return self.residual(x, self.norm_ffn, self.ffn)


class DecoderBlock(_ResidualBlock):
    """Self-attention, attention to the source, and feed-forward."""

    def __init__(self, options: BlockOptions, layer: int = 0) -> None:
        super().__init__(options)
        sizes = (options.width, options.heads, options.inner_dropout, options.biases, layer)
        self.attend = MultiHeadAttention(*sizes)
        self.norm_attend = _norm(options)
        self.cross = CrossAttention(*sizes)
        self.norm_cross = _norm(options)
        self.ffn = _feed_forward(options)
        self.norm_ffn = _norm(options)

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        source: Tensor,
        source_context: AttentionContext,
    ) -> Tensor:
        """Return hidden vectors (N, T, D) from hidden vectors and the source (B, S, D)."""
        x = self.residual(x, self.norm_attend, lambda x: self.attend(x, context))
        x = self.residual(x, self.norm_cross, lambda x: self.cross(x, source, source_context))
        return self.residual(x, self.norm_ffn, self.ffn)


def _norm(options: BlockOptions) -> nn.Module:
    return build_norm(options.norm, options.width, options.biases, options.norm_eps)


def _feed_forward(options: BlockOptions) -> FeedForward:
    return FeedForward(
        options.width,
        options.ffn_width,
        options.activation,
        options.inner_dropout,
        options.biases,
    )
