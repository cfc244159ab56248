"""Heads: what turns a backbone's hidden vectors into logits."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.kernels.dropout import Dropout
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.layers import ACTIVATIONS, build_norm
from warmstart.settings.model import Activation, Norm
from warmstart.settings.shared import Pooling


class Transform(nn.Module):
    """Dense, activation, norm: what BERT puts before its output weights."""

    def __init__(
        self, width: int, activation: Activation, norm: Norm | None, biases: bool, eps: float
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width, bias=biases)
        self.activate = ACTIVATIONS[activation]
        self.norm = build_norm(norm, width, biases, eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """Prepare hidden vectors for the output weights."""
        return self.norm(self.activate(self.dense(hidden)))


class LanguageHead(nn.Module):
    """Linear over the vocabulary; a tied head uses the embedding's weights."""

    def __init__(
        self, width: int, vocab_size: int, tied: bool, biases: bool, transform: nn.Module | None
    ) -> None:
        super().__init__()
        self.transform = transform if transform is not None else nn.Identity()
        self.output = nn.Linear(width, vocab_size, bias=biases)
        if tied:
            del self.output.weight  # each call passes the embedding's weights
            self.output.register_parameter("weight", None)

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Return logits (…, V)."""
        return F.linear(self.transform(hidden), *self.weights(embedding))

    def weights(self, embedding: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the output weights (V, D) and the bias (V,)."""
        own = self.output.weight
        return (embedding if own is None else own), self.output.bias


class ClassificationHead(nn.Module):
    """Linear over the labels, on one vector for the whole text."""

    def __init__(self, width: int, num_labels: int, pooling: Pooling, dropout: float) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, num_labels)

    def forward(self, backbone: Backbone, hidden: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, C)."""
        text = self.dropout(pool(backbone, hidden, layout.is_token, self.pooling))  # (B, D)
        # Half precision would make many probabilities equal; full precision costs nothing here.
        with torch.autocast(text.device.type, enabled=False):
            return self.output(text.to(self.output.weight.dtype))


def pool(backbone: Backbone, hidden: Tensor, is_token: Tensor | None, pooling: Pooling) -> Tensor:
    """Return one vector for each row: (B, D)."""
    B, T, _ = hidden.shape
    if pooling == "cls":
        return backbone.pool_first(hidden)
    if is_token is None:
        is_token = hidden.new_ones((B, T), dtype=torch.bool)
    lengths = is_token.sum(1)  # (B,)
    if pooling == "last":
        return hidden[torch.arange(B, device=hidden.device), lengths - 1]
    summed = (hidden * is_token[..., None]).sum(1)
    return summed / lengths.clamp(min=1)[:, None]  # zero, not NaN, for a row without tokens
