"""Find near-copies by shingles: the overlapping windows of characters of a text.

A window is kept when its hash is below a limit, wherever it occurs, so that the samples of two
files agree on what they keep. The limit falls as text is added, so memory is bounded. Windows of 32
characters tell near-copies from texts that share phrases as well as windows of eight words do, and
need no spaces between words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CODE_BITS = 48  # of a hash that is kept: enough to distinguish millions of texts
WINDOW = 32  # characters; a power of two
CAPACITY = 1 << 20  # windows kept, at most twice as many while text is added
LEAST_WINDOWS = 3  # a text with fewer kept windows is not judged
NEAR_COPY = 0.5  # share of the windows of a near-copy that also occur elsewhere

_CHUNK_CHARS = 1 << 16  # hashed together
_BASE, _SPREAD, _MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class Shingles:
    """Sampled windows of texts."""

    codes: Codes  # (N,) below 2 ** (CODE_BITS - halvings)
    rows: Ints  # (N,) the number of each window's text, rising
    halvings: int = 0  # how often the share that is kept was halved

    def thinned(self, halvings: int) -> "Shingles":
        """Return what a sample with more halvings would have kept."""
        is_kept = self.codes >> np.uint64(CODE_BITS - halvings) == 0
        return Shingles(self.codes[is_kept], self.rows[is_kept], max(halvings, self.halvings))

    def near_copies(self, known: "Shingles", num_rows: int) -> Flags:
        """Tell which of the texts share most of their windows with the known texts."""
        own, known = _same_sample(self, known)
        return own._judged(np.isin(own.codes, known.codes), num_rows)

    def near_repeats(self, num_rows: int) -> Flags:
        """Tell which of the texts share most of their windows with earlier ones."""
        _, first, numbers = np.unique(self.codes, return_index=True, return_inverse=True)
        return self._judged(self.rows[first[numbers]] < self.rows, num_rows)

    def _judged(self, is_known: Flags, num_rows: int) -> Flags:
        num_windows = np.bincount(self.rows, minlength=num_rows)
        num_known = np.bincount(self.rows[is_known], minlength=num_rows)
        return (num_windows >= LEAST_WINDOWS) & (num_known >= NEAR_COPY * num_windows)

    def nearest(self, row: int, known: "Shingles") -> int:
        """Return the known text that has most windows in common with a text."""
        own, known = _same_sample(self, known)
        is_common = np.isin(known.codes, own.codes[own.rows == row])
        return int(np.bincount(known.rows[is_common]).argmax())


class ShingleSampler:
    """Collects the windows of passages, given one after the other."""

    def __init__(self) -> None:
        self._shingles = Shingles(np.empty(0, np.uint64), np.empty(0, np.int64))
        self._new: list[Shingles] = []
        self._chunk = _Chunk()

    def add(self, paragraphs: Sequence[str], first_row: int) -> None:
        """Add the windows of a passage, of which each paragraph is a row."""
        filled = [item for item in enumerate(paragraphs, first_row) if item[1]]
        for row, paragraph in filled:
            self._chunk.texts.append(f"{paragraph} ")
            self._chunk.rows.append(row)
            self._chunk.num_chars += len(paragraph) + 1
        self._chunk.stops += [self._chunk.num_chars - 1] * len(filled)
        if self._chunk.num_chars > _CHUNK_CHARS:
            self._hash()

    def sample(self) -> Shingles:
        """Return the windows kept so far."""
        self._hash()
        self._merge()
        return self._shingles

    def _hash(self) -> None:
        if self._chunk.texts:
            self._new.append(self._chunk.windows(self._shingles.halvings))
        self._chunk = _Chunk()
        if sum(len(part.codes) for part in self._new) > CAPACITY:
            self._merge()

    def _merge(self) -> None:
        self._shingles = join_shingles([self._shingles, *self._new])
        self._new = []


@dataclass
class _Chunk:
    """Paragraphs that are hashed together."""

    texts: list[str] = field(default_factory=list)  # each with a space after it
    rows: list[int] = field(default_factory=list)  # number of each paragraph
    stops: list[int] = field(default_factory=list)  # where the passage of each ends
    num_chars: int = 0

    def windows(self, halvings: int) -> Shingles:
        """Return the windows that the sample keeps, with the row where each begins."""
        joined = "".join(self.texts).encode("utf-32-le", "surrogatepass")
        codes = _hashed(np.frombuffer(joined, "<u4"))
        positions = np.flatnonzero(codes >> np.uint64(CODE_BITS - halvings) == 0)
        ends = np.cumsum([len(text) for text in self.texts])
        paragraphs = np.searchsorted(ends, positions, "right")
        is_inside = positions + WINDOW <= np.asarray(self.stops)[paragraphs]
        rows = np.asarray(self.rows, np.int64)[paragraphs[is_inside]]
        return Shingles(codes[positions[is_inside]], rows, halvings)


def join_shingles(parts: Sequence[Shingles]) -> Shingles:
    """Return the windows of several samples as one, thinned until they fit."""
    halvings = max(part.halvings for part in parts)
    thinned = [part.thinned(halvings) for part in parts]
    joined = Shingles(
        np.concatenate([part.codes for part in thinned]),
        np.concatenate([part.rows for part in thinned]),
        halvings,
    )
    while len(joined.codes) > CAPACITY:
        joined = joined.thinned(joined.halvings + 1)
    return joined


def _same_sample(first: Shingles, second: Shingles) -> tuple[Shingles, Shingles]:
    halvings = max(first.halvings, second.halvings)
    return first.thinned(halvings), second.thinned(halvings)


def _hashed(characters: NDArray[np.uint32]) -> Codes:
    """Return a hash of every window: a polynomial of its characters, then mixed."""
    codes = characters.astype(np.uint64) * np.uint64(_SPREAD)
    size, power = 1, _BASE
    while size < WINDOW:  # two windows of half the size make one
        codes = codes[:-size] * np.uint64(power) + codes[size:]
        size, power = 2 * size, power * power % 2**64
    codes ^= codes >> np.uint64(29)
    codes *= np.uint64(_MIX)
    return codes >> np.uint64(64 - CODE_BITS)
