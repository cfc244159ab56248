"""Running text in full rows: the step number alone determines a step's batches.

A document is the text between its first and its last special token.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from warmstart.batching.batch import ALL_ROWS, Ints, PackedBatch, Rows
from warmstart.data.token_file import Ids
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import derive_seed, shuffled


def pack(rows: Tensor, bos: int, eos: int) -> PackedBatch:
    """Split rows of T + 1 running tokens into inputs and next-token targets."""
    B, T = rows.shape[0], rows.shape[1] - 1
    # bos opens a document only after eos: the two may be the same token.
    is_start = torch.zeros_like(rows, dtype=torch.bool)
    is_start[:, 1:] = (rows[:, 1:] == bos) & (rows[:, :-1] == eos)
    targets = rows[:, 1:].masked_fill(is_start[:, 1:], IGNORE)
    is_start = is_start[:, :T]
    index = torch.arange(T, device=rows.device).expand(B, T)
    starts = index.masked_fill(~is_start, 0).cummax(1).values
    return PackedBatch(rows[:, :T], targets, is_start.cumsum(1), index - starts)


def as_rows(batch: PackedBatch) -> Rows:
    """Return packed rows without their next-token targets."""
    if not batch.documents.any():  # one document per row
        return Rows(batch.ids.numpy())
    documents, positions = batch.documents.numpy(), batch.positions.numpy()
    return Rows(batch.ids.numpy(), documents=documents, positions=positions)


@dataclass(frozen=True)
class RunningText:
    """Documents one after another, and the length of the rows to cut them into."""

    ids: Ids
    length: int  # T, tokens per row
    bos: int
    eos: int

    def pack_rows(self, starts: Sequence[int]) -> PackedBatch:
        """Return the full rows that start at these tokens."""
        rows = np.stack([self.ids[start : start + self.length + 1] for start in starts])
        return pack(torch.from_numpy(rows.astype(np.int64)), self.bos, self.eos)


@lru_cache(maxsize=2)
def epoch_order(num_rows: int, num_offsets: int, seed: int, epoch: int) -> tuple[Ints, int]:
    """Return the order of an epoch's rows, and the offset of its cuts."""
    offset = derive_seed(seed, "offset", epoch) % num_offsets
    return shuffled(num_rows, seed, "rows", epoch), offset


@dataclass
class PackedStream:
    """Running text in full rows, with a new order and a new offset each epoch."""

    text: RunningText
    rows_per_step: int
    rows_per_batch: int
    seed: int

    @property
    def num_rows(self) -> int:
        return max(1, (len(self.text.ids) - 1) // self.text.length - 1)  # the offset costs one

    def group(self, step: int, share: slice = ALL_ROWS) -> list[PackedBatch]:
        first = step * self.rows_per_step
        numbers = range(first, first + self.rows_per_step)[share]
        return [
            self.batch(numbers[i : i + self.rows_per_batch])
            for i in range(0, len(numbers), self.rows_per_batch)
        ]

    def batch(self, numbers: Iterable[int]) -> PackedBatch:
        """Return rows by their numbers in the whole run."""
        return self.text.pack_rows([self._start(number) for number in numbers])

    def rows(self, numbers: Ints) -> Rows:
        return as_rows(self.batch(numbers.tolist()))

    def _start(self, index: int) -> int:
        epoch, position = divmod(index, self.num_rows)
        room = len(self.text.ids) - 1 - self.num_rows * self.text.length
        order, offset = epoch_order(self.num_rows, max(0, room) + 1, self.seed, epoch)
        return int(order[position]) * self.text.length + offset


def packed_in_order(
    text: RunningText, rows_per_batch: int, limit: int | None = None
) -> Iterator[PackedBatch]:
    """Yield running text once, in order; beyond `limit` tokens, evenly spaced rows of it."""
    ids, length = text.ids, text.length
    starts = np.arange(0, max(1, len(ids) - 1), length)
    if limit is not None and len(starts) * length > limit:
        num = max(1, limit // length)
        starts = starts[np.linspace(0, len(starts) - 2, num).astype(np.int64)]
    full = [start for start in starts.tolist() if start + length + 1 <= len(ids)]
    for i in range(0, len(full), rows_per_batch):
        yield text.pack_rows(full[i : i + rows_per_batch])
    for start in starts[len(full) :]:  # the last, shorter row
        yield pack(torch.from_numpy(ids[None, start:].astype(np.int64)), text.bos, text.eos)
