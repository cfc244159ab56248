"""Write a run as a Hugging Face folder of exactly the same model, or say why that is impossible."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.bert import BERT
from warmstart.interop.gpt2 import GPT2
from warmstart.interop.hf_card import exported_card
from warmstart.interop.hf_family import (
    CAUSAL_LM,
    CLASSIFIER,
    MASKED_LM,
    NO_HEAD,
    ExportRules,
    Family,
    HfHead,
    hub_class_of,
)
from warmstart.interop.hf_tensors import to_theirs
from warmstart.interop.hf_tokenizer_writer import HfTokenizer, convert_tokenizer
from warmstart.interop.llama import LLAMA
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.tasks.registry import task_of
from warmstart.tokenization.specials import FILE_NAME

EXPORTS: tuple[tuple[Family, ExportRules], ...] = tuple(
    (family, family.export) for family in (BERT, GPT2, LLAMA) if family.export
)


@dataclass(frozen=True)
class ExportedModel:
    """The architecture that was written, and its size."""

    architecture: str
    num_parameters: int


@dataclass(frozen=True)
class _Model:
    """A model in the shape of a family; its tensors still have our names."""

    family: Family
    rules: ExportRules
    shape: ModelConfig
    weights: dict[str, Tensor]


def write_folder(source: SavedRun, model: nn.Module, folder: Path, title: str) -> ExportedModel:
    """Write config, weights, tokenizer and card."""
    converted = _convert(source, model)
    family, hub_class = converted.family, hub_class_of(source)
    tokenizer = convert_tokenizer(source, has_segments=family is BERT)
    is_last = hub_class == CLASSIFIER and family.pooling == "last"
    if is_last and tokenizer.pad == tokenizer.eos:
        # transformers pools the last token that is not padding, which must be the end token.
        tokenizer = tokenizer.with_pad(converted.shape.vocab_size)
        converted = _add_token(converted)
    architecture = converted.rules.architectures[hub_class]
    if "next_sentence.weight" in converted.weights:
        architecture = "BertForPreTraining"
    tensors = _rename(converted, source)
    num_parameters = sum(tensor.numel() for tensor in tensors.values())
    write_json(folder / "config.json", _config(converted, source, tokenizer, architecture))
    write_whole(folder / "model.safetensors", save(tensors, {"format": "pt"}))
    write_whole(folder / "tokenizer.json", tokenizer.content)
    write_json(folder / "tokenizer_config.json", tokenizer.settings)
    write_json(folder / FILE_NAME, tokenizer.names)
    card = exported_card(source, architecture, title, num_parameters)
    write_whole(folder / "README.md", card.encode())
    return ExportedModel(architecture, num_parameters)


def _convert(source: SavedRun, model: nn.Module) -> _Model:
    """Return the model in the first family that can represent it."""
    refusals = []
    settings = {**source.model.to_json(), "pooling": source.config["settings"].get("pooling")}
    hub_class = hub_class_of(source)
    for family, rules in EXPORTS:
        if hub_class not in rules.architectures:
            continue
        supported = {**rules.supported, **rules.supported_by_class.get(hub_class, {})}
        reasons = [
            f"{name}={settings[name]} ({' or '.join(map(str, allowed))} fits)"
            for name, allowed in supported.items()
            if settings[name] not in allowed
        ]
        if not reasons:
            shape = rules.widen(source.model)
            weights = _add_zeros(model, shape)
            shape = _apply_embedding_scale(shape, weights, source)
            reason = rules.adapt(weights, hub_class)
            if reason is None:
                return _Model(family, rules, shape, weights)
            reasons = [reason]
        refusals.append((len(reasons), f"{family.name}: {', '.join(reasons)}"))
    if not refusals:
        raise WarmstartError(
            f"{source.path} is {task_of(source).description}, which cannot be exported: no "
            "supported Hugging Face family has that kind of model"
        )
    closest = [reason for _, reason in sorted(refusals, key=lambda entry: entry[0])]
    raise WarmstartError(
        f"{source.path} cannot be exported. What does not fit, by family: {'; '.join(closest)}"
    )


def _add_zeros(model: nn.Module, shape: ModelConfig) -> dict[str, Tensor]:
    """Return our tensors, and zeros for those that only the wider shape has."""
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    with torch.device("meta"):
        if isinstance(model, Classifier):
            wide: nn.Module = Classifier(shape, model.head.output.out_features, model.head.pooling)
        elif isinstance(model, LanguageModel):
            wide = LanguageModel(shape, "next_sentence.weight" in weights)
        else:
            wide = BackboneOnly(shape)
    added = {name: tensor for name, tensor in wide.state_dict().items() if name not in weights}
    return weights | {name: torch.zeros(tensor.shape) for name, tensor in added.items()}


def _apply_embedding_scale(
    shape: ModelConfig, weights: dict[str, Tensor], source: SavedRun
) -> ModelConfig:
    """Multiply the embedding by its scale; output weights are then no longer tied to it."""
    if not shape.scale_embedding:
        return shape
    embedding = weights["backbone.embed.weight"]
    if shape.tied and hub_class_of(source) in (CAUSAL_LM, MASKED_LM):
        weights["head.output.weight"] = embedding
        shape = replace(shape, tied=False)
    weights["backbone.embed.weight"] = embedding * math.sqrt(shape.width)
    return replace(shape, scale_embedding=False)


def _add_token(model: _Model) -> _Model:
    """Return the model with a row of zeros for a new token."""
    embedding = model.weights["backbone.embed.weight"]
    row = embedding.new_zeros(1, embedding.shape[1])
    weights = {**model.weights, "backbone.embed.weight": torch.cat([embedding, row])}
    return replace(
        model, shape=replace(model.shape, vocab_size=model.shape.vocab_size + 1), weights=weights
    )


def _rename(model: _Model, source: SavedRun) -> dict[str, Tensor]:
    """Return the tensors under their names in the family."""
    family = model.family
    hub_class = hub_class_of(source)
    head: HfHead = "language" if hub_class in (CAUSAL_LM, MASKED_LM) else "sequence"
    prefix = "" if hub_class == NO_HEAD else family.prefix
    matches = [
        replace(match, theirs=tuple(f"{prefix}{name}" for name in match.theirs))
        if match.ours.startswith("backbone.")
        else match
        for match in family.matches(model.shape.depth, head)
    ]
    tensors = to_theirs(model.weights, matches)
    if head == "language" and not model.shape.tied and family.output_biases:
        untied, usual = family.output_biases
        tensors[untied] = tensors[usual].clone()
    return tensors


def _config(
    model: _Model, source: SavedRun, tokenizer: HfTokenizer, architecture: str
) -> dict[str, Any]:
    config = {
        "architectures": [architecture],
        **model.rules.write_config(model.shape),
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.pad,
        "torch_dtype": "float32",
    }
    if hub_class_of(source) == CLASSIFIER:
        classes = list(map(str, source.config["classes"]))
        config["id2label"] = {str(index): name for index, name in enumerate(classes)}
        config["label2id"] = {name: index for index, name in enumerate(classes)}
        config["problem_type"] = "single_label_classification"
    return config
