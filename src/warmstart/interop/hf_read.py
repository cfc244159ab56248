"""Read a Hugging Face folder as exactly the same model of ours, or say why that is not possible."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from warmstart.data.numbers import LARGEST
from warmstart.errors import WarmstartError
from warmstart.interop.decoders import EUROBERT, GPT2, LLAMA
from warmstart.interop.encoders import BERT, DISTILBERT, ELECTRA, MODERNBERT, ROBERTA
from warmstart.interop.family import (
    LONGEST,
    MARGIN,
    THRESHOLD,
    TRUNCATE,
    Family,
    HfConfig,
    HfFolder,
    HfHead,
    HfTensors,
    empty_model,
    to_ours,
)
from warmstart.interop.marian import MARIAN, PEGASUS, SOURCE, VOCAB, read_marian_tokenizers
from warmstart.interop.tokenizers import check_size, read_tokenizer
from warmstart.runs.checkpoint import check_finite
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling, Truncate
from warmstart.tasks.answer import LONGEST as USUAL_LONGEST
from warmstart.tasks.answer import SURE
from warmstart.tasks.hub import ANSWERER, CLASSIFIER, TAGGER
from warmstart.tasks.registry import task_for_class
from warmstart.tasks.task import Task
from warmstart.tokenization.backends import TokenizerPair

ENCODERS = (BERT, ROBERTA, DISTILBERT, ELECTRA)
FAMILIES = (*ENCODERS, GPT2, LLAMA, EUROBERT, MODERNBERT, MARIAN, PEGASUS)
SINGLE_LABEL, MULTI_LABEL = "single_label_classification", "multi_label_classification"
REGRESSION = "regression"
NEXT_SENTENCE = ("IsNext", "NotNext")  # in the order of BERT's two outputs


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """A model read from a folder."""

    architecture: str
    task: Task
    model: ModelConfig
    weights: dict[str, Tensor]
    tokenizers: TokenizerPair
    pooling: Pooling  # of a classifier
    truncate: Truncate  # as the run that was exported did; else as its own library does
    classes: tuple[str, ...]
    has_pairs: bool
    more_facts: dict[str, Any]  # what else config.json of the run records
    left_out: tuple[str, ...]  # tensors of heads that the task does not have

    @property
    def num_parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())


def read_folder(path: Path) -> ImportedModel:
    """Read a Hugging Face folder. Runs no code from it."""
    folder = HfFolder(path)
    config, family = _read_config(folder)
    architecture, head = _read_architecture(config, family)
    tensors = HfTensors(folder.read_tensors(), path, family.prefix_of(head))
    tensors.drop(family.buffers)
    if head == "none" and family.has_language_head(tensors):
        head = "language"
    for key in (family.sizes.get(name) for name in ("depth", "decoder_depth")):
        if key and config.size(key) > len(tensors):
            config.refuse(key, f"is more than the {len(tensors)} tensors in the folder")
    shape = family.read_shape(config, tensors, head)
    classes = _read_classes(config, family, head, tensors)
    has_next_sentence = shape.pooler and "cls.seq_relationship.weight" in tensors
    model = empty_model(shape, head, family.pooling, len(classes), has_next_sentence)
    weights = _take_weights(tensors, family, config, model, head)
    left_out = tensors.drop(family.unused[head]) if head in family.unused else ()
    tensors.refuse_rest()
    return ImportedModel(
        architecture=architecture,
        task=task_for_class(_hub_class(shape, head), _read_problem(config, classes)),
        model=shape,
        weights=weights,
        tokenizers=read_tokenizers(folder, config, shape.vocab_size),
        pooling=family.pooling,
        truncate=config.choose(TRUNCATE, "head", {rule: rule for rule in get_args(Truncate)}),
        classes=classes,
        has_pairs=head in ("pairs", "spans"),
        more_facts={"longest": config.size(LONGEST, USUAL_LONGEST)} if head == "spans" else {},
        left_out=left_out,
    )


def _take_weights(
    tensors: HfTensors, family: Family, config: HfConfig, model: nn.Module, head: HfHead
) -> dict[str, Tensor]:
    """Take a model's tensors, and drop copies of them; return weights under our names."""
    shape: ModelConfig = model.config  # type: ignore[assignment]
    bias = family.head_layers.get("language", {}).get("head.output.bias", "")
    if not shape.tied and family.untied_bias in tensors:
        tensors[bias] = tensors.pop(family.untied_bias)
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    zeros = rf"threshold|margin|{family.zero_biases(config, head)}"
    weights = to_ours(tensors, family.matches(shape, head), shapes, zeros)
    if head == "spans":
        weights["threshold"] = torch.tensor(_read_threshold(config))
    if "margin" in weights:
        weights["margin"] = torch.tensor(_read_margin(config))
    check_finite(weights, tensors.path)
    if head == "language" and shape.tied:
        tensors.drop_copy(family.tied_weight, weights["backbone.embed.weight"])
    if head == "language" and "head.output.bias" in weights:
        tensors.drop_copy(family.untied_bias, weights["head.output.bias"])
    for name in family.copies:
        tensors.drop_copy(name, weights["encoder.embed.weight"])
    family.restore(weights)
    return weights


