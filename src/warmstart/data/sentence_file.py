"""Where documents and sentences stand in a token file: written beside it, read through a map.

Knows nothing about text; positions count tokens of the file.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError

Ints = NDArray[np.int64]


class SentenceWriter:
    """Appends documents with their sentences; complete only once closed without an error."""

    def __init__(self, tokens: Path) -> None:
        self.paths = _paths(tokens)
        self.num_sentences = 0
        self._files = [path.open("wb", buffering=1 << 20) for path in self.paths]

    def add_sentences(self, starts: Ints) -> None:
        """Append where the next sentences start."""
        self._files[0].write(np.asarray(starts, np.int64).tobytes())
        self.num_sentences += len(starts)

    def end_document(self, start: int, stop: int, sentences: int, owner: int) -> None:
        """Append a document: its tokens, its number of sentences, and whose part it is.

        A document that was interrupted comes in parts, which share an owner.
        """
        first = self.num_sentences - sentences
        row = np.array([start, stop, first, self.num_sentences, owner], np.int64)
        self._files[1].write(row.tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()


class SentenceFile:
    """The documents and sentences of a token file."""

    def __init__(self, tokens: Path) -> None:
        sentences, documents = _paths(tokens)
        self.starts: Ints = _mapped(sentences)  # (S,) first token of every sentence
        rows = np.array(_mapped(documents)).reshape(-1, 5)  # small enough to hold
        if len(rows) and rows[-1, 3] != len(self.starts):
            raise WarmstartError(f"{sentences} does not hold the sentences it should")
        self.begins, self.ends, self.firsts, self.stops, self.owners = rows.T.copy()  # (D,) each

    @property
    def num_documents(self) -> int:
        """Return the documents, however many parts they come in."""
        return len(np.unique(self.owners))

    @property
    def has_pairs(self) -> bool:
        """Tell whether segments that follow, and segments that do not, can be drawn."""
        return self.num_documents > 1 and self.has_neighbours

    @property
    def has_neighbours(self) -> bool:
        """Tell whether any document has two sentences."""
        return bool((self.stops - self.firsts > 1).any())


def _paths(tokens: Path) -> tuple[Path, Path]:
    return tokens.with_suffix(".sentences"), tokens.with_suffix(".documents")


def _mapped(path: Path) -> Ints:
    if not path.stat().st_size:
        return np.empty(0, np.int64)
    return np.memmap(path, np.int64, mode="r")
