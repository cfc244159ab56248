"""GPT-2: a pre-norm decoder with learned positions."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import (
    ACTIVATIONS,
    HF_ACTIVATIONS,
    ExportRules,
    Family,
    HfHead,
    build_shape,
    drop_zero_bias,
    read_dropout,
)
from warmstart.interop.hf_tensors import HfTensors
from warmstart.settings.model import ModelConfig

SIZES = {
    "vocab_size": "vocab_size",
    "width": "n_embd",
    "depth": "n_layer",
    "heads": "n_head",
    "max_length": "n_positions",
}


def _read_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    config.require("scale_attn_weights", [True], "is not supported; scores are always scaled")
    config.require("scale_attn_by_inverse_layer_idx", [False], "is not supported")
    config.require("add_cross_attention", [False], "is not supported; a decoder alone is")
    return build_shape(
        config,
        SIZES,
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


def _move_classifier_bias(weights: dict[str, Tensor], head: HfHead) -> str | None:
    """Move a classifier's bias into the bias of the final norm, which only its head reads."""
    if head != "sequence":
        return drop_zero_bias(weights, head)
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
        "n_inner": model.ffn_width,
        "activation_function": HF_ACTIVATIONS.get(model.activation, "gelu"),
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.dropout if model.inner_dropout else 0.0,
        "layer_norm_epsilon": model.norm_eps,
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
    sizes=SIZES,
    layers={
        "backbone.embed": "wte",
        "backbone.embed_positions": "wpe",
        "backbone.blocks.#.norm_attend": "h.#.ln_1",
        "backbone.blocks.#.attend.project": "h.#.attn.c_attn",
        "backbone.blocks.#.attend.output": "h.#.attn.c_proj",
        "backbone.blocks.#.norm_ffn": "h.#.ln_2",
        "backbone.blocks.#.ffn.inner": "h.#.mlp.c_fc",
        "backbone.blocks.#.ffn.outer": "h.#.mlp.c_proj",
        "backbone.norm_final": "ln_f",
    },
    transposed=r"h\.\d+\.(attn|mlp)\..*",
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",
    read_shape=_read_shape,
    zero_biases=lambda config: r"head\.output\.bias",
    export=ExportRules(
        write_config=_write_config,
        widen=lambda model: replace(model, biases=True, output_bias=False),
        adapt=_move_classifier_bias,
    ),
)
