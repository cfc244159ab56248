"""Where in a text each of its tokens stands, whatever the tokenizer does to case and spaces.

Compares letters, so it needs nothing from the library behind a tokenizer. Knows nothing about
special tokens.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from warmstart.tokenization.backends import HALF
from warmstart.tokenization.pieces import SPACE_MARK
from warmstart.tokenization.tokenizer import Tokenizer

Span = tuple[int, int]

_LONGEST = 8  # pieces that one character, or a few in a row, may be split into
_WINDOW = 64  # letters to look ahead for a piece behind one that could not be placed


def find_spans(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[Span]:
    """Return start and end of every token; one that cannot be placed gets what lies between."""
    letters, places = _letters(text)
    found: list[Span | None] = []
    cursor = 0
    for size, piece in _groups(tokenizer, ids):
        wanted = _letters(piece)[0]
        at = letters.find(wanted, cursor, cursor + _WINDOW + len(wanted)) if wanted else -1
        if at < 0 or (at > cursor and not (found and found[-1] is None)):
            found += [None] * size
            continue
        cursor = at + len(wanted)
        found += [(places[at], places[cursor - 1] + 1)] * size
    return _filled(found, len(text))


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text without case, accents and spaces, and where each stands."""
    letters, places = [], []
    for place, char in enumerate(text):
        for letter in unicodedata.normalize("NFKD", char.casefold()):
            if not letter.isspace() and letter != SPACE_MARK and not unicodedata.combining(letter):
                letters.append(letter)
                places.append(place)
    return "".join(letters), places


def _groups(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield pieces as text, those that are parts of one character together with their number."""
    start = 0
    while start < len(ids):
        piece = tokenizer.pieces(ids[start : start + 1])[0]
        size = 1
        if HALF in piece:
            for size in range(2, min(_LONGEST, len(ids) - start) + 1):
                piece = tokenizer.decode(ids[start : start + size])
                if HALF not in piece:
                    break
        yield size, piece.removeprefix("##") if tokenizer.kind == "wordpiece" else piece
        start += size


def _filled(found: Sequence[Span | None], length: int) -> list[Span]:
    """Give a token without a place all that lies between its neighbours."""
    spans: list[Span] = []
    for index, span in enumerate(found):
        if span is None:
            start = next((s[1] for s in reversed(found[:index]) if s is not None), 0)
            end = next((s[0] for s in found[index:] if s is not None), length)
            span = (start, max(start, end))
        spans.append(span)
    return spans
