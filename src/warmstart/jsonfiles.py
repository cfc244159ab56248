"""Read JSON that anyone may have written: values of the types asked for, or one clear sentence.

Written JSON is strict: a number that is not finite becomes null.
"""

import json
import math
import os
import reprlib
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from warmstart.errors import WarmstartError

T = TypeVar("T")

LARGEST_FILE = 1 << 30  # bytes
MOST_VALUES = 1 << 24  # in a file; each takes about a hundred bytes of memory
DEEPEST = 100  # values inside each other
LARGEST_INT = (1 << 63) - 1
TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60  # characters
_SHORT.maxlist = 10


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    if not file.is_file():
        raise WarmstartError(f"{file} {'is not a file' if file.exists() else 'does not exist'}")
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size  # read(n) allocates n bytes, however few come
            content = stream.read(min(size, LARGEST_FILE) + 1)
    except OSError as error:
        raise WarmstartError(f"{file} cannot be read: {error.strerror}") from None
    return parse_object(content, file)


def parse_object(content: bytes, file: object) -> dict[str, Any]:
    """Return the JSON object in the content of a file."""
    if len(content) > LARGEST_FILE:
        raise WarmstartError(f"{file} has more than {LARGEST_FILE:,} bytes, too many for JSON")
    if has_many_values(content):
        raise WarmstartError(f"{file} has more than {MOST_VALUES:,} values, too many for JSON")
    try:
        text = content.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if _is_deep(value):
            raise RecursionError(f"more than {DEEPEST} values inside each other")
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise WarmstartError(f"{file}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise WarmstartError(f"{file}: must hold a JSON object, not {show(value)}")
    return value


def has_many_values(content: bytes) -> bool:
    """Tell whether JSON may have more values than memory should hold."""
    # An upper limit of their number: strings have commas too.
    return sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        if not level:
            break
        nested = (item for item in level if isinstance(item, dict | list))
        inner = (item.values() if isinstance(item, dict) else item for item in nested)
        level = [item for items in inner for item in items]
    return bool(level)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value as strict JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite_only(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _finite_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite_only(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_only(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(value: object) -> str:
    """Return a JSON value for a message, shortened; it may be long or deep."""
    is_word = value is None or isinstance(value, bool)
    return json.dumps(value) if is_word else _SHORT.repr(value)


def has_type(value: object, value_type: type) -> bool:
    """Tell whether a value has a plain type; an int is a float too, a bool is no number."""
    if isinstance(value, bool):
        return value_type is bool
    return isinstance(value, (int, float) if value_type is float else value_type)


def from_json(kind: type[T], value: object, file: object, key: str = "") -> T:
    """Return a JSON value as `kind`, whose every part has its declared type.

    Kinds are dataclasses, lists, tuples of any length, dicts, literals, plain types, each of these
    or None, and Any. Keys that a dataclass does not declare are ignored.
    """
    return cast(T, _read(kind, value, _Location(file, key)))


@dataclass(frozen=True)
class _Location:
    """Where a value is: in which file, under which key."""

    file: object
    key: str

    def of(self, key: str | int) -> "_Location":
        if isinstance(key, int):
            return _Location(self.file, f"{self.key}[{key}]")
        return _Location(self.file, f"{self.key}.{key}" if self.key else key)

    def refuse(self, value: object, allowed: str) -> NoReturn:
        raise WarmstartError(f"{self.file}: {self.key}={show(value)} must be {allowed}")


def _read(kind: Any, value: Any, location: _Location) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_fields(kind, value, location)
    if origin in (Union, UnionType):  # one kind or None
        inner = next(part for part in parts if part is not NoneType)
        return None if value is None else _read(inner, value, location)
    if origin is Literal:
        known = ", ".join(map(str, parts))
        return value if value in parts else location.refuse(value, f"one of {known}")
    if origin in (list, tuple):
        if not isinstance(value, list):
            location.refuse(value, "a list")
        return origin(_read(parts[0], item, location.of(i)) for i, item in enumerate(value))
    if origin is dict or kind is dict:
        if not isinstance(value, dict):
            location.refuse(value, "an object")
        inner = parts[1] if parts else Any
        return {key: _read(inner, item, location.of(key)) for key, item in value.items()}
    return _read_plain(kind, value, location)


def _read_plain(kind: type, value: Any, location: _Location) -> Any:
    if not has_type(value, kind):
        location.refuse(value, TYPE_NAMES[kind])
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        location.refuse(value, f"at most {LARGEST_INT:,}")
    return value


@cache
def _field_types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_fields(kind: Any, value: Any, location: _Location) -> Any:
    if not isinstance(value, dict):
        location.refuse(value, "an object")
    types = _field_types(kind)
    values = {}
    for field in fields(kind):
        if field.name in value:
            values[field.name] = _read(
                types[field.name], value[field.name], location.of(field.name)
            )
        elif field.default is MISSING and field.default_factory is MISSING:
            raise WarmstartError(f"{location.file} has no '{location.of(field.name).key}'")
    return kind(**values)
