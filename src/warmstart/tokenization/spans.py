"""Find the position of each token in its text, for any tokenizer.

Compares letters without case, accents and spaces, because not every library reports offsets.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from warmstart.tokenization.backends import HALF
from warmstart.tokenization.pieces import SPACE_MARK
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import INSIDE

Span = tuple[int, int]

_MAX_GROUP = 8  # pieces that one character, or a few in a row, may be split into
_WINDOW = 64  # letters to search for a piece after one that was not located


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
    filled: list[Span] = []
    for index, span in enumerate(spans):
        if span is None:
            start = next((s[1] for s in reversed(spans[:index]) if s is not None), 0)
            end = next((s[0] for s in spans[index:] if s is not None), length)
            span = (start, max(start, end))
        filled.append(span)
    return filled
