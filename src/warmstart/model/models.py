"""Whole models: a backbone with the head of its task, or an encoder and a decoder."""

import math

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import init

from warmstart.model.backbone import Backbone, Layout
from warmstart.model.cache import KeyValueCache
from warmstart.model.decoder import Decoder, EncoderOutput
from warmstart.model.heads import ClassificationHead, LanguageHead, Transform
from warmstart.settings.model import ModelConfig, decoder_config, encoder_config
from warmstart.settings.shared import Pooling


class LanguageModel(nn.Module):
    """A backbone that predicts tokens; `has_next_sentence` adds BERT's next-sentence head."""

    def __init__(self, config: ModelConfig, has_next_sentence: bool = False) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        transform = None
        if config.transform:
            transform = Transform(
                config.width, config.activation, config.norm_kind, config.biases, config.norm_eps
            )
        has_bias = config.biases and config.output_bias
        self.head = LanguageHead(config.width, config.vocab_size, config.tied, has_bias, transform)
        if has_next_sentence:
            self.next_sentence = nn.Linear(config.width, 2)
        initialise(self, config)

    def forward(
        self, ids: Tensor, layout: Layout | None = None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """Return logits (B, T, V)."""
        return self.head(self.backbone(ids, layout, cache), self.backbone.embed.weight)


class BackboneOnly(nn.Module):
    """A backbone without a head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        initialise(self, config)


class Classifier(nn.Module):
    """A backbone that labels a text."""

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
    """An encoder of the source, and a decoder that predicts the target."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Backbone(encoder_config(config))
        target = decoder_config(config)
        self.decoder = Decoder(target)
        has_bias = config.biases and config.output_bias
        self.head = LanguageHead(config.width, target.vocab_size, config.tied, has_bias, None)
        initialise(self, config)

    @property
    def embedding(self) -> Tensor:
        """Return the embedding of target tokens (V, D)."""
        stack = self.encoder if self.config.shared else self.decoder
        return stack.embed.weight

    def encode(
        self,
        source: Tensor,
        is_token: Tensor | None,
        attention_weights: list[Tensor] | None = None,
    ) -> EncoderOutput:
        """Encode sources (B, S); `attention_weights` receives (B, H, S, S) per layer."""
        layout = Layout(is_token=is_token, skips_padding=attention_weights is None)
        hidden = self.encoder(source, layout, attention_weights=attention_weights)
        return EncoderOutput(hidden, is_token)

    def decode(
        self,
        target: Tensor,
        encoder_output: EncoderOutput,
        cache: KeyValueCache | None = None,
        attention_weights: list[Tensor] | None = None,
        cross_attention_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the hidden vectors (N, T, D) that predict the token after each target token.

        N / B neighbouring rows share each of the B sources. The lists receive the weights of
        self-attention (N, H, T, S) and of attention to the source, per layer.
        """
        tokens = F.embedding(target, self.embedding)  # (N, T, D)
        return self.decoder(
            tokens, encoder_output, cache, attention_weights, cross_attention_weights
        )

    def forward(self, source: Tensor, is_token: Tensor | None, target: Tensor) -> Tensor:
        """Return logits (B, T, V)."""
        hidden = self.decode(target, self.encode(source, is_token))
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
    """Return the spread that preserves variance through a layer and, with pre-norm, over depth."""
    if not name.startswith(("backbone.", "encoder.", "decoder.")):
        return 0.02
    std = math.sqrt(2 / (linear.in_features + linear.out_features))
    is_residual = name.endswith(("attend.output", "cross.output", "ffn.outer"))
    if config.norm_position == "pre" and is_residual:
        return std / math.sqrt(2 * config.depth)
    return std
