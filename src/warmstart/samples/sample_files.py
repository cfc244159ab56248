"""Write the built-in reviews as files: unlabelled text, labelled texts, sentence pairs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import get_args

from warmstart.errors import WarmstartError
from warmstart.samples.reviews import Review, attainable_accuracy, stream_reviews
from warmstart.samples.writer import Sentence
from warmstart.settings.starting import Language


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
    reviews = _distinct(stream_reviews(Random(seed)), language)
    # Labelled texts come first, so that they do not depend on the amount of unlabelled text.
    test = list(islice(reviews, sizes.test))
    valid, train = list(islice(reviews, sizes.valid)), list(islice(reviews, sizes.train))
    unlabelled = (review.text(language) for review in islice(reviews, sizes.unlabelled))
    pairs = _stream_pairs(Random(f"pairs {seed}"))
    train_pairs = list(islice(pairs, sizes.train_pairs))
    new_pairs = _unseen(pairs, set(chain.from_iterable(train_pairs)))
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


def _distinct(reviews: Iterable[Review], language: Language) -> Iterator[Review]:
    seen: set[str] = set()
    for review in reviews:
        text = review.text(language)
        if text not in seen:
            seen.add(text)
            yield review


def _stream_pairs(random: Random) -> Iterator[Sentence]:
    for review in stream_reviews(random):
        yield from zip(review.english, review.french, strict=True)


def _unseen(pairs: Iterable[Sentence], seen: set[str]) -> Iterator[Sentence]:
    for pair in pairs:
        if seen.isdisjoint(pair):
            seen.update(pair)
            yield pair


def _write_lines(path: Path, lines: Iterable[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def _write_labelled(path: Path, reviews: Iterable[Review], language: Language) -> Path:
    rows = (f"{review.label}\t{review.text(language)}" for review in reviews)
    return _write_lines(path, chain(["label\ttext"], rows))


def _write_pairs(stem: Path, pairs: Iterable[Sentence]) -> SentenceFiles:
    listed = list(pairs)
    return SentenceFiles(
        english=_write_lines(stem.with_suffix(".en"), (english for english, _ in listed)),
        french=_write_lines(stem.with_suffix(".fr"), (french for _, french in listed)),
    )
