"""A Hugging Face config.json, read with care: every value checked, every refusal names its key.

Knows nothing about families.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from warmstart.errors import WarmstartError

T = TypeVar("T")

LARGEST = 1 << 24  # of any size; more is a mistake or a trap


class Keys:
    """The keys of one config, with the defaults that the family's own library has."""

    def __init__(self, values: Mapping[str, Any], file: Path) -> None:
        self.values, self.file = values, file

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Refuse the folder for the value of one key."""
        raise WarmstartError(f"{self.file}: {key}={_shown(self.values.get(key))} {reason}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; null means the default."""
        value = self.values.get(key)
        return default if value is None else value

    def size(self, key: str, default: int | None = None) -> int:
        """Return a size."""
        value = self.get(key, default)
        if value is None:
            raise WarmstartError(f"{self.file}: no {key}, which the shape of the model needs")
        if not _is_int(value) or not 1 <= value <= LARGEST:
            self.refuse(key, f"must be a whole number from 1 to {LARGEST:,}")
        return int(value)

    def token(self, key: str) -> int | None:
        """Return a token id, or None."""
        value = self.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is not None and (not _is_int(value) or not 0 <= value <= LARGEST):
            self.refuse(key, "must be a token id")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number above or at zero."""
        value = self.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            self.refuse(key, "must be a number from 0 up")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def choose(self, key: str, default: str, known: Mapping[str, T]) -> T:
        """Return what a word stands for."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in known:
            self.refuse(key, f"is not one that warmstart has: {', '.join(known)}")
        return known[value]

    def require(self, key: str, allowed: Iterable[Any], reason: str) -> None:
        """Refuse a key that is there and has none of these values."""
        value = self.values.get(key)
        if value is not None and not any(
            value == one and _same_kind(value, one) for one in allowed
        ):
            self.refuse(key, reason)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _same_kind(value: object, other: object) -> bool:
    return isinstance(value, bool) == isinstance(other, bool)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
