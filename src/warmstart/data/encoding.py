"""Passages of text -> token ids, chunk by chunk, and where in them sentences start.

Knows nothing about files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.corpus import Passage
from warmstart.data.sentences import SentenceFinder
from warmstart.tokenization.tokenizer import Tokenizer

Ints = NDArray[np.int64]

CHUNK_CHARS = 1 << 20  # encoded together


@dataclass(frozen=True)
class EncodedPassage:
    """A passage as tokens."""

    rows: tuple[str, ...]
    continues: bool  # its document began in an earlier passage
    ids: list[int]
    num_bytes: int  # line end included
    starts: Ints  # where its sentences start; empty where nobody asked


def encode_passages(
    passages: Iterator[Passage],
    num_bytes: int | None,
    tokenizer: Tokenizer,
    finder: SentenceFinder | None,
) -> Iterator[EncodedPassage]:
    """Yield every passage as tokens; `num_bytes` are the text's, where known."""
    nothing = np.empty(0, np.int64)
    with progress.bar("tokenizing", num_bytes, "B") as bar:
        for chunk in _chunks(passages):
            sizes = [sum(len(row.encode()) + 1 for row in passage.rows) for passage in chunk]
            if finder is None:
                ids = tokenizer.encode(["\n".join(passage.rows) for passage in chunk])
                starts = [nothing] * len(chunk)
            else:
                ids, starts = encode_sentences(chunk, tokenizer, finder)
            for passage, tokens, size, places in zip(chunk, ids, sizes, starts, strict=True):
                yield EncodedPassage(passage.rows, passage.continues, tokens, size, places)
            bar.advance(sum(sizes))


def encode_sentences(
    passages: Sequence[Passage], tokenizer: Tokenizer, finder: SentenceFinder
) -> tuple[list[list[int]], list[Ints]]:
    """Return the ids of passages, and where in each of them sentences start."""
    if finder.keeps_lines:
        parts = [["\n".join(passage.rows)] for passage in passages]
    else:
        parts = [list(passage.rows) for passage in passages]
    encoded = tokenizer.encode([text for texts in parts for text in texts])
    flat = np.fromiter(chain.from_iterable(encoded), np.int64)
    ends = finder.find(flat, [len(ids) for ids in encoded])
    found, starts, here = iter(encoded), [], 0
    joined = [list(chain.from_iterable(islice(found, len(texts)))) for texts in parts]
    for ids in joined:
        inside = np.flatnonzero(ends[here : here + max(0, len(ids) - 1)]) + 1
        starts.append(np.append(0, inside)[: len(ids)])
        here += len(ids)
    return joined, starts


def _chunks(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    size = 0
    for passage in passages:
        chunk.append(passage)
        size += sum(len(row) for row in passage.rows)
        if size > CHUNK_CHARS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
