"""How a settings dataclass is declared, checked, read from TOML or JSON, and compared.

A field's name is its flag, its TOML key and its keyword in Python. Knows no particular setting.
"""

import dataclasses
import difflib
import json
import math
import tomllib
import types
from collections.abc import Iterable, Mapping
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
    excludes: str | None = None  # key of a setting that cannot be given with this one


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
        given = [f for f in dataclasses.fields(self) if getattr(self, f.name) is not None]
        flags = {key_of(field): flag_of(field) for field in given}
        for field in given:
            rival = option_of(field).excludes
            if rival and rival in flags:
                both = f"{flag_of(field)} and {flags[rival]}"
                raise WarmstartError(f"{both} exclude each other: give one")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Build from keys as written in TOML or on the command line."""
        cls.check_keys(values)
        fields = dataclasses.fields(cls)
        given = {f.name: None for f in fields if is_required(f)}  # refused unless it is given
        given |= {f.name: values[key_of(f)] for f in fields if key_of(f) in values}
        return cls(**given)

    @classmethod
    def check_keys(cls, keys: Iterable[str], where: str = "") -> None:
        """Refuse a key that is no setting; `where` says in which file it stands."""
        known = [key_of(field) for field in dataclasses.fields(cls)]
        for key in keys:
            if key not in known:
                raise WarmstartError(f"{where}unknown setting '{key}'{suggestion(key, known)}")

    @classmethod
    def overridden(cls, values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with the flags in their place; a flag replaces its rival too."""
        fields = [field for field in dataclasses.fields(cls) if key_of(field) in flags]
        rivals = {option_of(field).excludes for field in fields}
        return {key: value for key, value in values.items() if key not in rivals} | dict(flags)

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


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Tell whether a field has no default."""
    return field.default is dataclasses.MISSING


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


def read_settings_file(path: Path, command: str | None = None) -> dict[str, Any]:
    """Return the keys of a TOML file, or of the config.json of a run that `command` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            data = _settings_in(json.loads(text), path, command)
        else:
            data = tomllib.loads(text)
    except FileNotFoundError:
        raise WarmstartError(f"--config {path} does not exist") from None
    except (OSError, ValueError, RecursionError) as fault:  # the decoders' errors are ValueErrors
        raise WarmstartError(f"--config {path} cannot be read: {fault}") from None
    if not isinstance(data, dict):
        raise WarmstartError(f"--config {path} must hold keys and values")
    return {key.replace("-", "_"): value for key, value in data.items()}


def _settings_in(config: Any, path: Path, command: str | None) -> Any:
    """Return the settings in a run's config.json, or all of another JSON file."""
    if not isinstance(config, dict):
        return config
    writer = config.get("command", command)
    if command and writer != command:
        raise WarmstartError(f"--config {path} was written by {writer}, not {command}")
    return config.get("settings", config)


def _checked(field: "dataclasses.Field[Any]", hint: Any, value: Any) -> Any:
    kind, optional = bare_type(hint)
    if value is None and optional:
        return None
    if value is None or (is_required(field) and value in ((), [])):
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
    if isinstance(value, Path):
        value = str(value)
    if not has_kind(value, kind):
        raise WarmstartError(f"{name} must be {in_words(kind)}, not {value!r}")
    if kind is float:
        value = float(value)
        if not math.isfinite(value):
            raise WarmstartError(f"{name} {value} is not allowed: it must be a finite number")
    if isinstance(value, (int, float)) and not _is_within(limits, value):
        raise WarmstartError(f"{name} {value} is not allowed: {_limits_in_words(limits)}")
    return value


def has_kind(value: object, kind: type) -> bool:
    """Tell whether a value is of a plain type; a whole number is a number, true and false none."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def in_words(kind: type) -> str:
    """Return what a value of a plain type is called."""
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return words[kind]


def _is_within(limits: Option, value: float) -> bool:
    low = limits.least is None or value >= limits.least
    strict = limits.above is None or value > limits.above
    return low and strict and (limits.most is None or value <= limits.most)


def _limits_in_words(limits: Option) -> str:
    parts = []
    if limits.least is not None:
        parts.append(f"at least {limits.least:g}")
    if limits.above is not None:
        parts.append(f"above {limits.above:g}")
    if limits.most is not None:
        parts.append(f"at most {limits.most:g}")
    return "it must be " + " and ".join(parts)
