"""The configuration of a model: its sizes and every architectural choice."""

import math
import re
import sys
import tomllib
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import TYPE_NAMES, has_type, show
from warmstart.settings.base import Settings, advanced, choose, option

Attention = Literal["causal", "bidirectional"]
Norm = Literal["layer", "rms"]
NormPosition = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rope"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2", "swiglu", "geglu"]
GATED: tuple[Activation, ...] = ("swiglu", "geglu")  # with a second inner matrix
Ablation = Literal["nothing", "mask", "scale", "positions", "residual", "norm", "warmup"]
ABLATED_PARTS: dict[Ablation, str] = {
    "mask": "the causal mask",
    "scale": "the division by the root of the width per head",
    "positions": "positions",
    "residual": "residual connections",
    "norm": "norms",
    "warmup": "the warmup of the learning rate",
}
LEAST = {
    **dict.fromkeys(("vocab_size", "width", "depth", "heads", "ffn_width", "max_length"), 1),
    **dict.fromkeys(("segments", "decoder_depth", "target_vocab_size", "local_window"), 0),
    "global_every": 1,
}
MOST = {**dict.fromkeys(LEAST, 1 << 24), "depth": 10_000, "decoder_depth": 10_000}

# Choices of few models: only their config.json mentions them.
RARE = ("local_window", "global_every", "local_rope_base", "first_norm", "ablated")
MOST_SINUSOIDS = 1 << 27  # max_length × width: a table of half a gigabyte
DEFAULT_PRESETS = {"cuda": "modern-small", "cpu": "mini"}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The architecture of a Transformer backbone, and of its decoder where it has one."""

    vocab_size: int
    width: int  # of every hidden vector
    depth: int  # blocks
    heads: int  # per attention layer; each has width / heads
    ffn_width: int  # inner width of the feed-forward layer
    max_length: int = 256  # longest text, in tokens
    attention: Attention = "causal"
    norm: Norm = "layer"
    norm_position: NormPosition = "post"  # norm after each residual sum, or before each sublayer
    positions: Positions = "sinusoidal"
    activation: Activation = "relu"
    tied: bool = False  # output weights are the embedding's
    biases: bool = True  # in every linear layer and norm
    dropout: float = 0.1
    inner_dropout: bool = True  # on attention weights and inner activations too, as torch.nn does
    scale_embedding: bool = True  # multiply embeddings by sqrt(width), as Vaswani et al. (2017) do
    embedding_norm: bool = False  # normalize the summed embeddings, as BERT does
    segments: int = 0  # number of segment embeddings; 0: none
    pooler: bool = False  # dense + tanh over the first position, part of the backbone
    transform: bool = False  # dense + activation + norm before the output weights
    output_bias: bool = True  # a bias over the vocabulary, where there are biases at all
    norm_eps: float = 1e-5  # added to the variance in norms
    rope_base: float = 10_000.0  # wavelengths of rotary positions go up to about 2π times this
    local_window: int = 0  # tokens on each side that local blocks see; 0: every block sees all
    global_every: int = 1  # with a window, one block in this many sees all, the first included
    local_rope_base: float = 10_000.0  # of rotary positions in local blocks
    first_norm: bool = True  # a norm before the first attention; ModernBERT has one less
    decoder_depth: int = 0  # blocks of a decoder that attends to the backbone; 0: no decoder
    target_vocab_size: int = 0  # the decoder's vocabulary; 0: the backbone's
    shared: bool = True  # the decoder uses the backbone's embedding, not its own
    ablated: Ablation = "nothing"  # a part left out on purpose, to see what it is for

    def __post_init__(self) -> None:
        _check_types(self)
        _check_sizes(self)
        if self.width % self.heads:
            raise WarmstartError(
                f"model.width={self.width} must be a multiple of model.heads={self.heads}"
            )
        if self.positions == "rope" and (self.width // self.heads) % 2:
            raise WarmstartError(
                f"model.positions=rope needs an even width per head, not "
                f"{self.width // self.heads} (model.width={self.width} / model.heads={self.heads})"
            )
        if self.positions == "sinusoidal" and self.width % 2:
            raise WarmstartError(
                f"model.width={self.width} must be even with model.positions=sinusoidal"
            )
        if self.positions == "sinusoidal" and not self.scale_embedding:
            raise WarmstartError(
                "model.positions=sinusoidal needs model.scale_embedding=true: sinusoids are as "
                "large as scaled embeddings and would drown others"
            )
        if not 0 <= self.dropout < 1:
            raise WarmstartError(f"model.dropout={self.dropout} must be from 0 to below 1")
        for name in ("norm_eps", "rope_base", "local_rope_base"):
            if not 0 < getattr(self, name) < math.inf:
                raise WarmstartError(f"model.{name}={getattr(self, name)} must be above 0")
        if self.local_window and (self.attention != "bidirectional" or self.decoder_depth):
            raise WarmstartError(
                f"model.local_window={self.local_window} needs an encoder alone: "
                "model.attention=bidirectional and model.decoder_depth=0"
            )
        if self.shared and self.target_vocab_size not in (0, self.vocab_size):
            raise WarmstartError(
                f"model.target_vocab_size={self.target_vocab_size} differs from "
                f"model.vocab_size={self.vocab_size}, so model.shared must be false"
            )

    @property
    def num_large_parameters(self) -> int:
        """Return the size of tables and matrices: nearly all parameters, computed at once."""
        num_positions = 0 if self.position_encoding in ("rope", None) else self.max_length
        rows = self.vocab_size + self.target_vocab_size + num_positions
        num_blocks = self.depth + self.decoder_depth
        return self.width * (rows + num_blocks * (4 * self.width + 2 * self.ffn_width))

    @property
    def is_causal(self) -> bool:
        """Tell whether a position attends only to itself and earlier ones."""
        return self.attention != "bidirectional" and self.ablated != "mask"

    @property
    def is_gated(self) -> bool:
        """Tell whether the feed-forward layer has a gate, a second inner matrix."""
        return self.activation in GATED

    def is_local(self, layer: int) -> bool:
        """Tell whether a block sees only a window around each token."""
        return bool(self.local_window and layer % self.global_every)

    @property
    def position_encoding(self) -> Positions | None:
        """Return how positions are encoded; None: not at all."""
        return None if self.ablated == "positions" else self.positions

    @property
    def norm_kind(self) -> Norm | None:
        """Return the kind of the model's norms; None: it has none."""
        return None if self.ablated == "norm" else self.norm

    def mark(self, description: str) -> str:
        """Return the description of a model; that of an ablated one says so."""
        warning = ablation_warning(self.ablated)
        return f"{description} ({warning})" if warning else description

    def to_json(self) -> dict[str, Any]:
        """Return every field, without rare ones that have their default."""
        usual = {field.name: field.default for field in fields(self) if field.name in RARE}
        return {name: value for name, value in asdict(self).items() if usual.get(name) != value}


