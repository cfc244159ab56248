"""The built-in world of book reviews: texts, labels and sentence pairs, in English and French.

Each reviewer leans to praise or to blame and writes facts and opinions; most opinions follow the
leaning, some rest on a negated word, some stand two in a sentence. The verdict of a text is the
opinion of the majority; when praise and blame are equal, the last opinion decides. A few reviewers
give stars against their own text, so that no reader can beat `attainable_accuracy`. Everything
follows from the seed. Knows nothing about tokens or models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Literal

from warmstart.samples.writer import Sentence, Writer

POSITIVE, NEGATIVE = "positive", "negative"
NUM_SENTENCES = (2, 3, 3, 3, 4, 4, 5)  # drawn evenly
FACT_SHARE = 0.20  # of the sentences
CLOSING_SHARE = 0.30  # of the reviews: the last sentence is advice
PAIRED_SHARE = 0.15  # of the opinion sentences: two clauses in one
OPPOSED_SHARE = 0.50  # of those: the first clause disagrees with the second
FOLLOWED_SHARE = 0.97  # of the opinions: as the reviewer leans
NOISE_SHARE = 0.04  # of the reviewers: stars against the text

Language = Literal["english", "french"]


@dataclass(frozen=True)
class Review:
    """One review in both languages."""

    english: tuple[str, ...]  # sentences
    french: tuple[str, ...]  # the same sentences, in order
    opinions: tuple[int, ...]  # +1 praises, -1 blames, in the order of the text
    verdict: str  # what the text says: positive or negative
    label: str  # what the reviewer's stars said

    def text(self, language: Language) -> str:
        """Return the whole review as one line."""
        return " ".join(self.english if language == "english" else self.french)


def judge(opinions: Sequence[int]) -> str:
    """Return the verdict: the majority, or the last opinion when there is none."""
    balance = sum(opinions) or opinions[-1]
    return POSITIVE if balance > 0 else NEGATIVE


def write_reviews(num: int, seed: int) -> list[Review]:
    """Write `num` reviews; the same seed always gives the same ones."""
    return list(islice(stream_reviews(Random(seed)), num))


def stream_reviews(random: Random) -> Iterator[Review]:
    """Write reviews without end."""
    while True:
        yield _write_review(random)


def attainable_accuracy(reviews: Sequence[Review]) -> float:
    """Return the share of labels that agree with the verdict of the text."""
    return sum(review.label == review.verdict for review in reviews) / len(reviews)


def _write_review(random: Random) -> Review:
    writer = Writer(random)
    leaning = 1 if random.random() < 0.5 else -1
    sentences: list[Sentence] = []
    opinions: list[int] = []
    num = NUM_SENTENCES[int(random.random() * len(NUM_SENTENCES))]
    for num_after in reversed(range(num)):
        if not num_after and random.random() < CLOSING_SHARE:
            voiced = _draw_opinions(random, leaning)[-1:]
            sentences.append(writer.closing(*voiced))
        elif random.random() < FACT_SHARE and (num_after or opinions):  # one opinion at least
            voiced = ()
            sentences.append(writer.fact())
        else:
            voiced = _draw_opinions(random, leaning)
            write = writer.opinion if len(voiced) == 1 else writer.opinions
            sentences.append(write(*voiced))
        opinions += voiced
    verdict = judge(opinions)
    return Review(
        english=tuple(english for english, _ in sentences),
        french=tuple(french for _, french in sentences),
        opinions=tuple(opinions),
        verdict=verdict,
        label=_opposite(verdict) if random.random() < NOISE_SHARE else verdict,
    )


def _draw_opinions(random: Random, leaning: int) -> tuple[int, ...]:
    opinion = leaning if random.random() < FOLLOWED_SHARE else -leaning
    if random.random() >= PAIRED_SHARE:
        return (opinion,)
    return (-opinion if random.random() < OPPOSED_SHARE else opinion, opinion)


def _opposite(label: str) -> str:
    return NEGATIVE if label == POSITIVE else POSITIVE
