"""Write a translator or a causal language model for CTranslate2, and check it there."""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import tokenizers
import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.formats import (
    PROBES,
    ExportRequest,
    ExportResult,
    compare_outputs,
    import_library,
    probe_rows,
)
from warmstart.interop.tokenizers import HfTokenizer, write_tokenizers
from warmstart.model.attention import CrossAttention, MultiHeadAttention
from warmstart.model.backbone import Stack
from warmstart.model.layers import FeedForward
from warmstart.model.models import Decoder, LanguageHead, LanguageModel, Translator
from warmstart.runs.saved import SavedRun
from warmstart.settings.model import Activation, ModelConfig
from warmstart.tasks.registry import task_of
from warmstart.tasks.task import num_parameters

Spell = Callable[[Iterable[int]], list[str]]  # ids -> tokens as tokenizer.json spells them
_USE = """
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
engine = ctranslate2.{engine}("FOLDER")
"""
ACTIVATIONS: dict[Activation, str] = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
    "geglu": "GELU",
}
POSITIONS = ("sinusoidal", "learned", "rope")


def write_ctranslate2(request: ExportRequest) -> ExportResult:
    """Write the model as CTranslate2 reads it, with its tokenizers."""
    library: Any = import_library("ctranslate2", "ctranslate2")
    source, path = request.source, str(request.folder)
    _refuse_other_kinds(request)
    refuse_unknown(source.model)
    written = write_tokenizers(source, False, request.folder)
    spell, spell_target = _speller(written[0]), _speller(written[-1])
    is_int8 = request.precision == "int8"
    engine = "Translator" if isinstance(request.model, Translator) else "Generator"
    with torch.inference_mode():
        spec = _build_spec(request, spell, spell_target)
        spec.validate()
        spec.optimize("int8" if is_int8 else None)
        spec.save(path)
        compute_type, threads = "int8" if is_int8 else "float32", torch.get_num_threads()
        reader = getattr(library, engine)(path, compute_type=compute_type, intra_threads=threads)
        check = compare_outputs(request, library, [_scores(reader, request, spell, spell_target)])
    return ExportResult(
        folder=request.out,
        architecture=type(spec).__name__.removesuffix("Spec"),
        num_parameters=num_parameters(request.model),
        code=_USE.format(engine=engine),
        check=check,
    )


def _refuse_other_kinds(request: ExportRequest) -> None:
    model, source = request.model, request.source
    is_causal = isinstance(model, LanguageModel) and model.config.is_causal
    if not is_causal and not isinstance(model, Translator):
        raise WarmstartError(
            f"{source.path} is {task_of(source).description}; --to ctranslate2 is for translators "
            "and causal language models, --to onnx for every kind"
        )


def _speller(tokenizer: HfTokenizer) -> Spell:
    """Return a function that spells ids as tokenizer.json does; unused ids get a name too."""
    library = tokenizers.Tokenizer.from_buffer(tokenizer.content)
    return lambda ids: [str(library.id_to_token(index) or f"<unused {index}>") for index in ids]


def _build_spec(request: ExportRequest, spell: Spell, spell_target: Spell) -> Any:
    """Return the model for CTranslate2, which will add the special tokens to a source."""
    model: Any = deepcopy(request.model)  # quantising overwrites the weights
    target = request.source.tokenizers.target
    if isinstance(model, Translator):
        spec = translator_spec(model)
        spec.register_source_vocabulary(spell(range(model.config.vocab_size)))
        spec.register_target_vocabulary(spell_target(range(len(model.embedding))))
        (spec.config.decoder_start_token,) = spell_target([target.bos])
        spec.config.add_source_bos = request.source.tokenizer.has_start
        spec.config.add_source_eos = True
    else:
        spec = causal_spec(model)
        spec.register_vocabulary(spell(range(model.config.vocab_size)))
    unknown = target.eos if target.unk is None else target.unk
    names = spell_target([target.bos, target.eos, unknown])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = names
    return spec


def _scores(
    reader: Any, request: ExportRequest, spell: Spell, spell_target: Spell
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the tokens of the probes, by CTranslate2 and by us."""
    model, source = request.model, request.source
    if isinstance(model, Translator):
        return _translator_scores(reader, model, source, spell, spell_target)
    rows = [row for row in probe_rows(source) if len(row) > 1]
    results = reader.score_batch(list(map(spell, rows)))
    ours = [_log_probs(model(torch.tensor([row[:-1]])), row[1:]) for row in rows]
    return _join_scores(results), torch.cat(ours)


def _translator_scores(
    reader: Any, model: Translator, run: SavedRun, spell: Spell, spell_target: Spell
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the probes as targets, by CTranslate2 and by us."""
    source, target = run.tokenizers.source, run.tokenizers.target
    room = run.model.max_length - 2
    sources = [ids[:room] for ids in source.encode(PROBES)]
    targets = [ids[:room] for ids in target.encode(PROBES)]
    results = reader.score_batch(list(map(spell, sources)), list(map(spell_target, targets)))
    ours = list[Tensor]()
    for ids, target_ids in zip(sources, targets, strict=True):
        row = torch.tensor([[*source.start, *ids, source.eos]])
        logits = model(row, None, torch.tensor([[target.bos, *target_ids]]))
        ours.append(_log_probs(logits, [*target_ids, target.eos]))
    return _join_scores(results), torch.cat(ours)


def _log_probs(logits: Tensor, ids: Sequence[int]) -> Tensor:
    """Return the log-probability of each of these ids, from logits (1, T, V)."""
    return logits[0].log_softmax(-1)[range(len(ids)), list(ids)]


def _join_scores(results: Sequence[Any]) -> Tensor:
    return torch.tensor([score for result in results for score in result.log_probs])


def refuse_unknown(config: ModelConfig) -> None:
    """Refuse an architecture that CTranslate2 does not implement."""
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
    encoder = specs.TransformerEncoderSpec(model.config.depth, **_options(model.config))
    _fill_stack(encoder, model.encoder)
    encoder.embeddings[0].weight = model.encoder.embed.weight
    decoder = _decoder_spec(specs, model.decoder, model.embedding, model.head)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = model.config.norm_eps
    return spec


def causal_spec(model: LanguageModel) -> Any:
    """Return a decoder with our weights; its vocabulary is still missing."""
    specs: Any = import_library("ctranslate2.specs.transformer_spec", "ctranslate2")
    backbone = model.backbone
    decoder = _decoder_spec(specs, backbone, backbone.embed.weight, model.head)
    spec = specs.TransformerDecoderModelSpec(decoder)
    spec.config.layer_norm_epsilon = model.config.norm_eps
    return spec


def _decoder_spec(specs: Any, stack: Stack, embedding: Tensor, head: LanguageHead) -> Any:
    has_source = isinstance(stack, Decoder)
    decoder = specs.TransformerDecoderSpec(
        stack.config.depth, with_encoder_attention=has_source, **_options(stack.config)
    )
    _fill_stack(decoder, stack)
    decoder.embeddings.weight = embedding
    _fill_linear(decoder.projection, *head.weights(embedding))
    return decoder


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
    elif hasattr(spec, "position_encodings"):  # an encoder always adds positions
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
