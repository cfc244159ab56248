"""Encode passages of text, chunk by chunk, and find where their sentences start."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from warmstart.data.chunks import chunked, made_ahead
from warmstart.data.corpus import Passage
from warmstart.data.sentences import SentenceFinder
from warmstart.tokenization.tokenizer import Tokenizer

Ints = NDArray[np.int64]

CHUNK_CHARS = 1 << 20  # encoded together


@dataclass(frozen=True)
class EncodedPassage:
    """The tokens of a passage."""

    ids: list[int]
    document: int  # number of its document in the source, from 1
    num_bytes: int  # including line ends
    starts: Ints  # where its sentences start; empty without a sentence finder


def encode(
    passages: Iterable[Passage],
    tokenizer: Tokenizer,
    finder: SentenceFinder | None,
    document: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[Passage, EncodedPassage]]:
    """Yield every passage with its tokens; so many documents have begun before.

    `advance` is told the bytes of text that are done.
    """
    chunks = chunked(passages, CHUNK_CHARS, attrgetter("num_chars"))
    # The library encodes on all cores, and Python reads the next chunk meanwhile.
    for chunk, encoded in made_ahead(chunks, lambda c: encode_passages(c, tokenizer, finder)):
        sizes = [passage.num_bytes for passage in chunk]
        for passage, size, ids, starts in zip(chunk, sizes, *encoded, strict=True):
            document += not passage.continues
            yield passage, EncodedPassage(ids, document, size, starts)
        advance(sum(sizes))


def encode_passages(
    passages: Sequence[Passage], tokenizer: Tokenizer, finder: SentenceFinder | None
) -> tuple[list[list[int]], list[Ints]]:
    """Return the ids of passages, and where in each of them sentences start."""
    keeps_lines = finder is None or finder.keeps_lines
    texts = [("\n".join(p.rows),) if keeps_lines else p.rows for p in passages]
    encoded = tokenizer.encode(list(chain.from_iterable(texts)))
    if finder is None:
        return encoded, [np.empty(0, np.int64)] * len(passages)
    flat = np.fromiter(chain.from_iterable(encoded), np.int64)
    ends = finder.find(flat, [len(ids) for ids in encoded])
    remaining, starts, offset = iter(encoded), [], 0
    joined = [list(chain.from_iterable(islice(remaining, len(parts)))) for parts in texts]
    for ids in joined:
        inside = np.flatnonzero(ends[offset : offset + max(0, len(ids) - 1)]) + 1
        starts.append(np.append(0, inside)[: len(ids)])
        offset += len(ids)
    return joined, starts