def ablation_warning(ablated: Ablation) -> str:
    """Return what marks an ablated model wherever it appears; empty: the model is whole."""
    part = ABLATED_PARTS.get(ablated)
    return f"ABLATED: trained without {part}, to show what it is for" if part else ""


def _check_types(model: ModelConfig) -> None:
    for name, value_type in get_type_hints(ModelConfig).items():
        value, choices = getattr(model, name), get_args(value_type)
        shown = f"model.{name}={show(value)}"
        if choices and value not in choices:
            raise WarmstartError(f"{shown} is unknown; known: {', '.join(choices)}")
        if not choices and not has_type(value, value_type):
            raise WarmstartError(f"{shown} must be {TYPE_NAMES[value_type]}")
        if value_type is float:
            if abs(value) > sys.float_info.max:
                raise WarmstartError(f"{shown} must be at most {sys.float_info.max:g}")
            object.__setattr__(model, name, float(value))  # other libraries refuse a whole number


def _check_sizes(model: ModelConfig) -> None:
    for name, least in LEAST.items():
        size, most = getattr(model, name), MOST[name]
        if size < least:
            raise WarmstartError(f"model.{name}={size} must be at least {least}")
        if size > most:
            raise WarmstartError(f"model.{name}={show(size)} must be at most {most:,}")
    if model.positions == "sinusoidal" and model.max_length * model.width > MOST_SINUSOIDS:
        raise WarmstartError(
            f"model.max_length={model.max_length} × model.width={model.width} must be at most "
            f"{MOST_SINUSOIDS:,} with model.positions=sinusoidal; rope has no such limit"
        )


