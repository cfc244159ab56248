"""Seeded streams of batches: a step number gives its batches, with nothing to replay.

Knows nothing about models, files or text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.batching.batch import LabelledBatch, PackedBatch
from warmstart.batching.packing import pack
from warmstart.data.token_file import Ids
from warmstart.seeds import derive_seed

POOL = 32  # batches sorted by length together; more pads less and shuffles less


def shuffled(num: int, *seed: int | str) -> NDArray[np.int64]:
    """Return a permutation that depends on the seed alone."""
    return np.random.Generator(np.random.PCG64(derive_seed(*seed))).permutation(num)


@dataclass
class PackedStream:
    """Running text in full rows, in a new order and with a new offset each epoch."""

    ids: Ids
    length: int  # T, tokens per row
    rows_per_step: int
    rows_per_batch: int
    bos: int
    eos: int
    seed: int
    _orders: dict[int, tuple[NDArray[np.int64], int]] = field(default_factory=dict, init=False)

    @property
    def num_rows(self) -> int:
        """Return the full rows in one epoch; the offset costs one."""
        return max(1, (len(self.ids) - 1) // self.length - 1)

    def group(self, step: int) -> list[PackedBatch]:
        """Return the batches of one optimizer step."""
        first = step * self.rows_per_step
        numbers = range(first, first + self.rows_per_step)
        return [
            self.batch(numbers[i : i + self.rows_per_batch])
            for i in range(0, len(numbers), self.rows_per_batch)
        ]

    def batch(self, numbers: Sequence[int]) -> PackedBatch:
        """Return rows by their numbers in the whole run."""
        starts = [self._start(number) for number in numbers]
        rows = np.stack([self.ids[start : start + self.length + 1] for start in starts])
        return pack(torch.from_numpy(rows.astype(np.int64)), self.bos, self.eos)

    def _start(self, index: int) -> int:
        epoch, place = divmod(index, self.num_rows)
        order, offset = self._epoch(epoch)
        return int(order[place]) * self.length + offset

    def _epoch(self, epoch: int) -> tuple[NDArray[np.int64], int]:
        if epoch not in self._orders:
            room = len(self.ids) - 1 - self.num_rows * self.length
            offset = derive_seed(self.seed, "offset", epoch) % (max(0, room) + 1)
            order = shuffled(self.num_rows, self.seed, "rows", epoch)
            self._orders = {epoch: (order, offset)}
        return self._orders[epoch]


def packed_in_order(
    ids: Ids, length: int, rows_per_batch: int, bos: int, eos: int, limit: int | None = None
) -> Iterator[PackedBatch]:
    """Yield running text once, in order; more tokens than `limit` are sampled in spaced rows."""
    starts = np.arange(0, max(1, len(ids) - 1), length)
    if limit is not None and len(starts) * length > limit:
        keep = max(1, limit // length)
        starts = starts[np.linspace(0, len(starts) - 2, keep).astype(np.int64)]
    full = [start for start in starts if start + length + 1 <= len(ids)]
    for i in range(0, len(full), rows_per_batch):
        rows = np.stack([ids[start : start + length + 1] for start in full[i : i + rows_per_batch]])
        yield pack(torch.from_numpy(rows.astype(np.int64)), bos, eos)
    for start in starts[len(full) :]:  # the last, shorter row
        yield pack(torch.from_numpy(ids[None, start:].astype(np.int64)), bos, eos)


@dataclass
class LabelledStream:
    """Labelled texts: every epoch sees each once, texts of similar length together."""

    texts: Sequence[Sequence[int]]  # ids with their special tokens
    classes: Sequence[int]
    batch_size: int  # texts per optimizer step
    micro_tokens: int  # padded tokens per forward pass
    pad: int
    seed: int
    starts: Sequence[int] | None = None  # where the second text of each pair begins
    _plans: dict[int, list[list[int]]] = field(default_factory=dict, init=False)

    @property
    def steps_per_epoch(self) -> int:
        """Return the optimizer steps that see every text once."""
        return -(-len(self.texts) // self.batch_size)

    def group(self, step: int) -> list[LabelledBatch]:
        """Return the batches of one optimizer step."""
        return [
            pad_texts(self.texts, self.classes, rows, self.pad, self.starts)
            for rows in self.rows(step)
        ]

    def rows(self, step: int) -> list[list[int]]:
        """Return which texts stand in each batch of one optimizer step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return list(budgeted(self._epoch(epoch)[place], self.texts, self.micro_tokens))

    def _epoch(self, epoch: int) -> list[list[int]]:
        if epoch not in self._plans:
            self._plans = {epoch: self._plan(epoch)}
        return self._plans[epoch]

    def _plan(self, epoch: int) -> list[list[int]]:
        order = shuffled(len(self.texts), self.seed, "texts", epoch).tolist()
        size, pool = self.batch_size, POOL * self.batch_size
        batches = []
        for i in range(0, len(order), pool):
            by_length = sorted(order[i : i + pool], key=lambda row: len(self.texts[row]))
            batches += [by_length[j : j + size] for j in range(0, len(by_length), size)]
        return [batches[k] for k in shuffled(len(batches), self.seed, "batches", epoch)]


def budgeted(
    rows: Iterable[int], texts: Sequence[Sequence[int]], micro_tokens: int
) -> Iterator[list[int]]:
    """Sort rows by length and cut them into batches of at most `micro_tokens`, padding included."""
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: len(texts[row])):
        if batch and (len(batch) + 1) * len(texts[row]) > micro_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def pad_texts(
    texts: Sequence[Sequence[int]],
    classes: Sequence[int],
    rows: Sequence[int],
    pad: int,
    starts: Sequence[int] | None = None,
) -> LabelledBatch:
    """Return these rows as one batch, as long as the longest of them."""
    longest = max(len(texts[row]) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    is_token = torch.zeros(len(rows), longest, dtype=torch.bool)
    segments = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        size = len(texts[row])
        ids[place, :size] = torch.as_tensor(texts[row])
        is_token[place, :size] = True
        if starts is not None:
            segments[place, starts[row] : size] = 1
    return LabelledBatch(ids, is_token, torch.tensor([classes[row] for row in rows]), segments)
