"""DistilBERT and ELECTRA: encoders with BERT's blocks under other names, or with another head."""

from dataclasses import replace

from warmstart.interop.bert import BERT, read_bert_shape
from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import ACTIVATIONS, Family, HfHead, build_shape, read_dropout
from warmstart.interop.hf_tensors import HfTensors
from warmstart.settings.model import ModelConfig

SIZES = {
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
        SIZES,
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
    sizes=SIZES,
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
