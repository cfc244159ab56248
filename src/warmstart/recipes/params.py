"""Count parameters: in closed form, and checked against the model that is built.

Knows nothing about training.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from warmstart.errors import WarmstartError
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.model.models import Classifier, LanguageModel, Translator
from warmstart.runs.checkpoint import weight_names
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import run_folder
from warmstart.settings.base import suggestion
from warmstart.settings.model import PRESETS, ModelConfig, apply_overrides, model_from_json
from warmstart.settings.training import ParamsConfig

Head = Literal["all", "lm", "classifier", "none"]


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
    if shape.decoder_depth and (config.head != "all" or config.frozen):
        raise WarmstartError(
            f"--{'frozen' if config.frozen else 'head'} is for a base and its head; "
            f"{config.model} is a translator, which is counted whole"
        )
    backbone = count.count_translator(shape) if shape.decoder_depth else count.count_backbone(shape)
    top = [] if shape.decoder_depth else _head_layers(shape, head, labels)
    total = sum(layer.count for layer in backbone + top)
    built = sum(p.numel() for p in _built(shape, head, labels).parameters())
    assert total == built, f"closed form {total} and built model {built} disagree"
    trainable = sum(layer.count for layer in top) if config.frozen else total
    return ParameterCount(
        config.model, count.legend(shape), tuple(backbone + top), total, trainable
    )


def _shape(config: ParamsConfig) -> tuple[ModelConfig, Head, int]:
    head: Head = config.head
    labels = config.labels
    if config.model in PRESETS:
        shape = PRESETS[config.model]
    elif Path(config.model).is_dir():
        folder = run_folder(config.model)
        run = folder.config()
        shape = model_from_json(run["model"], folder.config_file)
        if head == "all":
            head = _head_of(run, folder)
            labels = len(run["classes"]) if head == "classifier" else labels
    else:
        raise WarmstartError(
            f"{config.model!r} is neither a preset nor a run folder"
            f"{suggestion(config.model, PRESETS)}"
        )
    words = ("vocab_size", "attention", "segments", "pooler", "transform")
    given: dict[str, Any] = {word: getattr(config, word) for word in words}
    shape = apply_overrides(shape, config)
    return replace(shape, **{k: v for k, v in given.items() if v is not None}), head, labels


def _head_of(config: dict[str, Any], folder: RunFolder) -> Head:
    """Return the heads a run has: those of pretraining may lack the next sentence."""
    if "classes" in config:
        return "classifier"
    if config.get("kind") == "base":
        return "none"
    is_kept = folder.weights_file.exists()
    names = weight_names(folder.weights_file) if is_kept else []
    return "all" if "next_sentence.weight" in names else "lm"


def _head_layers(shape: ModelConfig, head: Head, labels: int) -> list[Layer]:
    if head == "classifier":
        return count.count_classification_head(shape, labels)
    if head == "lm":
        return count.count_language_head(shape)
    return count.count_pretraining_heads(shape) if head == "all" else []


def _built(shape: ModelConfig, head: Head, labels: int) -> nn.Module:
    with torch.device("meta"):  # shapes without memory
        if shape.decoder_depth:
            return Translator(shape)
        if head == "classifier":
            return Classifier(shape, labels, "mean")
        has_next_sentence = head == "all" and shape.segments > 1
        model = LanguageModel(shape, has_next_sentence)
        return model.backbone if head == "none" else model
