"""Whole models: a backbone with the head of its task, or an encoder and a decoder."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import init

from warmstart.kernels.layers import Dropout
from warmstart.model.attention import AttentionContext, KeyValueCache, padding_mask
from warmstart.model.backbone import Backbone, Layout, Stack
from warmstart.model.layers import ACTIVATIONS, DecoderBlock, build_norm
from warmstart.settings.model import Activation, ModelConfig, Norm, decoder_config, encoder_config
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


class TokenHead(nn.Module):
    """Linear over the labels, on the vector of each token."""

    def __init__(self, width: int, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, num_labels)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits (…, C), in full precision as those of a text."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.output(self.dropout(hidden).to(self.output.weight.dtype))


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


@dataclass(frozen=True)
class EncoderOutput:
    """The hidden vectors of a batch of sources, and which of them are tokens."""

    hidden: Tensor  # (B, S, D)
    is_token: Tensor | None = None  # (B, S) False where padded; None: no padding

    @property
    def mask(self) -> Tensor | None:
        """Return the mask (B, 1, 1, S) of attention to the source."""
        return None if self.is_token is None else padding_mask(self.is_token)

    def select(self, rows: Tensor) -> "EncoderOutput":
        """Return these sources, in this order."""
        is_token = None if self.is_token is None else self.is_token[rows]
        return EncoderOutput(self.hidden[rows], is_token)


class Decoder(Stack):
    """The decoder stack of the 2017 paper; its embedding may be the encoder's."""

    def __init__(self, config: ModelConfig) -> None:
        embed = None if config.shared else nn.Embedding(config.vocab_size, config.width)
        super().__init__(config, DecoderBlock, embed)

    def forward(
        self,
        tokens: Tensor,
        encoder_output: EncoderOutput,
        cache: KeyValueCache | None = None,
        attention_weights: list[Tensor] | None = None,
        cross_attention_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return hidden vectors (N, T, D) from the embeddings of target tokens (N, T, D).

        N / B neighbouring rows share each of the B sources.
        """
        x, contexts = self.prepare(tokens, Layout(), cache, attention_weights)
        source_context = AttentionContext(
            encoder_output.mask, cache=cache, attention_weights=cross_attention_weights
        )
        for block, context in zip(self.blocks, contexts, strict=True):
            x = self.run_block(block, x, context, encoder_output.hidden, source_context)
        return self.normalize(x)


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


class Regressor(Classifier):
    """A backbone that gives a number to a text."""

    margin: Tensor  # () half the width of an interval of its numbers; 0: not known

    def __init__(self, config: ModelConfig, pooling: Pooling, dropout: float = 0.0) -> None:
        super().__init__(config, 1, pooling, dropout)
        self.register_buffer("margin", torch.zeros(()))


class TokenClassifier(nn.Module):
    """A backbone that labels each token of a text."""

    def __init__(self, config: ModelConfig, num_labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        self.head = TokenHead(config.width, num_labels, dropout)
        initialise(self, config)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, T, C)."""
        return self.head(self.backbone(ids, layout))


class SpanFinder(TokenClassifier):
    """A backbone that finds a part of a text: does a token begin it, does a token end it?"""

    threshold: Tensor  # () log odds over "no answer" from which on a part is the answer

    def __init__(self, config: ModelConfig, longest: int, dropout: float = 0.0) -> None:
        super().__init__(config, 2, dropout)
        self.longest = longest  # characters of a part
        self.register_buffer("threshold", torch.zeros(()))


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
