"""Words in token ids: which pieces begin one, and where each token is in its text."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.tokenization.backends import HALF
from warmstart.tokenization.tokenizer import SPACE_MARK, Tokenizer

INSIDE = "##"  # the mark of a WordPiece piece that continues a word

Span = tuple[int, int]
_MAX_GROUP = 8  # pieces that one character, or a few in a row, may be split into
_WINDOW = 64  # letters to search for a piece after one that was not located


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


def find_spans(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[Span]:
    """Return start and end of every token; one not located spans the gap between its neighbours."""
    letters, positions = _letters(text)
    spans: list[Span | None] = []
    cursor = 0
    for size, piece in _groups(tokenizer, ids):
        wanted = _letters(piece)[0]
        at = letters.find(wanted, cursor, cursor + _WINDOW + len(wanted)) if wanted else -1
        if at < 0 or (at > cursor and not (spans and spans[-1] is None)):
            spans += [None] * size
            continue
        cursor = at + len(wanted)
        spans += [(positions[at], positions[cursor - 1] + 1)] * size
    return _fill_gaps(spans, len(text))


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text without case, accents and spaces, and their positions."""
    letters, positions = [], []
    for position, char in enumerate(text):
        for letter in unicodedata.normalize("NFKD", char.casefold()):
            if not letter.isspace() and letter != SPACE_MARK and not unicodedata.combining(letter):
                letters.append(letter)
                positions.append(position)
    return "".join(letters), positions


def _groups(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of pieces; those that share a character come together."""
    start = 0
    while start < len(ids):
        piece = tokenizer.pieces(ids[start : start + 1])[0]
        size = 1
        if HALF in piece:
            for size in range(2, min(_MAX_GROUP, len(ids) - start) + 1):
                piece = tokenizer.decode(ids[start : start + size])
                if HALF not in piece:
                    break
        yield size, piece.removeprefix(INSIDE) if tokenizer.kind == "wordpiece" else piece
        start += size


def _fill_gaps(spans: Sequence[Span | None], length: int) -> list[Span]:
    ends = []  # where the next token that was located begins
    for span in reversed(spans):
        length = length if span is None else span[0]
        ends.append(length)
    filled: list[Span] = []
    start = 0
    for span, end in zip(spans, reversed(ends), strict=True):
        filled.append((start, max(start, end)) if span is None else span)
        start = start if span is None else span[1]
    return filled