def model_from_json(data: Any, file: str | Path = "config.json") -> ModelConfig:
    """Rebuild a configuration from a run's config.json; errors name the file."""
    if not isinstance(data, dict):
        raise WarmstartError(f"{file}: model={show(data)} must be an object")
    if not data:
        raise WarmstartError(f"{file}: the run has no Transformer, which this command needs")
    wrong = (set(data) ^ {field.name for field in fields(ModelConfig)}) - set(RARE)
    if wrong:
        names = show(sorted(wrong))
        raise WarmstartError(f"{file}: model keys do not fit this version: {names}")
    try:
        return ModelConfig(**data)
    except WarmstartError as error:
        raise WarmstartError(f"{file}: {error}") from None


def encoder_config(config: ModelConfig) -> ModelConfig:
    """Return the configuration of a translator's encoder."""
    return replace(config, attention="bidirectional", pooler=False, decoder_depth=0)


def decoder_config(config: ModelConfig) -> ModelConfig:
    """Return the configuration of a translator's decoder."""
    return replace(
        config,
        vocab_size=config.target_vocab_size or config.vocab_size,
        target_vocab_size=0,
        depth=config.decoder_depth,
        decoder_depth=0,
        attention="causal",
        segments=0,
        pooler=False,
        transform=False,
    )


def _read_presets() -> dict[str, ModelConfig]:
    presets: dict[str, ModelConfig] = {}
    tables = tomllib.loads((files(__package__) / "presets.toml").read_text("utf-8"))
    for name, values in tables.items():
        base = presets.get(values.pop("based_on", ""))
        presets[name] = replace(base, **values) if base else ModelConfig(**values)
    return presets


PRESETS = _read_presets()
_BACKBONES = [name for name, model in PRESETS.items() if not model.decoder_depth]


def preset_named(name: str) -> ModelConfig:
    """Return a preset, or say which presets exist."""
    return choose(PRESETS, name, "--preset")


class ArchitectureOverrides(Settings, panel="Model"):
    """What to change in a preset or in a run's architecture; None changes nothing."""

    width: int | None = option("width of every hidden vector", None, least=1)
    depth: int | None = option("number of blocks", None, least=1)
    heads: int | None = option("attention heads; must divide the width", None, least=1)
    ffn_width: int | None = option("inner width of the feed-forward layer", None, least=1)
    max_length: int | None = option("longest text in tokens", None, least=3)
    dropout: float | None = option("share of activations dropped", None, least=0, most=0.95)
    inner_dropout: bool | None = advanced("drop attention weights and inner activations too", None)
    positions: Positions | None = advanced(", ".join(get_args(Positions)), None, metavar="NAME")
    norm: Norm | None = advanced("layer norm or RMS norm", None)
    norm_position: NormPosition | None = advanced("norm before or after each sublayer", None)
    activation: Activation | None = advanced(", ".join(get_args(Activation)), None, metavar="NAME")
    tied: bool | None = advanced("share input and output embeddings", None)
    biases: bool | None = advanced("biases in linear layers and norms", None)


class Architecture(ArchitectureOverrides, panel="Model"):
    """A preset and what to change in it."""

    preset: str | None = option(
        f"{', '.join(_BACKBONES)}; default: {DEFAULT_PRESETS['cuda']} on a GPU, "
        f"{DEFAULT_PRESETS['cpu']} without",
        None,
        metavar="NAME",
    )


def apply_overrides(model: ModelConfig, overrides: ArchitectureOverrides) -> ModelConfig:
    """Return the architecture with every override that is not None.

    Sinusoidal positions come with embeddings scaled by sqrt(width), as in Vaswani et al. (2017).
    """
    values = {field.name: getattr(overrides, field.name) for field in fields(ArchitectureOverrides)}
    changed = {name: value for name, value in values.items() if value is not None}
    if overrides.positions == "sinusoidal":
        changed["scale_embedding"] = True
    return override(model, changed)


def override(model: ModelConfig, changed: Mapping[str, Any]) -> ModelConfig:
    """Return the architecture with changes that flags ask for; errors name the flags."""
    try:
        return replace(model, **changed)
    except WarmstartError as error:
        flags = {field.name for field in fields(ArchitectureOverrides)} | changed.keys()
        raise WarmstartError(_as_flags(str(error), flags)) from None


def _as_flags(message: str, names: Set[str]) -> str:
    """Write `--width 7` where a message has `model.width=7`, for the names that are flags."""
    pattern = rf"model\.({'|'.join(sorted(names))})="
    return re.sub(pattern, lambda found: f"--{found[1].replace('_', '-')} ", message)
