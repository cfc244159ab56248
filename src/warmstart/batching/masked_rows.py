"""Batches with masked tokens: by step for training, always the same ones for validation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.batching.batch import MaskedBatch, PackedBatch
from warmstart.batching.loader import PackedStream, RunningText, packed_in_order
from warmstart.batching.masking import Corruption, Rows
from warmstart.batching.next_sentence import NextSentencePairs

Ints = NDArray[np.int64]


class RowSource(Protocol):
    """Rows before masking, by their numbers in the whole run."""

    def rows(self, numbers: Ints) -> Rows:
        """Return rows by their numbers."""


@dataclass(frozen=True)
class RunningRows:
    """Running text in full rows."""

    stream: PackedStream

    def rows(self, numbers: Ints) -> Rows:
        """Return rows by their numbers in the whole run."""
        return _rows_of(self.stream.batch(numbers.tolist()))


@dataclass(frozen=True)
class MaskedStream:
    """Rows with masked tokens; a row's number in the run determines which."""

    source: RowSource
    corruption: Corruption
    rows_per_step: int
    rows_per_batch: int

    def group(self, step: int) -> list[MaskedBatch]:
        """Return the batches of one optimizer step."""
        first = step * self.rows_per_step
        numbers = np.arange(first, first + self.rows_per_step)
        return [
            self.corruption.mask_tokens(self.source.rows(part), part)
            for part in _parts(numbers, self.rows_per_batch)
        ]


def masked_in_order(
    text: RunningText, rows_per_batch: int, corruption: Corruption, limit: int | None = None
) -> Iterator[MaskedBatch]:
    """Yield running text once, in order; beyond `limit` tokens, evenly spaced rows of it."""
    first = 0
    for batch in packed_in_order(text, rows_per_batch, limit):
        rows = _rows_of(batch)
        yield corruption.mask_tokens(rows, np.arange(first, first + len(rows.ids)))
        first += len(rows.ids)


def pairs_in_order(
    pairs: NextSentencePairs, rows_per_batch: int, corruption: Corruption, limit: int | None = None
) -> Iterator[MaskedBatch]:
    """Yield the pairs of one epoch; beyond `limit` tokens, evenly spaced ones."""
    numbers = np.arange(pairs.num_rows)
    if limit is not None and pairs.num_rows * pairs.length > limit:
        numbers = np.linspace(0, pairs.num_rows - 1, max(1, limit // pairs.length)).astype(np.int64)
    for part in _parts(numbers, rows_per_batch):
        yield corruption.mask_tokens(pairs.rows(part), part)


def _rows_of(batch: PackedBatch) -> Rows:
    """Return packed rows without their next-token targets."""
    if not batch.documents.any():  # one document per row
        return Rows(batch.ids.numpy())
    documents, positions = batch.documents.numpy(), batch.positions.numpy()
    return Rows(batch.ids.numpy(), documents=documents, positions=positions)


def _parts(numbers: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
