"""The base of every command's settings: declared once, checked on entry, read from TOML or JSON.

A field's name is its flag, its TOML key and its keyword in Python.
"""

import csv
import dataclasses
import difflib
import functools
import inspect
import io
import math
import numbers
import operator
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.jsonfiles import TYPE_NAMES, from_json, has_type, read_object, show
from warmstart.textfiles import describe_missing

T = TypeVar("T")
Panel = Literal["Input and output", "Model", "Training", "Decoding", "Saving", "Server", "Machine"]
LARGEST_INT = 2**63 - 1
LENGTH_KEYS = ("minutes", "steps", "tokens", "epochs")  # settings that say how long a run is


def option(help: str, default: Any = dataclasses.MISSING, **details: Any) -> Any:
    """Declare a field; `details` are fields of `Setting`."""
    return dataclasses.field(default=default, metadata={"help": help, **details})


argument = functools.partial(option, positional=True)
advanced = functools.partial(option, advanced=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One field of a settings class: its name, type and default, and its declaration."""

    name: str
    default: Any
    value_type: Any  # of the value, or of each item of a list
    is_list: bool
    allows_none: bool
    help: str
    key: str  # flag and TOML key; declared where the field's name cannot be used (`from`)
    panel: Panel  # of --help; declared where it is not the panel of the class
    metavar: str | None = None  # the value's name in --help; None: by type
    short: str | None = None  # one-letter flag
    least: float | None = None  # smallest value allowed
    most: float | None = None  # largest value allowed
    above: float | None = None  # values must exceed this
    comma_separated: bool = False  # a list written with commas, not as a repeated flag
    positional: bool = False  # written without a flag
    recorded: bool = True  # part of the job: saved in config.json
    fixed: bool = True  # may not change when a run is resumed
    advanced: bool = False  # shown by --help-all, not by --help
    has_flag: bool = True  # False: for Python and TOML only
    holds_rows: bool = False  # names a file of rows: Python also takes a table in memory
    excludes: tuple[str, ...] = ()  # keys of mutually exclusive settings

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        """Return the setting's name on the command line."""
        return self.key.upper() if self.positional else "--" + self.key.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values allowed; empty if every value of the type is."""
        return get_args(self.value_type) if get_origin(self.value_type) is Literal else ()

    def check(self, value: Any) -> Any:
        """Return the value in its type; refuse a missing, mistyped or out-of-range one."""
        if value is None and self.allows_none:
            return None
        is_empty = isinstance(value, (list, tuple)) and not value
        if value is None or (self.is_required and is_empty):
            raise WarmstartError(f"{self.flag} is missing: {self.help}")
        if not self.is_list:
            return self._check_item(value)
        return tuple(self._check_item(item) for item in self._items(value))

    def _items(self, value: Any) -> Iterable[Any]:
        """Return the items of a list; one of text may be written with commas, or as a dict."""
        if self.comma_separated and isinstance(value, Mapping):
            return [f"{name}={item}" for name, item in value.items()]
        if self.comma_separated and isinstance(value, str):
            return [item.strip() for item in value.split(",")]
        return value if isinstance(value, (list, tuple)) else [value]

    def _check_item(self, value: Any) -> Any:
        if self.choices:
            check_choice(self.flag, value, self.choices)
            return value
        value = _plain(value)
        if not has_type(value, self.value_type):
            allowed, received = TYPE_NAMES[self.value_type], " ".join(repr(value).split())
            raise WarmstartError(f"{self.flag} must be {allowed}, not {shorten(received, 60)}")
        if isinstance(value, str):
            self._check_text(value)
        if self.value_type is int and abs(value) > LARGEST_INT:
            raise WarmstartError(f"{self.flag} {value} is not allowed: it needs more than 64 bits")
        if self.value_type is float:
            value = _as_float(value)
            if not math.isfinite(value):
                raise WarmstartError(f"{self.flag} {value} is not allowed: it must be finite")
        bounds = (
            ("at least", self.least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.most, operator.le),
        )
        limits = [(name, bound, is_met) for name, bound, is_met in bounds if bound is not None]
        if not all(is_met(value, bound) for _, bound, is_met in limits):
            allowed = " and ".join(f"{name} {_format_bound(bound)}" for name, bound, _ in limits)
            raise WarmstartError(f"{self.flag} {value} is not allowed: it must be {allowed}")
        return value

    def _check_text(self, value: str) -> None:
        """Refuse an empty or impossible file name, and text that is not UTF-8."""
        if not value and self.is_path:
            raise WarmstartError(f"{self.flag} is empty: {self.help}")
        if value == "-" and self.short == "-o":
            instead = "leave out -o to print the result" if self.allows_none else self.help
            raise WarmstartError(f"-o - does not stand for standard output: {instead}")
        if "\0" in value and self.is_path:
            raise WarmstartError(f"{self.flag} {value!r} is not allowed: it has a NUL character")
        if value != value.encode(errors="ignore").decode():
            problem = "a name that is not UTF-8: rename it" if self.is_path else "not UTF-8 text"
            raise WarmstartError(f"{self.flag} {value!r} is {problem}")

    @property
    def is_path(self) -> bool:
        """Tell whether the value names a file or folder; other texts declare a `metavar`."""
        return self.value_type is str and self.metavar is None


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of settings classes, which are frozen dataclasses with a help panel for their fields."""

    panel: ClassVar[Panel]

    def __init_subclass__(cls, panel: Panel = "Input and output") -> None:
        cls.panel = panel
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for setting in self.declared():
            value = setting.check(getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
        present = {s.key: s for s in self.declared() if getattr(self, s.name) is not None}
        for setting in present.values():
            for other in filter(present.get, setting.excludes):
                flags = f"{setting.flag} and {present[other].flag}"
                raise WarmstartError(f"{flags} are mutually exclusive: give one")

    @classmethod
    @functools.cache
    def declared(cls) -> tuple[Setting, ...]:
        """Return every setting: those of the class itself first, then those of its bases."""
        types = get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        owners: dict[str, type[Settings]] = {}
        for owner in cls.__mro__:
            for name in inspect.get_annotations(owner):
                owners.setdefault(name, owner)
        return tuple(
            _setting(fields[name], types[name], owner.panel)
            for name, owner in owners.items()
            if name in fields
        )

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Build from keys as written in TOML or on the command line."""
        cls.check_keys(values)
        missing = {s.name: None for s in cls.declared() if s.is_required}  # refused when checked
        return cls(**missing | {s.name: values[s.key] for s in cls.declared() if s.key in values})

    @classmethod
    def check_keys(cls, keys: Iterable[str], where: str = "") -> None:
        """Refuse a key that is no setting; `where` begins the message and names the file."""
        known = [setting.key for setting in cls.declared()]
        for key in keys:
            if key not in known:
                raise WarmstartError(f"{where}unknown setting '{key}'{suggestion(key, known)}")

    @classmethod
    def override(cls, values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
        """Return a file's values with flags in their place; a flag also drops what it excludes."""
        excluded = {key for s in cls.declared() if s.key in flags for key in s.excludes}
        excluded |= {s.key for s in cls.declared() if not flags.keys().isdisjoint(s.excludes)}
        return {key: value for key, value in values.items() if key not in excluded} | dict(flags)

    def recorded(self) -> dict[str, Any]:
        """Return what defines the job, as JSON values, by key."""
        values = {s.key: getattr(self, s.name) for s in self.declared() if s.recorded}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def flags(self, declared_by: "type[Settings]") -> list[str]:
        """Return as words of a command line what differs from the defaults of these settings."""
        words: list[str] = []
        for setting in declared_by.declared():
            value = getattr(self, setting.name)
            if value == setting.default:
                continue
            if setting.value_type is bool:
                words.append(setting.flag if value else f"--no-{setting.flag.removeprefix('--')}")
                continue
            if setting.comma_separated:
                value = [_with_commas(value)]
            for item in value if setting.is_list else [value]:
                words += [setting.flag, str(item)]
        return words

    def changed_from(self, recorded: Mapping[str, Any]) -> list[str]:
        """Name the fixed settings that differ from a run's, with both values."""
        now = self.recorded()
        return [
            f"{s.flag} was {_shown(recorded[s.key])}, now {_shown(now[s.key])}"
            for s in self.declared()
            if s.fixed and s.key in recorded and s.key in now and recorded[s.key] != now[s.key]
        ]


def _with_commas(items: Iterable[Any]) -> str:
    """Join items as the command line reads them: one that contains a comma is quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(items)
    return line.getvalue()


def _plain(value: Any) -> Any:
    """Return a path as text, and a number of another library, such as NumPy, as one of Python."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, int):
        return int(value)
    is_other = isinstance(value, numbers.Real) and not isinstance(value, int | float)
    return float(value) if is_other else value


def _format_bound(bound: float) -> str:
    """Write a limit: 0.95, 1024, 16,777,216."""
    return f"{bound:g}" if bound < 1e6 else f"{bound:,.0f}"


def _shown(value: Any) -> str:
    return "left to its default" if value is None else show(value)


def _setting(field: "dataclasses.Field[Any]", hint: Any, panel: Panel) -> Setting:
    types = [member for member in get_args(hint) if member is not type(None)]
    allows_none = type(None) in get_args(hint)
    value_type = types[0] if allows_none else hint
    is_list = get_origin(value_type) is tuple
    return Setting(
        name=field.name,
        default=field.default,
        value_type=get_args(value_type)[0] if is_list else value_type,
        is_list=is_list,
        allows_none=allows_none,
        **{"key": field.name, "panel": panel, **field.metadata},
    )


def _as_float(value: float) -> float:
    """Return a number as a float; a whole number may be too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` when a known name is close, else the known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(names)}"


def check_keywords(function: str, keywords: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword that a function does not have."""
    known = list(known)
    for name in keywords:
        if name not in known:
            raise WarmstartError(f"{function} has no setting '{name}'{suggestion(name, known)}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise WarmstartError(f"{name} {value!r} is unknown{suggestion(str(value), choices)}")


def choose(table: Mapping[str, T], name: str, setting: str) -> T:
    """Return the entry of `table` with this name, or say what is allowed."""
    if name not in table:
        raise WarmstartError(f"{setting}={name!r} is unknown{suggestion(name, table)}")
    return table[name]


def read_settings_file(
    path: Path, command: str | None = None, flag: str = "--config "
) -> dict[str, Any]:
    """Return the keys of a TOML file, or of the config.json of a run that `command` wrote.

    An error names the flag that gave the file.
    """
    data = _read_recorded(path, command) if path.suffix == ".json" else _read_toml(path, flag)
    return {key.replace("-", "_"): value for key, value in data.items()}


def _read_recorded(path: Path, command: str | None) -> dict[str, Any]:
    data = read_object(path)
    writer = from_json(str, data.get("command", command or ""), path, "command")
    if command and writer != command:
        raise WarmstartError(f"--config {path} was written by {writer}, not {command}")
    return from_json(dict, data.get("settings", data), path, "settings")


def _read_toml(path: Path, flag: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WarmstartError(f"{flag}{path} {describe_missing(path)}") from None
    except OSError as error:
        raise WarmstartError(f"{flag}{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # the decoders raise ValueErrors
        raise WarmstartError(f"{flag}{path} cannot be read: {error}") from None


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
    return {key: Choice(value, _origin(key, given)) for key, value in values.items()}


def _origin(key: str, given: Mapping[str, str]) -> str:
    options = LENGTH_KEYS if key == "steps" else (key,)
    flags = [given[option] for option in options if option in given]
    return f"by {flags[0]}" if flags else "by default"


def describe(choices: Mapping[str, Choice]) -> str:
    """Write the settings in force in one line."""
    return ", ".join(f"{key.replace('_', ' ')} {_value(c)}" for key, c in choices.items())


def _value(choice: Choice) -> str:
    value = f"{choice.value:,}" if isinstance(choice.value, int) else f"{choice.value:.3g}"
    return f"{value} ({choice.chosen.removeprefix('by ')})"
