"""Write the sentences of one reviewer: facts, opinions, and two opinions in one sentence.

An opinion is 1 (praise) or -1 (blame): that of its word, reversed by a negation.
"""

from random import Random
from typing import TypeVar

from warmstart.samples.grammar import Phrasing, Word, finish
from warmstart.samples.world import OPINION_KINDS, PHRASE, ClauseType, WeightedChoice, read_world

NEGATED_SHARE = 0.21  # of the opinions that a single word expresses
OPENED_SHARE = 0.20  # of the clauses that can follow an opening
TAILED_SHARE = 0.60  # of the single clauses that can be followed
EXCLAIMED_SHARE = 0.08  # of the opinions
CONSTANT_SLOTS = ("book", "first", "last", "role", "place", "time")  # the same in a whole review
NUM_TRIES = 20  # draws before a word may be repeated

Sentence = tuple[str, str]  # English, French
T = TypeVar("T")


class Writer:
    """A reviewer, who writes about one book and avoids repeating words."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._world = read_world()
        self._used: set[int] = set()  # identities of words and phrasings
        self._constant = {slot: self._draw(self._world.neutral[slot]) for slot in CONSTANT_SLOTS}

    def fact(self) -> Sentence:
        """Write a sentence without opinion."""
        return finish(*self._phrase(self._world.facts, 0), ".")

    def opinion(self, opinion: int) -> Sentence:
        """Write a sentence of one opinion, sometimes with words before or after the clause."""
        is_opened, is_tailed = self._chance(OPENED_SHARE), self._chance(TAILED_SHARE)
        clauses = self._clause(opinion, is_joined=is_opened or is_tailed)
        if is_opened:
            clauses = _join(self._phrase(self._world.openers[opinion], opinion), " ", clauses)
        if is_tailed:
            clauses = _join(clauses, ", ", self._phrase(self._world.tails[opinion], opinion))
        return finish(*clauses, self._mark())

    def opinions(self, first: int, second: int) -> Sentence:
        """Write a sentence of two opinions, joined according to whether they agree."""
        frame = self._draw(self._world.pairs[first == second])
        words = {}
        for slot, opinion in (("a", first), ("b", second)):
            english, french = self._clause(opinion, is_joined=True)
            words[slot] = Word(english, (french,))
        return finish(*frame.say(words), self._mark())

    def closing(self, opinion: int) -> Sentence:
        """Write the last sentence: advice to other readers."""
        return finish(*self._phrase(self._world.closings[opinion], opinion), self._mark())

    def _mark(self) -> str:
        return "!" if self._chance(EXCLAIMED_SHARE) else "."

    def _clause(self, opinion: int, is_joined: bool) -> Sentence:
        kind = self._world.kinds.draw(self._random)
        is_negated = kind != PHRASE and self._chance(NEGATED_SHARE)
        clauses = self._world.clauses[ClauseType(kind, opinion, is_negated, is_joined)]
        return self._phrase(clauses, -opinion if is_negated else opinion)

    def _phrase(self, phrasings: WeightedChoice[Phrasing], word_opinion: int) -> Sentence:
        phrasing = self._draw(phrasings)
        words = {}
        for slot in phrasing.slots:
            kind = slot.rstrip("2")
            if kind in OPINION_KINDS:
                choice = self._world.opinionated[kind, word_opinion]
            else:
                choice = self._world.neutral[kind]
            words[slot] = self._constant.get(slot) or self._draw(choice)
        return phrasing.say(words)

    def _draw(self, choice: WeightedChoice[T]) -> T:
        for _ in range(NUM_TRIES):
            item = choice.draw(self._random)
            if id(item) not in self._used:
                break
        self._used.add(id(item))
        return item

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _join(first: Sentence, between: str, second: Sentence) -> Sentence:
    return f"{first[0]}{between}{second[0]}", f"{first[1]}{between}{second[1]}"
