"""A Hugging Face config.json: every value is checked, and every error names its key."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import has_type, show

T = TypeVar("T")

TRUNCATE = "warmstart_truncate"  # our own key: what a classifier reads of a text that is too long
LARGEST = 1 << 24  # of any size; more is a mistake or an attack
LARGEST_NUMBER = 1e300


class HfConfig:
    """The keys of one config.json; a missing key has the default of its family's library."""

    def __init__(self, values: Mapping[str, Any], file: Path) -> None:
        self.values, self.file = values, file

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Refuse the folder because of the value of one key."""
        raise WarmstartError(f"{self.file}: {key}={show(self.values.get(key))} {reason}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; null means the default."""
        value = self.values.get(key)
        return default if value is None else value

    def size(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if value is None:
            raise WarmstartError(f"{self.file}: no {key}, which the shape of the model needs")
        if not has_type(value, int) or not 1 <= value <= LARGEST:
            self.refuse(key, f"must be a whole number from 1 to {LARGEST:,}")
        return int(value)

    def token(self, key: str) -> int | None:
        """Return a token id, or None."""
        value = self.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is not None and (not has_type(value, int) or not 0 <= value <= LARGEST):
            self.refuse(key, "must be a token id")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number that is not negative."""
        value = self.get(key, default)
        if not has_type(value, float) or not 0 <= value <= LARGEST_NUMBER:
            self.refuse(key, "must be a number from 0 up")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def choose(self, key: str, default: str, known: Mapping[str, T]) -> T:
        """Return the entry of `known` that the value names."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in known:
            self.refuse(key, f"is not supported; supported: {', '.join(known)}")
        return known[value]

    def require(self, key: str, allowed: Iterable[Any], reason: str) -> None:
        """Refuse a key that is present with a value other than these; True is not 1 here."""
        value = self.values.get(key)
        is_allowed = any(
            value == entry and isinstance(value, bool) == isinstance(entry, bool)
            for entry in allowed
        )
        if value is not None and not is_allowed:
            self.refuse(key, reason)
