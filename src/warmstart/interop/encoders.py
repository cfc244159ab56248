"""BERT, RoBERTa, DistilBERT, ELECTRA and ModernBERT."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warmstart.interop.family import (
    ACTIVATIONS,
    HEADS,
    SIZES,
    Family,
    HfConfig,
    HfHead,
    HfTensors,
    from_hub,
)
from warmstart.tasks import hub

POSITIONS = "embeddings.position_embeddings.weight"
_SELF = "encoder.layer.#.attention.self"
LAYERS = {
    "backbone.embed": "embeddings.word_embeddings",
    "backbone.embed_positions": "embeddings.position_embeddings",
    "backbone.embed_segments": "embeddings.token_type_embeddings",
    "backbone.norm_embed": "embeddings.LayerNorm",
    "backbone.pooler": "pooler.dense",
    "backbone.blocks.#.attend.project": f"{_SELF}.query {_SELF}.key {_SELF}.value",
    "backbone.blocks.#.attend.output": "encoder.layer.#.attention.output.dense",
    "backbone.blocks.#.norm_attend": "encoder.layer.#.attention.output.LayerNorm",
    "backbone.blocks.#.ffn.inner": "encoder.layer.#.intermediate.dense",
    "backbone.blocks.#.ffn.outer": "encoder.layer.#.output.dense",
    "backbone.blocks.#.norm_ffn": "encoder.layer.#.output.LayerNorm",
}
_LAYER = "transformer.layer.#"
SMALL = 2.0**-12  # a power of two scales without rounding
GLOBAL, LOCAL = "full_attention", "sliding_attention"
# Our tensors by the key that gives them a bias, and whether they have one by default.
_BIASES = {
    "attention_bias": (r"attend\.(project|output)", False),
    "mlp_bias": (r"ffn\.(inner|outer)", False),
    "norm_bias": (r"norm\w*", False),
    "classifier_bias": (r"transform\.dense", False),
    "decoder_bias": (r"head\.output", True),
}


def _read_bert(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    """Return the settings of a BERT; it has a pooler if its file or its head has one."""
    config.require("position_embedding_type", ["absolute"], "is not supported; absolute is")
    config.require("is_decoder", [False], "is not supported; an encoder is")
    config.require("add_cross_attention", [False], "is not supported; an encoder alone is")
    config.require("pruned_heads", [{}], "is not supported; every block needs all its heads")
    has_pooler = head in ("sequence", "pairs") or "pooler.dense.weight" in tensors
    return {"segments": config.size("type_vocab_size", 2), "pooler": has_pooler}


def _read_roberta(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    settings = _read_bert(config, tensors, head)
    _require_gelu(config, head)
    pad = config.token("pad_token_id")
    first = 2 if pad is None else pad + 1  # no token uses the rows before this one
    num_rows = config.size("max_position_embeddings")
    if num_rows <= first:
        config.refuse("max_position_embeddings", f"leaves no position: {first} rows are unused")
    tensors.check_shape(POSITIONS, (num_rows, config.size("hidden_size")))
    tensors[POSITIONS] = tensors[POSITIONS][first:]
    return {**settings, "max_length": num_rows - first}


def _read_electra(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    width = config.size("hidden_size", 256)
    if config.size("embedding_size", 128) != width:
        config.refuse("embedding_size", f"is not hidden_size, {width}; only equal ones fit")
    _require_gelu(config, head)
    return _read_bert(config, tensors, "none")


def _require_gelu(config: HfConfig, head: HfHead) -> None:
    if head == "language" and config.choose("hidden_act", "gelu", ACTIVATIONS) != "gelu":
        config.refuse("hidden_act", "differs from the gelu of its language head; both must agree")


def _write_pooler(weights: dict[str, Tensor], head: HfHead) -> None:
    """Give a classifier of the first token the pooler of its family, one that changes nothing.

    The tanh of a small number is that number, up to the rounding of single precision.
    """
    pooler = weights.get("backbone.pooler.weight")
    if head == "sequence" and pooler is not None and not pooler.any():
        weights["backbone.pooler.weight"] = SMALL * torch.eye(len(pooler))
        weights["head.output.weight"] = weights["head.output.weight"] / SMALL


BERT = Family(
    **from_hub(hub.BERT),
    model_types=("bert",),
    prefix="bert.",
    layers=LAYERS,
    head_layers={
        "language": {
            "head.transform.dense": "cls.predictions.transform.dense",
            "head.transform.norm": "cls.predictions.transform.LayerNorm",
            "head.output.weight": "cls.predictions.decoder.weight",
            "head.output.bias": "cls.predictions.bias",
            "next_sentence": "cls.seq_relationship",
        },
        "pairs": {"head.output": "cls.seq_relationship"},
        "sequence": {"head.output": "classifier"},
        "tokens": {"head.output": "classifier"},
        "spans": {"head.output": "qa_outputs"},
    },
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    unused={
        "language": r"cls\.seq_relationship\..*",
        "pairs": r"cls\.predictions\..*",
        "sequence": r"cls\..*",
        "tokens": r"cls\..*",
        "spans": r"cls\..*",
    },
    untied_bias="cls.predictions.decoder.bias",
    sizes=SIZES | {"max_length": "max_position_embeddings"},
    activation=("hidden_act", "gelu"),
    dropout=("hidden_dropout_prob", "attention_probs_dropout_prob", 0.1),
    norm_eps=("layer_norm_eps", 1e-12),
    read_settings=_read_bert,
    more_config=lambda model: {
        "type_vocab_size": model.segments,
        "position_embedding_type": "absolute",
    },
    widen=lambda model, head: replace(
        model,
        biases=True,
        output_bias=True,
        segments=max(1, model.segments),
        pooler=model.pooler or head == "sequence",
    ),
    adapt=_write_pooler,
)
ROBERTA = replace(
    BERT,
    name="RoBERTa",
    model_types=("roberta", "camembert", "xlm-roberta"),
    heads={
        f"{name}{ending}": HEADS[ending]
        for name in ("Roberta", "Camembert", "XLMRoberta")
        for ending in ("Model", "ForMaskedLM", hub.CLASSIFIER, hub.TAGGER, hub.ANSWERER)
    },
    prefix="roberta.",
    head_layers={
        "language": {
            "head.transform.dense": "lm_head.dense",
            "head.transform.norm": "lm_head.layer_norm",
            "head.output.weight": "lm_head.decoder.weight",
            "head.output.bias": "lm_head.bias",
        },
        "sequence": {"backbone.pooler": "classifier.dense", "head.output": "classifier.out_proj"},
        "tokens": {"head.output": "classifier"},
        "spans": {"head.output": "qa_outputs"},
    },
    unused={"sequence": r"(lm_head|pooler)\..*", "tokens": r"lm_head\..*", "spans": r"lm_head\..*"},
    untied_bias="lm_head.decoder.bias",
    read_settings=_read_roberta,
)
ELECTRA = replace(
    BERT,
    name="ELECTRA",
    model_types=("electra",),
    heads={
        "ElectraModel": "none",
        "ElectraForPreTraining": "none",  # its head detects replaced tokens, as no task here does
        "ElectraForMaskedLM": "language",
        "ElectraForTokenClassification": "tokens",
        "ElectraForQuestionAnswering": "spans",
    },
    prefix="electra.",
    head_layers={
        "language": {
            "head.transform.dense": "generator_predictions.dense",
            "head.transform.norm": "generator_predictions.LayerNorm",
            "head.output": "generator_lm_head",
        },
        "tokens": {"head.output": "classifier"},
        "spans": {"head.output": "qa_outputs"},
    },
    unused={"none": r"discriminator_predictions\..*"},
    untied_bias="",
    read_settings=_read_electra,
)
_QUERY, _KEY, _VALUE = (f"{_LAYER}.attention.{name}_lin" for name in "qkv")
DISTILBERT = Family(
    name="DistilBERT",
    model_types=("distilbert",),
    heads={
        "DistilBertModel": "none",
        "DistilBertForMaskedLM": "language",
        "DistilBertForTokenClassification": "tokens",
        "DistilBertForQuestionAnswering": "spans",
    },
    prefix="distilbert.",
    layers={
        "backbone.embed": "embeddings.word_embeddings",
        "backbone.embed_positions": "embeddings.position_embeddings",
        "backbone.norm_embed": "embeddings.LayerNorm",
        "backbone.blocks.#.attend.project": f"{_QUERY} {_KEY} {_VALUE}",
        "backbone.blocks.#.attend.output": f"{_LAYER}.attention.out_lin",
        "backbone.blocks.#.norm_attend": f"{_LAYER}.sa_layer_norm",
        "backbone.blocks.#.ffn.inner": f"{_LAYER}.ffn.lin1",
        "backbone.blocks.#.ffn.outer": f"{_LAYER}.ffn.lin2",
        "backbone.blocks.#.norm_ffn": f"{_LAYER}.output_layer_norm",
    },
    head_layers={
        "language": {
            "head.transform.dense": "vocab_transform",
            "head.transform.norm": "vocab_layer_norm",
            "head.output": "vocab_projector",
        },
        "tokens": {"head.output": "classifier"},
        "spans": {"head.output": "qa_outputs"},
    },
    buffers=r"embeddings\.position_ids",
    # Sinusoidal positions, in models that have them, are a table in the file.
    fixed={**hub.BERT.fixed, "norm_eps": 1e-12},
    sizes={
        "vocab_size": "vocab_size",
        "width": "dim",
        "depth": "n_layers",
        "heads": "n_heads",
        "ffn_width": "hidden_dim",
        "max_length": "max_position_embeddings",
    },
    activation=("activation", "gelu"),
    dropout=("dropout", "attention_dropout", 0.1),
    read_settings=lambda config, tensors, head: {},
)


def _read_modernbert(config: HfConfig, tensors: HfTensors, head: HfHead) -> dict[str, Any]:
    global_every = _read_global_every(config)
    window = config.size("local_attention", 128) // 2
    if not window:
        config.refuse("local_attention", "leaves no window; 2 or more is supported")
    if head == "language":
        config.require("classifier_activation", ["gelu"], "is not supported; gelu is")
    biases = [key for key in _BIASES if _has_bias(config, key)]
    in_backbone = {"attention_bias", "mlp_bias", "norm_bias"}
    return {
        "max_length": config.size("max_position_embeddings", 8192),
        "biases": bool(in_backbone.intersection(biases) or (head == "language" and biases)),
        "rope_base": _read_rope_base(config, GLOBAL, "global_rope_theta", 160_000.0),
        "local_window": window if global_every > 1 else 0,
        "global_every": global_every,
        "local_rope_base": _read_rope_base(config, LOCAL, "local_rope_theta", 10_000.0),
    }


def _read_global_every(config: HfConfig) -> int:
    """Return n, where every n-th block from the first on attends to all tokens."""
    kinds = config.get("layer_types")
    if kinds is None:
        return config.size("global_attn_every_n_layers", 3)
    depth = config.size("num_hidden_layers")
    layers = range(depth)
    every = next(
        (n for n in range(1, depth + 1) if kinds == [LOCAL if i % n else GLOBAL for i in layers]),
        None,
    )
    if every is None:
        config.refuse("layer_types", f"must be one {GLOBAL} in every few, beginning with the first")
    return every


def _read_rope_base(config: HfConfig, kind: str, old_key: str, default: float) -> float:
    """Return the base of the rotary frequencies of one kind of blocks."""
    config.require("rope_scaling", [], "is not supported; plain rotations are")
    by_kind = config.get("rope_parameters", {})
    parameters = by_kind.get(kind) or {} if isinstance(by_kind, dict) else None
    if not isinstance(parameters, dict) or parameters.get("rope_type", "default") != "default":
        config.refuse("rope_parameters", f"is not supported; rope_type default of {kind} is")
    values: dict[str, Any] = {"rope_theta": config.get(old_key), **parameters}
    return HfConfig(values, config.file).number("rope_theta", default)


def _has_bias(config: HfConfig, key: str) -> bool:
    return config.flag(key, _BIASES[key][1])


def _zero_biases(config: HfConfig, head: HfHead) -> str:
    """Return the pattern of the biases that the folder lacks; our models have all or none."""
    missing = [layer for key, (layer, _) in _BIASES.items() if not _has_bias(config, key)]
    return rf"(.*\.)?({'|'.join(missing) or '-'})\.bias"


MODERNBERT = Family(
    name="ModernBERT",
    model_types=("modernbert",),
    heads={"ModernBertModel": "none", "ModernBertForMaskedLM": "language"},
    prefix="model.",
    layers={
        "backbone.embed": "embeddings.tok_embeddings",
        "backbone.norm_embed": "embeddings.norm",
        "backbone.blocks.#.norm_attend": "layers.#.attn_norm",
        "backbone.blocks.#.attend.project": "layers.#.attn.Wqkv",
        "backbone.blocks.#.attend.output": "layers.#.attn.Wo",
        "backbone.blocks.#.norm_ffn": "layers.#.mlp_norm",
        "backbone.blocks.#.ffn.inner": "layers.#.mlp.Wi",
        "backbone.blocks.#.ffn.outer": "layers.#.mlp.Wo",
        "backbone.norm_final": "final_norm",
    },
    head_layers={
        "language": {
            "head.transform.dense": "head.dense",
            "head.transform.norm": "head.norm",
            "head.output": "decoder",
        }
    },
    buffers=r"rotary_emb\..*",
    fixed={
        "attention": "bidirectional",
        "norm_position": "pre",
        "positions": "rope",
        "embedding_norm": True,
        "transform": True,
        "first_norm": False,
    },
    sizes=SIZES,
    activation=("hidden_activation", "gelu"),
    activations={"gelu": "geglu"},
    dropout=("mlp_dropout", "attention_dropout", 0.0),
    norm_eps=("norm_eps", 1e-5),
    read_settings=_read_modernbert,
    zero_biases=_zero_biases,
)
