"""How a settings dataclass is declared, checked, read from TOML or JSON, and compared.

A field's name is its flag, its TOML key and its keyword in Python. Knows no particular setting.
"""

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from warmstart.errors import WarmstartError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """What the command line and the checks know about one field."""

    help: str
    key: str | None = None  # flag and TOML key where the field's name cannot be used (`from`)
    short: str | None = None  # one-letter flag
    least: float | None = None  # smallest value allowed
    most: float | None = None  # largest value allowed
    above: float | None = None  # values must exceed this
    listed: bool = False  # a tuple written with commas, not as a repeated flag
    positional: bool = False  # given without a flag
    recorded: bool = True  # belongs to the job: kept in config.json
    fixed: bool = True  # may not change when a run is resumed
    hidden: bool = False  # for Python and TOML, without a flag


def option(default: Any = dataclasses.MISSING, *, help: str, **details: Any) -> Any:
    """Declare a field with its help text and limits."""
    return dataclasses.field(default=default, metadata={"option": Option(help=help, **details)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of every job's settings: checks each value where it enters."""

    def __post_init__(self) -> None:
        hints = field_types(type(self))
        for field in dataclasses.fields(self):
            value = _checked(field, hints[field.name], getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Build from keys as written in TOML or on the command line."""
        names = {key_of(field): field.name for field in dataclasses.fields(cls)}
        for key in values:
            if key not in names:
                raise WarmstartError(f"unknown setting '{key}'{suggestion(key, names)}")
        given = {names[key]: value for key, value in values.items()}
        for field in dataclasses.fields(cls):
            needed = field.default is dataclasses.MISSING
            if needed and given.get(field.name) in (None, (), []):
                raise WarmstartError(f"{flag_of(field)} is missing: {option_of(field).help}")
        return cls(**given)

    def recorded(self) -> dict[str, Any]:
        """Return what defines the job, as JSON values, by key."""
        return {
            key_of(field): list(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            if option_of(field).recorded
            for value in [getattr(self, field.name)]
        }

    def changed_from(self, recorded: Mapping[str, Any]) -> list[str]:
        """Name the settings that differ from a run's and may not, with both values."""
        mine = self.recorded()
        return [
            f"{flag_of(field)} was {recorded[key]!r}, now {mine[key]!r}"
            for field in dataclasses.fields(self)
            for key in [key_of(field)]
            if option_of(field).fixed and key in recorded and key in mine
            if recorded[key] != mine[key]
        ]


def option_of(field: "dataclasses.Field[Any]") -> Option:
    """Return the declaration of a field."""
    declared: Option = field.metadata["option"]
    return declared


def key_of(field: "dataclasses.Field[Any]") -> str:
    """Return the name a user writes for a field."""
    return option_of(field).key or field.name


def flag_of(field: "dataclasses.Field[Any]") -> str:
    """Return how a field is given on the command line."""
    if option_of(field).positional:
        return key_of(field).upper()
    return "--" + key_of(field).replace("_", "-")


def field_types(settings: type) -> dict[str, Any]:
    """Return the type of every field."""
    return get_type_hints(settings)


def bare_type(hint: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and whether None is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [part for part in get_args(hint) if part is not type(None)]
        return options[0], True
    return hint, False


def suggestion(word: str, known: Any) -> str:
    """Return `; did you mean 'x'?` when a known word is close, else what is known."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(sorted(known))}"


def choose(table: Mapping[str, T], word: str, setting: str) -> T:
    """Return the entry of `table` named by `word`, or say what is allowed."""
    if word not in table:
        raise WarmstartError(f"{setting}={word!r} is unknown{suggestion(word, table)}")
    return table[word]


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the keys of a TOML file, or of a run's config.json."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            data = json.loads(text)
            data = data.get("settings", data) if isinstance(data, dict) else data
        else:
            data = tomllib.loads(text)
    except FileNotFoundError:
        raise WarmstartError(f"--config {path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as fault:
        raise WarmstartError(f"--config {path} cannot be read: {fault}") from None
    if not isinstance(data, dict):
        raise WarmstartError(f"--config {path} must hold keys and values")
    return {key.replace("-", "_"): value for key, value in data.items()}


def _checked(field: "dataclasses.Field[Any]", hint: Any, value: Any) -> Any:
    kind, optional = bare_type(hint)
    if value is None:
        if optional:
            return None
        raise WarmstartError(f"{flag_of(field)} is missing: {option_of(field).help}")
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(_checked_one(field, item, part) for part in items)
    return _checked_one(field, kind, value)


def _checked_one(field: "dataclasses.Field[Any]", kind: Any, value: Any) -> Any:
    name, limits = flag_of(field), option_of(field)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            allowed = [str(word) for word in get_args(kind)]
            raise WarmstartError(f"{name} {value!r} is unknown{suggestion(str(value), allowed)}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise WarmstartError(f"{name} must be {_in_words(kind)}, not {value!r}")
    if isinstance(value, (int, float)) and not _is_within(limits, value):
        raise WarmstartError(f"{name} {value} is not allowed: {_limits_in_words(limits)}")
    return value


def _is_within(limits: Option, value: float) -> bool:
    low = limits.least is None or value >= limits.least
    strict = limits.above is None or value > limits.above
    return low and strict and (limits.most is None or value <= limits.most)


def _in_words(kind: type) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return words[kind]


def _limits_in_words(limits: Option) -> str:
    parts = []
    if limits.least is not None:
        parts.append(f"at least {limits.least:g}")
    if limits.above is not None:
        parts.append(f"above {limits.above:g}")
    if limits.most is not None:
        parts.append(f"at most {limits.most:g}")
    return "it must be " + " and ".join(parts)
