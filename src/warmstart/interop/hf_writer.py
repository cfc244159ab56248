"""Write a run as a Hugging Face folder of exactly the same model, or say why that is impossible."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.bert import BERT
from warmstart.interop.export_card import CardUse, exported_card
from warmstart.interop.export_format import Exported, ExportRequest
from warmstart.interop.gpt2 import GPT2
from warmstart.interop.hf_check import check_folder
from warmstart.interop.hf_config import TRUNCATE, HfConfig
from warmstart.interop.hf_family import ExportRules, Family, HfHead
from warmstart.interop.hf_tensors import HfTensors, to_theirs
from warmstart.interop.hf_tokenizer_writer import HfTokenizer, convert_tokenizer
from warmstart.interop.llama import EUROBERT, LLAMA
from warmstart.interop.marian import MARIAN, PEGASUS
from warmstart.runs.saved import SavedRun
from warmstart.settings.finetuning import Tuning
from warmstart.settings.model import ModelConfig, ablation_warning
from warmstart.settings.translating import Search
from warmstart.tasks.registry import task_of

# Settings that do not change the outputs of a backbone, or only together with another setting.
NEUTRAL = {
    *("dropout", "inner_dropout", "rope_base", "decoder_depth", "target_vocab_size", "shared"),
    *("global_every", "local_rope_base"),
}
PROBE_VOCAB = 300  # neither it nor the depth decides whether a model fits


@dataclass(frozen=True)
class _Model:
    """A model in the shape of a family; its tensors still have our names."""

    family: Family
    rules: ExportRules
    head: HfHead
    shape: ModelConfig
    weights: dict[str, Tensor]

    @property
    def architecture(self) -> str:
        if "next_sentence.weight" in self.weights:
            return "BertForPreTraining"
        return next(name for name, head in self.family.heads.items() if head == self.head)

    @property
    def generates(self) -> bool:
        is_causal = self.head == "language" and self.family.language_class == "ForCausalLM"
        return is_causal or self.head == "translation"

    def config(self) -> dict[str, Any]:
        """Return config.json without what depends on the tokenizer or the classes."""
        sizes = {key: getattr(self.shape, name) for name, key in self.family.sizes.items()}
        return {
            "architectures": [self.architecture],
            "model_type": self.family.model_types[0],
            **sizes,
            **self.rules.write_config(self.shape),
            "tie_word_embeddings": self.shape.tied,
            "torch_dtype": "float32",
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors under their names in the family."""
        prefix = "" if self.head == "none" else self.family.prefix
        matches = [
            replace(match, theirs=tuple(f"{prefix}{name}" for name in match.theirs))
            if match.ours.startswith("backbone.")
            else match
            for match in self.family.matches(self.shape, self.head)
        ]
        tensors = to_theirs(self.weights, matches)
        if self.head == "language" and not self.shape.tied and self.family.output_biases:
            untied, usual = self.family.output_biases
            tensors[untied] = tensors[usual].clone()
        return tensors

    def with_token(self) -> "_Model":
        """Return the model with a row of zeros for a new token."""
        embedding = self.weights["backbone.embed.weight"]
        rows = torch.cat([embedding, embedding.new_zeros(1, embedding.shape[1])])
        shape = replace(self.shape, vocab_size=self.shape.vocab_size + 1)
        return replace(self, shape=shape, weights={**self.weights, "backbone.embed.weight": rows})


def write_hf(request: ExportRequest) -> Exported:
    """Write config, weights, tokenizer and card of a run, and check them."""
    source, folder = request.source, request.folder
    converted = _convert(source, request.model)
    family = converted.family
    tokenizer = convert_tokenizer(source, has_segments=family is BERT)
    is_last = converted.head == "sequence" and family.pooling == "last"
    if is_last and tokenizer.pad == tokenizer.eos:
        # transformers pools the last token that is not padding, which must be the end token.
        tokenizer = tokenizer.with_pad(converted.shape.vocab_size)
        converted = converted.with_token()
    tensors = converted.tensors()
    size = sum(tensor.numel() for tensor in tensors.values())
    constants = converted.rules.constants(converted.shape)
    write_json(folder / "config.json", _config(converted, source, tokenizer))
    write_whole(folder / "model.safetensors", save(tensors | constants, {"format": "pt"}))
    if converted.generates:
        write_json(folder / "generation_config.json", _generation_config(source, tokenizer))
    tokenizer.write(folder)
    card = exported_card(request, converted.architecture, size, _card_use(source))
    write_whole(folder / "README.md", card.encode())
    check = check_folder(request)
    return Exported(architecture=converted.architecture, num_parameters=size, check=check)


@torch.random.fork_rng(devices=())
def export_problem(run: SavedRun) -> str | None:
    """Say why a run that is about to be trained cannot be exported later; None: it can be."""
    if run.model.ablated != "nothing":
        return f"it is {ablation_warning(run.model.ablated)}"
    small = run.reshaped(replace(run.model, depth=1, vocab_size=PROBE_VOCAB))
    shapes = task_of(run).empty_model(small).state_dict()
    random = torch.Generator().manual_seed(0)  # training leaves no bias at zero
    weights = {name: torch.randn(t.shape, generator=random) for name, t in shapes.items()}
    converted = _fit(small, weights)
    if isinstance(converted, _Model):
        try:
            convert_tokenizer(run, has_segments=converted.family is BERT)
        except WarmstartError as problem:
            return str(problem)
        return None
    if not converted:
        return f"no supported family has {task_of(run).description}"
    closest: list[str] = min(converted, key=len)
    return ", ".join(closest)


