"""GPT-2 and Llama."""

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.family import (
    ACTIVATIONS,
    HF_ACTIVATIONS,
    ExportRules,
    Family,
    HfConfig,
    HfHead,
    HfTensors,
    build_shape,
    drop_zero_bias,
    read_dropout,
)
from warmstart.settings.model import ModelConfig

GPT2_SIZES = {
    "vocab_size": "vocab_size",
    "width": "n_embd",
    "depth": "n_layer",
    "heads": "n_head",
    "max_length": "n_positions",
}


def _read_gpt2_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    config.require("scale_attn_weights", [True], "is not supported; scores are always scaled")
    config.require("scale_attn_by_inverse_layer_idx", [False], "is not supported")
    config.require("add_cross_attention", [False], "is not supported; a decoder alone is")
    return build_shape(
        config,
        GPT2_SIZES,
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


def _move_classifier_bias(weights: dict[str, Tensor], head: HfHead) -> None:
    """Move a classifier's bias into the bias of the final norm, which only its head reads."""
    if head != "sequence":
        drop_zero_bias(weights, head)
        return
    bias = weights.pop("head.output.bias")
    matrix = weights["head.output.weight"].double()  # (C, D)
    shift = torch.linalg.pinv(matrix) @ bias.double()  # (D,)
    if (matrix @ shift - bias).abs().max() > 1e-6:
        raise WarmstartError(
            "the weights of the classification head cannot express its bias, which GPT-2 does not "
            "have; --to onnx takes it as it is"
        )
    norm = weights["backbone.norm_final.bias"]
    weights["backbone.norm_final.bias"] = (norm.double() + shift).to(norm.dtype)


def _write_gpt2_config(model: ModelConfig) -> dict[str, Any]:
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
    sizes=GPT2_SIZES,
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
    read_shape=_read_gpt2_shape,
    zero_biases=lambda config: r"head\.output\.bias",
    export=ExportRules(
        write_config=_write_gpt2_config,
        widen=lambda model: replace(model, biases=True, output_bias=False),
        adapt=_move_classifier_bias,
    ),
)
LLAMA_SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
}
_SELF, _MLP = "layers.#.self_attn", "layers.#.mlp"


