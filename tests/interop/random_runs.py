"""Run folders with random weights of every kind, small enough to export in a test."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from warmstart.files import write_json
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.runs.folder import FORMAT
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.hub import HubModel
from warmstart.tasks.registry import task_named
from warmstart.tokenization.tokenizer import Tokenizer

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "ffn_width": 24, "max_length": 48}
TEXTS = ["the book is good and the story is long", "été 漢字 🎉", "bad"] * 20
ENCODER: dict[str, Any] = {"attention": "bidirectional"}
CLASSES = ["a", "b", "c"]


def shape(preset: str, tokenizer: Tokenizer, **changes: Any) -> ModelConfig:
    return replace(PRESETS[preset], **{**SMALL, "vocab_size": tokenizer.vocab_size, **changes})


def build(model: ModelConfig, kind: str, pooling: Any) -> nn.Module:
    if kind == "classify":
        return Classifier(model, len(CLASSES), pooling)
    if kind == "backbone":
        return BackboneOnly(model)
    if kind == "translate":
        return Translator(model)
    return LanguageModel(model, has_next_sentence=model.segments > 1)


def hub_model(model: nn.Module, kind: str, pooling: Any = None) -> HubModel:
    """Return what is known of a model before its training."""
    return HubModel(
        model=model.config,  # type: ignore[arg-type]
        task=task_named(kind),
        pooling=pooling,
        num_classes=len(CLASSES) if kind == "classify" else 0,
        has_next_sentence=hasattr(model, "next_sentence"),
    )


def make_run(path: Path, model: nn.Module, kind: str, tokenizer: Tokenizer, **more: Any) -> str:
    """Write a run with random weights, biases too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    path.mkdir()
    config = {
        "command": "pretrain",
        "settings": {},
        "format": FORMAT,
        "task": kind,
        "model": model.config.to_json(),
    }
    write_json(path / "config.json", {**config, **more})  # type: ignore[arg-type]
    write_json(path / "scores.json", {"valid": {"accuracy": 0.5}, "ledger": []})
    save_file(model.state_dict(), path / "model.safetensors")
    tokenizer.save(path)
    return str(path)


def classifier_facts(pooling: str, classes: list[str] | None = None) -> dict[str, Any]:
    """Return what the config.json of a classifier holds besides."""
    settings = {"pooling": pooling, "truncate": "head", "micro_tokens": 512}
    return {"settings": settings, "classes": classes or CLASSES}
