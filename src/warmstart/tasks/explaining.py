"""Why a model answers so: what each word of a text changes.

A Transformer labels the text again without each word. In a long text each sentence is left out
first, then each word of the sentences that change most. A linear model adds up contributions of
words and their parts, so it tells them without a second look.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.data.corpus import cut_chunks
from warmstart.data.sentences import CLOSERS, FULL_STOPS, STOPS
from warmstart.errors import WarmstartError
from warmstart.formats import Brief, one_line

MOST_WORDS = 200  # left out one by one; a text with more is divided into sentences first
MOST_SENTENCES = 50  # left out one by one; neighbours are joined where there are more
MOST_READINGS = MOST_WORDS + MOST_SENTENCES  # of one text
SHOWN_WORDS = 5  # of an explanation, on a line or in a table; JSON has all
CHUNK, CHUNK_CHARS = 1024, 2_000_000  # texts without a word that are encoded together, at most
Span = tuple[int, int]
Predict = Callable[[list[str], list[str] | None], list[Any]]
_WORD = re.compile(r"\S+\s*")
_stops, _full, _closers = map(re.escape, (STOPS, FULL_STOPS, CLOSERS))
# A run of stops is tried from its first one alone, so that the search takes linear time.
_SENTENCE_END = re.compile(
    rf"(?:(?<![{_stops}])[{_stops}]++[{_closers}]*+(?=\s)|[{_full}]++[{_closers}]*+|\n)\s*"
)


class Explainable(Protocol):
    """A prediction that says how far another one supports it."""

    def support(self, other: Any) -> float:
        """Return the probability, or other number, that another prediction gives to this answer."""


@dataclass(frozen=True)
class PartWeight:
    """A word, or a sentence, and how much it speaks for the answer; negative: against it."""

    text: str
    weight: float
    without: Any = None  # the prediction without it; None: the weight is a contribution


@dataclass(frozen=True)
class Explanation(Brief):
    """A prediction, and what each word has to do with it, in the order of the text."""

    prediction: Any
    words: tuple[PartWeight, ...]  # of a long text, those of the sentences that change most
    sentences: tuple[PartWeight, ...] = ()  # of a long text alone

    def strongest(self, num: int) -> list[PartWeight]:
        """Return the words with the largest weights, for or against."""
        return sorted(self.words, key=lambda word: -abs(word.weight))[:num]

    @property
    def decisive_words(self) -> str:
        """Return the words with the largest weights, and their weights, on one line."""
        words = self.strongest(SHOWN_WORDS)
        return ", ".join(f"{one_line(word.text)} {word.weight:+.2f}" for word in words)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a table."""
        return {**self.prediction.columns(), "words": self.decisive_words}


def word_spans(text: str) -> list[Span]:
    """Return where words begin and end, with the white space after them."""
    return [found.span() for found in _WORD.finditer(text)]


