"""Llama: a pre-norm decoder with RMS norms, rotary positions and gated feed-forward layers.

Knows its config keys and tensor names alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from warmstart.interop.family import Family, Form, Task, build_shape, read_dropout
from warmstart.interop.gpt2 import drop_zero_bias
from warmstart.interop.keys import Keys
from warmstart.interop.tensors import Match, Tensors, layer
from warmstart.runs.saved import Kind
from warmstart.settings.model import ModelConfig


def _matches(depth: int, task: Task) -> Iterator[Match]:
    yield Match("backbone.embed.weight", ("embed_tokens.weight",))
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"layers.{index}"
        parts = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        yield from layer(f"{ours}.attend.project", *parts)
        yield from layer(f"{ours}.attend.output", f"{theirs}.self_attn.o_proj")
        yield from layer(f"{ours}.norm_attend", f"{theirs}.input_layernorm")
        yield from layer(f"{ours}.ffn.inner", f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj")
        yield from layer(f"{ours}.ffn.outer", f"{theirs}.mlp.down_proj")
        yield from layer(f"{ours}.norm_ffn", f"{theirs}.post_attention_layernorm")
    yield from layer("backbone.norm_final", "norm")
    yield Match("head.output.weight", ("lm_head.weight" if task == "language" else "score.weight",))


def _shape(keys: Keys, tensors: Tensors, task: Task) -> ModelConfig:
    width, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    keys.require("num_key_value_heads", [heads], f"groups keys: only {heads}, one a head, is read")
    keys.require("head_dim", [width / heads], f"is not hidden_size / heads, {width / heads:g}")
    keys.require("sliding_window", [], "has no counterpart: a token sees all before it")
    layers = keys.get("layer_types", [])
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        keys.refuse("layer_types", "must be full_attention throughout")
    has_bias = keys.flag("attention_bias", False) or keys.flag("mlp_bias", False)
    return build_shape(
        keys,
        vocab_size=keys.size("vocab_size"),
        width=width,
        depth=keys.size("num_hidden_layers"),
        heads=heads,
        ffn_width=keys.size("intermediate_size"),
        max_length=keys.size("max_position_embeddings", 2048),
        norm="rms",
        norm_position="pre",
        positions="rope",
        activation=keys.choose("hidden_act", "silu", {"silu": "swiglu", "swish": "swiglu"}),
        tied=keys.flag("tie_word_embeddings", False),
        biases=has_bias,
        scale_embedding=False,
        output_bias=False,
        norm_eps=keys.number("rms_norm_eps", 1e-6),
        rope_base=_rope_base(keys),
        **read_dropout(keys, "attention_dropout", "attention_dropout", 0.0),
    )


def _rope_base(keys: Keys) -> float:
    """Return the base of the rotations, which must be the plain ones."""
    keys.require("partial_rotary_factor", [1.0], "has no counterpart: whole heads are turned")
    given: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        value = keys.get(key, {})
        if not isinstance(value, dict):
            keys.refuse(key, "must be an object")
        kind = value.get("rope_type", value.get("type", "default"))
        if kind != "default" or value.get("partial_rotary_factor", 1.0) != 1.0:
            keys.refuse(key, "has no counterpart: rope_type default does")
        given |= value
    base = Keys({"rope_theta": keys.get("rope_theta"), **given}, keys.file)
    return base.number("rope_theta", 10_000.0)


def _absent(keys: Keys, names: Iterable[str]) -> list[str]:
    parts = {".attend.": "attention_bias", ".ffn.": "mlp_bias"}
    lacking = [part for part, key in parts.items() if not keys.flag(key, False)]
    return [
        name
        for name in names
        if name == "head.output.bias"
        or (name.endswith(".bias") and any(part in name for part in lacking))
    ]


LLAMA = Family(
    name="Llama",
    model_types=("llama",),
    prefix="model.",
    tasks={
        "LlamaModel": "base",
        "LlamaForCausalLM": "language",
        "LlamaForSequenceClassification": "classifier",
    },
    language="causal",
    pooling="last",
    head=("lm_head.weight",),
    copies=(("lm_head.weight", "backbone.embed.weight"),),
    output_biases=(),
    buffers=r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
    depth_key="num_hidden_layers",
    spare={"classifier": r"lm_head\.weight"},
    read_shape=_shape,
    matches=_matches,
    absent=_absent,
)


def _widened(model: ModelConfig) -> ModelConfig:
    return ModelConfig(**{**model.to_json(), "output_bias": False})


def _fold(weights: dict[str, Tensor], kind: Kind) -> str | None:
    if kind != "classifier":
        return drop_zero_bias(weights)
    if weights.pop("head.output.bias").any():
        return "a classification head with a bias (Llama's has none)"
    return None


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "vocab_size": model.vocab_size,
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.heads,
        "head_dim": model.width // model.heads,
        "intermediate_size": model.ffn_width,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_length,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope_base,
        "attention_bias": model.biases,
        "mlp_bias": model.biases,
        "attention_dropout": model.dropout if model.inner_dropout else 0.0,
        "tie_word_embeddings": model.tied,
    }


FORM = Form(
    name="Llama",
    family=LLAMA,
    fits={
        "attention": ("causal",),
        "norm": ("rms",),
        "norm_position": ("pre",),
        "positions": ("rope",),
        "activation": ("swiglu",),
        "embedding_norm": (False,),
        "segments": (0,),
        "pooler": (False,),
    },
    fits_kind={"causal": {"transform": (False,)}, "classifier": {"pooling": ("last",)}},
    architectures={
        "causal": "LlamaForCausalLM",
        "base": "LlamaModel",
        "classifier": "LlamaForSequenceClassification",
    },
    widen=_widened,
    fold=_fold,
    write_config=_config,
)
