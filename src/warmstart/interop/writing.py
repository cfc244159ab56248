"""A run -> a Hugging Face folder that holds exactly the same model, or the reason why not.

Knows nothing about any library that will load it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop import bert, gpt2, llama
from warmstart.interop.card import exported_card
from warmstart.interop.family import Form, Task
from warmstart.interop.spelling import Spelling, spell
from warmstart.interop.tensors import write_out
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel
from warmstart.runs.saved import IN_WORDS, Source
from warmstart.settings.model import ModelConfig
from warmstart.tokenization.specials import FILE_NAME

FORMS = (bert.FORM, gpt2.FORM, llama.FORM)


@dataclass(frozen=True)
class Written:
    """What a folder was written as."""

    architecture: str
    parameters: int


@dataclass(frozen=True)
class _Model:
    """A model on its way out: what it is, and its tensors as far as they are settled."""

    form: Form
    shape: ModelConfig
    weights: dict[str, Tensor]


def write_folder(source: Source, model: nn.Module, folder: Path, title: str) -> Written:
    """Write config, weights, tokenizer and card."""
    fitted = _fitted(source, model)
    form, kind = fitted.form, source.kind
    spelling = spell(source, has_segments=form.name == "BERT")
    if kind == "classifier" and form.family.pooling == "last" and spelling.pad == spelling.eos:
        # The last token that is not padding is pooled, and that must be the end token.
        spelling = spelling.with_pad(fitted.shape.vocab_size)
        fitted = _grown(fitted, 1)
    tensors, architecture = _tensors(fitted, source)
    config = _config(fitted, source, spelling, architecture)
    write_json(folder / "config.json", config)
    write_whole(folder / "model.safetensors", save(tensors, {"format": "pt"}))
    write_whole(folder / "tokenizer.json", spelling.content)
    write_json(folder / "tokenizer_config.json", spelling.settings)
    write_json(folder / FILE_NAME, spelling.names)
    card = exported_card(source, architecture, title, _count(tensors.values()))
    write_whole(folder / "README.md", card.encode())
    return Written(architecture, _count(tensors.values()))


def _count(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _fitted(source: Source, model: nn.Module) -> _Model:
    """Return the model in the first form that can hold it."""
    refusals = []
    for form in FORMS:
        if source.kind not in form.architectures:
            continue
        words = {**source.model.to_json(), "pooling": source.config["settings"].get("pooling")}
        needed = {**form.fits, **form.fits_kind.get(source.kind, {})}
        wrong = [
            f"{word}={words[word]} ({_or(allowed)} fits)"
            for word, allowed in needed.items()
            if words[word] not in allowed
        ]
        if not wrong:
            shape = form.widen(source.model)
            weights = _widened(source, model, shape)
            shape = _unscaled(shape, weights, source)
            reason = form.fold(weights, source.kind)
            if reason is None:
                return _Model(form, shape, weights)
            wrong = [reason]
        refusals.append((len(wrong), f"{form.name}: {', '.join(wrong)}"))
    if not refusals:
        kind = IN_WORDS[source.kind]
        raise WarmstartError(f"{source.path} is {kind}, which no Hugging Face family here holds")
    closest = [reason for _, reason in sorted(refusals, key=lambda entry: entry[0])]
    raise WarmstartError(
        f"{source.path} cannot be exported; what is in the way of {'; of '.join(closest)}"
    )


def _or(words: tuple[Any, ...]) -> str:
    return " or ".join(map(str, words))


def _widened(source: Source, model: nn.Module, shape: ModelConfig) -> dict[str, Tensor]:
    """Return our tensors and, as zeros, those that only the wider shape has."""
    own = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    with torch.device("meta"):
        if isinstance(model, Classifier):
            wide: nn.Module = Classifier(shape, model.head.output.out_features, model.head.pooling)
        elif isinstance(model, LanguageModel):
            wide = LanguageModel(shape, "next_sentence.weight" in own)
        else:
            wide = BackboneOnly(shape)
    added = {name: tensor for name, tensor in wide.state_dict().items() if name not in own}
    return own | {name: torch.zeros(tensor.shape) for name, tensor in added.items()}


def _unscaled(shape: ModelConfig, weights: dict[str, Tensor], source: Source) -> ModelConfig:
    """Multiply the embedding by what the model would; output weights part from it then."""
    if not shape.scale_embedding:
        return shape
    embedding = weights["backbone.embed.weight"]
    if shape.tied and source.kind in ("causal", "masked"):
        weights["head.output.weight"] = embedding
        shape = replace(shape, tied=False)
    weights["backbone.embed.weight"] = embedding * math.sqrt(shape.width)
    return replace(shape, scale_embedding=False)


def _grown(fitted: _Model, num: int) -> _Model:
    """Return the model with rows of zeros for new tokens."""
    embedding = fitted.weights["backbone.embed.weight"]
    rows = embedding.new_zeros(num, embedding.shape[1])
    weights = {**fitted.weights, "backbone.embed.weight": torch.cat([embedding, rows])}
    shape = replace(fitted.shape, vocab_size=fitted.shape.vocab_size + num)
    return _Model(fitted.form, shape, weights)


def _tensors(fitted: _Model, source: Source) -> tuple[dict[str, Tensor], str]:
    """Return the tensors under their names there, and the architecture they make."""
    form, kind = fitted.form, source.kind
    family = form.family
    architecture = form.architectures[kind]
    if "next_sentence.weight" in fitted.weights:
        architecture = "BertForPreTraining"
    task: Task = "language" if kind in ("causal", "masked") else "classifier"
    prefix = "" if kind == "base" else family.prefix
    matches = [
        replace(match, theirs=tuple(f"{prefix}{name}" for name in match.theirs))
        if match.ours.startswith("backbone.")
        else match
        for match in family.matches(fitted.shape.depth, task)
    ]
    tensors = write_out(fitted.weights, matches)
    if task == "language" and not fitted.shape.tied and family.output_biases:
        read, usual = family.output_biases
        tensors[read] = tensors[usual].clone()
    return tensors, architecture


def _config(
    fitted: _Model, source: Source, spelling: Spelling, architecture: str
) -> dict[str, Any]:
    config = {
        "architectures": [architecture],
        **fitted.form.write_config(fitted.shape),
        "bos_token_id": spelling.bos,
        "eos_token_id": spelling.eos,
        "pad_token_id": spelling.pad,
        "torch_dtype": "float32",
    }
    if source.kind == "classifier":
        classes = list(map(str, source.config["classes"]))
        config["id2label"] = {str(index): name for index, name in enumerate(classes)}
        config["label2id"] = {name: index for index, name in enumerate(classes)}
        config["problem_type"] = "single_label_classification"
    return config
