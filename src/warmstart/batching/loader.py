"""Seeded streams of batches: the step number alone determines its batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.batching.batch import LabelledBatch, PackedBatch
from warmstart.batching.packing import pack
from warmstart.batching.padding import budgeted, pad_texts
from warmstart.data.token_file import Ids
from warmstart.seeds import derive_seed

POOL = 32  # batches sorted by length together; more means less padding and less shuffling


def shuffled(num: int, *seed: int | str) -> NDArray[np.int64]:
    """Return a permutation that depends on the seed alone."""
    return np.random.Generator(np.random.PCG64(derive_seed(*seed))).permutation(num)


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


@dataclass
class PackedStream:
    """Running text in full rows, with a new order and a new offset each epoch."""

    text: RunningText
    rows_per_step: int
    rows_per_batch: int
    seed: int
    _orders: dict[int, tuple[NDArray[np.int64], int]] = field(default_factory=dict, init=False)

    @property
    def num_rows(self) -> int:
        """Return the number of full rows in one epoch; the offset costs one."""
        return max(1, (len(self.text.ids) - 1) // self.text.length - 1)

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
        return self.text.pack_rows([self._start(number) for number in numbers])

    def _start(self, index: int) -> int:
        epoch, position = divmod(index, self.num_rows)
        order, offset = self._epoch(epoch)
        return int(order[position]) * self.text.length + offset

    def _epoch(self, epoch: int) -> tuple[NDArray[np.int64], int]:
        if epoch not in self._orders:
            room = len(self.text.ids) - 1 - self.num_rows * self.text.length
            offset = derive_seed(self.seed, "offset", epoch) % (max(0, room) + 1)
            order = shuffled(self.num_rows, self.seed, "rows", epoch)
            self._orders = {epoch: (order, offset)}
        return self._orders[epoch]


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


@dataclass
class LabelledStream:
    """Labelled texts: every epoch contains each once, in batches of similar length."""

    texts: Sequence[Sequence[int]]  # ids with their special tokens
    targets: Sequence[Any]  # a number for each text, or a list with one integer for each token
    batch_size: int  # texts per optimizer step
    micro_tokens: int  # padded tokens per forward pass
    pad: int
    seed: int
    starts: Sequence[int] | None = None  # where the second text of each pair begins
    _plans: dict[int, list[list[int]]] = field(default_factory=dict, init=False)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of optimizer steps in one epoch."""
        return -(-len(self.texts) // self.batch_size)

    def group(self, step: int) -> list[LabelledBatch]:
        """Return the batches of one optimizer step."""
        return [
            pad_texts(self.texts, self.targets, rows, self.pad, self.starts)
            for rows in self.rows(step)
        ]

    def rows(self, step: int) -> list[list[int]]:
        """Return the numbers of the texts in each batch of one optimizer step."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch not in self._plans:
            self._plans = {epoch: self._plan(epoch)}
        return list(budgeted(self._plans[epoch][position], self.texts, self.micro_tokens))

    def _plan(self, epoch: int) -> list[list[int]]:
        order = shuffled(len(self.texts), self.seed, "texts", epoch).tolist()
        size, pool = self.batch_size, POOL * self.batch_size
        batches = []
        for i in range(0, len(order), pool):
            by_length = sorted(order[i : i + pool], key=lambda row: len(self.texts[row]))
            batches += [by_length[j : j + size] for j in range(0, len(by_length), size)]
        return [batches[k] for k in shuffled(len(batches), self.seed, "batches", epoch)]