def sentence_spans(text: str) -> list[Span]:
    """Return where sentences begin and end; of very many, neighbours are one."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    spans = [pair for pair in pairwise((0, *ends, len(text))) if text[slice(*pair)].strip()]
    size = -(-len(spans) // MOST_SENTENCES) or 1
    groups = [spans[i : i + size] for i in range(0, len(spans), size)]
    return [(group[0][0], group[-1][1]) for group in groups]


def num_readings(text: str) -> int:
    """Return how often a text is read at most, besides once as it is."""
    return min(len(text.split()), MOST_READINGS)


def leave_out(text: str, span: Span) -> str:
    """Return a text without a part; no white space is left at its end."""
    start, end = span
    return (text[:start] + text[end:]).rstrip() if end == len(text) else text[:start] + text[end:]


def explain_by_omission(
    predict: Predict, texts: Sequence[str], texts2: Sequence[str] | None
) -> list[Explanation]:
    """Predict texts, and again without each word; of pairs, without each word of the first text."""
    omission = _Omission(predict, list(texts), None if texts2 is None else list(texts2))
    spans = list(map(word_spans, texts))
    is_long = [len(of_text) > MOST_WORDS for of_text in spans]
    sentences = [
        sentence_spans(text) if long else [] for text, long in zip(texts, is_long, strict=True)
    ]
    of_sentences = omission.weigh(sentences)
    tried = [
        _strongest_words(words, parts, weights) if weights else words[:MOST_WORDS]
        for words, parts, weights in zip(spans, sentences, of_sentences, strict=True)
    ]
    found = zip(omission.predictions, omission.weigh(tried), of_sentences, strict=True)
    return [Explanation(*of_text) for of_text in found]


class _Omission:
    """Texts with their predictions, to be compared with predictions without parts of them."""

    def __init__(self, predict: Predict, texts: list[str], texts2: list[str] | None) -> None:
        self.predict, self.texts, self.texts2 = predict, texts, texts2
        self.predictions: list[Any] = predict(texts, texts2)
        for prediction in self.predictions[:1]:
            if not hasattr(prediction, "support"):
                raise WarmstartError(
                    f"an answer like {prediction.label!r} has no probability of its own that words "
                    "could change: it cannot be explained"
                )

    def weigh(self, parts: Sequence[Sequence[Span]]) -> list[tuple[PartWeight, ...]]:
        """Return the weight of each part of each text; a text that is one part has none."""
        places = [
            (row, span)
            for row, spans in enumerate(parts)
            for span in spans
            if leave_out(self.texts[row], span).strip()
        ]
        weights: list[list[PartWeight]] = [[] for _ in parts]
        longest = max(map(len, self.texts), default=0)
        size = max(1, min(CHUNK, CHUNK_CHARS // max(1, longest)))
        for chunk in cut_chunks(places, size):
            remaining = [leave_out(self.texts[row], span) for row, span in chunk]
            seconds = self.texts2 and [self.texts2[row] for row, _ in chunk]
            without = self.predict(remaining, seconds or None)
            for (row, (start, end)), other in zip(chunk, without, strict=True):
                whole = self.predictions[row]
                change = whole.support(whole) - whole.support(other)
                weights[row].append(PartWeight(self.texts[row][start:end].strip(), change, other))
        return list(map(tuple, weights))


def _strongest_words(
    words: Sequence[Span], sentences: Sequence[Span], weights: Sequence[PartWeight]
) -> list[Span]:
    """Return the words of the sentences that change most, as many as may be left out."""
    chosen: list[Span] = []
    ranked = sorted(zip(sentences, weights, strict=True), key=lambda pair: -abs(pair[1].weight))
    for (start, end), _ in ranked:
        inside = [word for word in words if start <= word[0] < end]
        if chosen and len(chosen) + len(inside) > MOST_WORDS:
            break
        chosen += inside[:MOST_WORDS]
    return sorted(chosen)


def share_out(
    contributions: Mapping[str, float],
    occurrences: Iterable[tuple[str, Sequence[int]]],
    num_words: int,
) -> NDArray[np.float64]:
    """Divide what features contribute between the words that have them: (words,).

    `occurrences` are features with the numbers of the words that each covers.
    """
    covered = [(name, words) for name, words in occurrences if name in contributions]
    counts = Counter(name for name, _ in covered)
    weights = [0.0] * num_words
    for name, words in covered:
        share = contributions[name] / (counts[name] * len(words))
        for word in words:  # perhaps one word twice, of the two parts of `well-made`
            weights[word] += share
    return np.array(weights)


class WordNumbers:
    """Tells in which word, between white space, each character of a text in lower case is."""

    def __init__(self, text: str) -> None:
        self.text = text.lower()  # white space stays white space, so words keep their numbers
        self.words = text.split()
        starts = [found.start() for found in _WORD.finditer(self.text)]
        self._starts = np.array(starts, np.int64)

    def __call__(self, place: int) -> int:
        """Return the number of the word at a place."""
        return int(np.searchsorted(self._starts, place, side="right")) - 1
