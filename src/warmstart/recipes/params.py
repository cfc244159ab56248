"""Count parameters: in closed form, and checked against the model that is built.

Knows nothing about training.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from warmstart.config.jobs import ParamsConfig
from warmstart.config.model import PRESETS, ModelConfig, change_words, model_from_json
from warmstart.config.settings import suggestion
from warmstart.errors import WarmstartError
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.model.tasks import Classifier, LanguageModel, Translator
from warmstart.store.folder import RunFolder


@dataclass(frozen=True)
class ParameterCount:
    """Every layer's parameters and their sum."""

    name: str
    legend: str
    layers: tuple[Layer, ...]
    total: int
    trainable: int


def count_parameters(config: ParamsConfig) -> ParameterCount:
    """Count the parameters of a preset or run, layer by layer."""
    shape, head, labels = _shape(config)
    is_translator = shape.decoder_depth > 0
    body = count.count_translator(shape) if is_translator else count.count_body(shape)
    top = [] if is_translator else _head_layers(shape, head, labels)
    total = sum(layer.count for layer in body + top)
    built = sum(p.numel() for p in _built(shape, head, labels).parameters())
    assert total == built, f"closed form {total} and built model {built} disagree"
    trainable = sum(layer.count for layer in top) if config.frozen else total
    return ParameterCount(config.model, count.legend(shape), tuple(body + top), total, trainable)


def _shape(config: ParamsConfig) -> tuple[ModelConfig, str, int]:
    head, labels = config.head, config.labels
    if config.model in PRESETS:
        shape = PRESETS[config.model]
    elif Path(config.model).is_dir():
        folder = RunFolder(config.model)
        run = folder.config()
        shape = model_from_json(run["model"], folder.config_file)
        if "classes" in run and head == "all":
            head, labels = "classifier", len(run["classes"])
    else:
        raise WarmstartError(
            f"{config.model!r} is neither a preset nor a run folder"
            f"{suggestion(config.model, PRESETS)}"
        )
    words = ("vocab_size", "attention", "segments", "pooler", "transform")
    given: dict[str, Any] = {word: getattr(config, word) for word in words}
    shape = change_words(shape, config)
    return replace(shape, **{k: v for k, v in given.items() if v is not None}), head, labels


def _head_layers(shape: ModelConfig, head: str, labels: int) -> list[Layer]:
    if head == "classifier":
        return count.count_classification_head(shape, labels)
    if head == "lm":
        return count.count_language_head(shape)
    return count.count_pretraining_heads(shape) if head == "all" else []


def _built(shape: ModelConfig, head: str, labels: int) -> nn.Module:
    with torch.device("meta"):  # shapes without memory
        if shape.decoder_depth:
            return Translator(shape)
        if head == "classifier":
            return Classifier(shape, labels, "mean")
        has_next_sentence = head == "all" and shape.segments > 1
        model = LanguageModel(shape, has_next_sentence)
        return model.body if head == "none" else model
