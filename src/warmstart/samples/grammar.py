"""French grammar: agreement of adjectives, articles, elision.

Covers the rules and exceptions that the word lists of this package need.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Masculine, feminine, both plurals; then masculine and feminine before a vowel.
ARTICLES = {
    "le": ("le ", "la ", "les ", "les ", "l'", "l'"),
    "un": ("un ", "une ", "des ", "des ", "un ", "une "),
    "ce": ("ce ", "cette ", "ces ", "ces ", "cet ", "cette "),
    "du": ("du ", "de la ", "des ", "des ", "de l'", "de l'"),
    "au": ("au ", "à la ", "aux ", "aux ", "à l'", "à l'"),
    "mon": ("mon ", "ma ", "mes ", "mes ", "mon ", "mon "),
    "quel": ("quel ", "quelle ", "quels ", "quelles ", "quel ", "quelle "),
}
# The first ending that fits is replaced.
_FEMININE = {"eux": "euse", "if": "ive", "el": "elle", "en": "enne", "er": "ère", "e": "e", "": "e"}
_PLURAL = {"s": "s", "x": "x", "al": "aux", "": "s"}
# No elision before an aspirated h and a few vowels: le héros, not l'héros.
_VOWEL = r"(?:[aeiouàâéèêëîïôûœ]|y\b|h)"
_ASPIRATED = (
    r"(?!hér(?:os|iss)|haine|hamac|hant|happé|hardi|hasard|hât|haut|hideux|hont|huit|onz|oui\b)"
)
_BEFORE_VOWEL = re.compile(rf"{_ASPIRATED}{_VOWEL}", re.IGNORECASE)
_ELIDED = re.compile(
    rf"(?<![\w'-])(?:([jndlsmt]|qu|lorsqu|puisqu)e|(l)a) (?={_BEFORE_VOWEL.pattern})", re.IGNORECASE
)
_IF_HE = re.compile(r"\b(s)i (?=ils?\b)", re.IGNORECASE)

_SLOT = re.compile(r"\{([^}]*)\}")
_AN = re.compile(r"\b([Aa]) (?=[aeiou])(?!useless|unique|one\b)")


def inflect(masculine: str, feminine: str = "", plural: str = "") -> tuple[str, str, str, str]:
    """Return the masculine, feminine and both plural forms; arguments override the rules."""
    feminine = feminine or _change_ending(masculine, _FEMININE)
    return masculine, feminine, plural or _change_ending(masculine, _PLURAL), feminine + "s"


def article(kind: str, agreement: int, following: str) -> str:
    """Return the form of an article that suits the noun and the word that follows it."""
    is_elided = agreement < 2 and _BEFORE_VOWEL.match(following)
    return ARTICLES[kind][agreement + 4 if is_elided else agreement]


def elide(text: str) -> str:
    """Elide vowels before another vowel: `que il` becomes `qu'il`, `si il` becomes `s'il`."""
    return _IF_HE.sub(r"\1'", _ELIDED.sub(r"\1\2'", text))


def _change_ending(word: str, endings: dict[str, str]) -> str:
    ending = next(ending for ending in endings if word.endswith(ending))
    return word.removesuffix(ending) + endings[ending]


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase in both languages, with what agreement depends on."""

    english: str
    french: tuple[str, ...]  # one form, or masculine, feminine and both plurals
    past: str = ""  # of English verbs
    agreement: int = 0  # of French nouns: 1 if feminine, plus 2 if plural
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
    """Read nouns; gender and number follow the French: m, f, mp or fp."""
    words = []
    for english, french in _entries(text):
        noun, _, tag = french.rpartition(" ")
        words.append(Word(english, (noun,), agreement=("m", "f", "mp", "fp").index(tag)))
    return words


def read_adjectives(text: str) -> list[Word]:
    """Read adjectives in the masculine, or with their irregular forms."""
    return [
        Word(english, inflect(*french.lstrip("^").split("/")), is_before=french[0] == "^")
        for english, french in _entries(text)
    ]


def read_verbs(text: str) -> list[Word]:
    """Read English verbs, with the past where it is irregular, and French participles."""
    words = []
    for english, french in _entries(text):
        base, _, past = english.partition("/")
        regular = re.sub(r"([^aeo])y$", r"\1i", base).removesuffix("e") + "ed"
        words.append(Word(base, (french,), past or regular))
    return words


def read_phrases(text: str) -> list[Word]:
    """Read phrases that never change; without `=` both languages share them."""
    return [Word(english, (french,)) for english, french in _entries(text)]


def _entries(text: str) -> list[tuple[str, str]]:
    entries = [entry.strip() for entry in re.split(r"[;\n]", text) if entry.strip()]
    pairs = [entry.partition(" = ") for entry in entries]
    return [(english, french or english) for english, _, french in pairs]


def read_phrasings(text: str) -> list[Phrasing]:
    """Read phrasings, one per line; a line may break after its `=`."""
    phrasings = []
    for line in re.sub(r" =\n +", " = ", text).splitlines():
        if line:
            english, french = line.split(" = ")
            slots = dict.fromkeys(slot.split(" ")[-1] for slot in _SLOT.findall(english))
            parts = _parts(english, _english_slot), _parts(french, _french_slot)
            phrasings.append(Phrasing(tuple(slots), *parts, english[-1] not in ".!?"))
    return phrasings


def finish(english: str, french: str, mark: str) -> tuple[str, str]:
    """Make two clauses sentences: articles, elision, a capital, and `mark` if none ends them."""
    if english[-1] not in ".!?":
        english, french = english + mark, french + (mark if mark == "." else f" {mark}")
    english, french = _AN.sub(r"\1n ", english), elide(french)
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def _parts(text: str, read_slot: Callable[[str], Part]) -> tuple[Part, ...]:
    pieces = enumerate(_SLOT.split(text))  # literal, slot, literal, slot, ..., literal
    return tuple(read_slot(p) if index % 2 else _literal(p) for index, p in pieces if p)


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
    return lambda words: words[head].french[words[name].agreement]


def _choice(options: str, name: str) -> Part:
    """Choose between singular and plural, or between the four forms of agreement."""
    forms = options.split("/")
    if len(forms) == 2:
        forms = [forms[0], forms[0], forms[1], forms[1]]
    return lambda words: forms[words[name].agreement]


def _noun_phrase(kind: str, name: str, adjective: str = "") -> Part:
    def say(words: Words) -> str:
        noun = words[name]
        phrase = noun.french[0]
        if adjective:
            form = words[adjective].french[noun.agreement]
            phrase = f"{form} {phrase}" if words[adjective].is_before else f"{phrase} {form}"
        return article(kind, noun.agreement, phrase) + phrase

    return say
