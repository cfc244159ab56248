"""The built-in reviews, labels and sentence pairs, as texts and as files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import TypeVar, get_args

from warmstart.errors import WarmstartError
from warmstart.samples.grammar import Phrasing, Word, finish
from warmstart.samples.world import OPINION_KINDS, PHRASE, ClauseType, WeightedChoice, read_world
from warmstart.settings.using import Language

POSITIVE, NEGATIVE = "positive", "negative"
NUM_SENTENCES = (2, 3, 3, 3, 4, 4, 5)  # drawn evenly
FACT_SHARE = 0.20  # of the sentences
CLOSING_SHARE = 0.30  # of the reviews: the last sentence is advice
PAIRED_SHARE = 0.15  # of the opinion sentences: they have two clauses
OPPOSED_SHARE = 0.50  # of those: the first clause disagrees with the second
FOLLOWED_SHARE = 0.97  # of the opinions: they follow the reviewer's tendency
NOISE_SHARE = 0.04  # of the reviewers: their label contradicts their text
NEGATED_SHARE = 0.21  # of the opinions that a single word expresses
OPENED_SHARE = 0.20  # of the clauses that can follow an opening
TAILED_SHARE = 0.60  # of the single clauses that can be followed
EXCLAIMED_SHARE = 0.08  # of the opinions
CONSTANT_SLOTS = ("book", "first", "last", "role", "place", "time")  # the same in a whole review
NUM_TRIES = 20  # draws before a word may be repeated
Sentence = tuple[str, str]  # English, French
T = TypeVar("T")


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
    """Return the verdict: the majority of the opinions; in a tie, the last opinion."""
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


@dataclass(frozen=True, kw_only=True)
class SampleSizes:
    """The number of rows in each file."""

    unlabelled: int = 20_000  # reviews
    train: int = 1_600
    valid: int = 1_000
    test: int = 2_000
    train_pairs: int = 8_000  # sentences
    valid_pairs: int = 500
    test_pairs: int = 500


@dataclass(frozen=True, kw_only=True)
class SentenceFiles:
    """Two aligned files with one sentence per line."""

    english: Path
    french: Path


@dataclass(frozen=True, kw_only=True)
class SampleFiles:
    """The files written, and the accuracy that their test labels allow."""

    unlabelled: Path  # one review per line
    train: Path  # label, tab, text; with a header
    valid: Path
    test: Path
    train_pairs: SentenceFiles
    valid_pairs: SentenceFiles
    test_pairs: SentenceFiles
    attainable: float  # test accuracy of a classifier that understands every text


def write_samples(
    folder: Path, seed: int = 0, language: Language = "english", sizes: SampleSizes | None = None
) -> SampleFiles:
    """Write all files to `folder`: reviews in `language`, sentence pairs in both.

    No review occurs twice, in one file or in two. Training pairs may repeat short sentences; a
    sentence of the validation or test pairs occurs nowhere else among the pairs.
    """
    if language not in get_args(Language):
        allowed = ", ".join(get_args(Language))
        raise WarmstartError(f"language={language} must be one of: {allowed}")
    sizes = sizes or SampleSizes()
    folder.mkdir(parents=True, exist_ok=True)
    reviews = distinct_reviews(stream_reviews(Random(seed)), language)
    # Labelled texts come first, so that they do not depend on the amount of unlabelled text.
    test = list(islice(reviews, sizes.test))
    valid, train = list(islice(reviews, sizes.valid)), list(islice(reviews, sizes.train))
    unlabelled = (review.text(language) for review in islice(reviews, sizes.unlabelled))
    pairs = _stream_pairs(Random(f"pairs {seed}"))
    train_pairs = list(islice(pairs, sizes.train_pairs))
    new_pairs = _new_pairs(pairs, set(chain.from_iterable(train_pairs)))
    return SampleFiles(
        unlabelled=_write_lines(folder / "unlabelled.txt", unlabelled),
        train=_write_labelled(folder / "train.tsv", train, language),
        valid=_write_labelled(folder / "valid.tsv", valid, language),
        test=_write_labelled(folder / "test.tsv", test, language),
        train_pairs=_write_pairs(folder / "train", train_pairs),
        valid_pairs=_write_pairs(folder / "valid", islice(new_pairs, sizes.valid_pairs)),
        test_pairs=_write_pairs(folder / "test", islice(new_pairs, sizes.test_pairs)),
        attainable=attainable_accuracy(test),
    )


def distinct_reviews(reviews: Iterable[Review], language: Language) -> Iterator[Review]:
    """Yield the reviews whose text did not occur before."""
    seen: set[str] = set()
    for review in reviews:
        text = review.text(language)
        if text not in seen:
            seen.add(text)
            yield review


def _stream_pairs(random: Random) -> Iterator[Sentence]:
    for review in stream_reviews(random):
        yield from zip(review.english, review.french, strict=True)


def _new_pairs(pairs: Iterable[Sentence], seen: set[str]) -> Iterator[Sentence]:
    for pair in pairs:
        if seen.isdisjoint(pair):
            seen.update(pair)
            yield pair


def _write_lines(path: Path, lines: Iterable[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def _write_labelled(path: Path, reviews: Iterable[Review], language: Language) -> Path:
    rows = ((review.label, review.text(language)) for review in reviews)
    return write_rows(path, ("label", "text"), rows)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Write a table with tabs between the fields."""
    return _write_lines(path, map("\t".join, chain([header], rows)))


def _write_pairs(stem: Path, pairs: Iterable[Sentence]) -> SentenceFiles:
    listed = list(pairs)
    return SentenceFiles(
        english=_write_lines(stem.with_suffix(".en"), (english for english, _ in listed)),
        french=_write_lines(stem.with_suffix(".fr"), (french for _, french in listed)),
    )
