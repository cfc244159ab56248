"""The named architectures."""

from dataclasses import replace

from warmstart.settings.base import choose
from warmstart.settings.model import ModelConfig

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


def preset_named(name: str) -> ModelConfig:
    """Return a preset, or say which presets exist."""
    return choose(PRESETS, name, "--preset")
