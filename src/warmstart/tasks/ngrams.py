"""Count the n-grams of texts: of each text once, however many models are then fitted on it.

The cells of a comparison share most of their texts. The columns of a subset are those that a
vectorizer of scikit-learn finds in it, in the same order.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Ints = NDArray[np.integer[Any]]
NGRAMS: Mapping[str, Mapping[str, Any]] = {
    "words": {"token_pattern": r"\w+", "ngram_range": (1, 2)},  # words of one letter too
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}
CACHED_WORDS = 2**16  # most words of a text are among the frequent ones


@dataclass(frozen=True)
class CountedText:
    """The n-grams of one text."""

    ids: Ints  # distinct
    counts: Ints
    elapsed_s: float  # that it took to count them


class NgramCounter:
    """Counts the n-grams of one kind. Their ids depend on what was counted before."""

    def __init__(self, kind: str) -> None:
        from sklearn.feature_extraction.text import CountVectorizer  # when needed: it takes long

        self._ids: defaultdict[str, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__
        self._counted: dict[str, CountedText] = {}
        analyze = CountVectorizer(**NGRAMS[kind]).build_analyzer()
        self._ids_of: Callable[[str], Ints] = partial(self._analyze, analyze)
        if kind == "characters":  # no n-gram crosses white space, and words recur
            self._ids_of = partial(_join_words, lru_cache(CACHED_WORDS)(self._ids_of))

    def found_in(self, texts: Sequence[str], least: int) -> list[str]:
        """Return the n-grams that at least so many of the texts have, in alphabetical order."""
        frequencies = np.bincount(_joined([text.ids for text in self._count_all(texts)]))
        names = list(self._ids)
        return sorted(names[number] for number in np.flatnonzero(frequencies >= least))

    def columns(self, texts: Sequence[str], names: Sequence[str]) -> "csr_matrix":
        """Return how often each text (a row) has each of some n-grams (a column)."""
        from scipy.sparse import csr_matrix

        counted = self._count_all(texts)  # which may add n-grams
        column_of = np.full(len(self._ids), -1, np.int32)
        column_of[[self._ids[name] for name in names]] = np.arange(len(names))
        columns, counts = [], []  # row by row: all n-grams of all texts would take twice the memory
        for text in counted:
            numbers = column_of[text.ids]
            columns.append(numbers[numbers >= 0])
            counts.append(text.counts[numbers >= 0])
        starts = np.cumsum([0, *map(len, columns)])
        matrix = csr_matrix(
            (_joined(counts).astype(np.float64), _joined(columns), starts),
            shape=(len(texts), len(names)),
        )
        matrix.sort_indices()
        return matrix

    def counting_s(self, texts: Sequence[str]) -> float:
        """Return how long it takes to count texts, or took when they were counted."""
        return sum(text.elapsed_s for text in self._count_all(texts))

    def _count_all(self, texts: Sequence[str]) -> list[CountedText]:
        for text in texts:
            if text not in self._counted:
                self._counted[text] = self._count(text)
        return [self._counted[text] for text in texts]

    def _count(self, text: str) -> CountedText:
        started = time.monotonic()
        ids, counts = np.unique(self._ids_of(text), return_counts=True)
        narrow = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        return CountedText(ids, narrow, time.monotonic() - started)

    def _analyze(self, analyze: Callable[[str], Iterable[str]], text: str) -> Ints:
        return np.fromiter(map(self._ids.__getitem__, analyze(text)), np.int32)


def _join_words(ids_of: Callable[[str], Ints], text: str) -> Ints:
    return _joined([ids_of(word) for word in text.split()])


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
