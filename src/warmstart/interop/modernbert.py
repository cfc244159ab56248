"""ModernBERT: a pre-norm encoder with rotary positions, most of whose blocks see only a window."""

from typing import Any

from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_family import Family, HfHead, build_shape, read_dropout
from warmstart.interop.hf_tensors import HfTensors
from warmstart.settings.model import ModelConfig

SIZES = {
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
        SIZES,
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
    sizes=SIZES,
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
