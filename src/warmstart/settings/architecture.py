"""The named architectures, and the settings that choose one and change it."""

import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import fields, replace
from importlib.resources import files
from typing import Any, get_args

from warmstart.errors import WarmstartError
from warmstart.settings.base import Settings, advanced, choose, option
from warmstart.settings.model import Activation, ModelConfig, Norm, NormPosition, Positions


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
        f"{', '.join(_BACKBONES)}; default: modern-small on a GPU, mini without",
        None,
        metavar="NAME",
    )

    def preset_for(self, device: str) -> ModelConfig:
        """Return the preset named, or the default one for a kind of device."""
        return preset_named(self.preset or ("modern-small" if device == "cuda" else "mini"))


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
