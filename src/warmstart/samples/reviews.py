"""Write book reviews with labels, in English and French.

Each reviewer tends to praise or to blame and writes facts and opinions. Most opinions follow that
tendency; some use a negated word, and some sentences hold two opinions. The verdict of a text is
the majority of its opinions; in a tie, the last one decides. A few reviewers give a label that
contradicts their text, so no classifier can be expected to exceed `attainable_accuracy`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from warmstart.samples.writer import Sentence, Writer
from warmstart.settings.starting import Language

POSITIVE, NEGATIVE = "positive", "negative"
NUM_SENTENCES = (2, 3, 3, 3, 4, 4, 5)  # drawn evenly
FACT_SHARE = 0.20  # of the sentences
CLOSING_SHARE = 0.30  # of the reviews: the last sentence is advice
PAIRED_SHARE = 0.15  # of the opinion sentences: they have two clauses
OPPOSED_SHARE = 0.50  # of those: the first clause disagrees with the second
FOLLOWED_SHARE = 0.97  # of the opinions: they follow the reviewer's tendency
NOISE_SHARE = 0.04  # of the reviewers: their label contradicts their text


@dataclass(frozen=True)
class Review:
    """One review in both languages."""

    english: tuple[str, ...]  # sentences
    french: tuple[str, ...]  # the same sentences, in order
    opinions: tuple[int, ...]  # 1 praises, -1 blames, in the order of the text
    verdict: str  # what the text says: positive or negative
    label: str  # what the reviewer chose

    def text(self, language: Language) -> str:
        """Return the whole review as one line."""
        return " ".join(self.english if language == "english" else self.french)


def judge(opinions: Sequence[int]) -> str:
    """Return the verdict: the majority of the opinions, or the last one in a tie."""
    balance = sum(opinions) or opinions[-1]
    return POSITIVE if balance > 0 else NEGATIVE


def stream_reviews(random: Random) -> Iterator[Review]:
    """Yield reviews without end."""
    while True:
        yield _write_review(random)


def attainable_accuracy(reviews: Sequence[Review]) -> float:
    """Return the share of labels that agree with the verdict of the text."""
    return sum(review.label == review.verdict for review in reviews) / len(reviews)


def _write_review(random: Random) -> Review:
    writer = Writer(random)
    tendency = 1 if random.random() < 0.5 else -1
    sentences: list[Sentence] = []
    opinions: list[int] = []
    num = NUM_SENTENCES[int(random.random() * len(NUM_SENTENCES))]
    for num_after in reversed(range(num)):
        if not num_after and random.random() < CLOSING_SHARE:
            expressed = _draw_opinions(random, tendency)[-1:]
            sentences.append(writer.closing(*expressed))
        elif random.random() < FACT_SHARE and (num_after or opinions):  # at least one opinion
            expressed = ()
            sentences.append(writer.fact())
        else:
            expressed = _draw_opinions(random, tendency)
            write = writer.opinion if len(expressed) == 1 else writer.opinions
            sentences.append(write(*expressed))
        opinions += expressed
    verdict = judge(opinions)
    opposite = NEGATIVE if verdict == POSITIVE else POSITIVE
    return Review(
        english=tuple(english for english, _ in sentences),
        french=tuple(french for _, french in sentences),
        opinions=tuple(opinions),
        verdict=verdict,
        label=opposite if random.random() < NOISE_SHARE else verdict,
    )


def _draw_opinions(random: Random, tendency: int) -> tuple[int, ...]:
    opinion = tendency if random.random() < FOLLOWED_SHARE else -tendency
    if random.random() >= PAIRED_SHARE:
        return (opinion,)
    return (-opinion if random.random() < OPPOSED_SHARE else opinion, opinion)
