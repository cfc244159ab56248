"""Write a translator or a causal language model for CTranslate2, and check it there."""

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import tokenizers
import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.interop.formats import (
    PROBES,
    CardUse,
    Exported,
    ExportRequest,
    compare_outputs,
    exported_card,
    import_library,
    probe_rows,
)
from warmstart.interop.tokenizers import convert_tokenizer
from warmstart.model.attention import CrossAttention, MultiHeadAttention
from warmstart.model.backbone import Stack
from warmstart.model.layers import FeedForward
from warmstart.model.models import LanguageModel, Translator
from warmstart.settings.model import Activation, ModelConfig
from warmstart.tasks.registry import task_of
from warmstart.tasks.task import num_parameters
from warmstart.tokenization.backends import TARGET_FOLDER
from warmstart.tokenization.tokenizer import Tokenizer

Scores = tuple[Tensor, Tensor]  # their log-probabilities of tokens, and ours
_USE = """
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
engine = ctranslate2.{engine}("FOLDER")
"""


class Vocabulary:
    """The tokens of a tokenizer as tokenizer.json spells them, which CTranslate2 reads and writes.

    Its files are written into a folder.
    """

    def __init__(self, request: ExportRequest, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        is_target = tokenizer is not request.source.tokenizer
        folder = request.folder / TARGET_FOLDER if is_target else request.folder
        folder.mkdir(exist_ok=True)
        converted = convert_tokenizer(request.source, has_segments=False, tokenizer=tokenizer)
        converted.write(folder)
        self._library = tokenizers.Tokenizer.from_buffer(converted.content)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of ids; rows of a model beyond the vocabulary get a name too."""
        return [str(self._library.id_to_token(index) or f"<unused {index}>") for index in ids]

    def fill(self, config: Any) -> None:
        """Name the special tokens."""
        tokenizer = self.tokenizer
        unknown = tokenizer.eos if tokenizer.unk is None else tokenizer.unk
        names = self.tokens([tokenizer.bos, tokenizer.eos, unknown])
        config.bos_token, config.eos_token, config.unk_token = names


class TranslatorFolder:
    """A translator with its vocabularies."""

    engine = "Translator"

    def __init__(self, request: ExportRequest, model: Translator) -> None:
        self.run, self.model = request.source, model
        self.source = self.target = Vocabulary(request, self.run.tokenizer)
        if not self.run.tokenizers.is_joint:
            self.target = Vocabulary(request, self.run.tokenizers.target)

    def spec(self) -> Any:
        """Return what CTranslate2 saves; it puts special tokens around a source."""
        spec = translator_spec(deepcopy(self.model))  # quantising overwrites the weights
        spec.register_source_vocabulary(self.source.tokens(range(self.model.config.vocab_size)))
        spec.register_target_vocabulary(self.target.tokens(range(len(self.model.embedding))))
        self.target.fill(spec.config)
        spec.config.decoder_start_token = spec.config.bos_token
        spec.config.add_source_bos = self.run.tokenizer.has_start
        spec.config.add_source_eos = True
        return spec

    def scores(self, library: Any, folder: str, compute_type: str) -> Scores:
        """Return the log-probabilities of every token of the probes as targets."""
        source, target = self.run.tokenizers.source, self.run.tokenizers.target
        room = self.run.model.max_length - 2
        sources = [ids[:room] for ids in source.encode(PROBES)]
        targets = [ids[:room] for ids in target.encode(PROBES)]
        translator = library.Translator(
            folder, compute_type=compute_type, intra_threads=torch.get_num_threads()
        )
        results = translator.score_batch(
            list(map(self.source.tokens, sources)), list(map(self.target.tokens, targets))
        )
        ours = list[Tensor]()
        for ids, target_ids in zip(sources, targets, strict=True):
            row = torch.tensor([[*source.start, *ids, source.eos]])
            logits = self.model(row, None, torch.tensor([[target.bos, *target_ids]]))
            ours.append(_log_probs(logits, [*target_ids, target.eos]))
        return _joined(results), torch.cat(ours)


class CausalFolder:
    """A causal language model with its vocabulary."""

    engine = "Generator"

    def __init__(self, request: ExportRequest, model: LanguageModel) -> None:
        self.run, self.model = request.source, model
        self.vocabulary = Vocabulary(request, self.run.tokenizer)

    def spec(self) -> Any:
        """Return what CTranslate2 saves."""
        spec = causal_spec(deepcopy(self.model))  # quantising overwrites the weights
        spec.register_vocabulary(self.vocabulary.tokens(range(self.model.config.vocab_size)))
        self.vocabulary.fill(spec.config)
        return spec

    def scores(self, library: Any, folder: str, compute_type: str) -> Scores:
        """Return the log-probabilities of every token of the probes after the first."""
        rows = [row for row in probe_rows(self.run) if len(row) > 1]
        generator = library.Generator(
            folder, compute_type=compute_type, intra_threads=torch.get_num_threads()
        )
        results = generator.score_batch(list(map(self.vocabulary.tokens, rows)))
        ours = [_log_probs(self.model(torch.tensor([row[:-1]])), row[1:]) for row in rows]
        return _joined(results), torch.cat(ours)


def write_ctranslate2(request: ExportRequest) -> Exported:
    """Write the model as CTranslate2 reads it, with its tokenizers."""
    library: Any = import_library("ctranslate2", "ctranslate2")
    model, path = request.model, str(request.folder)
    refuse_unknown(request.source.model)
    folder = _folder(request)
    with torch.inference_mode():
        spec = folder.spec()
        spec.validate()
        spec.optimize("int8" if request.precision == "int8" else None)
        spec.save(path)
        compute_type = "int8" if request.precision == "int8" else "float32"
        check = compare_outputs(request, library, [folder.scores(library, path, compute_type)])
    name, size = type(spec).__name__.removesuffix("Spec"), num_parameters(model)
    use = CardUse(library="ctranslate2", code=_USE.format(engine=folder.engine))
    card = exported_card(request, name, size, use)
    write_whole(request.folder / "README.md", card.encode())
    return Exported(architecture=name, num_parameters=size, check=check)


def _folder(request: ExportRequest) -> TranslatorFolder | CausalFolder:
    model, source = request.model, request.source
    if isinstance(model, Translator):
        return TranslatorFolder(request, model)
    if isinstance(model, LanguageModel) and model.config.is_causal:
        return CausalFolder(request, model)
    raise WarmstartError(
        f"{source.path} is {task_of(source).description}; --to ctranslate2 is for translators and "
        "causal language models, --to onnx for every kind"
    )


def _log_probs(logits: Tensor, ids: Sequence[int]) -> Tensor:
    """Return the log-probability of each of these ids, from logits (1, T, V)."""
    return logits[0].log_softmax(-1)[range(len(ids)), list(ids)]


def _joined(results: Sequence[Any]) -> Tensor:
    return torch.tensor([score for result in results for score in result.log_probs])


ACTIVATIONS: dict[Activation, str] = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
    "geglu": "GELU",
}
POSITIONS = ("sinusoidal", "learned", "rope")


def refuse_unknown(config: ModelConfig) -> None:
    """Refuse what CTranslate2 does not implement."""
    for name, is_known in (
        ("activation", config.activation in ACTIVATIONS),
        ("positions", config.positions in POSITIONS),
        ("first_norm", config.first_norm),
        ("segments", not config.segments),
        ("transform", not config.transform),
    ):
        if not is_known:
            raise WarmstartError(
                f"no export: CTranslate2 does not implement {name}={getattr(config, name)}"
            )


def translator_spec(model: Translator) -> Any:
    """Return an encoder and a decoder with our weights; vocabularies are still missing."""
    specs: Any = import_library("ctranslate2.specs.transformer_spec", "ctranslate2")
    config = model.config
    encoder = specs.TransformerEncoderSpec(config.depth, **_options(config))
    decoder = specs.TransformerDecoderSpec(config.decoder_depth, **_options(config))
    _fill_stack(encoder, model.encoder)
    encoder.embeddings[0].weight = model.encoder.embed.weight
    _fill_stack(decoder, model.decoder)
    decoder.embeddings.weight = model.embedding
    _fill_linear(decoder.projection, *model.head.weights(model.embedding))
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def causal_spec(model: LanguageModel) -> Any:
    """Return a decoder with our weights; its vocabulary is still missing."""
    specs: Any = import_library("ctranslate2.specs.transformer_spec", "ctranslate2")
    backbone, config = model.backbone, model.config
    decoder = specs.TransformerDecoderSpec(
        config.depth, with_encoder_attention=False, **_options(config)
    )
    _fill_stack(decoder, backbone)
    decoder.embeddings.weight = backbone.embed.weight
    _fill_linear(decoder.projection, *model.head.weights(backbone.embed.weight))
    spec = specs.TransformerDecoderModelSpec(decoder)
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _options(config: ModelConfig) -> dict[str, Any]:
    """Return the settings of a stack under their names in CTranslate2."""
    common: Any = import_library("ctranslate2.specs.common_spec", "ctranslate2")
    rotary: dict[str, Any] = {"rotary_dim": 0, "rotary_interleave": False}  # 0: all of a head
    return {
        "num_heads": config.heads,
        "pre_norm": config.norm_position == "pre",
        "activation": getattr(common.Activation, ACTIVATIONS[config.activation]),
        "layernorm_embedding": config.embedding_norm,
        "ffn_glu": config.is_gated,
        "rms_norm": config.norm == "rms",
        **(rotary | {"rotary_base": config.rope_base} if config.positions == "rope" else {}),
    }


def _fill_stack(spec: Any, stack: Stack) -> None:
    config = stack.config
    spec.scale_embeddings = math.sqrt(config.width) if config.scale_embedding else False
    if config.positions == "learned":
        spec.position_encodings.encodings = stack.embed_positions.weight
    elif config.positions == "sinusoidal":
        spec.position_encodings.encodings = stack.sinusoids
    elif hasattr(spec, "position_encodings"):  # an encoder always adds some
        spec.position_encodings.encodings = torch.zeros(config.max_length, config.width)
    if config.embedding_norm:
        _fill_norm(spec.layernorm_embedding, stack.norm_embed)
    if config.norm_position == "pre":
        _fill_norm(spec.layer_norm, stack.norm_final)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        _fill_block(layer, block)


def _fill_block(spec: Any, block: Any) -> None:
    _fill_attention(spec.self_attention, block.attend)
    _fill_norm(spec.self_attention.layer_norm, block.norm_attend)
    if hasattr(spec, "attention"):
        _fill_attention(spec.attention, block.cross)
        _fill_norm(spec.attention.layer_norm, block.norm_cross)
    _fill_ffn(spec.ffn, block.ffn)
    _fill_norm(spec.ffn.layer_norm, block.norm_ffn)


def _fill_attention(spec: Any, attention: MultiHeadAttention | CrossAttention) -> None:
    layers = [attention.project, attention.output]
    if isinstance(attention, CrossAttention):
        layers.insert(0, attention.query)
    for linear_spec, layer in zip(spec.linear, layers, strict=True):
        _fill_linear(linear_spec, layer.weight, layer.bias)


def _fill_ffn(spec: Any, ffn: FeedForward) -> None:
    weight, bias = ffn.inner.weight, ffn.inner.bias
    if ffn.is_gated:
        gate, inner = weight.chunk(2)
        gate_bias, inner_bias = (None, None) if bias is None else bias.chunk(2)
        _fill_linear(spec.linear_0, gate, gate_bias)
        _fill_linear(spec.linear_0_noact, inner, inner_bias)
    else:
        _fill_linear(spec.linear_0, weight, bias)
    _fill_linear(spec.linear_1, ffn.outer.weight, ffn.outer.bias)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = weight.detach().contiguous()
    if bias is not None:
        spec.bias = bias.detach().contiguous()


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = norm.weight
    if hasattr(spec, "beta"):
        bias = norm.bias
        spec.beta = torch.zeros_like(norm.weight) if bias is None else bias
