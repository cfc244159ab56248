"""BERT and RoBERTa: post-norm encoders with learned positions."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import (
    ACTIVATIONS,
    CLASSIFIER,
    HF_ACTIVATIONS,
    MASKED_LM,
    NO_HEAD,
    ExportRules,
    Family,
    HfHead,
    build_shape,
    read_dropout,
    read_sizes,
    write_sizes,
)
from warmstart.interop.hf_tensors import HfTensors, TensorMatch, match_layer
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


def _match_backbone(depth: int) -> Iterator[TensorMatch]:
    yield TensorMatch("backbone.embed.weight", ("embeddings.word_embeddings.weight",))
    yield TensorMatch("backbone.embed_positions.weight", (POSITIONS,))
    segments = ("embeddings.token_type_embeddings.weight",)
    yield TensorMatch("backbone.embed_segments.weight", segments)
    yield from match_layer("backbone.norm_embed", "embeddings.LayerNorm")
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"encoder.layer.{index}"
        attention = f"{theirs}.attention"
        parts = (f"{attention}.self.{part}" for part in ("query", "key", "value"))
        yield from match_layer(f"{ours}.attend.project", *parts)
        yield from match_layer(f"{ours}.attend.output", f"{attention}.output.dense")
        yield from match_layer(f"{ours}.norm_attend", f"{attention}.output.LayerNorm")
        yield from match_layer(f"{ours}.ffn.inner", f"{theirs}.intermediate.dense")
        yield from match_layer(f"{ours}.ffn.outer", f"{theirs}.output.dense")
        yield from match_layer(f"{ours}.norm_ffn", f"{theirs}.output.LayerNorm")


def _match_bert(depth: int, head: HfHead) -> Iterator[TensorMatch]:
    yield from _match_backbone(depth)
    yield from match_layer("backbone.pooler", "pooler.dense")
    if head == "language":
        yield from match_layer("head.transform.dense", "cls.predictions.transform.dense")
        yield from match_layer("head.transform.norm", "cls.predictions.transform.LayerNorm")
        yield TensorMatch("head.output.weight", ("cls.predictions.decoder.weight",))
        yield TensorMatch("head.output.bias", ("cls.predictions.bias",))
        yield from match_layer("next_sentence", "cls.seq_relationship")
    else:
        theirs = "cls.seq_relationship" if head == "pairs" else "classifier"
        yield from match_layer("head.output", theirs)


def _match_roberta(depth: int, head: HfHead) -> Iterator[TensorMatch]:
    yield from _match_backbone(depth)
    pooler = "classifier.dense" if head == "sequence" else "pooler.dense"
    yield from match_layer("backbone.pooler", pooler)
    if head == "language":
        yield from match_layer("head.transform.dense", "lm_head.dense")
        yield from match_layer("head.transform.norm", "lm_head.layer_norm")
        yield TensorMatch("head.output.weight", ("lm_head.decoder.weight",))
        yield TensorMatch("head.output.bias", ("lm_head.bias",))
    else:
        yield from match_layer("head.output", "classifier.out_proj")


def _read_bert_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    config.require("position_embedding_type", ["absolute"], "is not supported; absolute is")
    config.require("is_decoder", [False], "is not supported; an encoder is")
    config.require("add_cross_attention", [False], "is not supported; an encoder alone is")
    config.require("pruned_heads", [{}], "is not supported; every block needs all its heads")
    return build_shape(
        config,
        **read_sizes(config, SIZES),
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
    shape = _read_bert_shape(config, tensors, head)
    if head == "language" and shape.activation != "gelu":
        config.refuse("hidden_act", "differs from the gelu of its language head; both must agree")
    pad = config.token("pad_token_id")
    first = 2 if pad is None else pad + 1  # no token has a position before this row
    if shape.max_length <= first:
        config.refuse("max_position_embeddings", f"leaves no position: {first} rows are unused")
    tensors.check_shape(POSITIONS, (shape.max_length, shape.width))
    tensors.drop_rows(POSITIONS, first)
    return build_shape(config, **{**shape.to_json(), "max_length": shape.max_length - first})


def _check_pooler(weights: dict[str, Tensor], hub_class: str) -> str | None:
    if "next_sentence.weight" in weights and "backbone.pooler.weight" not in weights:
        return "pooler=False under a next-sentence head (pooler=True fits)"
    return None


def _write_config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "bert",
        **write_sizes(model, SIZES),
        "hidden_act": HF_ACTIVATIONS[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.dropout if model.inner_dropout else 0.0,
        "type_vocab_size": model.segments,
        "layer_norm_eps": model.norm_eps,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": model.tied,
    }


BERT = Family(
    name="BERT",
    model_types=("bert",),
    prefix="bert.",
    heads={
        "BertModel": "none",
        "BertForPreTraining": "language",
        "BertForMaskedLM": "language",
        "BertForNextSentencePrediction": "pairs",
        "BertForSequenceClassification": "sequence",
    },
    language_class=MASKED_LM,
    pooling="cls",
    language_tensors=("cls.predictions.bias", "cls.predictions.transform.dense.weight"),
    copies=(
        ("cls.predictions.decoder.weight", "backbone.embed.weight"),
        ("cls.predictions.decoder.bias", "head.output.bias"),
    ),
    output_biases=("cls.predictions.decoder.bias", "cls.predictions.bias"),
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    depth_key="num_hidden_layers",
    unused={
        "language": r"cls\.seq_relationship\..*",
        "pairs": r"cls\.predictions\..*",
        "sequence": r"cls\..*",
    },
    read_shape=_read_bert_shape,
    matches=_match_bert,
    export=ExportRules(
        supported={
            "attention": ("bidirectional",),
            "norm": ("layer",),
            "norm_position": ("post",),
            "positions": ("learned",),
            "activation": ("gelu", "gelu_tanh", "relu", "relu2"),
            "embedding_norm": (True,),
        },
        supported_by_class={
            MASKED_LM: {"transform": (True,)},
            CLASSIFIER: {"pooling": ("cls",), "pooler": (True,)},
        },
        architectures={
            MASKED_LM: "BertForMaskedLM",
            NO_HEAD: "BertModel",
            CLASSIFIER: "BertForSequenceClassification",
        },
        widen=lambda model: replace(
            model, biases=True, output_bias=True, segments=max(1, model.segments)
        ),
        adapt=_check_pooler,
        write_config=_write_config,
    ),
)

_ROBERTA_HEADS: dict[str, HfHead] = {
    "Model": "none",
    "ForMaskedLM": "language",
    "ForSequenceClassification": "sequence",
}

ROBERTA = Family(
    name="RoBERTa",
    model_types=("roberta", "camembert", "xlm-roberta"),
    prefix="roberta.",
    heads={
        f"{name}{suffix}": head
        for name in ("Roberta", "Camembert", "XLMRoberta")
        for suffix, head in _ROBERTA_HEADS.items()
    },
    language_class=MASKED_LM,
    pooling="cls",
    language_tensors=("lm_head.bias", "lm_head.dense.weight"),
    copies=(
        ("lm_head.decoder.weight", "backbone.embed.weight"),
        ("lm_head.decoder.bias", "head.output.bias"),
    ),
    output_biases=("lm_head.decoder.bias", "lm_head.bias"),
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    depth_key="num_hidden_layers",
    unused={"sequence": r"(lm_head|pooler)\..*"},
    read_shape=_read_roberta_shape,
    matches=_match_roberta,
)