def _read_threshold(config: HfConfig) -> float:
    """Return the log odds from which on a question is answered; other libraries write none."""
    value = config.get(THRESHOLD, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= SURE:
        config.refuse(THRESHOLD, f"must be a number from {-SURE:g} to {SURE:g}")
    return float(value)


def _read_margin(config: HfConfig) -> float:
    """Return half the width of the interval of a number; other libraries write none."""
    value = config.get(MARGIN, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        config.refuse(MARGIN, f"must be a number from 0 to {LARGEST:g}")
    return float(value)


def _read_problem(config: HfConfig, classes: Sequence[str]) -> str | None:
    """Return the kind of labels; transformers also takes a head with one output for a number."""
    return config.get("problem_type", SINGLE_LABEL) if classes else REGRESSION


def _hub_class(shape: ModelConfig, head: HfHead) -> str:
    """Return the ending of the name of transformers' class for a model with this head."""
    if head == "language":
        return "ForCausalLM" if shape.is_causal else "ForMaskedLM"
    endings = {"none": "Model", "translation": "ForSeq2SeqLM", "tokens": TAGGER, "spans": ANSWERER}
    return endings.get(head, CLASSIFIER)


def _read_config(folder: HfFolder) -> tuple[HfConfig, Family]:
    values = folder.read_json("config.json")
    if values is None:
        raise WarmstartError(f"{folder.path}: no config.json, so this is not a Hugging Face folder")
    if "command" in values and "settings" in values:
        raise WarmstartError(f"{folder.path} is a run of warmstart already; use it as it is")
    config = HfConfig(values, folder.path / "config.json")
    known = {name: family for family in FAMILIES for name in family.model_types}
    if "model_type" not in values:
        raise WarmstartError(f"{config.file}: no model_type; supported: {', '.join(known)}")
    family = config.choose("model_type", "", known)
    config.require("auto_map", [], "needs code of its own, which is not run")
    config.require("quantization_config", [], "is not supported; plain floats are")
    return config, family


def _read_architecture(config: HfConfig, family: Family) -> tuple[str, HfHead]:
    names = config.get("architectures", [])
    if not isinstance(names, list) or len(names) > 1:
        config.refuse("architectures", "must be a list of one name")
    if not names:
        return f"{family.name} without a named architecture", "none"
    if not isinstance(names[0], str) or names[0] not in family.heads:
        config.refuse("architectures", f"is not supported; supported: {', '.join(family.heads)}")
    return names[0], family.heads[names[0]]


def _read_classes(
    config: HfConfig, family: Family, head: HfHead, tensors: HfTensors
) -> tuple[str, ...]:
    if head == "pairs":
        return NEXT_SENTENCE
    if head not in ("sequence", "tokens"):
        return ()
    output = tensors[f"{family.head_layers[head]['head.output']}.weight"]
    num_classes = len(output) if output.dim() else 0
    problems = [SINGLE_LABEL, *[MULTI_LABEL] * (head == "sequence")]
    if num_classes == 1 and head == "sequence":
        config.require("problem_type", [REGRESSION], "does not fit a head with one output")
        return ()
    config.require("problem_type", problems, f"is not supported; {' and '.join(problems)} are")
    indexes = [str(index) for index in range(num_classes)]
    labels = config.get("id2label", {index: f"LABEL_{index}" for index in indexes})
    if not isinstance(labels, dict) or sorted(labels) != sorted(indexes):
        config.refuse("id2label", f"must name the classes 0 to {num_classes - 1} of the weights")
    names = tuple(labels[index] for index in indexes)
    is_text = all(isinstance(name, str) and name for name in names)
    if not is_text or len(set(names)) < len(names):
        config.refuse("id2label", "must give every class a name of its own")
    if num_classes < 2:
        config.refuse("id2label", "has one class; a tagger needs two")
    return names


def read_tokenizers(folder: HfFolder, config: HfConfig, vocab_size: int) -> TokenizerPair:
    """Return a folder's tokenizers, which must fit the model's vocabulary; most have only one."""
    if folder.find(SOURCE) and not folder.find("tokenizer.json"):
        pair = read_marian_tokenizers(folder)
        config.require("decoder_start_token_id", [pair.target.bos], "is not the padding token")
        check_size(pair.source, vocab_size, folder.path / VOCAB)
        return pair
    if config.token("decoder_start_token_id") not in (None, config.token("bos_token_id")):
        config.refuse("bos_token_id", "must begin both source and target, as it does in our models")
    tokenizer = read_tokenizer(folder, config, vocab_size)
    return TokenizerPair(tokenizer, tokenizer)
