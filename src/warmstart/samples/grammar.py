"""Parse the word lists and phrasings, and put words into a phrasing in both languages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warmstart.samples.french import ARTICLES, article, elide, inflect

_SLOT = re.compile(r"\{([^}]*)\}")
_AN = re.compile(r"\b([Aa]) (?=[aeiou])(?!useless|unique|one\b)")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase in both languages, with what agreement depends on."""

    english: str
    past: str  # of English verbs
    french: tuple[str, ...]  # one form, or masculine, feminine and both plurals
    is_feminine: bool = False
    is_plural: bool = False
    is_before: bool = False  # a French adjective that precedes its noun


Words = Mapping[str, Word]
Part = Callable[[Words], str]


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A sentence pattern in both languages, with slots for words."""

    slots: tuple[str, ...]
    english: tuple[Part, ...]
    french: tuple[Part, ...]
    is_joinable: bool  # a plain clause, neither punctuated nor a fragment

    def say(self, words: Words) -> tuple[str, str]:
        """Return the English and the French clause with `words` in the slots."""
        return "".join([p(words) for p in self.english]), "".join([p(words) for p in self.french])


def read_nouns(text: str) -> list[Word]:
    """Read nouns whose French ends in m, f, mp or fp."""
    words = []
    for english, french in _entries(text):
        noun, _, tag = french.rpartition(" ")
        words.append(Word(english, "", (noun,), tag[0] == "f", tag.endswith("p")))
    return words


def read_adjectives(text: str) -> list[Word]:
    """Read adjectives in the masculine, or with their irregular forms."""
    return [
        Word(english, "", inflect(*french.lstrip("^").split("/")), is_before=french[0] == "^")
        for english, french in _entries(text)
    ]


def read_verbs(text: str) -> list[Word]:
    """Read English verbs, with the past where it is irregular, and French participles."""
    words = []
    for english, french in _entries(text):
        base, _, past = english.partition("/")
        words.append(Word(base, past or _past(base), (french,)))
    return words


def read_phrases(text: str) -> list[Word]:
    """Read phrases that never change; without `=` both languages share them."""
    return [Word(english, "", (french,)) for english, french in _entries(text)]


def read_phrasings(text: str) -> list[Phrasing]:
    """Read phrasings, one per line; a line may break after its `=`."""
    joined = re.sub(r" =\n +", " = ", text)
    return [_phrasing(*line.split(" = ")) for line in joined.splitlines() if line]


def finish(english: str, french: str, mark: str) -> tuple[str, str]:
    """Make two clauses sentences: articles, elision, a capital, and `mark` if none ends them."""
    if english[-1] not in ".!?":
        english, french = english + mark, french + (mark if mark == "." else f" {mark}")
    english, french = _AN.sub(r"\1n ", english), elide(french)
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def _phrasing(english: str, french: str) -> Phrasing:
    names = [slot.split(" ")[-1] for slot in _SLOT.findall(english)]
    return Phrasing(
        slots=tuple(dict.fromkeys(names)),
        english=_parts(english, _english_slot),
        french=_parts(french, _french_slot),
        is_joinable=english[-1] not in ".!?",
    )


def _parts(text: str, read_slot: Callable[[str], Part]) -> tuple[Part, ...]:
    pieces = _SLOT.split(text)  # literal, slot, literal, slot, ..., literal
    return tuple(
        read_slot(piece) if index % 2 else _literal(piece)
        for index, piece in enumerate(pieces)
        if piece
    )


def _literal(text: str) -> Part:
    return lambda words: text


def _english_slot(slot: str) -> Part:
    head, _, name = slot.rpartition(" ")
    if not head:
        return lambda words: words[name].english
    if head == "past":
        return lambda words: words[name].past
    return _choice(head, name)


def _french_slot(slot: str) -> Part:
    head, _, name = slot.rpartition(" ")
    if not head:
        return lambda words: words[name].french[0]
    if "/" in head:
        return _choice(head, name)
    kind, *rest = slot.split(" ")
    if kind in ARTICLES:
        return _noun_phrase(kind, *rest)
    return lambda words: _agree(words[head], words[name])


def _choice(options: str, name: str) -> Part:
    forms = options.split("/")
    if len(forms) == 2:
        return lambda words: forms[words[name].is_plural]
    return lambda words: forms[_agreement(words[name])]


def _noun_phrase(kind: str, name: str, adjective: str = "") -> Part:
    def say(words: Words) -> str:
        noun = words[name]
        phrase = noun.french[0]
        if adjective:
            form = _agree(words[adjective], noun)
            phrase = f"{form} {phrase}" if words[adjective].is_before else f"{phrase} {form}"
        return article(kind, noun.is_feminine, noun.is_plural, phrase) + phrase

    return say


def _agree(adjective: Word, noun: Word) -> str:
    return adjective.french[_agreement(noun)]


def _agreement(noun: Word) -> int:
    return noun.is_feminine + 2 * noun.is_plural


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if re.search(r"[^aeo]y$", base) else base + "ed"


def _entries(text: str) -> list[tuple[str, str]]:
    entries = [entry.strip() for entry in re.split(r"[;\n]", text) if entry.strip()]
    pairs = [entry.partition(" = ") for entry in entries]
    return [(english, french or english) for english, _, french in pairs]
