"""Find texts that occur more than once, by fingerprints from which no text can be recovered.

Texts are the same when they differ only in case, spacing or equivalent Unicode forms.
"""

import base64
import binascii
import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.results.data import SharedTexts

Codes = NDArray[np.uint64]

_STORED_BYTES = 6  # of the 8 in a fingerprint: enough to distinguish millions of texts
_DROPPED_BITS = np.uint64(8 * (8 - _STORED_BYTES))
SORTED_CHUNK = 1 << 20  # fingerprints deduplicated together


def fingerprint(text: str) -> int:
    """Return a stable 64-bit hash of a text that ignores case, spacing and compatible forms."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    digest = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def fingerprints_of(texts: Sequence[str]) -> Codes:
    """Return the fingerprint of every text, in order."""
    return np.fromiter(map(fingerprint, texts), np.uint64, len(texts))


class Fingerprints:
    """A set of texts, stored as 48 bits each, that can only grow."""

    def __init__(self) -> None:
        self._codes = array("Q")
        self._num_settled = 0  # this many are sorted and distinct; later ones are not yet

    def add(self, text: str) -> None:
        self._codes.append(fingerprint(text) >> int(_DROPPED_BITS))
        if len(self._codes) > 2 * self._num_settled + SORTED_CHUNK:
            self._settle()

    def merge(self, other: "Fingerprints") -> None:
        self._codes.frombytes(other._settle().tobytes())

    def __len__(self) -> int:
        """Return the number of distinct texts."""
        return len(self._settle())

    def __contains__(self, text: str) -> bool:
        return bool(self.contain(np.array([fingerprint(text)], np.uint64))[0])

    def contain(self, codes: Sequence[int] | Codes) -> NDArray[np.bool_]:
        """Tell for each fingerprint whether its text is in the set."""
        wanted = np.asarray(codes, np.uint64) >> _DROPPED_BITS
        known = self._settle()
        if not len(known):
            return np.zeros(len(wanted), np.bool_)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.asarray(known[positions] == wanted)

    def to_text(self) -> str:
        """Return the set as base64, six bytes per text."""
        octets = self._settle().astype("<u8").view(np.uint8).reshape(-1, 8)
        return base64.b64encode(octets[:, :_STORED_BYTES].tobytes()).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> "Fingerprints":
        """Rebuild a set that `to_text` wrote."""
        try:
            packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
            packed = packed.reshape(-1, _STORED_BYTES)
        except (binascii.Error, ValueError):
            raise WarmstartError(
                f"fingerprints: {text[:20]!r}… is not base64 of {_STORED_BYTES} bytes per text"
            ) from None
        octets = np.zeros((len(packed), 8), np.uint8)
        octets[:, :_STORED_BYTES] = packed
        texts = cls()
        texts._codes.frombytes(octets.view("<u8").astype(np.uint64).tobytes())
        return texts

    def _settle(self) -> Codes:
        """Sort and deduplicate in place, with a peak near eight bytes per text."""
        codes = np.frombuffer(self._codes, np.uint64)
        if len(codes) == self._num_settled:
            return codes
        codes.sort()
        num = 0
        for start in range(0, len(codes), SORTED_CHUNK):
            chunk = codes[start : start + SORTED_CHUNK]
            is_new = np.ones(len(chunk), np.bool_)
            is_new[1:] = chunk[1:] != chunk[:-1]
            is_new[0] = not num or chunk[0] != codes[num - 1]
            distinct = chunk[is_new]
            codes[num : num + len(distinct)] = distinct
            num += len(distinct)
        del codes, chunk  # an array with a view cannot shrink
        del self._codes[num:]
        self._num_settled = num
        return np.frombuffer(self._codes, np.uint64)


def find_shared(named: Mapping[str, Sequence[int] | Codes]) -> list[SharedTexts]:
    """Compare every pair of files, in order, by the fingerprints of their rows."""
    rows = {name: np.asarray(codes, np.uint64) for name, codes in named.items()}
    distinct = {name: np.unique(codes) for name, codes in rows.items()}
    shared = []
    for a, b in combinations(named, 2):
        common = np.intersect1d(distinct[a], distinct[b], assume_unique=True)
        num_rows = int(np.isin(rows[b], common).sum())
        shared.append(SharedTexts(a=a, b=b, distinct=len(common), rows=num_rows))
    return shared


def count_repeats(codes: Sequence[int] | Codes) -> int:
    """Return the number of rows whose text occurs in an earlier row."""
    return len(codes) - len(np.unique(np.asarray(codes, np.uint64)))
