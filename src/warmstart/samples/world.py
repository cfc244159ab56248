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
    read_adjectives,
    read_nouns,
    read_phrases,
    read_phrasings,
    read_verbs,
)

WORD_OFFSET = 5.0  # a larger offset makes the first words of a list less dominant
PHRASING_OFFSET = 30.0
CLOSING_OFFSET = 0.5
OPINION_KINDS = {  # how the words are read, and how often an opinion is of that kind
    "adj": (read_adjectives, 0.38),
    "trait": (read_adjectives, 0.11),
    "finish": (read_adjectives, 0.03),
    "effect": (read_verbs, 0.10),
    "act": (read_verbs, 0.07),
    "gem": (read_nouns, 0.09),
    "quality": (read_phrases, 0.10),
    "manner": (read_phrases, 0.06),
}
PHRASE = "phrase"  # a set phrase, whose opinion is in no single word
PHRASE_SHARE = 0.06
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
        return self.items[bisect(self._sums, random.random() * self._sums[-1])]


def _rank_weights(items: Iterable[T], offset: float) -> WeightedChoice[T]:
    """Give the item of rank r, counted from 0, the weight 1 / (r + offset)."""
    items = tuple(items)
    return WeightedChoice(items, (1 / (rank + offset) for rank in range(len(items))))


@dataclass(frozen=True)
class ClauseType:
    """The properties that decide which clauses fit."""

    kind: str  # of OPINION_KINDS, or PHRASE
    opinion: int  # 1 praises, -1 blames
    is_negated: bool  # the word says the opposite
    is_joined: bool  # the clause is part of a longer sentence


class World:
    """All words and phrasings, read from the data files of this package."""

    def __init__(self) -> None:
        words, opinions, phrasings = (
            tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))
            for name in ("words", "opinions", "phrasings")
        )
        shares = [share for _, share in OPINION_KINDS.values()]
        self.kinds = WeightedChoice([*OPINION_KINDS, PHRASE], [*shares, PHRASE_SHARE])
        self.neutral = {  # by slot
            slot: _rank_weights(read(text), WORD_OFFSET)
            for table, read in NEUTRAL_READERS.items()
            for slot, text in words[table].items()
        }
        self.opinionated = {  # by kind and by the word's opinion
            (kind, opinion): _rank_weights(read(opinions[name][kind]), WORD_OFFSET)
            for kind, (read, _) in OPINION_KINDS.items()
            for name, opinion in OPINIONS.items()
        }
        self.clauses = _read_clauses(phrasings["clauses"].values())
        self.facts = _choice(phrasings["facts"]["text"])
        self.openers: dict[int, WeightedChoice[Phrasing]] = {}  # by opinion, like the next two
        self.tails: dict[int, WeightedChoice[Phrasing]] = {}
        self.closings: dict[int, WeightedChoice[Phrasing]] = {}
        for name, opinion in OPINIONS.items():
            openers = phrasings["openers"]
            self.openers[opinion] = _choice(openers[name] + openers["any"])
            self.tails[opinion] = _choice(phrasings["tails"][name])
            self.closings[opinion] = _choice(phrasings["closings"][name], CLOSING_OFFSET)
        self.pairs = {  # by whether the two clauses agree
            True: _choice(phrasings["pairs"]["agreeing"]),
            False: _choice(phrasings["pairs"]["opposing"]),
        }


@cache
def read_world() -> World:
    """Return the world; it is read once."""
    return World()


def _choice(text: str, offset: float = PHRASING_OFFSET) -> WeightedChoice[Phrasing]:
    return _rank_weights(read_phrasings(text), offset)


def _read_clauses(tables: Iterable[dict[str, Any]]) -> dict[ClauseType, WeightedChoice[Phrasing]]:
    by_type: dict[ClauseType, list[Phrasing]] = {}
    for table in tables:
        for phrasing in read_phrasings(table["text"]):
            kind = next((slot for slot in phrasing.slots if slot in OPINION_KINDS), PHRASE)
            for opinion in table["opinions"]:
                for is_joined in (False, True) if phrasing.is_joinable else (False,):
                    clause = ClauseType(kind, opinion, table["is_negated"], is_joined)
                    by_type.setdefault(clause, []).append(phrasing)
    return {clause: _rank_weights(listed, PHRASING_OFFSET) for clause, listed in by_type.items()}
