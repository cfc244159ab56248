"""Where sentences end in running token ids, whatever the tokenizer.

What each piece of the vocabulary looks like is read once into tables, so that a text is searched
without Python code for each token. Line ends always end a sentence. Knows nothing about documents.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import INSIDE, SPACE, first_of_words, unspaced

Flags = NDArray[np.bool_]

STOPS = ".!?…؟۔।॥։‽⁇⁈⁉"  # end a sentence where a space follows
FULL_STOPS = "。！？｡．"  # end one without a space
CLOSERS = "\"'”’»›)]}」』）］】〉》"  # may stand between the stop and the end
SURE_CLOSERS = "”»›)]}」』）］】〉》"  # close, even behind a space
NEWLINES = re.compile(r"[\n\r\x0b\x0c\u2028\u2029]|<0x0A>")
CHAIN = 4  # closing marks and spaces that may follow a stop
CASED = 0.02  # share of pieces in capitals from which a vocabulary is one of mixed case

_stops, _full, _closers = map(re.escape, (STOPS, FULL_STOPS, CLOSERS))
_ENDING = re.compile(rf"[{_stops}{_full}][{_closers}\s]*$")
_FULL_ENDING = re.compile(rf"[{_full}][{_closers}\s]*$")
_INITIAL_ENDING = re.compile(r"^\w\.$")  # "M." is a name's beginning, not a sentence's end


class SentenceFinder:
    """Finds the last token of every sentence."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.keeps_lines = _keeps_lines(tokenizer)  # else paragraphs must be encoded one by one
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        cores = [_core(piece) for piece in pieces]

        def table(holds: Callable[[str, str], bool]) -> Flags:
            return np.array([holds(*pair) for pair in zip(pieces, cores, strict=True)])

        self._word = first_of_words(pieces, tokenizer.kind == "wordpiece")
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
        self._unspaced = unspaced(pieces)
        self._fresh = ~table(_goes_on(_has_case(cores)))

    def find(self, ids: NDArray[np.integer], sizes: Sequence[int]) -> Flags:
        """Tell which tokens end a sentence, in texts of these sizes that stand one after another.

        The last token of a text always does.
        """
        lasts = np.cumsum(sizes, dtype=np.int64)
        lasts = lasts[np.asarray(sizes) > 0] - 1
        inside = np.ones(len(ids), np.bool_)  # the token before belongs to the same text
        inside[np.append(0, lasts[:-1] + 1)[: len(lasts)]] = False
        carries = (self._closes | self._space)[ids] & inside
        is_word = self._word[ids] | _shifted(self._space[ids], 1)  # begins one
        initial = self._dot[ids] & inside & _shifted(self._letter[ids] & is_word, 1)
        stopped, full = self._stop[ids] & ~initial, self._full_stop[ids]
        for _ in range(CHAIN):
            stopped |= carries & _shifted(stopped, 1)
            full |= carries & _shifted(full, 1)
        begins = _shifted((is_word & self._fresh[ids]) | self._unspaced[ids], -1)
        goes_on = _shifted(carries | self._only_stop[ids] | self._line[ids], -1)
        ends = stopped & ~goes_on & (full | begins)
        ends |= self._line[ids] & ~_shifted(self._line[ids], -1)
        ends[lasts] = True
        return ends


def _shifted(flags: Flags, by: int) -> Flags:
    """Return the flags of the token `by` places before; False where there is none."""
    moved = np.zeros_like(flags)
    if by > 0:
        moved[by:] = flags[:-by]
    else:
        moved[:by] = flags[-by:]
    return moved


def _core(piece: str) -> str:
    return piece.removeprefix(INSIDE).replace(SPACE, " ").strip()


def _keeps_lines(tokenizer: Tokenizer) -> bool:
    return any(NEWLINES.search(p) for p in tokenizer.pieces(tokenizer.encode(["a.\nb"])[0]))


def _closes(piece: str, core: str) -> bool:
    is_apart = piece.startswith(SPACE) or piece[:1].isspace()
    return bool(core) and not core.strip(SURE_CLOSERS if is_apart else CLOSERS)


def _has_case(cores: Sequence[str]) -> bool:
    words = [core for core in cores if len(core) > 1 and core[0].isalpha()]
    return sum(word[0].isupper() for word in words) > CASED * len(words)


def _goes_on(has_case: bool) -> Callable[[str, str], bool]:
    """Return a test whether a piece shows that the sentence before it did not end."""

    def test(_: str, core: str) -> bool:
        first = core[:1]
        return first.isdecimal() or (has_case and first.islower())

    return test
