"""Load the word lists and phrasings, ready to draw from, and set how often each kind occurs."""

import tomllib
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from random import Random
from typing import Any, Generic, TypeVar

from warmstart.samples.grammar import (
    Phrasing,
    Word,
    read_adjectives,
    read_nouns,
    read_phrases,
    read_phrasings,
    read_verbs,
)

WORD_OFFSET = 5.0  # a larger offset makes the first words of a list less dominant
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
OPINION_READERS = {
    "adj": read_adjectives,
    "trait": read_adjectives,
    "finish": read_adjectives,
    "effect": read_verbs,
    "act": read_verbs,
    "gem": read_nouns,
    "quality": read_phrases,
    "manner": read_phrases,
}
NEUTRAL_READERS = {
    "nouns": read_nouns,
    "adjectives": read_adjectives,
    "phrases": read_phrases,
    "names": read_phrases,
}
OPINIONS = {"positive": 1, "negative": -1}

T = TypeVar("T")


class WeightedChoice(Generic[T]):
    """Items to draw from, each with its weight."""

    def __init__(self, items: Iterable[T], weights: Iterable[float]) -> None:
        self.items = tuple(items)
        self._sums = list(accumulate(weights))

    def draw(self, random: Random) -> T:
        """Draw one item."""
        return self.items[bisect(self._sums, random.random() * self._sums[-1])]


def _ranked(items: Iterable[T], offset: float) -> WeightedChoice[T]:
    """Give the item of rank r, counted from 0, the weight 1 / (r + offset)."""
    items = tuple(items)
    return WeightedChoice(items, (1 / (rank + offset) for rank in range(len(items))))


@dataclass(frozen=True)
class ClauseType:
    """The properties that decide which clauses fit."""

    kind: str  # of KIND_SHARES
    opinion: int  # 1 praises, -1 blames
    is_negated: bool  # the word says the opposite
    is_joined: bool  # the clause is part of a longer sentence


@dataclass(frozen=True)
class World:
    """All words and phrasings."""

    kinds: WeightedChoice[str]
    neutral: dict[str, WeightedChoice[Word]]  # by slot
    opinionated: dict[tuple[str, int], WeightedChoice[Word]]  # by kind and by the word's opinion
    clauses: dict[ClauseType, WeightedChoice[Phrasing]]
    facts: WeightedChoice[Phrasing]
    openers: dict[int, WeightedChoice[Phrasing]]  # by opinion, like the next two
    tails: dict[int, WeightedChoice[Phrasing]]
    closings: dict[int, WeightedChoice[Phrasing]]
    pairs: dict[bool, WeightedChoice[Phrasing]]  # by whether the two clauses agree


@cache
def read_world() -> World:
    """Read all lists from the data files of this package."""
    words, opinions, phrasings = map(_read_toml, ("words", "opinions", "phrasings"))
    openers, pairs = phrasings["openers"], phrasings["pairs"]
    return World(
        kinds=WeightedChoice(KIND_SHARES, KIND_SHARES.values()),
        neutral={
            slot: _ranked(read(text), WORD_OFFSET)
            for table, read in NEUTRAL_READERS.items()
            for slot, text in words[table].items()
        },
        opinionated={
            (kind, opinion): _ranked(read(opinions[name][kind]), WORD_OFFSET)
            for kind, read in OPINION_READERS.items()
            for name, opinion in OPINIONS.items()
        },
        clauses=_read_clauses(phrasings["clauses"].values()),
        facts=_choice(phrasings["facts"]["text"]),
        openers={opinion: _choice(openers[n] + openers["any"]) for n, opinion in OPINIONS.items()},
        tails={opinion: _choice(phrasings["tails"][n]) for n, opinion in OPINIONS.items()},
        closings={
            opinion: _choice(phrasings["closings"][n], CLOSING_OFFSET)
            for n, opinion in OPINIONS.items()
        },
        pairs={True: _choice(pairs["agreeing"]), False: _choice(pairs["opposing"])},
    )


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))


def _choice(text: str, offset: float = PHRASING_OFFSET) -> WeightedChoice[Phrasing]:
    return _ranked(read_phrasings(text), offset)


def _read_clauses(tables: Iterable[dict[str, Any]]) -> dict[ClauseType, WeightedChoice[Phrasing]]:
    by_type: dict[ClauseType, list[Phrasing]] = {}
    for table in tables:
        for phrasing in read_phrasings(table["text"]):
            kind = next((slot for slot in phrasing.slots if slot in OPINION_READERS), PHRASE)
            for opinion in table["opinions"]:
                for is_joined in (False, True) if phrasing.is_joinable else (False,):
                    clause = ClauseType(kind, opinion, table["is_negated"], is_joined)
                    by_type.setdefault(clause, []).append(phrasing)
    return {clause: _ranked(listed, PHRASING_OFFSET) for clause, listed in by_type.items()}
