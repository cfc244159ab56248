"""Where documents and sentences are in a token file: written beside it, read through a memory map.

Positions count the tokens of the file. A document from which text was held out has several parts.
"""

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError

Ints = NDArray[np.int64]


class SentenceWriter:
    """Appends parts of documents with their sentences."""

    def __init__(self, tokens: Path) -> None:
        self.num_sentences = 0
        self._files = [path.open("wb", buffering=1 << 20) for path in _paths(tokens)]

    def add_sentences(self, starts: Ints) -> None:
        """Append the first tokens of the next sentences."""
        self._files[0].write(np.asarray(starts, np.int64).tobytes())
        self.num_sentences += len(starts)

    def end_part(self, start: int, stop: int, num_sentences: int, document: int) -> None:
        """Append a part: its tokens, its number of sentences, and its document."""
        first = self.num_sentences - num_sentences
        row = np.array([start, stop, first, self.num_sentences, document], np.int64)
        self._files[1].write(row.tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


class SentenceFile:
    """The documents and sentences of a token file."""

    def __init__(self, tokens: Path) -> None:
        sentences, parts = _paths(tokens)
        self.starts: Ints = _mapped(sentences)  # (S,) first token of every sentence
        rows = np.array(_mapped(parts)).reshape(-1, 5)  # small enough to hold
        if len(rows) and rows[-1, 3] != len(self.starts):
            raise WarmstartError(f"{sentences} does not hold the sentences that {parts} lists")
        columns = rows.T.copy()  # (5, P), contiguous
        self.part_starts, self.part_ends = columns[:2]  # tokens of every part, without bos and eos
        self.first_sentences, self.stop_sentences = columns[2:4]
        self.documents = columns[4]  # number of every part's document

    @property
    def num_documents(self) -> int:
        """Return the number of documents, not of their parts."""
        return len(np.unique(self.documents))

    @property
    def has_pairs(self) -> bool:
        """Tell whether positive and negative next-sentence pairs can be drawn."""
        return self.num_documents > 1 and self.has_positive_pairs

    @property
    def has_positive_pairs(self) -> bool:
        """Tell whether any part has two sentences."""
        return bool((self.stop_sentences - self.first_sentences > 1).any())


def _paths(tokens: Path) -> tuple[Path, Path]:
    return tokens.with_suffix(".sentences"), tokens.with_suffix(".documents")


def _mapped(path: Path) -> Ints:
    if not path.stat().st_size:
        return np.empty(0, np.int64)
    return np.memmap(path, np.int64, mode="r")
