"""Find texts that stand in more than one place, by fingerprints instead of the texts.

Texts are the same when they differ only in case, spacing or equivalent Unicode forms.
Knows nothing about files; a fingerprint cannot be turned back into its text.
"""

import base64
import binascii
import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError

Codes = NDArray[np.uint64]

_KEPT_BYTES = 6  # of the 8 in a fingerprint: enough to tell millions of texts apart
_DROPPED_BITS = np.uint64(8 * (8 - _KEPT_BYTES))
_CHUNK = 1 << 20


def fingerprint(text: str) -> int:
    """Return a stable 64-bit hash of a text, blind to case, spacing and compatible forms."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    digest = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def fingerprints_of(texts: Sequence[str]) -> Codes:
    """Return the fingerprint of every text, in order."""
    return np.fromiter(map(fingerprint, texts), np.uint64, len(texts))


class Fingerprints:
    """A set of texts seen, kept as 48 bits each, which can only grow."""

    def __init__(self) -> None:
        self._codes = array("Q")
        self._num_settled = 0  # this many are sorted and distinct; later ones wait

    def add(self, text: str) -> None:
        """Remember one text."""
        self._codes.append(fingerprint(text) >> int(_DROPPED_BITS))
        if len(self._codes) > 2 * self._num_settled + _CHUNK:
            self._settle()

    def merge(self, other: "Fingerprints") -> None:
        """Remember every text that another set has seen."""
        self._codes.frombytes(other._settle().tobytes())

    def __len__(self) -> int:
        """Return the number of distinct texts."""
        return len(self._settle())

    def __contains__(self, text: str) -> bool:
        return bool(self.contain(np.array([fingerprint(text)], np.uint64))[0])

    def contain(self, codes: Sequence[int] | Codes) -> NDArray[np.bool_]:
        """Say for each fingerprint whether its text was seen."""
        wanted = np.asarray(codes, np.uint64) >> _DROPPED_BITS
        known = self._settle()
        if not len(known):
            return np.zeros(len(wanted), np.bool_)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.asarray(known[places] == wanted)

    def to_text(self) -> str:
        """Return the set as base64, six bytes a text."""
        octets = self._settle().astype("<u8").view(np.uint8).reshape(-1, 8)
        return base64.b64encode(octets[:, :_KEPT_BYTES].tobytes()).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> "Fingerprints":
        """Rebuild a set that `to_text` wrote."""
        try:
            packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
            packed = packed.reshape(-1, _KEPT_BYTES)
        except (binascii.Error, ValueError):
            raise WarmstartError(
                f"fingerprints: {text[:20]!r}… is not base64 of {_KEPT_BYTES} bytes a text"
            ) from None
        octets = np.zeros((len(packed), 8), np.uint8)
        octets[:, :_KEPT_BYTES] = packed
        made = cls()
        made._codes.frombytes(octets.view("<u8").astype(np.uint64).tobytes())
        return made

    def _settle(self) -> Codes:
        """Sort and deduplicate in place, so that the peak stays near eight bytes a text."""
        codes = np.frombuffer(self._codes, np.uint64)
        if len(codes) == self._num_settled:
            return codes
        codes.sort()
        kept = 0
        for start in range(0, len(codes), _CHUNK):
            chunk = codes[start : start + _CHUNK]
            is_new = np.ones(len(chunk), np.bool_)
            is_new[1:] = chunk[1:] != chunk[:-1]
            is_new[0] = not kept or chunk[0] != codes[kept - 1]
            fresh = chunk[is_new]
            codes[kept : kept + len(fresh)] = fresh
            kept += len(fresh)
        del codes, chunk  # an array cannot shrink while it is looked at
        del self._codes[kept:]
        self._num_settled = kept
        return np.frombuffer(self._codes, np.uint64)


@dataclass(frozen=True)
class Shared:
    """Texts that two files have in common."""

    a: str
    b: str
    distinct: int  # different texts found in both
    rows: int  # rows of b that hold one of them


def find_shared(named: Mapping[str, Sequence[int] | Codes]) -> list[Shared]:
    """Compare every pair of files, in order, by the fingerprints of their rows."""
    rows = {name: np.asarray(codes, np.uint64) for name, codes in named.items()}
    distinct = {name: np.unique(codes) for name, codes in rows.items()}
    return [_compare(a, b, distinct, rows[b]) for a, b in combinations(named, 2)]


def _compare(a: str, b: str, distinct: Mapping[str, Codes], rows: Codes) -> Shared:
    common = np.intersect1d(distinct[a], distinct[b], assume_unique=True)
    return Shared(a, b, len(common), int(np.isin(rows, common).sum()))


def count_repeats(codes: Sequence[int] | Codes) -> int:
    """Return how many rows hold a text that an earlier row of the same file held."""
    return len(codes) - len(np.unique(np.asarray(codes, np.uint64)))
