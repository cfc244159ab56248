"""Find texts that occur more than once, as copies or as near-copies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from warmstart.data.fingerprints import Fingerprints
from warmstart.data.shingles import Flags
from warmstart.results.data import NearCopy, SharedTexts

_SHOWN_CHARS = 120  # of an example


@dataclass(frozen=True)
class Matches:
    """Which texts also occur elsewhere."""

    copies: Flags  # (R,)
    near: Flags  # (R,) near-copies; none of them is a copy

    @property
    def both(self) -> Flags:
        """Tell which texts are copies or near-copies."""
        return self.copies | self.near

    def __or__(self, other: "Matches") -> "Matches":
        copies = self.copies | other.copies
        return Matches(copies, (self.near | other.near) & ~copies)


@dataclass(frozen=True)
class NamedTexts:
    """The fingerprints of a file, or of the training data of a run."""

    name: str
    fingerprints: Fingerprints
    text: Callable[[int], str] | None = None  # reads the text of a row; None: not kept


def find_matches(texts: Fingerprints, known: Fingerprints) -> Matches:
    """Tell which texts occur among the known ones."""
    copies = np.isin(texts.texts, known.known)
    near = texts.shingles.near_copies(known.shingles, len(texts))
    return Matches(copies, near & ~copies)


def find_shared(files: Sequence[NamedTexts]) -> list[SharedTexts]:
    """Compare every pair of files, in order."""
    return [
        describe_shared(a, b, find_matches(b.fingerprints, a.fingerprints))
        for a, b in combinations(files, 2)
    ]


def describe_shared(a: NamedTexts, b: NamedTexts, matches: Matches) -> SharedTexts:
    """Count the texts of `b` that occur in `a`, with an example of each kind."""
    copies, near = np.flatnonzero(matches.copies), np.flatnonzero(matches.near)
    return SharedTexts(
        a=a.name,
        b=b.name,
        distinct=len(np.unique(b.fingerprints.texts[copies])),
        rows=len(copies),
        near=len(near),
        copy=_shown(b, int(copies[0])) if len(copies) else None,
        near_copy=_near_copy(a, b, int(near[0])) if len(near) else None,
    )


def find_repeats(texts: Fingerprints) -> Matches:
    """Tell which texts occur in an earlier row."""
    copies = np.ones(len(texts), np.bool_)
    copies[np.unique(texts.texts, return_index=True)[1]] = False
    return Matches(copies, texts.shingles.near_repeats(len(texts)) & ~copies)


def count_seen(matches: Matches) -> dict[str, int]:
    """Return the counts that scores are reported with."""
    return {
        "seen_in_training": int(matches.copies.sum()),
        "nearly_seen_in_training": int(matches.near.sum()),
    }


def _near_copy(a: NamedTexts, b: NamedTexts, row: int) -> NearCopy:
    original = None
    if a.text:
        nearest = b.fingerprints.shingles.nearest(row, a.fingerprints.shingles)
        original = _shown(a, nearest)
    return NearCopy(text=_shown(b, row), original=original)


def _shown(texts: NamedTexts, row: int) -> str:
    assert texts.text is not None
    shown = " ".join(texts.text(row).split())
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
