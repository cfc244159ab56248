"""Parameter counts in closed form, layer by layer, from the config alone."""

from dataclasses import dataclass, replace

from warmstart.settings.model import ModelConfig, decoder_config, encoder_config


@dataclass(frozen=True)
class Layer:
    """One layer's parameters."""

    name: str
    formula: str  # in the letters of `legend`
    count: int


def legend(config: ModelConfig) -> str:
    """Return what the letters of the formulas mean."""
    return (
        f"V = vocabulary {config.vocab_size:,}, D = width {config.width:,}, "
        f"F = feed-forward {config.ffn_width:,}, L = positions {config.max_length:,}, C = labels"
    )


def count_backbone(config: ModelConfig) -> list[Layer]:
    """List the backbone: embeddings, blocks, final norm, pooler."""
    layers = [Layer("embed", "V·D", config.vocab_size * config.width)]
    return layers + _above_embedding(config, has_cross=False)


def count_translator(config: ModelConfig) -> list[Layer]:
    """List encoder, decoder and head of a translator; tied weights are counted once."""
    encoder = count_backbone(encoder_config(config))
    target = decoder_config(config)
    decoder = _above_embedding(target, has_cross=True)
    if not config.shared:
        decoder.insert(0, Layer("embed", "V'·D", target.vocab_size * target.width))
    head = count_language_head(target)
    return [
        *(replace(layer, name=f"encoder.{layer.name}") for layer in encoder),
        *(replace(layer, name=f"decoder.{layer.name}") for layer in decoder),
        *head,
    ]


def _above_embedding(config: ModelConfig, has_cross: bool) -> list[Layer]:
    D, L = config.width, config.max_length
    layers = []
    if config.position_encoding == "learned":
        layers.append(Layer("embed_positions", "L·D", L * D))
    else:
        layers.append(Layer(f"positions ({config.position_encoding or 'none'})", "0", 0))
    if config.segments:
        layers.append(Layer("embed_segments", f"{config.segments}·D", config.segments * D))
    if config.embedding_norm:
        layers.append(_norm("norm_embed", config))
    for index in range(config.depth):
        layers += _block(f"blocks.{index}", config, has_cross)
    if not config.first_norm:
        layers = [layer for layer in layers if layer.name != "blocks.0.norm_attend"]
    if config.norm_position == "pre":
        layers.append(_norm("norm_final", config))
    if config.pooler:
        layers.append(_linear("pooler", "D", "D", config))
    return layers


def count_language_head(config: ModelConfig) -> list[Layer]:
    """List the language-model head; tied weights are counted with the embedding."""
    layers = []
    if config.transform:
        layers.append(_linear("head.transform.dense", "D", "D", config))
        layers.append(_norm("head.transform.norm", config))
    has_bias = config.biases and config.output_bias
    if config.tied:
        bias = config.vocab_size if has_bias else 0
        formula = "V (weights tied to embed)" if bias else "0 (tied to embed)"
        layers.append(Layer("head.output", formula, bias))
    else:
        layers.append(_linear("head.output", "D", "V", replace(config, biases=has_bias)))
    return layers


def count_next_sentence(config: ModelConfig) -> list[Layer]:
    """List the next-sentence head."""
    return [Layer("next_sentence", "D·2 + 2", config.width * 2 + 2)]


def count_classification_head(config: ModelConfig, num_labels: int) -> list[Layer]:
    """List the classification head."""
    return [Layer("head.output", "D·C + C", config.width * num_labels + num_labels)]


def count_pretraining_heads(config: ModelConfig) -> list[Layer]:
    """List every head that pretraining puts on this backbone."""
    heads = count_language_head(config)
    return heads + (count_next_sentence(config) if config.segments > 1 else [])


def _block(name: str, config: ModelConfig, has_cross: bool) -> list[Layer]:
    inner = "2F" if config.is_gated else "F"
    cross = [
        _linear(f"{name}.cross.query", "D", "D", config),
        _linear(f"{name}.cross.project", "D", "2D", config),
        _linear(f"{name}.cross.output", "D", "D", config),
        _norm(f"{name}.norm_cross", config),
    ]
    return [
        _linear(f"{name}.attend.project", "D", "3D", config),
        _linear(f"{name}.attend.output", "D", "D", config),
        _norm(f"{name}.norm_attend", config),
        *(cross if has_cross else []),
        _linear(f"{name}.ffn.inner", "D", inner, config),
        _linear(f"{name}.ffn.outer", "F", "D", config),
        _norm(f"{name}.norm_ffn", config),
    ]


def _linear(name: str, inputs: str, outputs: str, config: ModelConfig) -> Layer:
    sizes = {"D": config.width, "F": config.ffn_width, "V": config.vocab_size}
    sizes |= {"2D": 2 * config.width, "3D": 3 * config.width, "2F": 2 * config.ffn_width}
    weights, bias = sizes[inputs] * sizes[outputs], sizes[outputs]
    if not config.biases:
        return Layer(name, f"{inputs}·{outputs}", weights)
    return Layer(name, f"{inputs}·{outputs} + {outputs}", weights + bias)


def _norm(name: str, config: ModelConfig) -> Layer:
    if config.norm_kind is None:
        return Layer(name, "0", 0)
    if config.norm == "layer" and config.biases:
        return Layer(name, "2·D", 2 * config.width)
    return Layer(name, "D", config.width)
