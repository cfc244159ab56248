"""GPT-2: a pre-norm decoder with learned positions."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import (
    ACTIVATIONS,
    CAUSAL_LM,
    CLASSIFIER,
    HF_ACTIVATIONS,
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
    "width": "n_embd",
    "depth": "n_layer",
    "heads": "n_head",
    "max_length": "n_positions",
}


def _matches(depth: int, head: HfHead) -> Iterator[TensorMatch]:
    yield TensorMatch("backbone.embed.weight", ("wte.weight",))
    yield TensorMatch("backbone.embed_positions.weight", ("wpe.weight",))
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"h.{index}"
        yield from match_layer(f"{ours}.norm_attend", f"{theirs}.ln_1")
        yield from match_layer(f"{ours}.norm_ffn", f"{theirs}.ln_2")
        for part, name in (
            ("attend.project", "attn.c_attn"),
            ("attend.output", "attn.c_proj"),
            ("ffn.inner", "mlp.c_fc"),
            ("ffn.outer", "mlp.c_proj"),
        ):
            yield from match_layer(f"{ours}.{part}", f"{theirs}.{name}", is_transposed=True)
    yield from match_layer("backbone.norm_final", "ln_f")
    output = "lm_head.weight" if head == "language" else "score.weight"
    yield TensorMatch("head.output.weight", (output,))


def _read_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    config.require("scale_attn_weights", [True], "is not supported; scores are always scaled")
    config.require("scale_attn_by_inverse_layer_idx", [False], "is not supported")
    config.require("add_cross_attention", [False], "is not supported; a decoder alone is")
    return build_shape(
        config,
        **read_sizes(config, SIZES),
        ffn_width=config.size("n_inner", 4 * config.size("n_embd")),
        norm_position="pre",
        positions="learned",
        activation=config.choose("activation_function", "gelu_new", ACTIVATIONS),
        tied=config.flag("tie_word_embeddings", True),
        scale_embedding=False,
        output_bias=False,
        norm_eps=config.number("layer_norm_epsilon", 1e-5),
        **read_dropout(config, "resid_pdrop", "attn_pdrop", 0.1),
    )


def _zero_tensors(config: HfConfig, names: Iterable[str]) -> list[str]:
    return [name for name in names if name == "head.output.bias"]


def _move_classifier_bias(weights: dict[str, Tensor], hub_class: str) -> str | None:
    """Move a classifier's bias into the bias of the final norm, which only its head reads."""
    if hub_class != CLASSIFIER:
        return drop_zero_bias(weights)
    bias = weights.pop("head.output.bias")
    matrix = weights["head.output.weight"].double()  # (C, D)
    shift = torch.linalg.pinv(matrix) @ bias.double()  # (D,)
    if (matrix @ shift - bias).abs().max() > 1e-6:
        return "a classification head whose bias its weights cannot express"
    norm = weights["backbone.norm_final.bias"]
    weights["backbone.norm_final.bias"] = (norm.double() + shift).to(norm.dtype)
    return None


def _write_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        **write_sizes(model, SIZES),
        "n_inner": model.ffn_width,
        "activation_function": HF_ACTIVATIONS[model.activation],
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.dropout if model.inner_dropout else 0.0,
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied,
    }


GPT2 = Family(
    name="GPT-2",
    model_types=("gpt2",),
    prefix="transformer.",
    heads={
        "GPT2Model": "none",
        "GPT2LMHeadModel": "language",
        "GPT2ForSequenceClassification": "sequence",
    },
    language_class=CAUSAL_LM,
    pooling="last",
    language_tensors=("lm_head.weight",),
    copies=(("lm_head.weight", "backbone.embed.weight"),),
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",
    depth_key="n_layer",
    unused={"sequence": r"lm_head\.weight"},
    read_shape=_read_shape,
    matches=_matches,
    zero_tensors=_zero_tensors,
    export=ExportRules(
        supported={
            "attention": ("causal",),
            "norm": ("layer",),
            "norm_position": ("pre",),
            "positions": ("learned",),
            "activation": ("gelu_tanh", "gelu", "relu", "relu2"),
            "embedding_norm": (False,),
            "segments": (0,),
            "pooler": (False,),
        },
        supported_by_class={
            CAUSAL_LM: {"transform": (False,)},
            CLASSIFIER: {"pooling": ("last",)},
        },
        architectures={
            CAUSAL_LM: "GPT2LMHeadModel",
            NO_HEAD: "GPT2Model",
            CLASSIFIER: "GPT2ForSequenceClassification",
        },
        widen=lambda model: replace(model, biases=True, output_bias=False),
        adapt=_move_classifier_bias,
        write_config=_write_config,
    ),
)
