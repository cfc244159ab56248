"""Whole models: one base with the head its task needs.

Knows nothing about losses or training.
"""

import math

from torch import Tensor, nn
from torch.nn import init

from warmstart.model.backbone import Backbone, Layout
from warmstart.model.cache import Cache, Memory
from warmstart.model.heads import ClassificationHead, LanguageHead, Transform
from warmstart.settings.model import ModelConfig, decoder_shape, encoder_shape
from warmstart.settings.training import Pooling


class LanguageModel(nn.Module):
    """A base that predicts tokens: the next one, or with `has_next_sentence` masked ones."""

    def __init__(self, config: ModelConfig, has_next_sentence: bool = False) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        transform = None
        if config.transform:
            transform = Transform(
                config.width, config.activation, config.norm, config.biases, config.norm_eps
            )
        has_bias = config.biases and config.output_bias
        self.head = LanguageHead(config.width, config.vocab_size, config.tied, has_bias, transform)
        if has_next_sentence:
            self.next_sentence = nn.Linear(config.width, 2)
        initialise(self, config)

    def forward(
        self, ids: Tensor, layout: Layout | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Return logits (B, T, V)."""
        return self.head(self.backbone(ids, layout, cache), self.backbone.embed.weight)


class BackboneOnly(nn.Module):
    """A base without a head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        initialise(self, config)


class Classifier(nn.Module):
    """A base that labels a text."""

    def __init__(
        self, config: ModelConfig, num_labels: int, pooling: Pooling, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        self.head = ClassificationHead(config.width, num_labels, pooling, dropout)
        initialise(self, config)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, C)."""
        return self.head(self.backbone, self.backbone(ids, layout), layout)


class Translator(nn.Module):
    """An encoder that reads the source, and a decoder that looks at it and writes the target."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Backbone(encoder_shape(config))
        below = decoder_shape(config)
        self.decoder = Backbone(below, has_memory=True, has_embedding=not config.shared)
        has_bias = config.biases and config.output_bias
        self.head = LanguageHead(config.width, below.vocab_size, config.tied, has_bias, None)
        initialise(self, config)

    @property
    def embedding(self) -> Tensor:
        """Return the embedding of target tokens (V, D)."""
        backbone = self.encoder if self.config.shared else self.decoder
        return backbone.embed.weight

    def remember(
        self,
        source: Tensor,
        is_token: Tensor | None,
        keep: list[Tensor] | None = None,
        keep_cross: list[Tensor] | None = None,
    ) -> Memory:
        """Read the source (B, S) once; attention weights go to the lists that are given."""
        hidden = self.encoder(source, Layout(is_token=is_token), keep=keep)
        return self.decoder.remember(hidden, is_token, keep_cross)

    def hidden(
        self,
        target: Tensor,
        memory: Memory,
        cache: Cache | None = None,
        keep: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the vectors (B, T, D) that predict the token after each one of the target."""
        return self.decoder(target, None, cache, keep, memory, self.embedding)

    def forward(self, source: Tensor, is_token: Tensor | None, target: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        hidden = self.hidden(target, self.remember(source, is_token))
        return self.head(hidden, self.embedding)


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
    if not name.startswith(("backbone.", "encoder.", "decoder.")):
        return 0.02
    std = math.sqrt(2 / (linear.in_features + linear.out_features))
    is_residual = name.endswith(("attend.output", "cross.output", "ffn.outer"))
    if config.norm_position == "pre" and is_residual:
        return std / math.sqrt(2 * config.depth)
    return std
