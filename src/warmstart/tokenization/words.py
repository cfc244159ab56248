"""Which pieces of a vocabulary begin a word: what whole-word masking needs to know.

Looks at pieces alone; knows nothing about ids in running text.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.tokenization.backends import HALF
from warmstart.tokenization.tokenizer import Tokenizer

SPACE = "▁"  # how a piece writes a space
INSIDE = "##"  # how WordPiece writes that a piece goes on with a word


@dataclass(frozen=True)
class WordTable:
    """For every id whether it begins a word, and whether it is one by itself."""

    begins: NDArray[np.bool_]  # (V,)
    alone: NDArray[np.bool_]  # (V,) punctuation: what follows begins a word too


def word_table(tokenizer: Tokenizer) -> WordTable:
    """Read off the vocabulary where words begin."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    begins = first_of_words(pieces, tokenizer.kind == "wordpiece")
    alone = np.array([_is_alone(piece) for piece in pieces])
    return WordTable(begins | alone | unspaced(pieces), alone)


def first_of_words(pieces: list[str], is_wordpiece: bool) -> NDArray[np.bool_]:
    """Tell which pieces come after a space, by the mark that the vocabulary uses."""
    if is_wordpiece:
        return np.array([not piece.startswith(INSIDE) for piece in pieces])
    marked = np.array([piece.startswith(SPACE) or piece[:1].isspace() for piece in pieces])
    has_marks = any(piece.startswith(SPACE) for piece in pieces)
    return marked if has_marks else np.ones(len(pieces), np.bool_)


def unspaced(pieces: list[str]) -> NDArray[np.bool_]:
    """Tell which pieces begin with a character of a script that puts no spaces."""
    first = np.array([ord(piece.lstrip(SPACE)[:1] or " ") for piece in pieces])
    is_east_asian = (first >= 0x2E80) & (first <= 0xA4CF) | (first >= 0xF900) & (first <= 0xFAFF)
    return is_east_asian | (first >= 0x20000)


def _is_alone(piece: str) -> bool:
    is_space = not piece.strip(SPACE)  # belongs to the word behind it
    return not is_space and not any(char.isalnum() or char == HALF for char in piece)