def _convert(source: SavedRun, model: nn.Module) -> _Model:
    """Return the model in the first family that can represent it, or refuse."""
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    converted = _fit(source, weights)
    if isinstance(converted, _Model):
        return converted
    if not converted:
        raise WarmstartError(
            f"{source.path} is {task_of(source).description}, which cannot be exported: no "
            "supported Hugging Face family has that kind of model"
        )
    closest = "; ".join(", ".join(reasons) for reasons in sorted(converted, key=len))
    raise WarmstartError(
        f"{source.path} cannot be exported to Hugging Face. What does not fit, by family: "
        f"{closest}. --to onnx takes it as it is"
    )


def _fit(source: SavedRun, own: dict[str, Tensor]) -> _Model | list[list[str]]:
    """Return the model in the first family that can represent it, or what does not fit in each."""
    refusals: list[list[str]] = []
    task = task_of(source)
    for family in (BERT, GPT2, LLAMA, EUROBERT, PEGASUS, MARIAN):
        head = family.head_for(task.hub_class)
        if head is None or family.export is None:
            continue
        shape = family.export.widen(source.model)
        wide = task.empty_model(source.reshaped(shape)).state_dict()
        weights = own | {n: torch.zeros(t.shape) for n, t in wide.items() if n not in own}
        shape = _apply_embedding_scale(shape, weights, head)
        converted = _Model(family, family.export, head, shape, weights)
        misfits = _misfits(converted, source)
        reasons = list(misfits.values())
        if misfits.keys() <= {"pooling"}:  # the backbone fits; does the head?
            reasons += filter(None, [family.export.adapt(weights, head)])
        if not reasons:
            return converted
        refusals.append([f"{family.name}: {reasons[0]}", *reasons[1:]])
    return refusals


def _apply_embedding_scale(
    shape: ModelConfig, weights: dict[str, Tensor], head: HfHead
) -> ModelConfig:
    """Multiply the embedding by its scale; output weights are then no longer tied to it."""
    if not shape.scale_embedding or shape.positions == "sinusoidal" or head == "translation":
        return shape  # nothing to apply; no family fits; translators there scale it themselves
    embedding = weights["backbone.embed.weight"]
    if shape.tied and head == "language":
        weights["head.output.weight"] = embedding
        shape = replace(shape, tied=False)
    weights["backbone.embed.weight"] = embedding * math.sqrt(shape.width)
    return replace(shape, scale_embedding=False)


def _misfits(model: _Model, source: SavedRun) -> dict[str, str]:
    """Describe the settings that would differ if the model were written and read back."""
    file = source.folder.config_file
    tensors = HfTensors(model.tensors(), source.path, model.family.prefix)
    try:
        read_back = model.family.read_shape(HfConfig(model.config(), file), tensors, model.head)
    except WarmstartError as error:
        return {"config.json": str(error)}
    wanted, actual = asdict(model.shape), asdict(read_back)
    if model.head == "sequence":
        wanted["pooling"], actual["pooling"] = source.settings["pooling"], model.family.pooling
    neutral = NEUTRAL if model.head == "language" else NEUTRAL | {"transform"}
    return {
        name: f"{name}={wanted[name]} ({actual[name]} fits)"
        for name in wanted
        if wanted[name] != actual[name] and name not in neutral
    }


def _config(model: _Model, source: SavedRun, tokenizer: HfTokenizer) -> dict[str, Any]:
    config = model.config() | {
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.pad,
    }
    if model.head == "translation":
        config["decoder_start_token_id"] = tokenizer.bos
    if model.head == "sequence":
        classes = source.classes
        config["id2label"] = {str(index): name for index, name in enumerate(classes)}
        config["label2id"] = {name: index for index, name in enumerate(classes)}
        config["problem_type"] = "single_label_classification"
        config[TRUNCATE] = source.recorded(Tuning, "truncate").truncate
    return config


def _generation_config(source: SavedRun, tokenizer: HfTokenizer) -> dict[str, Any]:
    """Return how text is generated: from the same start, without special tokens."""
    config: dict[str, Any] = {
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.pad,
        "max_length": source.model.max_length,
        "suppress_tokens": source.tokenizer.suppressed_ids(source.model.vocab_size),
    }
    if source.model.decoder_depth:
        config |= {"decoder_start_token_id": tokenizer.bos, "num_beams": Search.beam}
    return config


def _card_use(source: SavedRun) -> CardUse:
    auto_class = f"AutoModel{(task_of(source).hub_class or '').removeprefix('Model')}"
    code = f"""
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = {auto_class}.from_pretrained("FOLDER")
"""
    return CardUse(library="transformers", code=code)
