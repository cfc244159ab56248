"""Write a run as a Hugging Face folder of exactly the same model, or say why that is impossible."""

import importlib.util
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.encoders import BERT
from warmstart.interop.family import (
    LONGEST,
    MARGIN,
    THRESHOLD,
    TRUNCATE,
    Family,
    HfHead,
    empty_model,
    to_theirs,
)
from warmstart.interop.formats import (
    PROBES,
    ExportRequest,
    ExportResult,
    OutputCheck,
    compare_outputs,
    own_outputs,
    pair_outputs,
    probe_layout,
    probe_rows,
    quiet,
    require_same_tokens,
)
from warmstart.interop.hf_read import FAMILIES
from warmstart.interop.tokenizers import HfTokenizer, convert_tokenizer
from warmstart.jsonfiles import read_object
from warmstart.model.models import Translator
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.settings.using import Beam
from warmstart.tasks.hub import HubModel, saved_hub_model
from warmstart.tasks.registry import task_of
from warmstart.tokenization.backends import library_errors

_EMBED = """
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["A text."])
"""
_MODULES = {  # of sentence-transformers, in the order of use, each with its folder
    "sentence_transformers.models.Transformer": "",
    "sentence_transformers.models.Pooling": "1_Pooling",
}
_USE = """
from transformers import AutoTokenizer, AutoModel

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModel.from_pretrained("FOLDER")
"""


