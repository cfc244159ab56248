"""BERT and RoBERTa: post-norm encoders with learned positions."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import (
    ACTIVATIONS,
    HF_ACTIVATIONS,
    ExportRules,
    Family,
    HfHead,
    build_shape,
    read_dropout,
)
from warmstart.interop.hf_tensors import HfTensors
from warmstart.settings.model import ModelConfig

POSITIONS = "embeddings.position_embeddings.weight"
SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
    "max_length": "max_position_embeddings",
}
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


def read_bert_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    """Return the shape of a BERT; it has a pooler if its file or its head has one."""
    config.require("position_embedding_type", ["absolute"], "is not supported; absolute is")
    config.require("is_decoder", [False], "is not supported; an encoder is")
    config.require("add_cross_attention", [False], "is not supported; an encoder alone is")
    config.require("pruned_heads", [{}], "is not supported; every block needs all its heads")
    return build_shape(
        config,
        SIZES,
        attention="bidirectional",
        positions="learned",
        activation=config.choose("hidden_act", "gelu", ACTIVATIONS),
        tied=config.flag("tie_word_embeddings", True),
        scale_embedding=False,
        embedding_norm=True,
        segments=config.size("type_vocab_size", 2),
        pooler=head in ("sequence", "pairs") or "pooler.dense.weight" in tensors,
        transform=True,
        norm_eps=config.number("layer_norm_eps", 1e-12),
        **read_dropout(config, "hidden_dropout_prob", "attention_probs_dropout_prob", 0.1),
    )


def _read_roberta_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    shape = read_bert_shape(config, tensors, head)
    if head == "language" and shape.activation != "gelu":
        config.refuse("hidden_act", "differs from the gelu of its language head; both must agree")
    pad = config.token("pad_token_id")
    first = 2 if pad is None else pad + 1  # no token has a position before this row
    if shape.max_length <= first:
        config.refuse("max_position_embeddings", f"leaves no position: {first} rows are unused")
    tensors.check_shape(POSITIONS, (shape.max_length, shape.width))
    tensors[POSITIONS] = tensors[POSITIONS][first:]
    return replace(shape, max_length=shape.max_length - first)


def _check_pooler(weights: dict[str, Tensor], head: HfHead) -> str | None:
    if "next_sentence.weight" in weights and "backbone.pooler.weight" not in weights:
        return "pooler=False under a next-sentence head (pooler=True fits)"
    return None


def _write_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "hidden_act": HF_ACTIVATIONS.get(model.activation, "gelu"),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.dropout if model.inner_dropout else 0.0,
        "type_vocab_size": model.segments,
        "layer_norm_eps": model.norm_eps,
        "position_embedding_type": "absolute",
    }


BERT = Family(
    name="BERT",
    model_types=("bert",),
    prefix="bert.",
    heads={
        "BertModel": "none",
        "BertForMaskedLM": "language",
        "BertForPreTraining": "language",
        "BertForNextSentencePrediction": "pairs",
        "BertForSequenceClassification": "sequence",
    },
    sizes=SIZES,
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
    },
    language_class="ForMaskedLM",
    pooling="cls",
    language_tensors=("cls.predictions.bias", "cls.predictions.transform.dense.weight"),
    copies={
        "cls.predictions.decoder.weight": "backbone.embed.weight",
        "cls.predictions.decoder.bias": "head.output.bias",
    },
    output_biases=("cls.predictions.decoder.bias", "cls.predictions.bias"),
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    unused={
        "language": r"cls\.seq_relationship\..*",
        "pairs": r"cls\.predictions\..*",
        "sequence": r"cls\..*",
    },
    read_shape=read_bert_shape,
    export=ExportRules(
        write_config=_write_config,
        widen=lambda model: replace(
            model, biases=True, output_bias=True, segments=max(1, model.segments)
        ),
        adapt=_check_pooler,
    ),
)

_ROBERTA_HEADS: tuple[HfHead, ...] = ("none", "language", "sequence")

ROBERTA = replace(
    BERT,
    name="RoBERTa",
    model_types=("roberta", "camembert", "xlm-roberta"),
    prefix="roberta.",
    heads={
        f"{name}{BERT.hub_classes[head]}": head
        for name in ("Roberta", "Camembert", "XLMRoberta")
        for head in _ROBERTA_HEADS
    },
    head_layers={
        "language": {
            "head.transform.dense": "lm_head.dense",
            "head.transform.norm": "lm_head.layer_norm",
            "head.output.weight": "lm_head.decoder.weight",
            "head.output.bias": "lm_head.bias",
        },
        "sequence": {"backbone.pooler": "classifier.dense", "head.output": "classifier.out_proj"},
    },
    language_tensors=("lm_head.bias", "lm_head.dense.weight"),
    copies={
        "lm_head.decoder.weight": "backbone.embed.weight",
        "lm_head.decoder.bias": "head.output.bias",
    },
    output_biases=("lm_head.decoder.bias", "lm_head.bias"),
    unused={"sequence": r"(lm_head|pooler)\..*"},
    read_shape=_read_roberta_shape,
    export=None,
)
