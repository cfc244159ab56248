"""The built-in questions: passages about the lives of writers, asked in several ways.

Every passage tells of several persons and of several things that happened to each, with persons,
places, dates and works of the same kinds, so that the kind of an answer never gives it away: the
question says of whom and of what. A third of the questions join facts that the passage does not.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeVar

from warmstart.samples.tagged import MONTHS, PLACES
from warmstart.samples.world import read_world

T = TypeVar("T")
NUM_PERSONS = 3
NUM_RETOLD = 3  # facts of an unlabelled passage that it tells twice, as other text does, too
NUM_EVENTS = 2  # of each person
NUM_QUESTIONS, NUM_NONE = 6, 2  # about each passage, and how many of them without an answer
MORE_PLACES = ("Vienna", "Lisbon", "Naples", "Geneva", "Prague", "Bruges", "Cadiz", "Malmo")
WORKS = (
    *("The Glass Harbour", "A Winter Crossing", "The Last Orchard", "Salt and Paper"),
    *("The Blind Gardener", "Nine Letters", "The Quiet Engine", "Under the Bridge"),
    *("The Clockmaker", "A House of Wind", "The Red Ferry", "Small Mercies"),
)


@dataclass(frozen=True)
class Event:
    """Something that happened, how a passage tells it, and how each of its facts is asked for."""

    sentences: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]  # the slot that is the answer, and the question


EVENTS = (  # in the order of a life
    Event(
        (
            "{person} was born in {place} in {date}.",
            "In {date}, {person} was born in {place}.",
            "{place} is where {person} was born, in {date}.",
        ),
        (
            ("place", "Where was {person} born?"),
            ("date", "When was {person} born?"),
            ("person", "Who was born in {place}?"),
            ("place", "What is the birthplace of {person}?"),
        ),
    ),
    Event(
        (
            "{person} moved to {place} in {date}.",
            "In {date}, {person} moved to {place}.",
            "By {date}, {person} had left for {place}.",
        ),
        (
            ("place", "Where did {person} move?"),
            ("date", "When did {person} move to {place}?"),
            ("person", "Who moved to {place}?"),
            ("place", "To which town did {person} go to live?"),
        ),
    ),
    Event(
        (
            "{person} married a doctor in {place} in {date}.",
            "In {date}, {person} married a teacher in {place}.",
            "The wedding of {person} took place in {place} in {date}.",
        ),
        (
            ("place", "Where did {person} marry?"),
            ("date", "When did {person} marry?"),
            ("person", "Who married in {place}?"),
            ("date", "When was the wedding of {person}?"),
        ),
    ),
    Event(
        (
            "{person} published {work} in {date}.",
            "In {date}, {work} by {person} was published.",
            "{work}, which {person} had written, came out in {date}.",
        ),
        (
            ("work", "What did {person} publish?"),
            ("date", "When was {work} published?"),
            ("person", "Who wrote {work}?"),
            ("work", "Which book is by {person}?"),
        ),
    ),
    Event(
        (
            "{person} won a prize in {place} in {date}.",
            "In {date}, a prize was given to {person} in {place}.",
            "A jury in {place} gave {person} its prize in {date}.",
        ),
        (
            ("place", "Where did {person} win a prize?"),
            ("date", "When did {person} win a prize?"),
            ("person", "Who won a prize in {place}?"),
            ("person", "To whom was a prize given in {place}?"),
        ),
    ),
    Event(
        (
            "{person} died in {place} in {date}.",
            "In {date}, {person} died in {place}.",
            "{person} was buried in {place} in {date}.",
        ),
        (
            ("place", "Where did {person} die?"),
            ("date", "When did {person} die?"),
            ("person", "Who died in {place}?"),
            ("date", "In which year or month did the life of {person} end?"),
        ),
    ),
)


@dataclass(frozen=True)
class Fact:
    """One event with its facts."""

    event: Event
    slots: dict[str, str]  # person, date, and a place or a work


@dataclass(frozen=True)
class Question:
    """A question about a passage."""

    question: str
    context: str
    answer: str  # empty: the passage has none
    answer_start: int | None

    def line(self) -> str:
        """Return the question as a line of JSON."""
        return json.dumps(self.__dict__, ensure_ascii=False)


def stream_passages(random: Random) -> Iterator[tuple[str, list[Fact]]]:
    """Yield passages without end, with their facts."""
    while True:
        persons = _names(random)
        places, works = _random_order(PLACES + MORE_PLACES, random), _random_order(WORKS, random)
        facts = []
        for person in persons:
            birth = 1880 + int(random.random() * 60)
            for number in _random_order(range(len(EVENTS)), random)[:NUM_EVENTS]:
                has_work = "{work}" in EVENTS[number].sentences[0]
                thing = {"work": works.pop()} if has_work else {"place": places.pop()}
                date = _date(birth + 12 * number, random)
                facts.append(Fact(EVENTS[number], {"person": person, "date": date, **thing}))
        facts = _random_order(facts, random)
        sentences = (_pick(fact.event.sentences, random).format(**fact.slots) for fact in facts)
        yield " ".join(sentences), facts


def stream_retold(random: Random) -> Iterator[str]:
    """Yield passages that end by telling some of their facts again, in other words."""
    for passage, facts in stream_passages(random):
        again = []
        for fact in _random_order(facts, random)[:NUM_RETOLD]:
            told = [sentence.format(**fact.slots) for sentence in fact.event.sentences]
            again.append(_pick([other for other in told if other not in passage], random))
        yield " ".join((passage, *again))


def stream_questions(random: Random) -> Iterator[list[Question]]:
    """Yield the questions about one passage after the other."""
    for passage, facts in stream_passages(random):
        questions: dict[str, Question] = {}
        for num in range(1, NUM_QUESTIONS + 1):
            ask = _unanswerable if num <= NUM_NONE else _answerable
            while len(questions) < num:
                if (asked := ask(passage, facts, random)) is not None:
                    questions.setdefault(asked.question, asked)
        yield _random_order(list(questions.values()), random)


def _answerable(passage: str, facts: Sequence[Fact], random: Random) -> Question | None:
    fact = _pick(facts, random)
    slot, question = _pick(fact.event.questions, random)
    if slot not in fact.slots:
        return None
    answer = fact.slots[slot]
    sentence = next(s for s in passage.split(". ") if all(v in s for v in fact.slots.values()))
    start = passage.index(sentence) + sentence.index(answer)
    return Question(question.format(**fact.slots), passage, answer, start)


def _unanswerable(passage: str, facts: Sequence[Fact], random: Random) -> Question | None:
    """Ask of one event what the passage says of another: a person or a place that it has."""
    other, event = _pick(facts, random), _pick(EVENTS, random)
    _, question = _pick(event.questions, random)
    asked = {name for name in ("person", "place", "work") if f"{{{name}}}" in question}
    if not asked <= other.slots.keys() or len(asked) != 1:
        return None
    (name,) = asked
    told = (fact for fact in facts if fact.event is event)
    if any(fact.slots.get(name) == other.slots[name] for fact in told):
        return None
    return Question(question.format(**other.slots), passage, "", None)


def _names(random: Random) -> list[str]:
    """Return persons of whom no two share a name."""
    neutral = read_world().neutral
    sides = []
    for slot in ("first", "last"):
        words = [word.english for word in neutral[slot].items]
        sides.append(_random_order(words, random)[:NUM_PERSONS])
    return [" ".join(pair) for pair in zip(*sides, strict=True)]


def _date(year: int, random: Random) -> str:
    """Return a date of one of ten years."""
    year += int(random.random() * 10)
    return f"{_pick(MONTHS, random)} {year}" if random.random() < 0.5 else str(year)


def _pick(items: Sequence[T], random: Random) -> T:
    return items[int(random.random() * len(items))]


def _random_order(items: Sequence[T], random: Random) -> list[T]:
    return sorted(items, key=lambda _: random.random())


@dataclass(frozen=True, kw_only=True)
class QuestionSizes:
    """The number of questions in each file, and of passages without questions."""

    train: int = 1_200
    valid: int = 300
    test: int = 500
    passages: int = 8_000


@dataclass(frozen=True, kw_only=True)
class QuestionFiles:
    """The JSON lines that were written, and a text of other passages, one on each line."""

    train: Path
    valid: Path
    test: Path
    passages: Path


def write_questions(
    folder: Path, seed: int = 0, sizes: QuestionSizes | None = None
) -> QuestionFiles:
    """Write questions to `folder`; no passage occurs in two files."""
    sizes, by_passage = sizes or QuestionSizes(), stream_questions(Random(f"questions {seed}"))
    paths = {}
    for name in ("test", "valid", "train"):
        num = getattr(sizes, name)
        passages = islice(by_passage, -(-num // NUM_QUESTIONS))
        rows = [question for questions in passages for question in questions][:num]
        paths[name] = folder / f"questions-{name}.jsonl"
        _write_lines(paths[name], (row.line() for row in rows))
    texts = stream_retold(Random(f"passages {seed}"))
    others = folder / "passages.txt"
    _write_lines(others, islice(texts, sizes.passages))
    return QuestionFiles(passages=others, **paths)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
