"""Our translators and causal language models as CTranslate2 describes them."""

import math
from typing import Any

import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.export_format import import_library
from warmstart.model.attention import CrossAttention, MultiHeadAttention
from warmstart.model.backbone import Stack
from warmstart.model.layers import FeedForward
from warmstart.model.models import LanguageModel, Translator
from warmstart.settings.model import Activation, ModelConfig

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
