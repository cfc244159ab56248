"""Small random models as runs, without training or files.

Knows nothing about what any test looks for.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shapes import small_tokenizer
from warmstart.model.attention_weights import AttentionMap
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.registry import task_of
from warmstart.tasks.text_model import TransformerModel
from warmstart.tokenization.backends import TokenizerPair
from warmstart.tokenization.tokenizer import Tokenizer

SHAPE = ModelConfig(
    vocab_size=300, width=16, depth=2, heads=2, ffn_width=24, max_length=40, dropout=0.0
)
TEXT = "Ce livre est une merveille, vraiment."


def make_run(task: str, tokenizer: Tokenizer, **words: Any) -> tuple[nn.Module, SavedRun]:
    """Return a random model of a kind, and the run it would be."""
    torch.manual_seed(1)
    both_ways = {"attention": "bidirectional"} if task in ("masked", "backbone") else {}
    depth = {"decoder_depth": 3} if task == "translate" else {}
    given: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, **both_ways, **depth, **words}
    shape = replace(SHAPE, **given)
    models = {
        "causal": lambda: LanguageModel(shape),
        "masked": lambda: LanguageModel(shape, has_next_sentence=shape.segments > 1),
        "backbone": lambda: BackboneOnly(shape),
        "classify": lambda: Classifier(shape, 2, "mean"),
        "translate": lambda: Translator(shape),
    }
    model = models[task]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    settings = {"truncate": "head", "pooling": "mean", "micro_tokens": 512}
    config = {"settings": settings, "command": "test", "classes": ["a", "b"]}
    pair = TokenizerPair(tokenizer, tokenizer)
    weights = dict(model.state_dict())
    return model, SavedRun(Path("runs/toy"), task, config, weights, (shape, pair))


def open_model(task: str, **words: Any) -> TransformerModel:
    """Return a random model of a kind, opened as its run would be."""
    _, run = make_run(task, small_tokenizer(), **words)
    return task_of(run).open(run, Runtime(torch.device("cpu")))  # type: ignore[return-value]


def look(model: nn.Module, run: SavedRun, *texts: str, **target: str) -> dict[str, AttentionMap]:
    """Return the attention of a model, opened as its run would be."""
    opened = task_of(run).open(run, Runtime(torch.device("cpu")))
    return replace(opened, model=model).attention(*texts, **target)
