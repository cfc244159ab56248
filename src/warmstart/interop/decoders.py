"""GPT-2, Llama, and EuroBERT, which is a bidirectional Llama."""

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.family import SIZES, Family, HfConfig, HfHead, HfTensors, from_hub
from warmstart.settings.model import ModelConfig
from warmstart.tasks import hub

_SELF, _MLP = "layers.#.self_attn", "layers.#.mlp"


def _read_gpt2(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    config.require("scale_attn_weights", [True], "is not supported; scores are always scaled")
    config.require("scale_attn_by_inverse_layer_idx", [False], "is not supported")
    config.require("add_cross_attention", [False], "is not supported; a decoder alone is")
    return {
        "ffn_width": config.size("n_inner", 4 * config.size("n_embd")),
        "output_bias": False,
    }


def _drop_zero_bias(weights: dict[str, Tensor], head: HfHead) -> None:
    if head not in ("tokens", "spans"):
        weights.pop("head.output.bias", None)


def _move_classifier_bias(weights: dict[str, Tensor], head: HfHead) -> None:
    """Move a classifier's bias into the bias of the final norm, which only its head reads."""
    if head != "sequence":
        _drop_zero_bias(weights, head)
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


GPT2 = Family(
    **from_hub(hub.GPT2),
    model_types=("gpt2",),
    prefix="transformer.",
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
    head_layers={
        "language": {"head.output": "lm_head"},
        "sequence": {"head.output": "score"},
        "tokens": {"head.output": "classifier"},
        "spans": {"head.output": "qa_outputs"},
    },
    transposed=r"h\.\d+\.(attn|mlp)\..*",
    buffers=r"h\.\d+\.attn\.(bias|masked_bias)",
    unused={
        "sequence": r"lm_head\.weight",
        "tokens": r"lm_head\.weight",
        "spans": r"lm_head\.weight",
    },
    sizes={
        "vocab_size": "vocab_size",
        "width": "n_embd",
        "depth": "n_layer",
        "heads": "n_head",
        "ffn_width": "n_inner",
        "max_length": "n_positions",
    },
    activation=("activation_function", "gelu_new"),
    dropout=("resid_pdrop", "attn_pdrop", 0.1),
    norm_eps=("layer_norm_epsilon", 1e-5),
    read_settings=_read_gpt2,
    zero_biases=lambda config, head: _zero_head_bias(head),
    more_config=lambda model: {"embd_pdrop": model.dropout},
    widen=lambda model, head: replace(model, biases=True, output_bias=False),
    adapt=_move_classifier_bias,
)


def _read_llama(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    _ungroup_keys(config, tensors)
    config.require("head_dim", [width / heads], f"is not hidden_size / heads, {width / heads:g}")
    config.require("sliding_window", [], "is not supported; a token sees all tokens before it")
    layers = config.get("layer_types", [])
    if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
        config.refuse("layer_types", "must be full_attention throughout")
    return {
        "max_length": config.size("max_position_embeddings", 2048),
        "biases": config.flag("attention_bias", False) or config.flag("mlp_bias", False),
        "output_bias": False,
        "rope_base": _read_rope_base(config),
    }


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
            tensors.check_shape(query, (heads * width, *tensor.shape[1:]))  # the ungrouped shape
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


def _zero_head_bias(head: HfHead) -> str:
    """Return the pattern of the bias that heads lack, except those for tokens."""
    return "-" if head in ("tokens", "spans") else r"head\.output\.bias"


def _zero_biases(config: HfConfig, head: HfHead) -> str:
    return rf"{_zero_head_bias(head)}|{_zero_block_biases(config)}"


def _zero_block_biases(config: HfConfig) -> str:
    keys = {"attend": "attention_bias", "ffn": "mlp_bias"}
    without_bias = [part for part, key in keys.items() if not config.flag(key, False)]
    return rf".*\.({'|'.join(without_bias) or '-'})\..*\.bias"


def _more_llama_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "num_key_value_heads": model.heads,
        "head_dim": model.width // model.heads,
        "rope_theta": model.rope_base,
        "attention_bias": model.biases,
        "mlp_bias": model.biases,
    }


LLAMA = Family(
    **from_hub(hub.LLAMA),
    model_types=("llama",),
    prefix="model.",
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
    prefixes={"spans": "transformer."},
    head_layers={**GPT2.head_layers, "tokens": {"head.output": "score"}},
    buffers=r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
    unused=GPT2.unused,
    sizes=SIZES | {"max_length": "max_position_embeddings"},
    activation=("hidden_act", "silu"),
    activations={"silu": "swiglu", "swish": "swiglu"},
    dropout=("attention_dropout", "attention_dropout", 0.0),
    norm_eps=("rms_norm_eps", 1e-6),
    is_tied=False,
    read_settings=_read_llama,
    zero_biases=_zero_biases,
    more_config=_more_llama_config,
    widen=lambda model, head: replace(model, output_bias=False),
    adapt=_drop_zero_bias,
)


def _read_eurobert(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    if head == "sequence":
        config.require("classifier_pooling", ["mean"], "is not supported; mean is")
        if "dense.weight" in tensors:
            _read_dense(config, tensors)
    settings = _read_llama(config, tensors, head)
    return settings | {"output_bias": config.flag("mlp_bias", False)}


def _read_dense(config: HfConfig, tensors: HfTensors) -> None:
    """Replace the two layers of a classifier by the linear layer that is equal to them."""
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
    **from_hub(hub.EUROBERT),
    model_types=("eurobert",),
    head_layers={
        "language": {"head.output": "lm_head"},
        "sequence": {"head.dense": "dense", "head.output": "classifier"},
        "tokens": {"head.output": "classifier"},
    },
    read_settings=_read_eurobert,
    zero_biases=lambda config, head: _zero_block_biases(config),
    more_config=lambda model: _more_llama_config(model) | {"classifier_pooling": "mean"},
    widen=lambda model, head: replace(model, output_bias=model.biases),
    adapt=_write_dense,
)
