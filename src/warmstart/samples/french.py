"""French grammar: agreement of adjectives, articles, elision.

Covers the rules and exceptions that the word lists of this package need.
"""

import re

# Masculine, feminine; the same before a vowel; plural masculine, plural feminine.
ARTICLES = {
    "le": ("le ", "la ", "l'", "l'", "les ", "les "),
    "un": ("un ", "une ", "un ", "une ", "des ", "des "),
    "ce": ("ce ", "cette ", "cet ", "cette ", "ces ", "ces "),
    "du": ("du ", "de la ", "de l'", "de l'", "des ", "des "),
    "au": ("au ", "à la ", "à l'", "à l'", "aux ", "aux "),
    "mon": ("mon ", "ma ", "mon ", "mon ", "mes ", "mes "),
    "quel": ("quel ", "quelle ", "quel ", "quelle ", "quels ", "quelles "),
}

_FEMININE_ENDINGS = (
    ("eux", "euse"),
    ("if", "ive"),
    ("el", "elle"),
    ("en", "enne"),
    ("er", "ère"),
    ("e", "e"),
)
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
    feminine = feminine or _feminine(masculine)
    return masculine, feminine, plural or _plural(masculine), feminine + "s"


def article(kind: str, is_feminine: bool, is_plural: bool, following: str) -> str:
    """Return the form of an article that suits the noun and the word that follows it."""
    row = 2 if is_plural else 1 if _BEFORE_VOWEL.match(following) else 0
    return ARTICLES[kind][2 * row + is_feminine]


def elide(text: str) -> str:
    """Elide vowels before another vowel: `que il` becomes `qu'il`, `si il` becomes `s'il`."""
    return _IF_HE.sub(r"\1'", _ELIDED.sub(r"\1\2'", text))


def _feminine(masculine: str) -> str:
    for ending, replacement in _FEMININE_ENDINGS:
        if masculine.endswith(ending):
            return masculine.removesuffix(ending) + replacement
    return masculine + "e"


def _plural(masculine: str) -> str:
    if masculine.endswith(("s", "x")):
        return masculine
    return masculine.removesuffix("al") + "aux" if masculine.endswith("al") else masculine + "s"
