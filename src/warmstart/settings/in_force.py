"""The settings that a training runs with, and which option chose each."""

from collections.abc import Mapping
from dataclasses import dataclass

from warmstart.settings.base import Settings

LENGTH_KEYS = ("minutes", "steps", "tokens", "epochs")  # settings that say how long a run is


@dataclass(frozen=True)
class Choice:
    """The value of one setting."""

    value: float
    chosen: str  # "by default", or by which option: "by --minutes"


def in_force(settings: Settings, values: Mapping[str, float]) -> dict[str, Choice]:
    """Return the values that settings resolve to, with the option that chose each."""
    given = {
        setting.key: setting.flag
        for setting in settings.declared()
        if getattr(settings, setting.name) not in (None, setting.default)
    }
    return {key: Choice(value, _chosen(key, given)) for key, value in values.items()}


def _chosen(key: str, given: Mapping[str, str]) -> str:
    options = LENGTH_KEYS if key == "steps" else (key,)
    flags = [given[option] for option in options if option in given]
    return f"by {flags[0]}" if flags else "by default"


def describe(choices: Mapping[str, Choice]) -> str:
    """Write the settings in force in one line."""
    return ", ".join(f"{key.replace('_', ' ')} {_value(c)}" for key, c in choices.items())


def _value(choice: Choice) -> str:
    value = f"{choice.value:,}" if isinstance(choice.value, int) else f"{choice.value:.3g}"
    return f"{value} ({choice.chosen.removeprefix('by ')})"