def _read_llama_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    _ungroup_keys(config, tensors)
    config.require("head_dim", [width / heads], f"is not hidden_size / heads, {width / heads:g}")
    config.require("sliding_window", [], "is not supported; a token sees all tokens before it")
    layers = config.get("layer_types", [])
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        config.refuse("layer_types", "must be full_attention throughout")
    return build_shape(
        config,
        LLAMA_SIZES,
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


def _ungroup_keys(config: HfConfig, tensors: HfTensors) -> None:
    """Give every head the keys and values that it shares with the other heads of its group."""
    heads = config.size("num_attention_heads")
    num_groups = config.size("num_key_value_heads", heads)
    if heads % num_groups:
        config.refuse("num_key_value_heads", f"must divide num_attention_heads, {heads}")
    width = config.size("hidden_size") // heads
    for name, tensor in tensors.items() if num_groups < heads else ():
        if re.search(r"\.self_attn\.[kv]_proj\.", name):
            query = re.sub("[kv]_proj", "q_proj", name)
            tensors.check_shape(query, (heads * width, *tensor.shape[1:]))  # what it grows to
            tensors.check_shape(name, (num_groups * width, *tensor.shape[1:]))
            grouped = tensor.view(num_groups, width, *tensor.shape[1:])
            tensors[name] = grouped.repeat_interleave(heads // num_groups, 0).flatten(0, 1)


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


def _zero_biases(config: HfConfig) -> str:
    keys = {"attend": "attention_bias", "ffn": "mlp_bias"}
    without_bias = [part for part, key in keys.items() if not config.flag(key, False)]
    return rf"head\.output\.bias|.*\.({'|'.join(without_bias) or '-'})\..*\.bias"


def _write_llama_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "num_key_value_heads": model.heads,
        "head_dim": model.width // model.heads,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_length,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope_base,
        "attention_bias": model.biases,
        "mlp_bias": model.biases,
        "attention_dropout": model.dropout if model.inner_dropout else 0.0,
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
    sizes=LLAMA_SIZES,
    layers={
        "backbone.embed": "embed_tokens",
        "backbone.blocks.#.norm_attend": "layers.#.input_layernorm",
        "backbone.blocks.#.attend.project": f"{_SELF}.q_proj {_SELF}.k_proj {_SELF}.v_proj",
        "backbone.blocks.#.attend.output": f"{_SELF}.o_proj",
        "backbone.blocks.#.norm_ffn": "layers.#.post_attention_layernorm",
        "backbone.blocks.#.ffn.inner": f"{_MLP}.gate_proj {_MLP}.up_proj",
        "backbone.blocks.#.ffn.outer": f"{_MLP}.down_proj",
        "backbone.norm_final": "norm",
    },
    buffers=r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
    read_shape=_read_llama_shape,
    zero_biases=_zero_biases,
    export=ExportRules(
        write_config=_write_llama_config,
        widen=lambda model: replace(model, output_bias=False),
        adapt=drop_zero_bias,
    ),
)


def _read_encoder_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    if head == "sequence":
        config.require("classifier_pooling", ["mean"], "is not supported; mean is")
        if "dense.weight" in tensors:
            _read_dense(config, tensors)
    shape = _read_llama_shape(config, tensors, head)
    return replace(shape, attention="bidirectional", output_bias=config.flag("mlp_bias", False))


def _read_dense(config: HfConfig, tensors: HfTensors) -> None:
    """Replace the two layers of a classifier by the linear one that they are together."""
    width = config.size("hidden_size")
    num_classes = len(tensors["classifier.bias"])
    dense, output = tensors.take("dense.weight", (width, width)), tensors["classifier.weight"]
    bias = tensors.take("dense.bias", (width,))
    linear = {"head.output.weight": dense[:num_classes], "head.output.bias": bias[:num_classes]}
    has_room = 2 * num_classes <= width
    if has_room:
        _write_dense(linear, "sequence")
    is_linear = (
        has_room
        and torch.equal(linear["head.dense.weight"], dense)
        and torch.equal(linear["head.dense.bias"], bias)
        and torch.equal(linear["head.output.weight"], output)
        and not tensors["classifier.bias"].any()
    )
    if not is_linear:
        config.refuse("architectures", "has a classifier of two layers; a linear one is supported")
    tensors["classifier.weight"], tensors["classifier.bias"] = (
        dense[:num_classes],
        bias[:num_classes],
    )


def _write_dense(weights: dict[str, Tensor], head: HfHead) -> None:
    """Write a linear classifier as two layers with GELU between: gelu(z) - gelu(-z) is z."""
    if head != "sequence":
        return
    weight, bias = weights["head.output.weight"], weights["head.output.bias"]
    num_classes, width = weight.shape
    dense = torch.zeros(width, width)
    dense[:num_classes], dense[num_classes : 2 * num_classes] = weight, -weight
    dense_bias = torch.zeros(width)
    dense_bias[:num_classes], dense_bias[num_classes : 2 * num_classes] = bias, -bias
    signs = torch.eye(num_classes)
    weights["head.dense.weight"], weights["head.dense.bias"] = dense, dense_bias
    weights["head.output.weight"] = torch.cat(
        [signs, -signs, torch.zeros(num_classes, width - 2 * num_classes)], 1
    )
    weights["head.output.bias"] = torch.zeros(num_classes)


EUROBERT = replace(
    LLAMA,
    name="EuroBERT",
    model_types=("eurobert",),
    heads={
        "EuroBertModel": "none",
        "EuroBertForMaskedLM": "language",
        "EuroBertForSequenceClassification": "sequence",
    },
    head_layers={
        "language": {"head.output": "lm_head"},
        "sequence": {"head.dense": "dense", "head.output": "classifier"},
    },
    language_class="ForMaskedLM",
    pooling="mean",
    read_shape=_read_encoder_shape,
    zero_biases=lambda config: _zero_biases(config).removeprefix(r"head\.output\.bias|"),
    export=ExportRules(
        write_config=lambda model: _write_llama_config(model) | {"classifier_pooling": "mean"},
        widen=lambda model: replace(model, output_bias=model.biases),
        adapt=_write_dense,
    ),
)
