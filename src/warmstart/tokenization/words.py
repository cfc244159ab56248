"""Find the pieces of a vocabulary that begin a word, for whole-word masking."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.tokenization.backends import HALF
from warmstart.tokenization.pieces import SPACE_MARK
from warmstart.tokenization.tokenizer import Tokenizer

INSIDE = "##"  # the mark of a WordPiece piece that continues a word


@dataclass(frozen=True)
class WordTable:
    """For every id, whether it begins a word and whether it is a word by itself."""

    begins: NDArray[np.bool_]  # (V,)
    alone: NDArray[np.bool_]  # (V,) punctuation: the next token begins a word too


def word_table(tokenizer: Tokenizer) -> WordTable:
    """Return where words begin, according to the pieces of a vocabulary."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    begins = follows_space(pieces, tokenizer.kind == "wordpiece")
    alone = np.array([_is_alone(piece) for piece in pieces])
    return WordTable(begins | alone | is_unspaced(pieces), alone)


def follows_space(pieces: list[str], is_wordpiece: bool) -> NDArray[np.bool_]:
    """Tell which pieces come after a space, by the mark that the vocabulary uses."""
    if is_wordpiece:
        return np.array([not piece.startswith(INSIDE) for piece in pieces])
    is_marked = np.array([piece.startswith(SPACE_MARK) or piece[:1].isspace() for piece in pieces])
    has_marks = any(piece.startswith(SPACE_MARK) for piece in pieces)
    return is_marked if has_marks else np.ones(len(pieces), np.bool_)


def is_unspaced(pieces: list[str]) -> NDArray[np.bool_]:
    """Tell which pieces begin with a character of a script without spaces."""
    first = np.array([ord(piece.lstrip(SPACE_MARK)[:1] or " ") for piece in pieces])
    is_east_asian = (first >= 0x2E80) & (first <= 0xA4CF) | (first >= 0xF900) & (first <= 0xFAFF)
    return is_east_asian | (first >= 0x20000)


def _is_alone(piece: str) -> bool:
    is_space = not piece.strip(SPACE_MARK)  # belongs to the next word
    return not is_space and not any(char.isalnum() or char == HALF for char in piece)
