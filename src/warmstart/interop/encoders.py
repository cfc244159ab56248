"""BERT, RoBERTa, DistilBERT and ModernBERT."""

from dataclasses import replace
from typing import Any

from warmstart.interop.family import (
    ACTIVATIONS,
    HF_ACTIVATIONS,
    ExportRules,
    Family,
    HfConfig,
    HfHead,
    HfTensors,
    build_shape,
    read_dropout,
)
from warmstart.settings.model import ModelConfig

POSITIONS = "embeddings.position_embeddings.weight"
BERT_SIZES = {
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
        BERT_SIZES,
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
    sizes=BERT_SIZES,
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
DISTILBERT_SIZES = {
    "vocab_size": "vocab_size",
    "width": "dim",
    "depth": "n_layers",
    "heads": "n_heads",
    "ffn_width": "hidden_dim",
    "max_length": "max_position_embeddings",
}
_LAYER = "transformer.layer.#"
_QUERY, _KEY, _VALUE = (f"{_LAYER}.attention.{name}_lin" for name in "qkv")


def _read_distilbert_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    return build_shape(
        config,
        DISTILBERT_SIZES,
        attention="bidirectional",
        positions="learned",  # sinusoids, where it has them, are a table in the file
        activation=config.choose("activation", "gelu", ACTIVATIONS),
        tied=config.flag("tie_word_embeddings", True),
        scale_embedding=False,
        embedding_norm=True,
        transform=True,
        norm_eps=1e-12,
        **read_dropout(config, "dropout", "attention_dropout", 0.1),
    )


DISTILBERT = Family(
    name="DistilBERT",
    model_types=("distilbert",),
    prefix="distilbert.",
    heads={"DistilBertModel": "none", "DistilBertForMaskedLM": "language"},
    sizes=DISTILBERT_SIZES,
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
        }
    },
    language_class="ForMaskedLM",
    language_tensors=("vocab_transform.weight",),
    copies={"vocab_projector.weight": "backbone.embed.weight"},
    buffers=r"embeddings\.position_ids",
    unused={},
    read_shape=_read_distilbert_shape,
)


def _read_electra_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    width = config.size("hidden_size", 256)
    if config.size("embedding_size", 128) != width:
        config.refuse("embedding_size", f"is not hidden_size, {width}; only equal ones fit")
    shape = read_bert_shape(config, tensors, "none")
    if head == "language" and shape.activation != "gelu":
        config.refuse("hidden_act", "differs from the gelu of its language head; both must agree")
    return shape


ELECTRA = replace(
    BERT,
    name="ELECTRA",
    model_types=("electra",),
    prefix="electra.",
    heads={
        "ElectraModel": "none",
        "ElectraForPreTraining": "none",  # its head tells replaced tokens, which no task here does
        "ElectraForMaskedLM": "language",
    },
    head_layers={
        "language": {
            "head.transform.dense": "generator_predictions.dense",
            "head.transform.norm": "generator_predictions.LayerNorm",
            "head.output": "generator_lm_head",
        }
    },
    language_tensors=("generator_predictions.dense.weight",),
    copies={"generator_lm_head.weight": "backbone.embed.weight"},
    output_biases=(),
    unused={"none": r"discriminator_predictions\..*"},
    read_shape=_read_electra_shape,
    export=None,
)
MODERNBERT_SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
}
GLOBAL, LOCAL = "full_attention", "sliding_attention"

# Our tensors by the key that gives them a bias, and whether they have one by default.
_BIASES = {
    "attention_bias": (r"attend\.(project|output)", False),
    "mlp_bias": (r"ffn\.(inner|outer)", False),
    "norm_bias": (r"norm\w*", False),
    "classifier_bias": (r"transform\.dense", False),
    "decoder_bias": (r"head\.output", True),
}


def _read_shape(config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
    global_every = _read_global_every(config)
    window = config.size("local_attention", 128) // 2
    if not window:
        config.refuse("local_attention", "leaves no window; 2 or more is supported")
    gelu = "is not supported; gelu is"
    config.require("hidden_activation", ["gelu"], gelu)
    if head == "language":
        config.require("classifier_activation", ["gelu"], gelu)
    biases = [key for key in _BIASES if _has_bias(config, key)]
    in_backbone = {"attention_bias", "mlp_bias", "norm_bias"}
    return build_shape(
        config,
        MODERNBERT_SIZES,
        max_length=config.size("max_position_embeddings", 8192),
        attention="bidirectional",
        norm_position="pre",
        positions="rope",
        activation="geglu",
        tied=config.flag("tie_word_embeddings", True),
        biases=bool(in_backbone.intersection(biases) or (head == "language" and biases)),
        scale_embedding=False,
        embedding_norm=True,
        transform=True,
        norm_eps=config.number("norm_eps", 1e-5),
        rope_base=_read_rope_base(config, GLOBAL, "global_rope_theta", 160_000.0),
        local_window=window if global_every > 1 else 0,
        global_every=global_every,
        local_rope_base=_read_rope_base(config, LOCAL, "local_rope_theta", 10_000.0),
        first_norm=False,
        **read_dropout(config, "mlp_dropout", "attention_dropout", 0.0),
    )


def _read_global_every(config: HfConfig) -> int:
    """Return of how many blocks one sees all tokens, the first among them."""
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


def _zero_biases(config: HfConfig) -> str:
    """Match the biases that the folder lacks; our models have all of them or none."""
    missing = [layer for key, (layer, _) in _BIASES.items() if not _has_bias(config, key)]
    return rf"(.*\.)?({'|'.join(missing) or '-'})\.bias"


MODERNBERT = Family(
    name="ModernBERT",
    model_types=("modernbert",),
    prefix="model.",
    heads={"ModernBertModel": "none", "ModernBertForMaskedLM": "language"},
    sizes=MODERNBERT_SIZES,
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
    language_class="ForMaskedLM",
    pooling="mean",
    language_tensors=("head.dense.weight",),
    copies={"decoder.weight": "backbone.embed.weight"},
    buffers=r"rotary_emb\..*",
    unused={},
    read_shape=_read_shape,
    zero_biases=_zero_biases,
)
