"""How long texts are: in words, or in characters of scripts without spaces between words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# Characters of a regular expression: Thai and Lao, Burmese, Khmer; Japanese, Chinese.
_SOUTHEAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_EAST_ASIAN = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = _SOUTHEAST_ASIAN + _EAST_ASIAN
_CHARS_PER_WORD = (  # about
    (re.compile(f"[{_EAST_ASIAN}]"), 2),
    (re.compile(f"[{_SOUTHEAST_ASIAN}]"), 4),
)


def count_words(text: str) -> int:
    """Return the number of words; where no spaces separate them, estimate it by the characters."""
    num_words = len(text.split())
    if text.isascii():
        return num_words
    return num_words + sum(len(of.findall(text)) // size for of, size in _CHARS_PER_WORD)


@dataclass
class TextLengths:
    """The lengths of texts, in words and in characters."""

    words: list[int] = field(default_factory=list)  # between spaces
    characters: list[int] = field(default_factory=list)
    num_unspaced: int = 0  # characters in scripts without spaces between words

    def add(self, texts: Iterable[str]) -> "TextLengths":
        """Measure more texts."""
        for text in texts:
            self.words.append(len(text.split()))
            self.characters.append(len(text))
            if not text.isascii():
                self.num_unspaced += sum(len(of.findall(text)) for of, _ in _CHARS_PER_WORD)
        return self

    @property
    def unit(self) -> str:
        """Return what says more of these texts: words or characters."""
        return "characters" if self.num_unspaced > sum(self.words) else "words"

    def sizes(self, unit: str) -> Sequence[int]:
        """Return the length of every text in words or characters."""
        return self.characters if unit == "characters" else self.words
