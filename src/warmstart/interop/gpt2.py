"""GPT-2: a pre-norm decoder with learned positions.

Knows its config keys and tensor names alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from warmstart.interop.family import (
    ACTIVATIONS,
    WRITTEN,
    Family,
    Form,
    Task,
    build_shape,
    read_dropout,
)
from warmstart.interop.keys import Keys
from warmstart.interop.tensors import Match, Tensors, layer
from warmstart.runs.saved import Kind
from warmstart.settings.model import ModelConfig


def _matches(depth: int, task: Task) -> Iterator[Match]:
    yield Match("backbone.embed.weight", ("wte.weight",))
    yield Match("backbone.embed_positions.weight", ("wpe.weight",))
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"h.{index}"
        yield from layer(f"{ours}.norm_attend", f"{theirs}.ln_1")
        yield from layer(f"{ours}.norm_ffn", f"{theirs}.ln_2")
        for part, name in (
            ("attend.project", "attn.c_attn"),
            ("attend.output", "attn.c_proj"),
            ("ffn.inner", "mlp.c_fc"),
            ("ffn.outer", "mlp.c_proj"),
        ):
            yield from layer(f"{ours}.{part}", f"{theirs}.{name}", is_transposed=True)
    yield from layer("backbone.norm_final", "ln_f")
    yield Match("head.output.weight", ("lm_head.weight" if task == "language" else "score.weight",))


def _shape(keys: Keys, tensors: Tensors, task: Task) -> ModelConfig:
    keys.require("scale_attn_weights", [True], "has no counterpart: scores are always scaled")
    keys.require("scale_attn_by_inverse_layer_idx", [False], "has no counterpart")
    keys.require("add_cross_attention", [False], "is not read: a decoder alone is")
    width = keys.size("n_embd")
    return build_shape(
        keys,
        vocab_size=keys.size("vocab_size"),
        width=width,
        depth=keys.size("n_layer"),
        heads=keys.size("n_head"),
        ffn_width=keys.size("n_inner", 4 * width),
        max_length=keys.size("n_positions"),
        norm_position="pre",
        positions="learned",
        activation=keys.choose("activation_function", "gelu_new", ACTIVATIONS),
        tied=keys.flag("tie_word_embeddings", True),
        scale_embedding=False,
        output_bias=False,
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        **read_dropout(keys, "resid_pdrop", "attn_pdrop", 0.1),
    )


def _absent(keys: Keys, names: Iterable[str]) -> list[str]:
    return [name for name in names if name == "head.output.bias"]


GPT2 = Family(
    name="GPT-2",
    model_types=("gpt2",),
    prefix="transformer.",
    tasks={
        "GPT2Model": "base",
        "GPT2LMHeadModel": "language",
        "GPT2ForSequenceClassification": "classifier",
    },
    language="causal",
    pooling="last",
    head=("lm_head.weight",),
    copies=(("lm_head.weight", "backbone.embed.weight"),),
    output_biases=(),
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",
    depth_key="n_layer",
    spare={"classifier": r"lm_head\.weight"},
    read_shape=_shape,
    matches=_matches,
    absent=_absent,
)


def drop_zero_bias(weights: dict[str, Tensor]) -> str | None:
    """Take away a bias over the vocabulary, which must be zero."""
    bias = weights.pop("head.output.bias", None)
    if bias is not None and bias.any():
        return "output_bias=True (output_bias=False fits)"
    return None


def _widened(model: ModelConfig) -> ModelConfig:
    return ModelConfig(**{**model.to_json(), "biases": True, "output_bias": False})


def _fold(weights: dict[str, Tensor], kind: Kind) -> str | None:
    """Put a classifier's bias into the final norm's, which its head alone reads."""
    if kind != "classifier":
        return drop_zero_bias(weights)
    bias = weights.pop("head.output.bias")
    matrix = weights["head.output.weight"].double()  # (C, D)
    shift = torch.linalg.pinv(matrix) @ bias.double()  # (D,)
    if (matrix @ shift - bias).abs().max() > 1e-6:
        return "a classification head whose bias its weights cannot express"
    norm = weights["backbone.norm_final.bias"]
    weights["backbone.norm_final.bias"] = (norm.double() + shift).to(norm.dtype)
    return None


def _config(model: ModelConfig) -> dict[str, Any]:
    inner = model.dropout if model.inner_dropout else 0.0
    return {
        "model_type": "gpt2",
        "vocab_size": model.vocab_size,
        "n_embd": model.width,
        "n_layer": model.depth,
        "n_head": model.heads,
        "n_inner": model.ffn_width,
        "n_positions": model.max_length,
        "activation_function": WRITTEN[model.activation],
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": inner,
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied,
    }


FORM = Form(
    name="GPT-2",
    family=GPT2,
    fits={
        "attention": ("causal",),
        "norm": ("layer",),
        "norm_position": ("pre",),
        "positions": ("learned",),
        "activation": ("gelu_tanh", "gelu", "relu", "relu2"),
        "embedding_norm": (False,),
        "segments": (0,),
        "pooler": (False,),
    },
    fits_kind={"causal": {"transform": (False,)}, "classifier": {"pooling": ("last",)}},
    architectures={
        "causal": "GPT2LMHeadModel",
        "base": "GPT2Model",
        "classifier": "GPT2ForSequenceClassification",
    },
    widen=_widened,
    fold=_fold,
    write_config=_config,
)
