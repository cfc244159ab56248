"""The small architecture and tokenizer of most tests, and any architecture at all."""

from typing import Any, get_args

from hypothesis import strategies as st

from warmstart.settings.model import Activation, ModelConfig
from warmstart.tokenization.backends import train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

TINY = ModelConfig(
    vocab_size=23, width=16, depth=2, heads=2, ffn_width=24, max_length=32, dropout=0.0
)


def any_architecture(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[ModelConfig]:
    """Return a strategy for architectures with every choice; `more` replaces or adds settings."""
    settings: dict[str, st.SearchStrategy[Any]] = {
        "vocab_size": st.integers(1, 40),
        "depth": st.integers(1, 3),
        "ffn_width": st.integers(1, 20),
        "max_length": st.integers(1, 20),
        "norm": st.sampled_from(["layer", "rms"]),
        "norm_position": st.sampled_from(["post", "pre"]),
        "positions": st.sampled_from(["sinusoidal", "learned", "rope"]),
        "activation": st.sampled_from(get_args(Activation)),
        "tied": st.booleans(),
        "biases": st.booleans(),
        "embedding_norm": st.booleans(),
        "first_norm": st.booleans(),
        "segments": st.integers(0, 3),
        "pooler": st.booleans(),
        "transform": st.booleans(),
    }
    return st.builds(
        lambda half, **chosen: ModelConfig(heads=2, width=4 * half, **chosen),
        half=st.integers(1, 5),
        **{**settings, **more},
    )


def small_tokenizer() -> Tokenizer:
    """Return a tokenizer that knows a few words and splits the others."""
    return train_tokenizer(["Ce livre est un ennui. " * 20, "une merveille " * 9], "bpe", 300)
