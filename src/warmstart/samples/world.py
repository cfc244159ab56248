"""The word lists and phrasings, read once and ready to draw from.

Says how often each kind of opinion and each rank of word occurs. Knows nothing about sentences in a
row.
"""

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from warmstart.samples import opinions, phrasings, words
from warmstart.samples.grammar import (
    Phrasing,
    Word,
    read_adjectives,
    read_nouns,
    read_phrases,
    read_phrasings,
    read_verbs,
)

WORD_OFFSET = 5.0  # larger is flatter: how much more often a list's first words are used
PHRASING_OFFSET = 30.0
CLOSING_OFFSET = 0.5
PHRASE = "phrase"  # a set phrase, whose opinion is in no single word
KIND_SHARES = {  # how often an opinion is of each kind
    "adj": 0.38,
    "trait": 0.11,
    "finish": 0.03,
    "effect": 0.10,
    "act": 0.07,
    "gem": 0.09,
    "quality": 0.10,
    "manner": 0.06,
    PHRASE: 0.06,
}
READERS = {
    "adj": read_adjectives,
    "trait": read_adjectives,
    "finish": read_adjectives,
    "effect": read_verbs,
    "act": read_verbs,
    "gem": read_nouns,
    "quality": read_phrases,
    "manner": read_phrases,
}
NEUTRAL = (
    (words.NOUNS, read_nouns),
    (words.ADJECTIVES, read_adjectives),
    (words.PHRASES, read_phrases),
    (words.NAMES, read_phrases),
)
SECTIONS = (  # phrasings, the opinions they can express, whether the word says the opposite
    (phrasings.STRAIGHT, (1, -1), False),
    (phrasings.PRAISE, (1,), False),
    (phrasings.BLAME, (-1,), False),
    (phrasings.NEGATED, (1, -1), True),
    (phrasings.SPARED, (1,), True),
    (phrasings.MISSED, (-1,), True),
)

T = TypeVar("T")


class Urn(Generic[T]):
    """Things to draw, each with its weight."""

    def __init__(self, items: Iterable[T], weights: Iterable[float]) -> None:
        self.items = tuple(items)
        self._sums = list(accumulate(weights))

    def draw(self, random: Random) -> T:
        """Draw one thing."""
        return self.items[bisect(self._sums, random.random() * self._sums[-1])]


def _ranked(items: Iterable[T], offset: float) -> Urn[T]:
    """Return an urn in which the item of rank r, from 0, has weight 1 / (r + offset)."""
    items = tuple(items)
    return Urn(items, (1 / (rank + offset) for rank in range(len(items))))


@dataclass(frozen=True)
class Setting:
    """What decides which clauses fit."""

    kind: str  # of KIND_SHARES
    opinion: int  # +1 praises, -1 blames
    is_negated: bool  # the word says the opposite
    is_joined: bool  # the clause is part of a longer sentence


@dataclass(frozen=True)
class World:
    """Everything that can be said."""

    kinds: Urn[str]
    neutral: dict[str, Urn[Word]]  # by slot
    telling: dict[tuple[str, int], Urn[Word]]  # by kind, and by what the word says
    clauses: dict[Setting, Urn[Phrasing]]
    facts: Urn[Phrasing]
    openers: dict[int, Urn[Phrasing]]  # by opinion, like the next two
    tails: dict[int, Urn[Phrasing]]
    closings: dict[int, Urn[Phrasing]]
    pairs: dict[bool, Urn[Phrasing]]  # by whether the two clauses agree


@cache
def read_world() -> World:
    """Read all lists."""
    return World(
        kinds=Urn(KIND_SHARES, KIND_SHARES.values()),
        neutral={
            name: _ranked(read(text), WORD_OFFSET)
            for lists, read in NEUTRAL
            for name, text in lists.items()
        },
        telling={
            (kind, says): _ranked(read(lists[kind]), WORD_OFFSET)
            for kind, read in READERS.items()
            for says, lists in ((1, opinions.POSITIVE), (-1, opinions.NEGATIVE))
        },
        clauses=_read_clauses(),
        facts=_read_phrasings(phrasings.NEUTRAL),
        openers={
            opinion: _read_phrasings(text + phrasings.PREFACES)
            for opinion, text in phrasings.OPENERS.items()
        },
        tails={opinion: _read_phrasings(text) for opinion, text in phrasings.TAILS.items()},
        closings={
            opinion: _ranked(read_phrasings(text), CLOSING_OFFSET)
            for opinion, text in phrasings.CLOSINGS.items()
        },
        pairs={
            True: _read_phrasings(phrasings.AGREEING),
            False: _read_phrasings(phrasings.OPPOSING),
        },
    )


def _read_phrasings(text: str) -> Urn[Phrasing]:
    return _ranked(read_phrasings(text), PHRASING_OFFSET)


def _read_clauses() -> dict[Setting, Urn[Phrasing]]:
    found: dict[Setting, list[Phrasing]] = {}
    for text, signs, is_negated in SECTIONS:
        for phrasing in read_phrasings(text):
            kind = next((slot for slot in phrasing.slots if slot in READERS), PHRASE)
            for opinion in signs:
                for is_joined in (False, True)[: 1 + phrasing.is_joinable]:
                    manner = Setting(kind, opinion, is_negated, is_joined)
                    found.setdefault(manner, []).append(phrasing)
    return {manner: _ranked(listed, PHRASING_OFFSET) for manner, listed in found.items()}
