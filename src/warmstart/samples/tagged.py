"""The built-in tagged reviews: persons, places and dates, a tag for each word.

Some names are a person's or a place's, and only the words around them tell which: the words after
them as often as those before, so that a model that reads from left to right must guess.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from string import Formatter

from warmstart.data.tagged import find_words
from warmstart.data.tags import OUTSIDE
from warmstart.samples.samples import Writer
from warmstart.samples.world import read_world

TaggedWords = tuple[tuple[str, str], ...]  # words with their tags
FACT_SHARE = 0.4  # of the sentences: a fact of the reviews that the unlabelled text also has
AMBIGUOUS_SHARE = 0.5  # of the names in the other sentences: a person's or a place's
BOTH = (
    *("Florence", "Sydney", "Victoria", "Georgia", "Chelsea", "Paris", "Adelaide", "Charlotte"),
    *("Lourdes", "Vienna", "Austin", "Madison", "Savannah", "Alexandria", "Lincoln", "Jackson"),
)
PLACES = ("Lyon", "Dublin", "Oslo", "Toronto", "Porto", "Ghent", "Turin", "Leeds", "Bern", "Riga")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
SENTENCES = (
    "{person} gave me the book on {date} .",
    "{person} wrote it while living in {place} .",
    "{person} had read it twice before I did .",
    "{person} , who lent it to me , cried at the end .",
    "{person} and {person} disagree about the ending .",
    "{place} is where the story begins .",
    "{place} , where it all takes place , is described with care .",
    "{place} has never looked so grey in a novel .",
    "{place} lies under snow in the first chapter .",
    "I bought it in {place} on {date} .",
    "It was published in {place} in {date} .",
    "The author met {person} in {place} in {date} .",
    "We were all in {place} when {person} finished the last page .",
    "A friend called {person} had told me of it .",
    "From {place} to {place} , the journey takes three hundred pages .",
    "My copy arrived on {date} , and {person} took it at once .",
    "I may march through the rest of it in {date} .",
    "On {date} , {person} was still reading .",
)


def stream_tagged(random: Random) -> Iterator[TaggedWords]:
    """Yield tagged sentences without end."""
    while True:
        if random.random() < FACT_SHARE:
            yield _tag_fact(Writer(random).fact()[0])
        else:
            yield _fill(SENTENCES[int(random.random() * len(SENTENCES))], random)


def _fill(sentence: str, random: Random) -> TaggedWords:
    words: list[tuple[str, str]] = []
    for text, kind, *_ in Formatter().parse(sentence):
        words += ((word, OUTSIDE) for word in text.split())
        if kind:
            written = _date(random) if kind == "date" else _name(kind, random)
            words += _mark(written.split(), kind)
    return tuple(words)


def _mark(words: Iterable[str], kind: str) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words):
        yield word, f"{'I' if number else 'B'}-{kind}"


def _name(kind: str, random: Random) -> str:
    if random.random() < AMBIGUOUS_SHARE:
        return BOTH[int(random.random() * len(BOTH))]
    if kind == "place":
        return PLACES[int(random.random() * len(PLACES))]
    names = read_world().neutral
    return f"{names['first'].draw(random).english} {names['last'].draw(random).english}"


def _date(random: Random) -> str:
    month, year = MONTHS[int(random.random() * 12)], 1990 + int(random.random() * 30)
    day = 1 + int(random.random() * 28)
    forms = (f"{day} {month} {year}", f"{month} {year}", f"{month} {day} , {year}", f"{year}")
    return forms[int(random.random() * len(forms))]


def _tag_fact(sentence: str) -> TaggedWords:
    """Tag the names of authors and of places in a sentence of the reviews."""
    neutral = read_world().neutral
    first, last = ({word.english for word in neutral[slot].items} for slot in ("first", "last"))
    places = {word.english.split()[-1] for word in neutral["place"].items}
    words = [sentence[start:end] for start, end in find_words(sentence)]
    tagged: list[tuple[str, str]] = []
    for number, word in enumerate(words):
        tag = OUTSIDE
        if word in first and words[number + 1 : number + 2] and words[number + 1] in last:
            tag = "B-person"
        elif word in last and tagged and tagged[-1][1] == "B-person":
            tag = "I-person"
        elif word in places and word[0].isupper():
            tag = "B-place"
        tagged.append((word, tag))
    return tuple(tagged)


@dataclass(frozen=True, kw_only=True)
class TaggedSizes:
    """The number of sentences in each file."""

    train: int = 1_000
    valid: int = 400
    test: int = 600


@dataclass(frozen=True, kw_only=True)
class TaggedFiles:
    """The CoNLL files that were written."""

    train: Path
    valid: Path
    test: Path


def write_tagged(folder: Path, seed: int = 0, sizes: TaggedSizes | None = None) -> TaggedFiles:
    """Write tagged sentences to `folder`; none occurs twice."""
    sizes, sentences = sizes or TaggedSizes(), _distinct(stream_tagged(Random(f"tags {seed}")))
    test, valid, train = (
        _write_conll(folder / f"tags-{name}.conll", islice(sentences, getattr(sizes, name)))
        for name in ("test", "valid", "train")
    )
    return TaggedFiles(train=train, valid=valid, test=test)


def _distinct(sentences: Iterable[TaggedWords]) -> Iterator[TaggedWords]:
    seen: set[TaggedWords] = set()
    for words in sentences:
        if words not in seen:
            seen.add(words)
            yield words


def _write_conll(path: Path, sentences: Iterable[TaggedWords]) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for words in sentences:
            file.writelines(f"{word}\t{tag}\n" for word, tag in words)
            file.write("\n")
    return path
