"""Write the sentences of one reviewer: facts, opinions, and two opinions in one sentence.

An opinion is +1 (praise) or -1 (blame): what its word says, turned round by a negation. Knows
nothing about labels, verdicts or files.
"""

from random import Random
from typing import TypeVar

from warmstart.samples.grammar import Phrasing, Word, finish
from warmstart.samples.world import PHRASE, READERS, Setting, Urn, read_world

NEGATED_SHARE = 0.21  # of the opinions that rest on a word
OPENED_SHARE = 0.20  # of the clauses that can follow an opening
TAILED_SHARE = 0.60  # of the single clauses that can be followed
EXCLAIMED_SHARE = 0.08  # of the opinions
CONSTANT = ("book", "first", "last", "role", "place", "time")  # the same all through a review
NUM_TRIES = 20  # draws before a word may be said again

Sentence = tuple[str, str]  # English, French
T = TypeVar("T")


class Writer:
    """A reviewer, who speaks of one book and avoids saying the same thing twice."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._world = read_world()
        self._said: set[int] = set()  # identities of the words and phrasings used
        self._constant = {name: self._fresh(self._world.neutral[name]) for name in CONSTANT}

    def fact(self) -> Sentence:
        """Write a sentence without opinion."""
        return finish(*self._phrase(self._world.facts, 0), ".")

    def opinion(self, opinion: int) -> Sentence:
        """Write a sentence of one opinion, perhaps with words before and after the clause."""
        is_opened, is_tailed = self._chance(OPENED_SHARE), self._chance(TAILED_SHARE)
        clauses = self._clause(opinion, is_joined=is_opened or is_tailed)
        if is_opened:
            clauses = _join(self._phrase(self._world.openers[opinion], opinion), " ", clauses)
        if is_tailed:
            clauses = _join(clauses, ", ", self._phrase(self._world.tails[opinion], opinion))
        return finish(*clauses, self._mark())

    def opinions(self, first: int, second: int) -> Sentence:
        """Write a sentence of two opinions, joined as they agree or disagree."""
        frame = self._fresh(self._world.pairs[first == second])
        english_a, french_a = self._clause(first, is_joined=True)
        english_b, french_b = self._clause(second, is_joined=True)
        words = {"a": Word(english_a, "", (french_a,)), "b": Word(english_b, "", (french_b,))}
        return finish(*frame.say(words), self._mark())

    def closing(self, opinion: int) -> Sentence:
        """Write a last sentence: advice to other readers."""
        return finish(*self._phrase(self._world.closings[opinion], opinion), self._mark())

    def _mark(self) -> str:
        return "!" if self._chance(EXCLAIMED_SHARE) else "."

    def _clause(self, opinion: int, is_joined: bool) -> Sentence:
        kind = self._world.kinds.draw(self._random)
        is_negated = kind != PHRASE and self._chance(NEGATED_SHARE)
        fitting = self._world.clauses[Setting(kind, opinion, is_negated, is_joined)]
        return self._phrase(fitting, -opinion if is_negated else opinion)

    def _phrase(self, urn: Urn[Phrasing], says: int) -> Sentence:
        phrasing = self._fresh(urn)
        return phrasing.say(self._words(phrasing, says))

    def _words(self, phrasing: Phrasing, says: int) -> dict[str, Word]:
        words = {}
        for slot in phrasing.slots:
            name = slot.rstrip("2")
            urn = self._world.telling[name, says] if name in READERS else self._world.neutral[name]
            words[slot] = self._constant.get(slot) or self._fresh(urn)
        return words

    def _fresh(self, urn: Urn[T]) -> T:
        for _ in range(NUM_TRIES):
            item = urn.draw(self._random)
            if id(item) not in self._said:
                break
        self._said.add(id(item))
        return item

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _join(first: Sentence, between: str, second: Sentence) -> Sentence:
    return f"{first[0]}{between}{second[0]}", f"{first[1]}{between}{second[1]}"
