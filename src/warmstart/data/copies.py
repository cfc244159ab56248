"""Texts that occur in two files, copies and near-copies."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from warmstart.data.detection import UnclearLabel
from warmstart.data.drift import Drift
from warmstart.data.fingerprints import (
    LEAST_WINDOWS,
    NEAR_COPY,
    Fingerprints,
    Flags,
    Ints,
    Shingles,
    distinct,
)
from warmstart.data.numbers import NumberSummary
from warmstart.formats import Brief

_SHOWN_CHARS = 120  # of an example


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """The content of one file."""

    file: str
    rows: int
    skipped: int  # empty rows
    unlabelled: int  # rows with a text, but without a label
    repeats: int  # rows whose text occurs in an earlier row
    near_repeats: int  # rows that are near-copies of earlier ones
    unit: str  # of lengths: words, characters or tokens
    shortest: int
    median: float
    long: float  # 95% of the texts are no longer
    longest: int
    units: int  # in total
    words: int  # in total; where no spaces separate them, an estimate
    truncated: int | None  # texts longer than --max-length
    unknown: float | None  # share of unknown tokens
    labels: dict[str, int] | None  # rows of each; None: there are none, or they are numbers
    numbers: NumberSummary | None = None  # of labels that are numbers
    contradictions: tuple["Contradiction", ...] = ()  # equal texts with different labels
    labels_file: str | None = None  # that has the labels, if they are in a file of their own
    unclear_label: UnclearLabel | None = None  # of a table whose texts are read without labels

    @property
    def num_labelled(self) -> int:
        """Return the rows with a text and a label."""
        has_labels = bool(self.labels or self.numbers)
        return self.rows - self.skipped - self.unlabelled if has_labels else 0


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A text that has different labels in different rows."""

    text: str
    labels: dict[str, int]  # rows with each label


@dataclass(frozen=True, kw_only=True)
class NearCopy:
    """A text that is nearly the same as another."""

    text: str
    original: str | None  # None: only fingerprints of it are kept


@dataclass(frozen=True, kw_only=True)
class SharedTexts:
    """Texts of a file that also occur in another file, or in the training data of a run."""

    a: str  # the other file, or the run
    b: str
    distinct: int  # different texts that are in both
    rows: int  # rows of b with one of them
    near: int  # rows of b that are near-copies; copies do not count
    copy: str | None  # the first copy
    near_copy: NearCopy | None  # the first near-copy


@dataclass(frozen=True, kw_only=True)
class DataReport(Brief):
    """The content of files, and the texts they share."""

    files: tuple[FileReport, ...]
    shared: tuple[SharedTexts, ...]
    against: tuple[SharedTexts, ...]  # texts in the training data of a run
    run: str | None
    drift: tuple[Drift, ...] = ()  # of each file; none: the run predicts no labels


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
        distinct=len(distinct(b.fingerprints.texts[copies])),
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


def find_contradictions(
    texts: Fingerprints, labels: Sequence[str], text: Callable[[int], str]
) -> tuple[Contradiction, ...]:
    """Return the texts that have several labels, in the order of their first rows."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, code in enumerate(texts.texts.tolist()):
        rows[code].append(row)
    counts = {copies[0]: Counter(labels[row] for row in copies) for copies in rows.values()}
    return tuple(
        Contradiction(text=_shorten(text(row)), labels=dict(sorted(of_text.items())))
        for row, of_text in counts.items()
        if len(of_text) > 1
    )


def count_seen(matches: Matches) -> dict[str, int]:
    """Return the numbers of copies and near-copies under the names that scores use."""
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
    return _shorten(texts.text(row))


def _shorten(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"


def group_copies(texts: Fingerprints) -> list[list[int]]:
    """Return the rows in groups: no text is a copy or near-copy of the texts of other groups."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, first, numbers = np.unique(texts.texts, return_index=True, return_inverse=True)
    links = [(np.arange(len(texts)), first[numbers])]  # each text with the first of its copies
    links += _near_links(texts.shingles, numbers)
    rows, others = (np.concatenate(ends) for ends in zip(*links, strict=True))
    graph = coo_array((np.ones(len(rows)), (rows, others)), shape=(len(texts), len(texts)))
    groups: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(connected_components(graph)[1].tolist()):
        groups[group].append(row)
    return list(groups.values())


def _near_links(shingles: Shingles, texts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Link every near-copy with the texts most like it; copies have the same number in `texts`.

    It is linked with as many as leave it less than a share of NEAR_COPY of its windows that also
    occur in texts without a link.
    """
    codes, windows = np.unique(shingles.codes, return_inverse=True)
    found_in = distinct(windows * len(texts) + shingles.rows)  # (P,) a window and a row
    starts = np.searchsorted(found_in, np.arange(len(codes) + 1) * len(texts))
    found_in %= len(texts)  # (P,) the rows of one window after the other
    is_common = np.diff(starts)[windows] > 1
    ends = np.searchsorted(shingles.rows, np.arange(len(texts) + 1))
    for row, (start, end) in enumerate(pairwise(ends)):
        least = int(np.ceil(NEAR_COPY * (end - start)))
        if end - start < LEAST_WINDOWS or is_common[start:end].sum() < least:
            continue
        own = [found_in[starts[window] : starts[window + 1]] for window in windows[start:end]]
        rows, ranks = _rank(np.concatenate(own), texts, row)
        last = [ranks[np.searchsorted(rows, others)].max() for others in own]  # of each window
        linked = rows[(ranks > 0) & (ranks <= np.sort(last)[-least])]
        yield np.full(len(linked), row), linked


def _rank(found: Ints, texts: Ints, row: int) -> tuple[Ints, Ints]:
    """Return the distinct rows found, and their ranks: 1 is the most frequent, 0 a copy."""
    rows, counts = np.unique(found, return_counts=True)
    is_copy = texts[rows] == texts[row]  # or the text itself
    ranks = np.empty(len(rows), np.int64)
    ranks[np.lexsort((texts[rows], -counts, is_copy))] = np.arange(1, len(rows) + 1)
    ranks[is_copy] = 0
    return rows, ranks
