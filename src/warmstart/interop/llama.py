"""Llama: a pre-norm decoder with RMS norms, rotary positions and gated feed-forward layers."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import (
    CAUSAL_LM,
    CLASSIFIER,
    NO_HEAD,
    ExportRules,
    Family,
    HfHead,
    build_shape,
    drop_zero_bias,
    read_dropout,
    read_sizes,
    write_sizes,
)
from warmstart.interop.hf_tensors import HfTensors, TensorMatch, match_layer
from warmstart.settings.model import ModelConfig

SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
}


def _matches(depth: int, head: HfHead) -> Iterator[TensorMatch]:
    yield TensorMatch("backbone.embed.weight", ("embed_tokens.weight",))
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"layers.{index}"
        parts = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        gates = (f"{theirs}.mlp.{part}_proj" for part in ("gate", "up"))
        yield from match_layer(f"{ours}.attend.project", *parts)
        yield from match_layer(f"{ours}.attend.output", f"{theirs}.self_attn.o_proj")
        yield from match_layer(f"{ours}.norm_attend", f"{theirs}.input_layernorm")
        yield from match_layer(f"{ours}.ffn.inner", *gates)
        yield from match_layer(f"{ours}.ffn.outer", f"{theirs}.mlp.down_proj")
        yield from match_layer(f"{ours}.norm_ffn", f"{theirs}.post_attention_layernorm")
    yield from match_layer("backbone.norm_final", "norm")
    output = "lm_head.weight" if head == "language" else "score.weight"
    yield TensorMatch("head.output.weight", (output,))


def _read_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    config.require("num_key_value_heads", [heads], f"groups keys; only {heads} is supported")
    config.require("head_dim", [width / heads], f"is not hidden_size / heads, {width / heads:g}")
    config.require("sliding_window", [], "is not supported; a token sees all tokens before it")
    layers = config.get("layer_types", [])
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        config.refuse("layer_types", "must be full_attention throughout")
    return build_shape(
        config,
        **read_sizes(config, SIZES),
        max_length=config.size("max_position_embeddings", 2048),
        norm="rms",
        norm_position="pre",
        positions="rope",
        activation=config.choose("hidden_act", "silu", {"silu": "swiglu", "swish": "swiglu"}),
        tied=config.flag("tie_word_embeddings", False),
        biases=config.flag("attention_bias", False) or config.flag("mlp_bias", False),
        scale_embedding=False,
        output_bias=False,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        rope_base=_read_rope_base(config),
        **read_dropout(config, "attention_dropout", "attention_dropout", 0.0),
    )


def _read_rope_base(config: HfConfig) -> float:
    """Return the base of the rotary frequencies; scaled or partial rotations are refused."""
    config.require("partial_rotary_factor", [1.0], "is not supported; whole heads are rotated")
    parameters: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        value = config.get(key, {})
        if not isinstance(value, dict):
            config.refuse(key, "must be an object")
        kind = value.get("rope_type", value.get("type", "default"))
        if kind != "default" or value.get("partial_rotary_factor", 1.0) != 1.0:
            config.refuse(key, "is not supported; rope_type default is")
        parameters |= value
    base = HfConfig({"rope_theta": config.get("rope_theta"), **parameters}, config.file)
    return base.number("rope_theta", 10_000.0)


def _zero_tensors(config: HfConfig, names: Iterable[str]) -> list[str]:
    keys = {".attend.": "attention_bias", ".ffn.": "mlp_bias"}
    without_bias = [part for part, key in keys.items() if not config.flag(key, False)]
    return [
        name
        for name in names
        if name == "head.output.bias"
        or (name.endswith(".bias") and any(part in name for part in without_bias))
    ]


def _drop_biases(weights: dict[str, Tensor], hub_class: str) -> str | None:
    if hub_class != CLASSIFIER:
        return drop_zero_bias(weights)
    if weights.pop("head.output.bias").any():
        return "a classification head with a bias (Llama's has none)"
    return None


def _write_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "llama",
        **write_sizes(model, SIZES),
        "num_key_value_heads": model.heads,
        "head_dim": model.width // model.heads,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_length,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope_base,
        "attention_bias": model.biases,
        "mlp_bias": model.biases,
        "attention_dropout": model.dropout if model.inner_dropout else 0.0,
        "tie_word_embeddings": model.tied,
    }


LLAMA = Family(
    name="Llama",
    model_types=("llama",),
    prefix="model.",
    heads={
        "LlamaModel": "none",
        "LlamaForCausalLM": "language",
        "LlamaForSequenceClassification": "sequence",
    },
    language_class=CAUSAL_LM,
    pooling="last",
    language_tensors=("lm_head.weight",),
    copies=(("lm_head.weight", "backbone.embed.weight"),),
    buffers=r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
    depth_key="num_hidden_layers",
    unused={"sequence": r"lm_head\.weight"},
    read_shape=_read_shape,
    matches=_matches,
    zero_tensors=_zero_tensors,
    export=ExportRules(
        supported={
            "attention": ("causal",),
            "norm": ("rms",),
            "norm_position": ("pre",),
            "positions": ("rope",),
            "activation": ("swiglu",),
            "embedding_norm": (False,),
            "segments": (0,),
            "pooler": (False,),
        },
        supported_by_class={
            CAUSAL_LM: {"transform": (False,)},
            CLASSIFIER: {"pooling": ("last",)},
        },
        architectures={
            CAUSAL_LM: "LlamaForCausalLM",
            NO_HEAD: "LlamaModel",
            CLASSIFIER: "LlamaForSequenceClassification",
        },
        widen=lambda model: replace(model, output_bias=False),
        adapt=_drop_biases,
        write_config=_write_config,
    ),
)
