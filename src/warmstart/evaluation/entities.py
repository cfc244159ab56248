"""Entities that tags mark: which tags may follow each other, which words an entity has, its scores.

Scores are those of `seqeval` in its strict mode: an entity counts if its kind, its first and its
last word are right.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from warmstart.data.tags import FIRST, INSIDE, LAST, Tags, split_tag

Floats = NDArray[np.float64]
TOGETHER = 512  # sentences that are decoded at a time


class EntitySpan(NamedTuple):
    """An entity: its first word, the word after its last, and its kind."""

    start: int
    end: int
    kind: str


def entity_spans(tags: Tags) -> list[EntitySpan]:
    """Return the entities that tags B-, I- and O mark; an I- that continues nothing marks none."""
    spans: list[EntitySpan] = []
    is_open = False
    for word, tag in enumerate(tags):
        letter, kind = split_tag(tag)
        if letter == FIRST:
            spans.append(EntitySpan(word, word + 1, kind))
            is_open = True
        elif letter == INSIDE and is_open and spans[-1].kind == kind:
            spans[-1] = spans[-1]._replace(end=word + 1)
        else:
            is_open = False
    return spans


@dataclass(frozen=True)
class Transitions:
    """Which tags may begin a sentence, follow each other and end it."""

    starts: NDArray[np.bool_]  # (C,)
    follows: NDArray[np.bool_]  # (C, C) from a tag to the next
    ends: NDArray[np.bool_]  # (C,)

    @classmethod
    def of(cls, classes: Sequence[str]) -> "Transitions":
        """Return the legal transitions between tags that mark entities."""
        split = [split_tag(tag) for tag in classes]
        has_ends = any(letter in LAST for letter, _ in split)

        def is_begun(letter: str) -> bool:
            return letter in (FIRST, INSIDE)

        def continues(letter: str) -> bool:
            return letter in (INSIDE, *LAST)

        def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
            if continues(after[0]):
                return is_begun(before[0]) and before[1] == after[1]
            return not (has_ends and is_begun(before[0]))

        return cls(
            np.array([not continues(letter) for letter, _ in split]),
            np.array([[may_follow(before, after) for after in split] for before in split]),
            np.array([not (has_ends and is_begun(letter)) for letter, _ in split]),
        )


def best_paths(scores: Sequence[Floats], legal: Transitions) -> list[list[int]]:
    """Return the best legal path through scores (words, C) of each sentence: Viterbi's algorithm.

    Scores add up: they are logarithms of probabilities.
    """
    order = sorted(range(len(scores)), key=lambda row: len(scores[row]))
    paths: list[list[int]] = [[] for _ in scores]
    for first in range(0, len(order), TOGETHER):
        rows = [row for row in order[first : first + TOGETHER] if len(scores[row])]
        if rows:
            together = _decode([scores[row] for row in rows], legal)
            for row, path in zip(rows, together, strict=True):
                paths[row] = path
    return paths


def _decode(scores: Sequence[Floats], legal: Transitions) -> list[list[int]]:
    lengths = np.array([len(of_words) for of_words in scores])
    B, T, C = len(scores), int(lengths.max()), scores[0].shape[1]
    padded = np.zeros((B, T, C))
    for row, of_words in enumerate(scores):
        padded[row, : len(of_words)] = of_words
    steps = np.where(legal.follows, 0.0, -np.inf)  # (C, C)
    best = padded[:, 0] + np.where(legal.starts, 0.0, -np.inf)  # (B, C)
    origins = np.zeros((T, B, C), np.int64)
    for t in range(1, T):
        through = best[:, :, None] + steps  # (B, C, C)
        origins[t] = through.argmax(1)
        extended = through.max(1) + padded[:, t]
        best = np.where((t < lengths)[:, None], extended, best)
    tags = (best + np.where(legal.ends, 0.0, -np.inf)).argmax(1)  # (B,)
    paths = np.zeros((B, T), np.int64)
    for t in reversed(range(T)):
        paths[:, t] = tags
        tags = np.where(t < lengths, origins[t][np.arange(B), tags], tags)
    return [paths[row, :length].tolist() for row, length in enumerate(lengths)]


@dataclass(frozen=True)
class EntityScores:
    """Precision, recall and their harmonic mean; zero where nothing was found or wanted."""

    precision: float
    recall: float
    f1: float
    num_true: int


def entity_scores(answers: Sequence[Tags], targets: Sequence[Tags]) -> dict[str, EntityScores]:
    """Return the scores of each kind of entity, and of all of them under the empty kind."""
    num_right, num_found, num_true = Counter[str](), Counter[str](), Counter[str]()
    for answer, target in zip(answers, targets, strict=True):
        found, true = set(entity_spans(answer)), set(entity_spans(target))
        for counts, spans in ((num_found, found), (num_true, true), (num_right, found & true)):
            counts.update(kind for span in spans for kind in (span.kind, ""))
    kinds = sorted({"", *num_found, *num_true})
    return {kind: _scores(num_right[kind], num_found[kind], num_true[kind]) for kind in kinds}


def _scores(num_right: int, num_found: int, num_true: int) -> EntityScores:
    return EntityScores(
        num_right / max(num_found, 1),
        num_right / max(num_true, 1),
        2 * num_right / max(num_found + num_true, 1),
        num_true,
    )


def f1_values(answers: Sequence[Tags], targets: Sequence[Tags]) -> Floats:
    """Return a value for each sentence, such that their mean is entity F1; see `ratio_values`."""
    right, counted = [], []
    for answer, target in zip(answers, targets, strict=True):
        found, true = set(entity_spans(answer)), set(entity_spans(target))
        right.append(2 * len(found & true))
        counted.append(len(found) + len(true))
    return ratio_values(right, counted)


def accuracy_values(answers: Sequence[Tags], targets: Sequence[Tags]) -> Floats:
    """Return a value for each sentence, such that their mean is the share of correct tags."""
    pairs = zip(answers, targets, strict=True)
    right = [sum(map(str.__eq__, answer, target)) for answer, target in pairs]
    return ratio_values(right, list(map(len, targets)))


def ratio_values(parts: Sequence[float], wholes: Sequence[float]) -> Floats:
    """Return values whose mean is sum(parts) / sum(wholes), to first order also when resampled.

    A sentence's value is the ratio plus its influence on it, so that the variance of the mean of
    the values is that of the ratio over the choice of sentences (the delta method).
    """
    part, whole = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    total = whole.sum()
    if not total:
        return np.zeros(len(part))
    ratio = part.sum() / total
    values: Floats = ratio + (part - ratio * whole) * (len(part) / total)
    return values
