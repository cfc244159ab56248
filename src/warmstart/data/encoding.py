"""Encode passages of text, chunk by chunk, and find where their sentences start."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.chunks import chunked
from warmstart.data.corpus import Passage, RowCounts, TextSource
from warmstart.data.sentences import SentenceFinder
from warmstart.tokenization.tokenizer import Tokenizer

Ints = NDArray[np.int64]

CHUNK_CHARS = 1 << 20  # encoded together


@dataclass(frozen=True)
class EncodedPassage:
    """A passage with its tokens."""

    rows: tuple[str, ...]
    continues: bool  # its document began in an earlier passage
    document: int  # number of its document in the source, from 1
    ids: list[int]
    num_bytes: int  # including line ends
    starts: Ints  # where its sentences start; empty without a sentence finder


def encode_source(
    source: TextSource,
    tokenizer: Tokenizer,
    finder: SentenceFinder | None,
    counts: dict[Path, RowCounts],
) -> Iterator[EncodedPassage]:
    """Yield every passage with its tokens, and enter the rows of each file in `counts`."""
    document = 0
    with progress.bar("tokenizing", source.num_bytes, "B") as bar:
        for chunk in chunked(source.passages(counts), CHUNK_CHARS, _num_chars):
            if finder is None:
                ids = tokenizer.encode(["\n".join(passage.rows) for passage in chunk])
                starts = [np.empty(0, np.int64)] * len(chunk)
            else:
                ids, starts = encode_sentences(chunk, tokenizer, finder)
            sizes = [sum(len(row.encode()) + 1 for row in passage.rows) for passage in chunk]
            for i, passage in enumerate(chunk):
                document += not passage.continues
                encoded = (ids[i], sizes[i], starts[i])
                yield EncodedPassage(passage.rows, passage.continues, document, *encoded)
            bar.advance(sum(sizes))


def _num_chars(passage: Passage) -> int:
    return sum(map(len, passage.rows))


def encode_sentences(
    passages: Sequence[Passage], tokenizer: Tokenizer, finder: SentenceFinder
) -> tuple[list[list[int]], list[Ints]]:
    """Return the ids of passages, and where in each of them sentences start."""
    if finder.keeps_lines:
        texts = [["\n".join(passage.rows)] for passage in passages]
    else:
        texts = [list(passage.rows) for passage in passages]
    encoded = tokenizer.encode(list(chain.from_iterable(texts)))
    flat = np.fromiter(chain.from_iterable(encoded), np.int64)
    ends = finder.find(flat, [len(ids) for ids in encoded])
    remaining, starts, offset = iter(encoded), [], 0
    joined = [list(chain.from_iterable(islice(remaining, len(parts)))) for parts in texts]
    for ids in joined:
        inside = np.flatnonzero(ends[offset : offset + max(0, len(ids) - 1)]) + 1
        starts.append(np.append(0, inside)[: len(ids)])
        offset += len(ids)
    return joined, starts
