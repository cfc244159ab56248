"""BERT, and RoBERTa with its kin: post-norm encoders with learned positions.

Knows their config keys and tensor names alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

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

POSITIONS = "embeddings.position_embeddings.weight"


def _backbone(depth: int) -> Iterator[Match]:
    yield Match("backbone.embed.weight", ("embeddings.word_embeddings.weight",))
    yield Match("backbone.embed_positions.weight", (POSITIONS,))
    yield Match("backbone.embed_segments.weight", ("embeddings.token_type_embeddings.weight",))
    yield from layer("backbone.norm_embed", "embeddings.LayerNorm")
    for index in range(depth):
        ours, theirs = f"backbone.blocks.{index}", f"encoder.layer.{index}"
        seen = f"{theirs}.attention"
        parts = (f"{seen}.self.{part}" for part in ("query", "key", "value"))
        yield from layer(f"{ours}.attend.project", *parts)
        yield from layer(f"{ours}.attend.output", f"{seen}.output.dense")
        yield from layer(f"{ours}.norm_attend", f"{seen}.output.LayerNorm")
        yield from layer(f"{ours}.ffn.inner", f"{theirs}.intermediate.dense")
        yield from layer(f"{ours}.ffn.outer", f"{theirs}.output.dense")
        yield from layer(f"{ours}.norm_ffn", f"{theirs}.output.LayerNorm")


def _bert(depth: int, task: Task) -> Iterator[Match]:
    yield from _backbone(depth)
    yield from layer("backbone.pooler", "pooler.dense")
    if task == "language":
        yield from layer("head.transform.dense", "cls.predictions.transform.dense")
        yield from layer("head.transform.norm", "cls.predictions.transform.LayerNorm")
        yield Match("head.output.weight", ("cls.predictions.decoder.weight",))
        yield Match("head.output.bias", ("cls.predictions.bias",))
        yield from layer("next_sentence", "cls.seq_relationship")
    else:
        yield from layer("head.output", "cls.seq_relationship" if task == "pairs" else "classifier")


def _roberta(depth: int, task: Task) -> Iterator[Match]:
    yield from _backbone(depth)
    yield from layer(
        "backbone.pooler", "classifier.dense" if task == "classifier" else "pooler.dense"
    )
    if task == "language":
        yield from layer("head.transform.dense", "lm_head.dense")
        yield from layer("head.transform.norm", "lm_head.layer_norm")
        yield Match("head.output.weight", ("lm_head.decoder.weight",))
        yield Match("head.output.bias", ("lm_head.bias",))
    else:
        yield from layer("head.output", "classifier.out_proj")


def _shape(keys: Keys, tensors: Tensors, task: Task) -> ModelConfig:
    keys.require("position_embedding_type", ["absolute"], "has no counterpart: absolute does")
    keys.require("is_decoder", [False], "is not read: an encoder is")
    keys.require("add_cross_attention", [False], "is not read: an encoder alone is")
    keys.require("pruned_heads", [{}], "is not read: every block needs all its heads")
    return build_shape(
        keys,
        vocab_size=keys.size("vocab_size"),
        width=keys.size("hidden_size"),
        depth=keys.size("num_hidden_layers"),
        heads=keys.size("num_attention_heads"),
        ffn_width=keys.size("intermediate_size"),
        max_length=keys.size("max_position_embeddings"),
        attention="bidirectional",
        positions="learned",
        activation=keys.choose("hidden_act", "gelu", ACTIVATIONS),
        tied=keys.flag("tie_word_embeddings", True),
        scale_embedding=False,
        embedding_norm=True,
        segments=keys.size("type_vocab_size", 2),
        pooler=task in ("classifier", "pairs") or "pooler.dense.weight" in tensors,
        transform=True,
        norm_eps=keys.number("layer_norm_eps", 1e-12),
        **read_dropout(keys, "hidden_dropout_prob", "attention_probs_dropout_prob", 0.1),
    )


def _roberta_shape(keys: Keys, tensors: Tensors, task: Task) -> ModelConfig:
    shape = _shape(keys, tensors, task)
    if task == "language" and shape.activation != "gelu":
        keys.refuse("hidden_act", "differs from the gelu of its language head: one must serve both")
    pad = 1 if keys.token("pad_token_id") is None else keys.token("pad_token_id")
    first = (pad or 0) + 1  # rows before it are never a token's position
    if shape.max_length <= first:
        keys.refuse("max_position_embeddings", f"leaves no position: the first {first} are unused")
    if tensors.rows(POSITIONS) != shape.max_length:
        tensors.take(POSITIONS, (shape.max_length, shape.width))  # says what is wrong
    tensors.cut(POSITIONS, first)
    return build_shape(keys, **{**shape.to_json(), "max_length": shape.max_length - first})


def _nothing(keys: Keys, names: Iterable[str]) -> list[str]:
    return []


_ROBERTA_TASKS: dict[str, Task] = {
    "Model": "base",
    "ForMaskedLM": "language",
    "ForSequenceClassification": "classifier",
}

BERT = Family(
    name="BERT",
    model_types=("bert",),
    prefix="bert.",
    tasks={
        "BertModel": "base",
        "BertForPreTraining": "language",
        "BertForMaskedLM": "language",
        "BertForNextSentencePrediction": "pairs",
        "BertForSequenceClassification": "classifier",
    },
    language="masked",
    pooling="cls",
    head=("cls.predictions.bias", "cls.predictions.transform.dense.weight"),
    copies=(
        ("cls.predictions.decoder.weight", "backbone.embed.weight"),
        ("cls.predictions.decoder.bias", "head.output.bias"),
    ),
    output_biases=("cls.predictions.decoder.bias", "cls.predictions.bias"),
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    depth_key="num_hidden_layers",
    spare={
        "language": r"cls\.seq_relationship\..*",
        "pairs": r"cls\.predictions\..*",
        "classifier": r"cls\..*",
    },
    read_shape=_shape,
    matches=_bert,
    absent=_nothing,
)

ROBERTA = Family(
    name="RoBERTa",
    model_types=("roberta", "camembert", "xlm-roberta"),
    prefix="roberta.",
    tasks={
        f"{name}{end}": task
        for name in ("Roberta", "Camembert", "XLMRoberta")
        for end, task in _ROBERTA_TASKS.items()
    },
    language="masked",
    pooling="cls",
    head=("lm_head.bias", "lm_head.dense.weight"),
    copies=(
        ("lm_head.decoder.weight", "backbone.embed.weight"),
        ("lm_head.decoder.bias", "head.output.bias"),
    ),
    output_biases=("lm_head.decoder.bias", "lm_head.bias"),
    buffers=r"embeddings\.(position_ids|token_type_ids)",
    depth_key="num_hidden_layers",
    spare={"classifier": r"(lm_head|pooler)\..*"},
    read_shape=_roberta_shape,
    matches=_roberta,
    absent=_nothing,
)


def _widened(model: ModelConfig) -> ModelConfig:
    words = {"biases": True, "output_bias": True, "segments": max(1, model.segments)}
    return ModelConfig(**{**model.to_json(), **words})


def _fold(weights: dict[str, Tensor], kind: Kind) -> str | None:
    """Return what is in the way: only a pooler that the next-sentence head lacks."""
    if "next_sentence.weight" in weights and "backbone.pooler.weight" not in weights:
        return "pooler=False under a next-sentence head (pooler=True fits)"
    return None


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "vocab_size": model.vocab_size,
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "intermediate_size": model.ffn_width,
        "hidden_act": WRITTEN[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.dropout if model.inner_dropout else 0.0,
        "max_position_embeddings": model.max_length,
        "type_vocab_size": model.segments,
        "layer_norm_eps": model.norm_eps,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": model.tied,
    }


FORM = Form(
    name="BERT",
    family=BERT,
    fits={
        "attention": ("bidirectional",),
        "norm": ("layer",),
        "norm_position": ("post",),
        "positions": ("learned",),
        "activation": ("gelu", "gelu_tanh", "relu", "relu2"),
        "embedding_norm": (True,),
    },
    fits_kind={
        "masked": {"transform": (True,)},
        "classifier": {"pooling": ("cls",), "pooler": (True,)},
    },
    architectures={
        "masked": "BertForMaskedLM",
        "base": "BertModel",
        "classifier": "BertForSequenceClassification",
    },
    widen=_widened,
    fold=_fold,
    write_config=_config,
)
