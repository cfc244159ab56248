"""French grammar: agreement of adjectives, articles, elision.

Covers the rules and exceptions that the word lists of this package need.
"""

import re

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
