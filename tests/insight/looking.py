"""Small random models as runs, without training or files.

Knows nothing about what any test looks for.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.runs.saved import Kind, Source
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.tokenizer import Tokenizer, train_tokenizer

SHAPE = ModelConfig(
    vocab_size=300, width=16, depth=2, heads=2, ffn_width=24, max_length=40, dropout=0.0
)
TEXT = "Ce livre est une merveille, vraiment."


def make_tokenizer() -> Tokenizer:
    """Return a tokenizer that knows a few words and splits the others."""
    return train_tokenizer(["Ce livre est un ennui. " * 20, "une merveille " * 9], vocab_size=300)


def make_run(kind: Kind, tokenizer: Tokenizer, **words: Any) -> tuple[nn.Module, Source]:
    """Return a random model of a kind, and the run it would be."""
    torch.manual_seed(1)
    both_ways = {"attention": "bidirectional"} if kind in ("masked", "base") else {}
    depth = {"decoder_depth": 3} if kind == "translator" else {}
    given: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, **both_ways, **depth, **words}
    shape = replace(SHAPE, **given)
    models = {
        "causal": lambda: LanguageModel(shape),
        "masked": lambda: LanguageModel(shape, has_next_sentence=shape.segments > 1),
        "base": lambda: BackboneOnly(shape),
        "classifier": lambda: Classifier(shape, 2, "mean"),
        "translator": lambda: Translator(shape),
    }
    model = models[kind]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    config = {"settings": {"truncate": "head"}, "command": "test"}
    return model, Source(Path("runs/toy"), kind, config, shape, tokenizer, {})
