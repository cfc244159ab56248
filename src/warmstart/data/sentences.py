"""Find where sentences end in token ids, for any tokenizer.

The properties of each piece are read once into tables over the vocabulary, so that texts are
searched without Python code per token. A line end always ends a sentence.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.tokenization.tokenizer import SPACE_MARK, Tokenizer
from warmstart.tokenization.words import INSIDE, follows_space, is_unspaced

Flags = NDArray[np.bool_]

STOPS = ".!?…؟۔।॥։‽⁇⁈⁉"  # end a sentence where a space follows
FULL_STOPS = "。！？｡．"  # end one without a space
CLOSERS = "\"'”’»›)]}」』）］】〉》"  # may follow the stop
SURE_CLOSERS = "”»›)]}」』）］】〉》"  # close a sentence even after a space
NEWLINES = re.compile(r"[\n\r\x0b\x0c\u2028\u2029]|<0x0A>")
CHAIN = 4  # closing marks and spaces that may follow a stop
CASED = 0.02  # a vocabulary with a larger share of capitalized pieces distinguishes case

_stops, _full, _closers = map(re.escape, (STOPS, FULL_STOPS, CLOSERS))
_ENDING = re.compile(rf"[{_stops}{_full}][{_closers}\s]*$")
_FULL_ENDING = re.compile(rf"[{_full}][{_closers}\s]*$")
_INITIAL_ENDING = re.compile(r"^\w\.$")  # "M." abbreviates a name


class SentenceFinder:
    """Finds the last token of every sentence."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        lines = tokenizer.pieces(tokenizer.encode(["a.\nb"])[0])
        self.keeps_lines = any(map(NEWLINES.search, lines))  # or paragraphs are encoded one by one
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        cores = [_core(piece) for piece in pieces]

        def table(holds: Callable[[str, str], bool]) -> Flags:
            return np.array([holds(*pair) for pair in zip(pieces, cores, strict=True)])

        self._word = follows_space(pieces, tokenizer.kind == "wordpiece")
        self._line = table(lambda piece, _: bool(NEWLINES.search(piece)))
        self._space = table(lambda _, core: not core) & ~self._line
        self._stop = table(
            lambda _, core: bool(_ENDING.search(core)) and not _INITIAL_ENDING.match(core)
        )
        self._full_stop = table(lambda _, core: bool(_FULL_ENDING.search(core)))
        self._only_stop = table(lambda _, core: bool(core) and not core.strip(STOPS + FULL_STOPS))
        self._dot = table(lambda _, core: core == ".")
        self._letter = table(lambda _, core: len(core) == 1 and core.isalpha())
        self._closes = table(_closes)
        self._unspaced = is_unspaced(pieces)
        words = [core for core in cores if len(core) > 1 and core[0].isalpha()]
        has_case = sum(word[0].isupper() for word in words) > CASED * len(words)
        self._can_begin = ~table(
            lambda _, core: core[:1].isdecimal() or (has_case and core[:1].islower())
        )

    def find(self, ids: NDArray[np.integer], sizes: Sequence[int]) -> Flags:
        """Tell which tokens end a sentence, in concatenated texts of these sizes.

        The last token of a text always ends a sentence.
        """
        lasts = np.cumsum(sizes, dtype=np.int64)
        lasts = lasts[np.asarray(sizes) > 0] - 1
        inside = np.ones(len(ids), np.bool_)  # the previous token is of the same text
        inside[np.append(0, lasts[:-1] + 1)[: len(lasts)]] = False
        carries = (self._closes | self._space)[ids] & inside
        is_word = self._word[ids] | _shift(self._space[ids], 1)  # begins a word
        initial = self._dot[ids] & inside & _shift(self._letter[ids] & is_word, 1)
        stopped, full = self._stop[ids] & ~initial, self._full_stop[ids]
        for _ in range(CHAIN):
            stopped |= carries & _shift(stopped, 1)
            full |= carries & _shift(full, 1)
        begins = _shift((is_word & self._can_begin[ids]) | self._unspaced[ids], -1)
        continues = _shift(carries | self._only_stop[ids] | self._line[ids], -1)
        ends = stopped & ~continues & (full | begins)
        ends |= self._line[ids] & ~_shift(self._line[ids], -1)
        ends[lasts] = True
        return ends


def _shift(flags: Flags, by: int) -> Flags:
    """Return the flags of the token `by` positions earlier; False where there is none."""
    moved = np.zeros_like(flags)
    if by > 0:
        moved[by:] = flags[:-by]
    else:
        moved[:by] = flags[-by:]
    return moved


def _core(piece: str) -> str:
    return piece.removeprefix(INSIDE).replace(SPACE_MARK, " ").strip()


def _closes(piece: str, core: str) -> bool:
    is_apart = piece.startswith(SPACE_MARK) or piece[:1].isspace()
    return bool(core) and not core.strip(SURE_CLOSERS if is_apart else CLOSERS)
