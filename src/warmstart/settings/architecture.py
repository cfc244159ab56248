"""The settings that choose an architecture: a preset and overrides of it."""

from dataclasses import dataclass, fields, replace

from warmstart.settings.base import Settings, option
from warmstart.settings.model import Activation, ModelConfig, Norm, NormPosition, Positions
from warmstart.settings.presets import PRESETS


@dataclass(frozen=True, kw_only=True)
class ArchitectureOverrides(Settings, panel="Model"):
    """What to change in a preset or in a run's architecture; None changes nothing."""

    width: int | None = option(None, help="width of every hidden vector", least=1)
    depth: int | None = option(None, help="number of blocks", least=1)
    heads: int | None = option(None, help="attention heads; must divide the width", least=1)
    ffn_width: int | None = option(None, help="inner width of the feed-forward layer", least=1)
    max_length: int | None = option(None, help="longest text in tokens", least=3)
    dropout: float | None = option(None, help="share of activations dropped", least=0, most=0.95)
    inner_dropout: bool | None = option(
        None, help="drop attention weights and inner activations too", advanced=True
    )
    positions: Positions | None = option(
        None, help="sinusoidal, learned or rope", metavar="NAME", advanced=True
    )
    norm: Norm | None = option(None, help="layer norm or RMS norm", advanced=True)
    norm_position: NormPosition | None = option(
        None, help="norm before (pre) or after (post) each sublayer", advanced=True
    )
    activation: Activation | None = option(
        None, help="relu, gelu, gelu_tanh, swiglu or relu2", metavar="NAME", advanced=True
    )
    tied: bool | None = option(None, help="share input and output embeddings", advanced=True)
    biases: bool | None = option(None, help="biases in linear layers and norms", advanced=True)


@dataclass(frozen=True, kw_only=True)
class Architecture(ArchitectureOverrides, panel="Model"):
    """A preset and what to change in it."""

    preset: str = option("modern-small", help=", ".join(PRESETS), metavar="NAME")


def apply_overrides(model: ModelConfig, overrides: ArchitectureOverrides) -> ModelConfig:
    """Return the architecture with every override that is not None."""
    names = [field.name for field in fields(ArchitectureOverrides)]
    given = {name: getattr(overrides, name) for name in names}
    return replace(model, **{name: value for name, value in given.items() if value is not None})
