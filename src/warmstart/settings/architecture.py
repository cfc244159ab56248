"""The named architectures, and the settings that choose one and change it."""

import tomllib
from dataclasses import fields, replace
from importlib.resources import files

from warmstart.settings.base import Settings, choose, option
from warmstart.settings.model import Activation, ModelConfig, Norm, NormPosition, Positions


def _read_presets() -> dict[str, ModelConfig]:
    presets: dict[str, ModelConfig] = {}
    tables = tomllib.loads((files(__package__) / "presets.toml").read_text("utf-8"))
    for name, values in tables.items():
        base = presets.get(values.pop("based_on", ""))
        presets[name] = replace(base, **values) if base else ModelConfig(**values)
    return presets


PRESETS = _read_presets()


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
    inner_dropout: bool | None = option(
        "drop attention weights and inner activations too", None, advanced=True
    )
    positions: Positions | None = option(
        "sinusoidal, learned or rope", None, metavar="NAME", advanced=True
    )
    norm: Norm | None = option("layer norm or RMS norm", None, advanced=True)
    norm_position: NormPosition | None = option(
        "norm before (pre) or after (post) each sublayer", None, advanced=True
    )
    activation: Activation | None = option(
        "relu, gelu, gelu_tanh, swiglu or relu2", None, metavar="NAME", advanced=True
    )
    tied: bool | None = option("share input and output embeddings", None, advanced=True)
    biases: bool | None = option("biases in linear layers and norms", None, advanced=True)


class Architecture(ArchitectureOverrides, panel="Model"):
    """A preset and what to change in it."""

    preset: str = option(", ".join(PRESETS), "modern-small", metavar="NAME")


def apply_overrides(model: ModelConfig, overrides: ArchitectureOverrides) -> ModelConfig:
    """Return the architecture with every override that is not None."""
    values = {field.name: getattr(overrides, field.name) for field in fields(ArchitectureOverrides)}
    return replace(model, **{name: value for name, value in values.items() if value is not None})
