"""The shape of a model: every architectural choice a word, and the named presets.

Knows nothing about tensors.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from warmstart.errors import WarmstartError
from warmstart.settings.base import choose, has_kind, in_words, option

Attention = Literal["causal", "bidirectional"]
Norm = Literal["layer", "rms"]
NormPosition = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rope"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swiglu", "relu2"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The base Transformer: embedding, positions, N blocks; perhaps a decoder beside it."""

    vocab_size: int
    width: int  # of every hidden vector
    depth: int  # blocks
    heads: int  # per attention layer; each has width / heads
    ffn_width: int  # inner width of the feed-forward layer
    max_length: int = 256  # longest text, in tokens
    attention: Attention = "causal"
    norm: Norm = "layer"
    norm_position: NormPosition = "post"  # norm after each residual sum, or before each sublayer
    positions: Positions = "sinusoidal"
    activation: Activation = "relu"
    tied: bool = False  # output weights are the embedding's
    biases: bool = True  # in every linear layer and norm
    dropout: float = 0.1
    inner_dropout: bool = True  # on attention weights and inner activations too, as torch.nn does
    scale_embedding: bool = True  # multiply embeddings by sqrt(width), as the 2017 paper does
    embedding_norm: bool = False  # normalise the summed embeddings, as BERT does
    segments: int = 0  # kinds of segment with an embedding of their own
    pooler: bool = False  # dense + tanh over the first position, part of the base
    transform: bool = False  # dense + activation + norm before the output weights
    output_bias: bool = True  # where there are biases: one over the vocabulary too
    norm_eps: float = 1e-5  # what norms add to the variance
    rope_base: float = 10_000.0  # slowest turn of rotary positions: about one in 2π times this
    decoder_depth: int = 0  # blocks of a decoder that looks at the base; 0: no decoder
    target_vocab_size: int = 0  # the decoder's own vocabulary; 0: the same as the base's
    shared: bool = True  # the decoder reads the base's embedding rather than its own

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("vocab_size", "width", "depth", "heads", "ffn_width", "max_length"):
            if getattr(self, name) < 1:
                raise WarmstartError(f"model.{name}={getattr(self, name)} must be at least 1")
        if self.width % self.heads:
            raise WarmstartError(
                f"model.width={self.width} must be a multiple of model.heads={self.heads}"
            )
        if self.positions == "rope" and (self.width // self.heads) % 2:
            raise WarmstartError(
                f"model.positions=rope needs an even width per head, not "
                f"{self.width // self.heads} (model.width={self.width} / model.heads={self.heads})"
            )
        if self.positions == "sinusoidal" and self.width % 2:
            raise WarmstartError(
                f"model.width={self.width} must be even with model.positions=sinusoidal"
            )
        if not 0 <= self.dropout < 1:
            raise WarmstartError(f"model.dropout={self.dropout} must be from 0 to below 1")
        for name in ("norm_eps", "rope_base"):
            if not 0 < getattr(self, name) < math.inf:
                raise WarmstartError(f"model.{name}={getattr(self, name)} must be above 0")
        for name in ("segments", "decoder_depth", "target_vocab_size"):
            if getattr(self, name) < 0:
                raise WarmstartError(f"model.{name}={getattr(self, name)} must be at least 0")
        if self.shared and self.target_vocab_size not in (0, self.vocab_size):
            raise WarmstartError(
                f"model.target_vocab_size={self.target_vocab_size} differs from "
                f"model.vocab_size={self.vocab_size}, so model.shared must be false"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the shape as plain JSON values."""
        return asdict(self)


def _check_kinds(model: ModelConfig) -> None:
    """Refuse a word nobody knows, or a value of another type."""
    for name, kind in get_type_hints(ModelConfig).items():
        value, words = getattr(model, name), get_args(kind)
        if words and value not in words:
            raise WarmstartError(f"model.{name}={value!r} is unknown; known: {', '.join(words)}")
        if not words and not has_kind(value, kind):
            raise WarmstartError(f"model.{name}={value!r} must be {in_words(kind)}")


_MODERN = ModelConfig(
    vocab_size=32_000,
    width=384,
    depth=8,
    heads=6,
    ffn_width=1024,
    norm="rms",
    norm_position="pre",
    positions="rope",
    activation="swiglu",
    tied=True,
    biases=False,
    dropout=0.0,
    scale_embedding=False,
    norm_eps=1e-6,
)

_VASWANI = ModelConfig(
    vocab_size=37_000,
    width=512,
    depth=6,
    heads=8,
    ffn_width=2048,
    attention="bidirectional",
    tied=True,
    output_bias=False,
    inner_dropout=False,
    decoder_depth=6,
)

PRESETS: dict[str, ModelConfig] = {
    "lab": ModelConfig(vocab_size=50_001, width=200, depth=4, heads=2, ffn_width=200, dropout=0.2),
    "bert-base": ModelConfig(
        vocab_size=30_522,
        width=768,
        depth=12,
        heads=12,
        ffn_width=3072,
        max_length=512,
        attention="bidirectional",
        positions="learned",
        activation="gelu",
        tied=True,
        scale_embedding=False,
        embedding_norm=True,
        segments=2,
        pooler=True,
        transform=True,
        norm_eps=1e-12,
    ),
    "vaswani-base": _VASWANI,
    "vaswani-big": replace(_VASWANI, width=1024, heads=16, ffn_width=4096, dropout=0.3),
    "modern-small": _MODERN,
    # Layer norm, learned positions and GELU have the cheapest kernels on a CPU.
    "tiny": replace(
        _MODERN,
        vocab_size=2_000,
        width=128,
        depth=2,
        heads=4,
        ffn_width=256,
        max_length=64,
        norm="layer",
        norm_eps=1e-5,
        positions="learned",
        activation="gelu",
    ),
    "translator-small": replace(
        _VASWANI,
        vocab_size=8_000,
        width=256,
        depth=4,
        heads=4,
        ffn_width=1024,
        max_length=128,
        norm_position="pre",
        dropout=0.3,
        decoder_depth=4,
    ),
}


def model_from_json(data: Any, file: str | Path = "config.json") -> ModelConfig:
    """Rebuild a shape from a run's config.json; errors name the file."""
    if not isinstance(data, dict):
        raise WarmstartError(f"{file}: model must hold keys and values, not {data!r}")
    wrong = set(data) ^ {field.name for field in fields(ModelConfig)}
    if wrong:
        raise WarmstartError(f"{file}: model keys do not fit this version: {sorted(wrong)}")
    try:
        return ModelConfig(**data)
    except WarmstartError as fault:
        raise WarmstartError(f"{file}: {fault}") from None


def encoder_shape(config: ModelConfig) -> ModelConfig:
    """Return the shape of a translator's encoder."""
    return replace(config, attention="bidirectional", pooler=False, decoder_depth=0)


def decoder_shape(config: ModelConfig) -> ModelConfig:
    """Return the shape of a translator's decoder."""
    return replace(
        config,
        vocab_size=config.target_vocab_size or config.vocab_size,
        target_vocab_size=0,
        depth=config.decoder_depth,
        decoder_depth=0,
        attention="causal",
        segments=0,
        pooler=False,
        transform=False,
    )


@dataclass(frozen=True, kw_only=True)
class ArchitectureOverrides:
    """What to change in a preset; None keeps the preset's word."""

    width: int | None = option(None, help="width of every hidden vector", least=1)
    depth: int | None = option(None, help="number of blocks", least=1)
    heads: int | None = option(None, help="attention heads; must divide the width", least=1)
    ffn_width: int | None = option(None, help="inner width of the feed-forward layer", least=1)
    max_length: int | None = option(None, help="longest text in tokens", least=3)
    norm: Norm | None = option(None, help="normalisation: layer or rms")
    norm_position: NormPosition | None = option(None, help="norm before each sublayer or after it")
    positions: Positions | None = option(None, help="sinusoidal, learned or rope")
    activation: Activation | None = option(None, help="relu, gelu, swiglu or relu2")
    tied: bool | None = option(None, help="share input and output embeddings")
    biases: bool | None = option(None, help="biases in linear layers and norms")
    dropout: float | None = option(None, help="share of activations dropped", least=0, most=0.95)
    inner_dropout: bool | None = option(
        None, help="drop attention weights and inner activations too"
    )


@dataclass(frozen=True, kw_only=True)
class Shape(ArchitectureOverrides):
    """A preset and what to change in it."""

    preset: str = option("modern-small", help=f"shape to start from: {', '.join(PRESETS)}")


def preset_named(name: str) -> ModelConfig:
    """Return a preset, or say which there are."""
    return choose(PRESETS, name, "--preset")


def apply_overrides(model: ModelConfig, words: ArchitectureOverrides) -> ModelConfig:
    """Return the shape with the words that were given in place of its own."""
    given = {field.name: getattr(words, field.name) for field in fields(ArchitectureOverrides)}
    return replace(model, **{name: word for name, word in given.items() if word is not None})
