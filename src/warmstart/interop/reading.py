"""A Hugging Face folder -> a model of ours, exactly, or the reason why not.

Runs nothing that the folder brings along, and needs no library of its makers.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Size, Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.interop.bert import BERT, ROBERTA
from warmstart.interop.family import Family, Task
from warmstart.interop.folder import Folder
from warmstart.interop.gpt2 import GPT2
from warmstart.interop.keys import Keys
from warmstart.interop.llama import LLAMA
from warmstart.interop.tensors import Tensors, read_in
from warmstart.interop.vocabulary import read_tokenizer
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel
from warmstart.runs.saved import Kind
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Pooling
from warmstart.tokenization.tokenizer import Tokenizer

FAMILIES = (BERT, ROBERTA, GPT2, LLAMA)
NEXT_SENTENCE = ("IsNext", "NotNext")  # in the order of BERT's two outputs


@dataclass(frozen=True)
class Imported:
    """A model read from a folder."""

    family: str
    architecture: str
    kind: Kind
    model: ModelConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    pooling: Pooling  # of a classifier
    classes: tuple[str, ...] = ()
    has_pairs: bool = False
    left_out: tuple[str, ...] = field(
        default=()
    )  # tensors of heads that this kind has no place for


def read_folder(path: Path) -> Imported:
    """Read a Hugging Face folder."""
    folder = Folder(path)
    config = folder.json_of("config.json")
    if config is None:
        raise WarmstartError(f"{path}: no config.json, so this is not a Hugging Face folder")
    keys = Keys(config, path / "config.json")
    if "command" in config and "settings" in config:
        raise WarmstartError(f"{path} is a run of warmstart already; use it as it is")
    family = _family(keys)
    keys.require("auto_map", [], "needs code of its own, which is not run")
    keys.require("quantization_config", [], "is not read: plain floats are")
    architecture, task = _architecture(keys, family)
    tensors = Tensors(folder.tensors(), path, family.prefix)
    tensors.drop(family.buffers)
    if task == "base" and any(name in tensors for name in family.head):
        task = "language"
    if keys.size(family.depth_key) > len(tensors):
        keys.refuse(family.depth_key, f"is more than the {len(tensors)} tensors in the folder")
    shape = family.read_shape(keys, tensors, task)
    if not shape.tied and family.output_biases:
        tensors.prefer(*family.output_biases)
    classes = _classes(keys, family, task, tensors)
    has_next = task == "language" and shape.pooler and "cls.seq_relationship.weight" in tensors
    kinds: dict[Task, Kind] = {"base": "base", "language": family.language}
    kind = kinds.get(task, "classifier")
    shapes = _shapes(_empty(kind, shape, len(classes), has_next, family.pooling))
    absent = family.absent(keys, shapes)
    weights = read_in(tensors, family.matches(shape.depth, task), shapes, absent)
    if task == "language":
        _drop_copies(tensors, family, shape, weights)
    left_out = tensors.drop(family.spare[task]) if task in family.spare else ()
    tensors.refuse_rest()
    return Imported(
        family=family.name,
        architecture=architecture,
        kind=kind,
        model=shape,
        weights=weights,
        tokenizer=read_tokenizer(folder, keys, shape.vocab_size),
        pooling=family.pooling,
        classes=classes,
        has_pairs=task == "pairs",
        left_out=left_out,
    )


def _family(keys: Keys) -> Family:
    known = {name: family for family in FAMILIES for name in family.model_types}
    if "model_type" not in keys.values:
        raise WarmstartError(f"{keys.file}: no model_type; read are {', '.join(known)}")
    return keys.choose("model_type", "", known)


def _architecture(keys: Keys, family: Family) -> tuple[str, Task]:
    given = keys.get("architectures", [])
    if not isinstance(given, list) or len(given) > 1:
        keys.refuse("architectures", "must be a list of one name")
    if not given:
        return f"{family.name} without a named architecture", "base"
    if not isinstance(given[0], str) or given[0] not in family.tasks:
        keys.refuse("architectures", f"is not read; of this family are {', '.join(family.tasks)}")
    return given[0], family.tasks[given[0]]


def _classes(keys: Keys, family: Family, task: Task, tensors: Tensors) -> tuple[str, ...]:
    if task == "pairs":
        return NEXT_SENTENCE
    if task != "classifier":
        return ()
    keys.require(
        "problem_type",
        ["single_label_classification"],
        "is not read: a classifier of one label a text is",
    )
    match = {match.ours: match for match in family.matches(1, task)}["head.output.weight"]
    num = tensors.rows(match.theirs[0])
    named = keys.get("id2label", {str(index): f"LABEL_{index}" for index in range(num)})
    wanted = [str(index) for index in range(num)]
    if not isinstance(named, dict) or sorted(named) != sorted(wanted):
        keys.refuse("id2label", f"must name the classes 0 to {num - 1}, as its weights have")
    names = tuple(named[index] for index in wanted)
    is_text = all(isinstance(name, str) and name for name in names)
    if not is_text or len(set(names)) < len(names):
        keys.refuse("id2label", "must give every class a name of its own")
    if num < 2:
        keys.refuse("id2label", "has one class: a regression, which is not read")
    return names


def _empty(
    kind: Kind, shape: ModelConfig, num_classes: int, has_next: bool, pooling: Pooling
) -> nn.Module:
    with torch.device("meta"):  # shapes without memory
        if kind == "classifier":
            return Classifier(shape, num_classes, pooling)
        return BackboneOnly(shape) if kind == "base" else LanguageModel(shape, has_next)


def _shapes(model: nn.Module) -> dict[str, Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def _drop_copies(
    tensors: Tensors, family: Family, shape: ModelConfig, weights: dict[str, Any]
) -> None:
    """Take away what a file holds twice because output and input weights, or biases, are one."""
    for theirs, ours in family.copies:
        if ours in weights and (shape.tied or ours != "backbone.embed.weight"):
            tensors.drop_copy(theirs, weights[ours], "tie_word_embeddings makes them one")