@dataclass(frozen=True)
class _Model:
    """A model in the shape of a family; its tensors still have our names."""

    family: Family
    architecture: str
    shape: ModelConfig
    weights: dict[str, Tensor]

    @property
    def head(self) -> HfHead:
        return self.family.heads[self.architecture]

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors under their names in the family."""
        prefix = "" if self.head == "none" else self.family.prefix_of(self.head)
        tensors = to_theirs(self.weights, self.family.matches(self.shape, self.head, prefix))
        if self.head == "language" and not self.shape.tied and self.family.untied_bias:
            bias = self.family.head_layers["language"]["head.output.bias"]
            tensors[self.family.untied_bias] = tensors[bias].clone()
        return tensors

    def with_token(self) -> "_Model":
        """Return the model with a row of zeros for a new token."""
        embedding = self.weights["backbone.embed.weight"]
        rows = torch.cat([embedding, embedding.new_zeros(1, embedding.shape[1])])
        shape = replace(self.shape, vocab_size=self.shape.vocab_size + 1)
        return replace(self, shape=shape, weights={**self.weights, "backbone.embed.weight": rows})


def write_hf(request: ExportRequest) -> ExportResult:
    """Write config, weights, tokenizer and card of a run, and check them."""
    source, folder = request.source, request.folder
    converted = _convert(source, request.model)
    family = converted.family
    tokenizer = convert_tokenizer(source, has_segments=family is BERT)
    is_last = converted.head == "sequence" and family.pooling == "last"
    if is_last and tokenizer.ids["pad_token_id"] == tokenizer.ids["eos_token_id"]:
        # transformers pools the last token that is not padding, which must be the end token.
        tokenizer = tokenizer.with_pad(converted.shape.vocab_size)
        converted = converted.with_token()
    tensors = converted.tensors()
    constants = family.constants(converted.shape)
    write_json(folder / "config.json", _config(converted, source, tokenizer))
    write_whole(folder / "model.safetensors", save(tensors | constants, {"format": "pt"}))
    is_causal = converted.head == "language" and converted.shape.is_causal
    if is_causal or converted.head == "translation":
        write_json(folder / "generation_config.json", _generation_config(source, tokenizer))
    tokenizer.write(folder)
    has_vectors = converted.head in ("none", "language") and not converted.shape.is_causal
    if has_vectors:
        _write_modules(folder, converted.shape)
    return ExportResult(
        folder=request.out,
        architecture=converted.architecture,
        num_parameters=sum(tensor.numel() for tensor in tensors.values()),
        code=_USE.replace("AutoModel", _auto_class(source)) + _EMBED * has_vectors,
        check=check_folder(request),
    )


def _convert(source: SavedRun, model: nn.Module) -> _Model:
    """Return the model in the first family that can represent it, or refuse."""
    hub = saved_hub_model(source.model, task_of(source), source.config, source.weights_file)
    if hub.architecture is None:
        raise WarmstartError(_refusal(source, hub))
    family = next(family for family in FAMILIES if hub.architecture in family.heads)
    head = family.heads[hub.architecture]
    shape = family.widen(source.model, head)
    wide = empty_model(shape, head, family.pooling, hub.num_classes, hub.has_next_sentence)
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    for name, tensor in wide.state_dict().items():
        weights.setdefault(name, torch.zeros(tensor.shape))
    shape = _apply_embedding_scale(shape, weights, head)
    family.adapt(weights, head)
    return _Model(family, hub.architecture, shape, weights)


def _refusal(source: SavedRun, hub: HubModel) -> str:
    if not hub.misfits:
        return (
            f"{source.path} is {hub.task.description}, which cannot be exported: no supported "
            "Hugging Face family has that kind of model"
        )
    return (
        f"{source.path} cannot be exported to Hugging Face: {hub.problem}; --to onnx takes it as "
        "it is"
    )


def _apply_embedding_scale(
    shape: ModelConfig, weights: dict[str, Tensor], head: HfHead
) -> ModelConfig:
    """Multiply the embedding by its scale; output weights are then no longer tied to it."""
    if not shape.scale_embedding or shape.positions == "sinusoidal" or head == "translation":
        return shape  # nothing to scale; no family fits; transformers' translators scale it
    embedding = weights["backbone.embed.weight"]
    if shape.tied and head == "language":
        weights["head.output.weight"] = embedding
        shape = replace(shape, tied=False)
    weights["backbone.embed.weight"] = embedding * math.sqrt(shape.width)
    return replace(shape, scale_embedding=False)


def _config(model: _Model, source: SavedRun, tokenizer: HfTokenizer) -> dict[str, Any]:
    config = model.family.write_config(model.shape) | {
        "architectures": [model.architecture],
        **tokenizer.ids,
    }
    if model.head == "translation":
        config["decoder_start_token_id"] = tokenizer.ids["bos_token_id"]
    if model.head in ("sequence", "tokens"):
        classes = source.classes or ("number",)
        config["id2label"] = {str(index): name for index, name in enumerate(classes)}
        config["label2id"] = {name: index for index, name in enumerate(classes)}
    if model.head == "spans":
        config[THRESHOLD] = float(model.weights["threshold"])
        config[LONGEST] = source.config["longest"]
    if "margin" in model.weights:
        config[MARGIN] = float(model.weights["margin"])
    if model.head == "sequence":
        config["problem_type"] = task_of(source).hub_problem
        config[TRUNCATE] = source.recorded(Tuning, "truncate").truncate
    return config


def _generation_config(source: SavedRun, tokenizer: HfTokenizer) -> dict[str, Any]:
    """Return the settings to generate text: the same start, no special tokens."""
    config: dict[str, Any] = {
        **tokenizer.ids,
        "max_length": source.model.max_length,
        "suppress_tokens": source.tokenizer.suppressed_ids(source.model.vocab_size),
    }
    if source.model.decoder_depth:
        start = tokenizer.ids["bos_token_id"]
        config |= {"decoder_start_token_id": start, "num_beams": Beam.beam}
    return config


def _write_modules(folder: Path, shape: ModelConfig) -> None:
    """Write what sentence-transformers reads: the mean over all tokens, as `embed` computes it."""
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": kind}
        for index, (kind, path) in enumerate(_MODULES.items())
    ]
    write_json(folder / "modules.json", modules)
    length = {"max_seq_length": shape.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", length)
    pooling = {"word_embedding_dimension": shape.width, "pooling_mode_mean_tokens": True}
    others = ("cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    pooling |= {f"pooling_mode_{name}": False for name in others}
    write_json(folder / "1_Pooling" / "config.json", pooling)


def _auto_class(source: SavedRun) -> str:
    return f"AutoModel{(task_of(source).hub_class or '').removeprefix('Model')}"


def check_folder(request: ExportRequest) -> OutputCheck | None:
    """Compare tokens and outputs on a padded batch; None if transformers is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    source, model, folder = request.source, request.model, request.folder
    config = read_object(folder / "config.json")
    with _without_progress(transformers):
        theirs: Any = getattr(transformers, config["architectures"][0]).from_pretrained(folder)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    ids, is_token = _encode_probes(source, tokenizer)
    inputs = {"input_ids": ids, "attention_mask": is_token.long()}
    layout = probe_layout(source.model, is_token)
    if layout.segments is not None:
        inputs["token_type_ids"] = layout.segments
    if isinstance(model, Translator):
        inputs["decoder_input_ids"] = ids  # any target will do
    with torch.inference_mode():
        their_outputs = theirs.eval().float()(**inputs)
        if isinstance(model, Translator):
            ours = {"logits": model(ids, is_token, ids)}
        else:
            known = ids.clamp(max=source.model.vocab_size - 1)  # padding may have an id of its own
            ours = own_outputs(model, known, layout)
    return compare_outputs(request, transformers, pair_outputs(their_outputs, ours, is_token))


def _encode_probes(source: SavedRun, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Encode the probes with the exported tokenizer, which must agree with ours."""
    longest = source.model.max_length
    with library_errors("the exported tokenizer cannot read a text"):
        batch = tokenizer(
            list(PROBES), truncation=True, max_length=longest, padding=True, return_tensors="pt"
        )
    ids, is_token = batch["input_ids"], batch["attention_mask"].bool()
    theirs = [row[mask].tolist() for row, mask in zip(ids, is_token, strict=True)]
    require_same_tokens(theirs, probe_rows(source))
    return ids, is_token


@contextmanager
def _without_progress(transformers: Any) -> Iterator[None]:
    """Keep the library's progress bars and notes off the terminal."""
    bars = transformers.utils.logging
    has_bar = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        with quiet():
            yield
    finally:
        if has_bar:
            bars.enable_progress_bar()
