"""Whole models: one base with the head its task needs.

Knows nothing about losses or training.
"""

import math

from torch import Tensor, nn
from torch.nn import init

from warmstart.config.jobs import Pooling
from warmstart.config.model import ModelConfig
from warmstart.model.body import Body, Layout
from warmstart.model.cache import Cache
from warmstart.model.heads import ClassificationHead, LanguageHead, Transform


class LanguageModel(nn.Module):
    """A base that predicts tokens: the next one, or with `has_next_sentence` masked ones."""

    def __init__(self, config: ModelConfig, has_next_sentence: bool = False) -> None:
        super().__init__()
        self.config = config
        self.body = Body(config)
        transform = None
        if config.transform:
            transform = Transform(config.width, config.activation, config.norm, config.biases)
        has_bias = config.biases
        self.head = LanguageHead(config.width, config.vocab_size, config.tied, has_bias, transform)
        if has_next_sentence:
            self.next_sentence = nn.Linear(config.width, 2)
        initialise(self, config)

    def forward(
        self, ids: Tensor, layout: Layout | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Return logits (B, T, V)."""
        return self.head(self.body(ids, layout, cache), self.body.embed.weight)


class Classifier(nn.Module):
    """A base that labels a text."""

    def __init__(
        self, config: ModelConfig, num_labels: int, pooling: Pooling, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.config = config
        self.body = Body(config)
        self.head = ClassificationHead(config.width, num_labels, pooling, dropout)
        initialise(self, config)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, C)."""
        return self.head(self.body, self.body(ids, layout), layout)


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Draw starting weights from the current random state."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            # Scaled embeddings enter the first block with unit variance.
            std = config.width**-0.5 if config.scale_embedding else 0.02
            init.normal_(module.weight, std=std)
        elif isinstance(module, nn.Linear):
            if module.weight is not None:
                init.normal_(module.weight, std=_linear_std(name, module, config))
            if module.bias is not None:
                init.zeros_(module.bias)


def _linear_std(name: str, linear: nn.Linear, config: ModelConfig) -> float:
    """Keep variance through a layer; with pre-norm, sums over depth too."""
    if not name.startswith("body."):
        return 0.02
    std = math.sqrt(2 / (linear.in_features + linear.out_features))
    is_residual = name.endswith(("attend.output", "feed.outer"))
    if config.placement == "pre" and is_residual:
        return std / math.sqrt(2 * config.depth)
    return std
